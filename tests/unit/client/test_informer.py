"""Informers: list, watch, resume, list again, and what handlers are notified of."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from client_fakes import Answer, FakeStream, FakeTransport, json_response, lost
from mooring.api import codec, errors
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import StatusCause
from mooring.client import Backoff, Change, Client, Informers, key_of
from mooring.client import informer as informer_module
from mooring.client.informer import Informer
from mooring.client.transport import Request
from mooring.testing.clock import MockClock, settle

BACKOFF = Backoff(initial=1.0, maximum=30.0)


def pod(name: str, version: int, *, uid: str = "", node: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "prod", "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"containers": [], **({"nodeName": node} if node else {})}}


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def expired() -> dict[str, Any]:
    return event("ERROR", json.loads(codec.encode(errors.expired("too old").status)))


class Lab:
    """An informer of pods on a server of which the test says what it lists."""

    def __init__(self, *, allow_stale: bool = False) -> None:
        self.clock = MockClock()
        self.listed: list[dict[str, Any]] = []
        self.version = 10
        self.failures: list[errors.StatusError] = []
        self.refusals: list[errors.StatusError] = []
        self.transport = FakeTransport(self._list, self._watch)
        client = Client(self.transport, user_agent="t", clock=self.clock)
        self.informer: Informer[Pod] = Informer(client, Pod, backoff=BACKOFF, allow_stale=allow_stale)
        self.reported: list[str] = []
        self.batches: list[int] = []
        self.informer.add_batch_handler(self._hear)

    def _list(self, request: Request) -> Answer:
        if self.failures:
            return self.failures.pop(0)
        return json_response({"metadata": {"resourceVersion": str(self.version)}, "items": self.listed})

    def _watch(self, request: Request) -> FakeStream | errors.StatusError:
        return self.refusals.pop(0) if self.refusals else FakeStream()

    def _hear(self, changes: Any) -> None:
        self.batches.append(len(changes))
        self.reported += [_words(change) for change in changes]

    @property
    def stream(self) -> FakeStream:
        return self.transport.streams[-1]

    @property
    def watched_from(self) -> list[str]:
        return [dict(request.query)["resourceVersion"] for request in self.transport.watches]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.informer.run())
        await settle()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _words(change: Change[Pod]) -> str:
    old, new = change
    if old is None:
        return f"+{change.object.metadata.name}"
    if new is None:
        return f"-{old.metadata.name}"
    return f"{old.metadata.name}:{old.metadata.resource_version}>{new.metadata.resource_version}"


async def test_what_is_listed_is_notified_as_added_and_then_it_is_synced() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1), pod("b", 2)]
    synced_before = lab.informer.has_synced
    async with lab.running():
        assert (synced_before, lab.informer.has_synced) == (False, True)
        assert lab.reported == ["+a", "+b"]
        assert lab.watched_from == ["10"]


async def test_events_of_a_chunk_change_the_cache_and_are_notified_together() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1)]
    async with lab.running():
        lab.stream.send(event("MODIFIED", pod("a", 11)), event("ADDED", pod("b", 12)), event("MODIFIED", pod("b", 13)))
        await settle()
        assert lab.reported == ["+a", "a:1>11", "+b", "b:12>13"]
        assert lab.batches == [1, 3]
        assert [key_of(each) for each in lab.informer.objects()] == ["prod/a", "prod/b"]
        assert lab.informer.resource_version == "13"


async def test_between_many_events_of_a_chunk_others_get_their_turn() -> None:
    lab = Lab()
    turns: list[int] = []

    def write(changes: Any) -> None:
        asyncio.get_running_loop().call_soon(lambda: turns.append(len(lab.reported)))

    lab.informer.add_batch_handler(write)
    async with lab.running():
        lab.stream.send(*(event("ADDED", pod(f"p{index}", 11 + index)) for index in range(250)))
        await settle()
        assert turns == [100, 200, 250]
        assert lab.reported == [f"+p{index}" for index in range(250)]
        assert lab.informer.resource_version == "260"


async def test_changes_that_arrive_with_the_end_of_their_object_are_not_notified() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1)]
    async with lab.running():
        lab.stream.send(event("MODIFIED", pod("a", 11)), event("ADDED", pod("b", 12)), event("DELETED", pod("a", 13)))
        await settle()
        assert lab.reported == ["+a", "+b", "-a"]
        assert [key_of(each) for each in lab.informer.objects()] == ["prod/b"]
        assert lab.informer.resource_version == "13"


async def test_a_watch_that_ends_or_breaks_is_resumed_where_it_was() -> None:
    lab = Lab()
    async with lab.running():
        lab.stream.send(event("ADDED", pod("a", 11)))
        lab.stream.end()
        await settle()
        assert lab.watched_from == ["10", "11"]
        lab.stream.send(bookmark(25))
        lab.stream.end(lost())
        await lab.clock.run(1)
        assert lab.watched_from == ["10", "11", "25"]
        assert len(lab.transport.requests) == 1, "it was listed once"


async def test_a_watch_that_sends_nothing_for_too_long_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be stopped, which a connection alone does not show."""
    monkeypatch.setattr(informer_module, "_SILENT_SECONDS", 0.05)
    lab = Lab()
    async with lab.running():
        lab.stream.send(bookmark(20))
        await asyncio.sleep(0.1)
        await lab.clock.run(1)
        assert lab.watched_from == ["10", "20"]
        assert lab.transport.streams[0].closed


async def test_after_410_the_objects_are_listed_again_and_the_differences_notified() -> None:
    lab = Lab()
    lab.listed = [pod("same", 1), pod("changed", 2), pod("gone", 3)]
    async with lab.running():
        lab.reported.clear()
        lab.listed, lab.version = [pod("same", 1), pod("changed", 30), pod("new", 31)], 40
        lab.stream.send(expired())
        await settle()
        assert lab.reported == ["-gone", "changed:2>30", "+new"]
        assert lab.watched_from == ["10", "40"]


@pytest.mark.parametrize(
    ("allow_stale", "versions"),
    [
        pytest.param(False, ["", "", ""], id="the newest each time"),
        pytest.param(True, ["0", "", ""], id="what is at hand at the first try, then pages of the newest"),
    ],
)
async def test_which_state_is_listed(allow_stale: bool, versions: list[str]) -> None:
    lab = Lab(allow_stale=allow_stale)
    lab.failures = [errors.timeout("not now", retry_after_seconds=1)]
    async with lab.running():
        await lab.clock.run(2)
        lab.stream.send(expired())
        await lab.clock.run(2)
        asked = [dict(request.query).get("resourceVersion", "") for request in lab.transport.requests]
        assert asked == versions


def too_large() -> errors.StatusError:
    error = errors.timeout("Too large resource version: 10, current: 5", 1)
    assert error.status.details is not None
    error.status.details.causes = [StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")]
    return error


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(errors.expired("too old"), id="the version is too old"),
        pytest.param(too_large(), id="the server has lost its data and is not so far yet"),
    ],
)
async def test_a_watch_that_cannot_begin_at_the_version_lists_again(refusal: errors.StatusError) -> None:
    lab = Lab()
    lab.refusals = [refusal]
    async with lab.running():
        assert len(lab.transport.requests) == 2


async def test_another_object_of_the_same_name_is_notified_as_deleted_and_added() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1, uid="first")]
    async with lab.running():
        lab.stream.send(event("MODIFIED", pod("a", 11, uid="second")))
        await settle()
        assert lab.reported == ["+a", "-a", "+a"]


async def test_what_is_known_already_is_not_notified_again() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1)]
    async with lab.running():
        lab.stream.send(event("ADDED", pod("a", 1)), event("DELETED", pod("never", 5)))
        await settle()
        assert lab.reported == ["+a"]


async def test_a_list_that_fails_is_tried_again_ever_more_slowly() -> None:
    lab = Lab()
    lab.failures = [errors.service_unavailable("no")] * 3
    async with lab.running():
        seen = [(lab.clock.monotonic(), len(lab.transport.requests))]
        for _ in range(8):
            await lab.clock.run(1)
            seen.append((lab.clock.monotonic(), len(lab.transport.requests)))
    assert [count for _, count in seen] == [1, 2, 2, 3, 3, 3, 3, 4, 4]
    assert lab.informer.has_synced


async def test_a_watch_that_ends_as_it_begins_does_not_become_a_hot_loop() -> None:
    lab = Lab()
    async with lab.running():
        for _ in range(20):
            lab.stream.end()
            await settle()
        assert len(lab.transport.watches) == 1
        await lab.clock.run(1)
        assert len(lab.transport.watches) == 2


async def test_a_410_after_each_list_does_not_become_a_hot_loop() -> None:
    lab = Lab()
    lab.refusals = [errors.expired("too old") for _ in range(50)]
    async with lab.running():
        await lab.clock.run(10)
        assert len(lab.transport.requests) < 8


async def test_the_server_says_how_long_to_stay_away() -> None:
    lab = Lab()
    lab.refusals = [errors.too_many_requests("busy", 20)]
    async with lab.running():
        await lab.clock.run(19)
        assert len(lab.transport.watches) == 1
        await lab.clock.run(2)
        assert len(lab.transport.watches) == 2


async def test_a_handler_that_comes_late_hears_of_what_is_there() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1)]
    late: list[str] = []
    async with lab.running():
        lab.informer.add_handler(added=lambda obj: late.append(obj.metadata.name))
        assert late == ["a"]
        assert lab.reported == ["+a"]


async def test_handlers_of_single_changes_get_old_and_new() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1)]
    heard: list[tuple[str, ...]] = []
    lab.informer.add_handler(
        added=lambda obj: heard.append(("added", obj.metadata.resource_version)),
        updated=lambda old, new: heard.append(
            ("updated", old.metadata.resource_version, new.metadata.resource_version)
        ),
        deleted=lambda obj: heard.append(("deleted", obj.metadata.resource_version)),
    )
    async with lab.running():
        lab.stream.send(event("MODIFIED", pod("a", 11)))
        await settle()
        lab.stream.send(event("DELETED", pod("a", 12)))
        await settle()
    assert heard == [("added", "1"), ("updated", "1", "11"), ("deleted", "11")]


async def test_a_handler_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()
    lab.listed = [pod("a", 1), pod("b", 2)]
    heard: list[str] = []

    def fails_once(obj: Pod) -> None:
        heard.append(obj.metadata.name)
        if obj.metadata.name == "a":
            raise KeyError("mistake")

    def fails_always(changes: Any) -> None:
        raise IndexError("mistake")

    lab.informer.add_handler(added=fails_once)
    lab.informer.add_batch_handler(fails_always)
    async with lab.running():
        assert (heard, lab.reported) == (["a", "b"], ["+a", "+b"])
        assert lab.informer.has_synced
    assert caplog.text.count("a handler of pods failed") == 2


async def test_indexes_follow_the_objects() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1, node="n1"), pod("b", 2)]
    by_node = lab.informer.index("node", lambda obj: [obj.spec.node_name] if obj.spec.node_name else [])
    assert lab.informer.index("node", lambda _: []) is by_node
    async with lab.running():
        assert [each.metadata.name for each in by_node.get("n1")] == ["a"]
        lab.stream.send(event("MODIFIED", pod("b", 11, node="n1")), event("MODIFIED", pod("a", 12, node="n2")))
        await settle()
        assert [each.metadata.name for each in by_node.get("n1")] == ["b"]
        assert sorted(by_node.values()) == ["n1", "n2"]


async def test_informers_are_shared_by_kind_and_selection() -> None:
    lab = Lab()
    informers = Informers(Client(lab.transport, user_agent="t", clock=lab.clock))
    pods = informers.of(Pod)
    assert informers.of(Pod) is pods
    assert informers.of(Pod, field_selector="spec.nodeName=n1") is not pods
    async with informers:
        await informers.wait_for_sync()
        assert pods.has_synced
        late = informers.of(Pod, "prod")
        await late.wait_for_sync()
    assert all(stream.closed for stream in lab.transport.streams)


async def test_every_cache_is_filled_before_the_first_watch_is_opened() -> None:
    lab = Lab()
    informers = Informers(Client(lab.transport, user_agent="t", clock=lab.clock))
    watches_at: list[int] = []
    for number in range(20):
        each = informers.of(Pod, f"namespace-{number}")
        each.add_batch_handler(lambda _: watches_at.append(len(lab.transport.watches)))
    lab.listed = [pod("a", 1)]
    async with informers:
        await informers.wait_for_sync()
        await settle()
        assert watches_at == [0] * 20
        assert len(lab.transport.watches) == 20


async def test_what_another_component_follows_is_not_listed_again_and_is_the_same_object() -> None:
    lab = Lab()
    lab.listed = [pod("a", 1), pod("b", 2)]
    client = Client(lab.transport, user_agent="t", clock=lab.clock)
    first = Informers(client)
    theirs = first.of(Pod)
    second = Informers(client, shared=first)
    ours = second.of(Pod)
    reported: list[str] = []
    ours.add_batch_handler(lambda changes: reported.extend(map(_words, changes)))
    assert (first.follows(Pod), first.follows(Node)) == (True, False)
    async with first:
        await first.wait_for_sync()
        assert (reported, ours.has_synced) == ([], False)  # it has not begun
        async with second:
            await second.wait_for_sync()
            assert ours.get("a", "prod") is theirs.get("a", "prod")
            lab.stream.send(event("MODIFIED", pod("b", 11)), event("DELETED", pod("a", 12)))
            await settle()
            assert reported == ["+a", "+b", "b:2>11", "-a"]
        lab.stream.send(event("DELETED", pod("b", 13)))
        await settle()
    assert reported == ["+a", "+b", "b:2>11", "-a"]  # a handler that has ended is not notified
    assert (len(lab.transport.watches), len(theirs)) == (1, 0)


async def test_what_the_other_component_does_not_follow_is_listed_and_watched() -> None:
    lab = Lab()
    client = Client(lab.transport, user_agent="t", clock=lab.clock)
    second = Informers(client, shared=Informers(client))
    second.of(Pod)
    async with second:
        await second.wait_for_sync()
        await settle()
        assert len(lab.transport.watches) == 1


async def test_a_large_list_is_notified_in_parts_and_a_late_handler_hears_of_each_object_once() -> None:
    lab = Lab()
    lab.listed = [pod(f"p{index}", index) for index in range(2500)]
    late: list[str] = []
    joined = False

    def join(changes: Any) -> None:
        nonlocal joined
        if not joined:
            joined = True
            lab.informer.add_handler(added=lambda obj: late.append(obj.metadata.name))

    lab.informer.add_batch_handler(join)
    async with lab.running():
        await settle()
        assert lab.batches == [1000, 1000, 500]
        assert sorted(late) == sorted(f"p{index}" for index in range(2500))
