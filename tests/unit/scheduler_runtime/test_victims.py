"""Deleting victims: the pod they make room for is always woken, by an event or, where none can come, at once."""

import pytest

from client_fakes import Answer, FakeTransport, json_response, lost
from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.client import Client, EventRecorder
from mooring.client.transport import Request
from mooring.scheduler.columns.cluster import pod_key
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Action, ClusterEvent, Kind
from mooring.scheduler.framework.waiting import WaitingPods
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.running.reports import Reports
from mooring.scheduler.running.victims import Victims
from mooring.testing.clock import MockClock
from scheduler_objects import pod

pytestmark = pytest.mark.req("S.3")
GONE = errors.not_found("pods", "x")
DONE = json_response({"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}})

PATCHED = json_response({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}})


class Lab:
    """A queue with a rejected pod, and a server that gives the same answer to all deletions."""

    def __init__(self, answer: Answer) -> None:
        self.clock = MockClock()
        self.queue = SchedulingQueue(Engine().profiles, self.clock, pop_from_backoff=False)
        client = Client(FakeTransport(lambda request: self._answer(request, answer)), user_agent="t", clock=self.clock)
        waiting = WaitingPods()
        reports = Reports(client, {"default-scheduler": EventRecorder(client, "t")}, lambda found: found)
        self.seen: dict[str, Pod | None] = {}
        """What informers say about victims that are not as they were."""
        self.victims = Victims(client, self.queue, reports, waiting, lambda of: self.seen.get(of.metadata.name, of))
        self.queue.add(pod("important", priority=10))

    def _answer(self, request: Request, answer: Answer) -> Answer:
        return answer if request.method == "DELETE" else PATCHED

    def goes(self, name: str) -> None:
        """Delete a pod, as the event handlers do."""
        gone = pod(name, on="n1", uid=name)
        self.queue.note_victim_terminating(pod_key(gone))
        self.queue.move(ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE), gone, None)

    async def preempt(self, number: int) -> None:
        queued = self.queue.pop()
        assert queued is not None
        victims = [pod(f"victim-{each}", on="n1", uid=f"victim-{each}") for each in range(number)]
        self.victims.preempt(queued.pod, "n1", victims, "DefaultPreemption")
        self.queue.requeue(queued, frozenset({"NodeResourcesFit"}))
        await self.victims.wait_for_deletions()
        self.clock.advance(20)


@pytest.mark.parametrize("number", [1, 3])
async def test_the_pod_waits_until_its_last_victim_is_seen_terminating_whichever_pods_terminate_before(
    number: int,
) -> None:
    lab = Lab(DONE)
    await lab.preempt(number)
    lab.goes("another")
    assert lab.queue.pop() is None
    lab.goes(f"victim-{number - 1}")
    assert lab.queue.pop() is not None


async def test_a_pod_whose_victim_was_going_before_waits_for_anybody_to_go() -> None:
    lab = Lab(DONE)
    lab.seen["victim-0"] = leaving = pod("victim-0", on="n1")
    leaving.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    await lab.preempt(1)
    assert lab.queue.pop() is None
    lab.goes("another")
    assert lab.queue.pop() is not None


@pytest.mark.parametrize("answer", [GONE, lost(), errors.internal_error("x")], ids=["gone", "no answer", "refused"])
@pytest.mark.parametrize("number", [1, 3])
async def test_where_no_event_will_come_the_pod_is_tried_again_at_once(number: int, answer: Answer) -> None:
    lab = Lab(answer)
    await lab.preempt(number)
    assert lab.queue.pop() is not None
