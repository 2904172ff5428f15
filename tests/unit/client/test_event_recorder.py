"""The event recorder: written in the background, counted in series, never a flood, never in the way."""

import random
from typing import Any

import pytest

from client_fakes import Answer, FakeTransport, MemoryApi, lost
from mooring.api import errors
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Client, EventRecorder
from mooring.client.transport import Request
from mooring.testing.clock import MockClock, settle

POD = Pod(metadata=ObjectMeta(name="web", namespace="prod", uid="u1", resource_version="5"))


class Lab:
    def __init__(self) -> None:
        self.is_busy = False
        self.api, self.clock = MemoryApi(), MockClock()
        client = Client(FakeTransport(self.api.answer), user_agent="t", clock=self.clock)
        self.recorder = EventRecorder(client, "mooring-scheduler", "host-1", is_busy=lambda: self.is_busy)
        self.recorder.start()

    def say(self, note: str = "0/3 nodes are available", pod: Pod = POD) -> None:
        self.recorder.event(pod, "Warning", "FailedScheduling", note, action="Scheduling")

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.api.objects.values())

    async def all_written(self) -> None:
        """Many events take a while: the recorder rests in between."""
        for _ in range(60):
            await settle(200)
            self.clock.advance(0.25)

    @property
    def writes(self) -> list[str]:
        return [method for method, _ in self.api.log]


async def test_an_event_says_who_what_and_about_which_object() -> None:
    lab = Lab()
    lab.say()
    await settle()
    [event] = lab.events
    assert event["regarding"] == {
        "kind": "Pod",
        "namespace": "prod",
        "name": "web",
        "uid": "u1",
        "apiVersion": "v1",
        "resourceVersion": "5",
    }
    assert event["metadata"]["namespace"] == "prod"
    assert event["metadata"]["name"].startswith("web.")
    shown = {
        key: event[key] for key in ("type", "reason", "action", "note", "reportingController", "reportingInstance")
    }
    assert list(shown.values()) == [
        "Warning",
        "FailedScheduling",
        "Scheduling",
        "0/3 nodes are available",
        "mooring-scheduler",
        "host-1",
    ]
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    await lab.recorder.stop()


async def test_events_about_cluster_scoped_objects_are_in_the_default_namespace() -> None:
    lab = Lab()
    lab.recorder.event(Node(metadata=ObjectMeta(name="n1")), "Normal", "NodeReady", "ready")
    await settle()
    assert lab.events[0]["metadata"]["namespace"] == "default"
    assert lab.events[0]["action"] == "NodeReady", "what was done is the reason unless told"
    await lab.recorder.stop()


async def test_what_happens_again_is_counted_in_the_first_event() -> None:
    lab = Lab()
    for _ in range(20):
        lab.say()
        await lab.clock.run(1)
    await lab.clock.run(20)
    [event] = lab.events
    assert event["series"]["count"] == 20
    assert lab.writes[0] == "POST"
    assert lab.writes.count("PATCH") <= 3, "the series is written now and then, not each time"
    await lab.recorder.stop()


async def test_another_note_is_another_event() -> None:
    lab = Lab()
    lab.say("one")
    lab.say("two")
    await settle()
    assert sorted(event["note"] for event in lab.events) == ["one", "two"]
    assert len({event["metadata"]["name"] for event in lab.events}) == 2
    await lab.recorder.stop()


async def test_after_a_pause_an_event_starts_again() -> None:
    lab = Lab()
    lab.say()
    await lab.clock.run(361)
    lab.say()
    await settle()
    assert len(lab.events) == 2
    await lab.recorder.stop()


async def test_one_object_cannot_flood_the_server() -> None:
    lab = Lab()
    for index in range(100):
        lab.say(f"note {index}")
    lab.say("another object", Pod(metadata=ObjectMeta(name="db", namespace="prod", uid="u2")))
    await settle(200)
    assert len(lab.events) == 26
    assert lab.recorder.dropped == 75
    await lab.clock.run(300)
    lab.say("allowed again")
    await settle()
    assert len(lab.events) == 27
    await lab.recorder.stop()


async def test_an_event_that_ran_out_meanwhile_is_written_again() -> None:
    lab = Lab()
    lab.say()
    await settle()
    lab.api.objects.clear()
    lab.say()
    await lab.clock.run(11)
    assert lab.events[0]["series"]["count"] == 2
    await lab.recorder.stop()


async def test_events_are_tried_again_while_the_server_is_away() -> None:
    lab = Lab()
    lab.api.fail = lambda _: lost()
    lab.say()
    await lab.clock.run(5)
    assert lab.events == []
    lab.api.fail = lambda _: None
    await lab.clock.run(30)
    assert len(lab.events) == 1
    await lab.recorder.stop()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(errors.forbidden("events", "", "namespace is being terminated"), id="forbidden"),
        pytest.param(errors.invalid("Event", "web", []), id="invalid"),
    ],
)
async def test_events_that_the_server_refuses_are_dropped(refusal: errors.StatusError) -> None:
    lab = Lab()

    def refuse(request: Request) -> Answer:
        return refusal

    lab.api.fail = refuse
    lab.say()
    await lab.clock.run(60)
    assert (len(lab.writes), lab.recorder.dropped) == (1, 1)
    await lab.recorder.stop()


async def test_events_wait_while_something_more_urgent_is_written() -> None:
    lab = Lab()
    lab.is_busy = True
    lab.say()
    await settle()
    lab.clock.advance(1)
    await settle()
    assert lab.writes == []
    lab.is_busy = False
    lab.clock.advance(0.2)
    await settle()
    assert lab.writes == ["POST"]
    await lab.recorder.stop()


async def test_events_do_not_wait_longer_than_people_do() -> None:
    lab = Lab()
    lab.is_busy = True
    lab.say()
    await settle()
    lab.clock.advance(6)
    await settle()
    assert lab.writes == ["POST"]
    await lab.recorder.stop()


async def test_when_many_events_wait_they_are_written_whatever_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.events._MAX_PATIENT", 2048)
    lab = Lab()
    lab.is_busy = True
    for number in range(3000):
        lab.say(pod=Pod(metadata=ObjectMeta(name=f"p{number}", namespace="prod", uid=f"u{number}")))
    for _ in range(12):
        await settle(200)
        lab.clock.advance(0.25)
    assert 300 <= len(lab.writes) <= 400, "but more slowly"
    for _ in range(12):
        await settle(200)
        lab.clock.advance(1.0)
    assert len(lab.writes) >= 900, "down to where waiting is no danger"
    lab.is_busy = False
    lab.clock.advance(1)
    await lab.recorder.stop()


async def test_stopping_writes_what_is_left() -> None:
    lab = Lab()
    lab.say()
    await settle()
    lab.say()
    lab.say("last words")
    await lab.recorder.stop()
    assert sorted(event.get("series", {}).get("count", 1) for event in lab.events) == [1, 2]


@pytest.fixture
def few_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.events._MAX_WAITING", 4096)


@pytest.mark.usefixtures("few_may_wait")
async def test_memory_stays_bounded() -> None:
    lab = Lab()
    for index in range(6000):
        lab.say("x", Pod(metadata=ObjectMeta(name=f"p{index}", namespace="prod", uid=str(index))))
    assert lab.recorder.dropped == 6000 - 4096
    await lab.recorder.stop()


def pod_in(namespace: str, number: int) -> Pod:
    return Pod(metadata=ObjectMeta(name=f"p{number}", namespace=namespace, uid=f"{namespace}-{number}"))


@pytest.mark.usefixtures("few_may_wait")
async def test_a_flood_of_one_sort_is_bounded_and_leaves_room_for_the_others() -> None:
    lab = Lab()
    for number in range(6000):  # nothing is written meanwhile: the loop has no turn
        lab.recorder.event(pod_in("loud", number), "Normal", "Scheduled", "assigned")
    assert lab.recorder.dropped == 6000 - 4096
    for number in range(100):
        lab.recorder.event(pod_in("loud", number), "Warning", "FailedScheduling", "0/3 nodes")
        lab.recorder.event(pod_in("quiet", number), "Normal", "Scheduled", "assigned")
    assert lab.recorder.dropped == 6000 - 4096, "another reason and another namespace have their share"
    for number in range(6000):
        lab.recorder.event(pod_in("second", number), "Normal", "Scheduled", "assigned")
    assert lab.recorder.dropped == 6000 - 4096 + 6000 - 4096 // 4, "and so has a second flood, but no more than that"
    await lab.all_written()
    assert len(lab.events) == 4096 + 200 + 4096 // 4, "all that were taken in are written"
    dropped = lab.recorder.dropped
    lab.recorder.event(pod_in("loud", 9000), "Normal", "Scheduled", "assigned")
    await settle()
    assert lab.recorder.dropped == dropped, "afterwards there is room again"
    await lab.recorder.stop()


@pytest.mark.usefixtures("few_may_wait")
async def test_what_is_dropped_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("mooring.base.logs.once", lambda _: True)
    lab = Lab()
    for number in range(4097):
        lab.recorder.event(pod_in("loud", number), "Normal", "Scheduled", "assigned")
    [record] = caplog.records
    assert record.getMessage() == (
        "4096 events wait to be written: until they are fewer, new ones of reason Scheduled in namespace loud are "
        "dropped. The objects that they are about are not affected"
    )
    await lab.recorder.stop()


async def test_many_events_leave_the_server_room_for_what_they_tell_of() -> None:
    lab = Lab()
    for number in range(1000):
        lab.recorder.event(pod_in("a", number), "Normal", "Scheduled", "assigned")
    await settle(2000)
    assert len(lab.events) == 100
    lab.clock.advance(0.25)
    await settle(2000)
    assert len(lab.events) == 200
    await lab.recorder.stop()
    assert len(lab.events) == 1000, "at its end it writes what is left at once"


async def test_what_waits_to_be_written_is_counted_and_not_forgotten() -> None:
    lab = Lab()
    for number in range(4000):
        lab.recorder.event(pod_in("a", number), "Warning", "FailedScheduling", "0/3 nodes")
    for number in range(4000):
        lab.recorder.event(pod_in("a", number), "Warning", "FailedScheduling", "0/3 nodes")
    await lab.all_written()
    assert len(lab.events) == 4000
    assert {event["series"]["count"] for event in lab.events} == {2}
    await lab.recorder.stop()


@pytest.mark.parametrize("seed", range(5))
async def test_every_event_is_written_counted_in_a_series_or_counted_as_dropped(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.client.events._MAX_WAITING", 10 + 10 * seed)
    lab, lot = Lab(), random.Random(seed)
    for _ in range(400):
        about, note = pod_in(lot.choice(("a", "b")), lot.randrange(4)), f"note {lot.randrange(20)}"
        lab.recorder.event(about, "Normal", lot.choice(("Scheduled", "Killed")), note)
        lab.clock.advance(lot.choice((0.001, 1.0, 20.0)))
    await lab.recorder.stop()
    assert lab.recorder.dropped > 0
    assert sum(event.get("series", {}).get("count", 1) for event in lab.events) + lab.recorder.dropped == 400
