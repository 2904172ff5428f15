"""From informers into the columns and the queue: assumptions confirmed, corrected and ended; who is woken."""

import pytest
from msgspec import structs

from client_fakes import FakeTransport, MemoryApi
from mooring.api.core_v1 import Node, Pod
from mooring.client import Change, Client, EventRecorder
from mooring.scheduler.deciding.attempt import AssumedPod, Assumptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import CycleState
from mooring.scheduler.framework.waiting import WaitingPods
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.running.event_handlers import EventHandlers
from mooring.scheduler.running.reports import Reports
from mooring.testing.clock import MockClock
from scheduler_objects import node, pod

pytestmark = pytest.mark.req("S.3")


class Lab:
    """Event handlers with an engine and a queue, and two nodes."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.engine = Engine()
        self.queue = SchedulingQueue(self.engine.profiles, self.clock, pop_from_backoff=False)
        self.assumptions = Assumptions(self.engine)
        client = Client(FakeTransport(MemoryApi().answer), user_agent="t", clock=self.clock)
        reports = Reports(client, {"default-scheduler": EventRecorder(client, "t")}, lambda pod: pod)
        self.feed = EventHandlers(self.engine, self.queue, self.assumptions, reports, WaitingPods(), client.clock)
        self.nodes(None, node("n1", cpu="1"))
        self.nodes(None, node("n2", cpu="1"))

    def nodes(self, old: Node | None, new: Node | None) -> None:
        self.feed.handle_nodes([Change(old, new)])

    def pods(self, old: Pod | None, new: Pod | None) -> None:
        self.feed.handle_pods([Change(old, new)])

    def assume(self, what: Pod, where: str) -> AssumedPod:
        self.pods(None, what)
        queued = self.queue.pop()
        assert queued is not None
        assumed = AssumedPod(queued, what, where, self.engine.profile_of(what), CycleState(), 0.0)
        self.assumptions.assume(assumed)
        self.queue.forget_in_flight(queued.key)
        return assumed

    def where(self, what: Pod) -> str | None:
        placed = self.engine.cluster.placed(what)
        return None if placed is None else placed.node_name

    def waiting(self) -> int:
        return sum(self.queue.counts().values())


def bound(what: Pod, where: str) -> Pod:
    return structs.replace(what, spec=structs.replace(what.spec, node_name=where))


def test_a_pod_without_a_node_is_queued_and_one_of_another_scheduler_is_not() -> None:
    lab = Lab()
    lab.pods(None, pod("ours"))
    lab.pods(None, pod("theirs", scheduler="theirs"))
    assert lab.waiting() == 1


def test_a_pod_of_another_scheduler_takes_room_once_it_is_bound() -> None:
    lab, theirs = Lab(), pod("theirs", scheduler="theirs", cpu="1")
    lab.pods(None, theirs)
    lab.pods(theirs, bound(theirs, "n1"))
    assert lab.engine.schedule(pod("ours", cpu="1")).node == "n2"


def test_a_confirmed_assumption_ends_and_the_pod_stays() -> None:
    lab, web = Lab(), pod("web")
    lab.assume(web, "n1")
    lab.pods(web, bound(web, "n1"))
    assert (len(lab.assumptions), lab.where(web)) == (0, "n1")


def test_a_pod_that_another_client_bound_elsewhere_is_where_it_was_bound() -> None:
    lab, web = Lab(), pod("web", cpu="1")
    assumed = lab.assume(web, "n1")
    lab.pods(web, bound(web, "n2"))
    assert (len(lab.assumptions), lab.where(web)) == (0, "n2")
    assert not lab.assumptions.forget(assumed), "our own binding fails later, and must not take the pod away"
    assert lab.where(web) == "n2"
    assert lab.engine.schedule(pod("next", cpu="1")).node == "n1"


def test_the_room_that_was_assumed_in_vain_wakes_who_could_use_it() -> None:
    lab, web = Lab(), pod("web", cpu="1")
    lab.assume(web, "n1")
    lab.pods(None, pod("big", cpu="1"))
    queued = lab.queue.pop()
    assert queued is not None
    lab.queue.requeue(queued, frozenset({"NodeResourcesFit"}))
    lab.clock.advance(20)
    lab.pods(web, bound(web, "n2"))
    assert lab.queue.pop() is queued


def test_a_waiting_pod_that_another_client_bound_is_not_tried_any_more() -> None:
    lab, web = Lab(), pod("web")
    lab.pods(None, web)
    lab.pods(web, bound(web, "n2"))
    assert (lab.waiting(), lab.where(web)) == (0, "n2")


def test_an_update_of_an_assumed_pod_does_not_queue_it_again() -> None:
    lab, web = Lab(), pod("web")
    lab.assume(web, "n1")
    lab.pods(web, structs.replace(web, metadata=structs.replace(web.metadata, annotations={"a": "b"})))
    assert (lab.waiting(), lab.where(web)) == (0, "n1")


@pytest.mark.parametrize("assumed", [True, False], ids=["while it is assumed", "while it is bound"])
def test_a_deleted_pod_gives_its_room_back(assumed: bool) -> None:
    lab, web = Lab(), pod("web", cpu="1")
    if assumed:
        lab.assume(web, "n1")
        lab.pods(web, None)
    else:
        lab.pods(None, bound(web, "n1"))
        lab.pods(bound(web, "n1"), None)
    assert (lab.where(web), len(lab.assumptions), lab.waiting()) == (None, 0, 0)


def test_a_pod_that_has_ended_gives_its_room_back() -> None:
    lab, web = Lab(), bound(pod("web"), "n1")
    lab.pods(None, web)
    lab.pods(web, structs.replace(web, status=structs.replace(web.status, phase="Succeeded")))
    assert lab.where(web) is None


def test_a_pod_that_was_deleted_and_created_again_between_two_lists_is_another_pod() -> None:
    lab, web = Lab(), bound(pod("web"), "n1")
    lab.pods(None, web)
    lab.pods(web, pod("web"))
    assert (lab.where(web), lab.waiting()) == (None, 1)


def test_a_nomination_survives_a_restart() -> None:
    lab, web = Lab(), pod("web", priority=10)
    web.status.nominated_node_name = "n1"
    lab.pods(None, web)
    assert lab.engine.nominations.node_of(web) == "n1"


def test_pods_wait_for_a_node_that_is_not_there_yet() -> None:
    lab, web = Lab(), bound(pod("web", cpu="1"), "n3")
    lab.pods(None, web)
    lab.nodes(None, node("n3", cpu="1"))
    assert lab.where(web) == "n3"
