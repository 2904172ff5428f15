"""The loop of all controllers, the choice of controllers, and expectations, without a server."""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Client, Informers
from mooring.client.in_process import InProcessTransport
from mooring.controllers.controller import Context, Controller, split_key
from mooring.controllers.options import UnknownControllerError, select_controllers
from mooring.controllers.workloads.ownership import GIVE_UP_SECONDS, Expectations
from mooring.testing.clock import MockClock, settle

pytestmark = pytest.mark.req("S.4")


@dataclass(frozen=True)
class Choice:
    name: str
    wanted: list[str]
    expected: tuple[str, ...]


CHOICES = [
    Choice("nothing said means all", [], ("a", "b", "c")),
    Choice("so does a star", ["*"], ("a", "b", "c")),
    Choice("names mean those", ["c", "a"], ("a", "c")),
    Choice("a star and a minus mean all but one", ["*", "-b"], ("a", "c")),
    Choice("spaces do not matter", [" a ", ""], ("a",)),
]


@pytest.mark.parametrize("case", CHOICES, ids=lambda case: case.name)
def test_which_controllers_run(case: Choice) -> None:
    assert select_controllers(case.wanted, ["a", "b", "c"]) == case.expected


def test_a_name_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownControllerError, match="there is no controller -x: there are a, b"):
        select_controllers(["*", "-x"], ["b", "a"])


async def _no_object(_: object) -> Any:
    raise AssertionError("nothing is asked here")


def context(clock: MockClock) -> Context:
    client = Client(InProcessTransport(_no_object), user_agent="test", clock=clock)
    return Context(client, Informers(client))


class Recording(Controller):
    """Does what a script says for each call."""

    name = "recording"

    def __init__(self, context: Context, *script: Exception | float | None) -> None:
        super().__init__(context)
        self.script = list(script)
        self.calls: list[float] = []

    async def reconcile(self, key: str) -> float | None:
        assert key == "ns/name"
        self.calls.append(self.clock.monotonic())
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        return step


async def run(controller: Recording, clock: MockClock, seconds: float) -> list[float]:
    task = asyncio.create_task(controller.run())
    controller.queue.add("ns/name")
    await clock.run(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await settle()
    return controller.calls


async def test_a_key_comes_back_when_the_controller_asks_for_it() -> None:
    clock = MockClock()
    assert await run(Recording(context(clock), 30.0, 5.0), clock, 100) == [0.0, 30.0, 35.0]


async def test_failures_are_tried_again_ever_more_slowly_and_mistakes_too(caplog: pytest.LogCaptureFixture) -> None:
    clock = MockClock()
    refusal = errors.conflict("pods", "web")
    controller = Recording(context(clock), refusal, ValueError("a mistake"), refusal, None)
    calls = await run(controller, clock, 100)
    assert len(calls) == 4
    pauses = [after - before for before, after in itertools.pairwise(calls)]
    assert pauses == sorted(pauses)
    assert controller.queue.failures("ns/name") == 0
    assert "unexpected error while reconciling ns/name" in caplog.text
    count = controller.context.registry.get_sample_value
    labels = {"controller": "recording", "result": "error"}
    assert count("mooring_controller_reconciles_total", labels) == 3


class Waiting(Controller):
    """Is never done with what it has begun."""

    name = "waiting"
    workers = 4

    async def reconcile(self, key: str) -> float | None:
        await asyncio.Event().wait()
        return None


@pytest.mark.parametrize(("keys", "busy", "tasks"), [(0, 0, 1), (1, 1, 2), (3, 3, 4), (9, 4, 4)])
async def test_there_is_a_worker_for_each_key_and_one_that_waits_but_no_more_than_allowed(
    keys: int, busy: int, tasks: int
) -> None:
    controller = Waiting(context(MockClock()))
    others = len(asyncio.all_tasks())
    task = asyncio.create_task(controller.run())
    for number in range(keys):
        controller.queue.add(f"ns/{number}")
    await settle()
    assert (controller.queue.in_progress, len(asyncio.all_tasks()) - others - 1) == (busy, tasks)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_keys() -> None:
    assert (split_key("ns/name"), split_key("node")) == (("ns", "name"), ("", "node"))


def pod(version: str, uid: str = "u", deleted: str | None = None) -> Pod:
    meta = ObjectMeta(name="p", namespace="ns", uid=uid, resource_version=version, deletion_timestamp=deleted)
    return Pod(metadata=meta)


class Shown:
    """An informer whose state the test sets."""

    def __init__(self) -> None:
        self.resource_version = "5"
        self.found: Pod | None = None

    def by_key(self, key: str) -> Pod | None:
        assert key == "ns/p"
        return self.found


async def test_a_cache_is_up_to_date_when_it_has_reached_what_was_written() -> None:
    clock, shown = MockClock(), Shown()
    informer: Any = shown
    expectations = Expectations(clock)
    assert expectations.is_settled("k")
    expectations.record_write("k", informer, pod("12"))
    expectations.record_write("k", informer, pod("9"))
    for version, expected in (("5", False), ("9", False), ("", False), ("12", True)):
        shown.resource_version = version
        assert expectations.is_settled("k") is expected


async def test_a_deletion_is_seen_when_the_object_is_going_gone_or_another() -> None:
    clock, shown = MockClock(), Shown()
    informer: Any = shown
    expectations = Expectations(clock)
    for seen in (None, pod("7", uid="other"), pod("7", deleted="2026-01-01T00:00:00Z")):
        shown.found = pod("3")
        expectations.record_deletion("k", informer, pod("3"))
        assert not expectations.is_settled("k")
        shown.found = seen
        assert expectations.is_settled("k")


async def test_what_never_shows_is_given_up() -> None:
    clock, shown = MockClock(), Shown()
    informer: Any = shown
    expectations = Expectations(clock)
    expectations.record_write("k", informer, pod("12"))
    clock.advance(GIVE_UP_SECONDS + 1)
    assert expectations.is_settled("k")
