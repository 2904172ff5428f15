"""The scheduling queue: order, backoff, hints, gates, and what happens to pods in flight."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from mooring.api.core_v1 import Node, Pod, PodResourceClaimStatus, PodStatus
from mooring.api.meta_v1 import OwnerReference
from mooring.api.resource_v1 import ResourceClaim
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import (
    Action,
    ClusterEvent,
    Declaration,
    EventWithHint,
    FilterPlugin,
    Kind,
    QueueingHint,
)
from mooring.scheduler.framework.profiles import Profile
from mooring.scheduler.plugins.dynamic_resources import DynamicResources
from mooring.scheduler.queue import Backoffs, Pool, QueuedPod, SchedulingQueue
from mooring.scheduler.queue.cluster_events import classify_node_change, classify_pod_change
from mooring.testing.builders import made
from mooring.testing.clock import MockClock
from scheduler_objects import needs_kernel, node, pod

pytestmark = pytest.mark.req("S.3")
PROFILES = Engine().profiles
NODE_ADDED = ClusterEvent(Kind.NODE, Action.ADD)
MADE = PodResourceClaimStatus(name="c", resource_claim_name="made")
POD_DELETED = ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE)


class Lab:
    """A queue on a clock that stands still."""

    def __init__(self, profiles: dict[str, Profile] | None = None, *, pop_from_backoff: bool = False) -> None:
        self.clock = MockClock()
        self.queue = SchedulingQueue(profiles or PROFILES, self.clock, pop_from_backoff=pop_from_backoff)

    def pop(self) -> QueuedPod:
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def popped(self) -> list[str]:
        """Return the names of all pods that can be popped now, in order."""
        found = []
        while (queued := self.queue.pop()) is not None:
            found.append(queued.pod.metadata.name)
        return found

    def refuse(self, what: Pod, *plugins: str) -> QueuedPod:
        """Add a pod, try it, and let plugins refuse it."""
        self.queue.add(what)
        queued = self.pop()
        self.queue.requeue(queued, frozenset(plugins))
        return queued

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.queue.flush_backoff()

    @property
    def pools(self) -> dict[str, int]:
        return {pool.value: number for pool, number in self.queue.counts().items() if number}


def test_the_more_important_pod_is_next_and_among_equals_the_one_that_came_first() -> None:
    lab = Lab()
    for name, priority in (("a", 0), ("b", 10), ("c", None), ("d", 10)):
        lab.queue.add(pod(name, priority=priority))
        lab.clock.advance(1)
    assert lab.popped() == ["b", "d", "a", "c"]


def test_a_pod_that_is_there_already_is_not_queued_twice() -> None:
    lab, web = Lab(), pod("web")
    lab.queue.add(web)
    lab.queue.add(web)
    assert lab.popped() == ["web"]


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (50, 10), (5000, 10)]
)
def test_the_backoff_doubles_from_one_second_to_ten(failures: int, seconds: float) -> None:
    assert Backoffs().after(failures) == seconds


def test_a_refused_pod_waits_for_an_event_and_then_for_its_backoff() -> None:
    lab = Lab()
    lab.refuse(pod("web"), "NodeResourcesFit")
    assert lab.pools == {"unschedulable": 1}
    lab.queue.move(NODE_ADDED, None, node("n1"))
    assert lab.pools == {"backoff": 1}
    lab.later(0.9)
    assert lab.popped() == []
    lab.later(0.1)
    assert lab.popped() == ["web"]


def test_after_a_long_wait_there_is_no_backoff_left() -> None:
    lab = Lab()
    lab.refuse(pod("web"), "NodeResourcesFit")
    lab.clock.advance(30)
    lab.queue.move(NODE_ADDED, None, node("n1"))
    assert lab.popped() == ["web"]


def test_a_pod_that_something_went_wrong_with_is_tried_again_without_any_event() -> None:
    lab = Lab(pop_from_backoff=True)
    lab.queue.add(pod("web"))
    for seconds in (1, 2, 4):
        lab.queue.retry(lab.pop())
        lab.later(seconds - 0.5)
        assert lab.popped() == [], "errors are not retried early, however idle the scheduler is"
        lab.later(0.5)
    assert lab.popped() == ["web"]


@pytest.mark.parametrize("early", [True, False], ids=["gate on: tried early", "gate off: waits for its backoff"])
def test_an_idle_scheduler_takes_refused_pods_out_of_backoff_by_gate(early: bool) -> None:
    lab = Lab(pop_from_backoff=early)
    lab.refuse(pod("web"), "NodeResourcesFit")
    lab.queue.move(NODE_ADDED, None, node("n1"))
    assert lab.popped() == (["web"] if early else [])


def test_a_pod_is_tried_again_after_five_minutes_whatever_happened() -> None:
    lab = Lab()
    lab.refuse(pod("web"), "NodeResourcesFit")
    lab.clock.advance(299)
    lab.queue.flush_unschedulable()
    assert lab.popped() == []
    lab.clock.advance(2)
    lab.queue.flush_unschedulable()
    assert lab.popped() == ["web"]


# -- hints


@dataclass(frozen=True)
class Case:
    id: str
    old: Node | None
    new: Node
    wakes: bool


KERNEL_CASES = [
    Case("an unrelated label changes", node("n", kernel="6.0"), node("n", kernel="6.0", colour="red"), False),
    Case("the version rises, but not enough", node("n", kernel="5.0"), node("n", kernel="6.0"), False),
    Case("the version becomes unreadable", node("n", kernel="6.0"), node("n", kernel="new"), False),
    Case("the version falls", node("n", kernel="6.2"), node("n", kernel="6.0"), False),
    Case("the version rises enough", node("n", kernel="6.0"), node("n", kernel="6.2"), True),
    Case("the version was high enough before", node("n", kernel="6.2"), node("n", kernel="6.3"), False),
    Case("a taint changes", node("n", kernel="6.0", taints=[("a", "", "NoSchedule")]), node("n", kernel="6.0"), False),
    Case("a node comes that matches", None, node("n", kernel="6.2"), True),
    Case("a node comes that does not match", None, node("n", kernel="6.0"), False),
]


@pytest.mark.req("5721.8")
@pytest.mark.parametrize("case", KERNEL_CASES, ids=lambda case: case.id)
def test_a_change_of_labels_wakes_only_pods_that_it_can_help(case: Case) -> None:
    lab = Lab()
    lab.refuse(pod("web", affinity=needs_kernel("6.1.0")), "NodeAffinity")
    lab.refuse(pod("other", cpu="100"), "NodeResourcesFit")
    lab.clock.advance(20)
    action = Action.ADD if case.old is None else classify_node_change(case.old, case.new)
    lab.queue.move(ClusterEvent(Kind.NODE, action), case.old, case.new)
    assert lab.popped() == (["web"] if case.wakes else [])


def _version(value: str) -> list[tuple[str, str, str]]:
    return [("runtime", value, "NoSchedule")]


TAINT_CASES = [
    Case("the value becomes tolerated", node("n", taints=_version("1.6.0")), node("n", taints=_version("1.8.0")), True),
    Case("the value stays too low", node("n", taints=_version("1.5.0")), node("n", taints=_version("1.6.0")), False),
    Case("it was tolerated before", node("n", taints=_version("1.8.0")), node("n", taints=_version("1.9.0")), False),
    Case("the taint goes", node("n", taints=_version("1.6.0")), node("n"), True),
    Case("a label changes", node("n", taints=_version("1.6.0")), node("n", taints=_version("1.6.0"), a="b"), False),
]


@pytest.mark.req("5721.8")
@pytest.mark.parametrize("case", TAINT_CASES, ids=lambda case: case.id)
def test_a_change_of_taints_wakes_only_pods_that_it_can_help(case: Case) -> None:
    toleration = {"key": "runtime", "operator": "SemverGt", "value": "1.7.0", "effect": "NoSchedule"}
    lab = Lab()
    lab.refuse(pod("web", tolerations=[toleration]), "TaintToleration")
    lab.refuse(pod("other", affinity=needs_kernel("6.1.0")), "NodeAffinity")
    lab.clock.advance(20)
    assert case.old is not None
    lab.queue.move(ClusterEvent(Kind.NODE, classify_node_change(case.old, case.new)), case.old, case.new)
    assert lab.popped() == (["web"] if case.wakes else [])


def test_a_heartbeat_of_a_node_is_no_event() -> None:
    old = node("n1")
    new = structs.replace(old, metadata=structs.replace(old.metadata, resource_version="2"))
    assert not classify_node_change(old, new)


def test_a_change_of_a_pods_status_is_no_event() -> None:
    old = pod("web")
    new = structs.replace(old, status=structs.replace(old.status, message="hello"))
    assert not classify_pod_change(old, new)


def test_a_pod_that_no_plugin_refused_is_woken_by_anything() -> None:
    lab = Lab()
    lab.refuse(pod("web"))
    lab.clock.advance(20)
    lab.queue.move(POD_DELETED, pod("x", on="n1"), None)
    assert lab.popped() == ["web"]


class _Counting(FilterPlugin[None]):
    """A plugin that counts how often its hint is asked."""

    name = "Counting"
    filters = Declaration()

    def __init__(self, answer: QueueingHint = QueueingHint.SKIP) -> None:
        self.asked = 0
        self._answer = answer

    def events_to_register(self) -> Sequence[EventWithHint]:
        return (EventWithHint(NODE_ADDED, self._hint),)

    def _hint(self, _pod: Pod, _old: Any, _new: Any) -> QueueingHint:
        self.asked += 1
        return self._answer


def _with_plugin(plugin: Any) -> dict[str, Profile]:
    return {name: replace(profile, plugins=(*profile.plugins, plugin)) for name, profile in PROFILES.items()}


def test_a_flood_of_like_pods_is_asked_about_once_and_does_not_hold_up_others() -> None:
    plugin = _Counting()
    lab = Lab(_with_plugin(plugin))
    shape = Engine().cluster.info(pod("like")).signature
    for number in range(500):
        lab.queue.add(pod(f"flood-{number}"))
        queued = lab.pop()
        queued.template_key = shape
        lab.queue.requeue(queued, frozenset({"Counting"}))
    lab.queue.move(NODE_ADDED, None, node("n1"))
    assert plugin.asked == 1
    lab.clock.advance(301)
    lab.queue.add(pod("fresh", priority=1))
    lab.queue.flush_unschedulable()
    assert lab.pop().pod.metadata.name == "fresh"
    assert len(lab.popped()) == 500


def test_a_hint_that_fails_wakes_the_pod() -> None:
    class Broken(_Counting):
        def _hint(self, _pod: Pod, _old: Any, _new: Any) -> QueueingHint:
            raise RuntimeError("a defect")

    lab = Lab(_with_plugin(Broken()))
    lab.refuse(pod("web"), "Counting")
    lab.clock.advance(20)
    lab.queue.move(NODE_ADDED, None, node("n1"))
    assert lab.popped() == ["web"]


def test_a_pod_that_waited_for_just_this_has_no_backoff() -> None:
    lab = Lab(_with_plugin(_Counting(QueueingHint.QUEUE)))
    lab.queue.add(pod("web"))
    lab.queue.requeue(lab.pop(), frozenset(), frozenset({"Counting"}))
    lab.queue.move(NODE_ADDED, None, node("n1"))
    assert lab.popped() == ["web"]


# -- in flight


def test_an_event_that_happens_while_a_pod_is_in_flight_is_not_missed() -> None:
    lab = Lab()
    lab.queue.add(pod("web"))
    queued = lab.pop()
    lab.queue.move(NODE_ADDED, None, node("n1"))
    lab.queue.requeue(queued, frozenset({"NodeResourcesFit"}))
    assert lab.pools == {"backoff": 1}


def test_an_event_before_the_pod_was_popped_does_not_count() -> None:
    lab = Lab()
    lab.queue.add(pod("first"))
    first = lab.pop()
    lab.queue.move(NODE_ADDED, None, node("n1"))
    lab.queue.add(pod("second"))
    second = lab.pop()
    lab.queue.forget_in_flight(first.key)
    lab.queue.requeue(second, frozenset({"NodeResourcesFit"}))
    assert lab.pools == {"unschedulable": 1}


def test_a_pod_that_is_refused_after_its_flight_is_tried_again_because_events_may_have_been_missed() -> None:
    lab = Lab()
    lab.queue.add(pod("web"))
    queued = lab.pop()
    lab.queue.forget_in_flight(queued.key)
    lab.queue.requeue(queued, frozenset({"VolumeBinding"}))
    assert lab.pools == {"backoff": 1}


def test_an_update_while_in_flight_is_kept_and_counts_for_that_pod_alone() -> None:
    lab, gone = Lab(), {"key": "a", "operator": "Exists"}
    web, other = pod("web"), pod("other")
    lab.queue.add(web)
    lab.queue.add(other)
    first, second = lab.pop(), lab.pop()
    changed = structs.replace(
        web, spec=structs.replace(web.spec, tolerations=pod("x", tolerations=[gone]).spec.tolerations)
    )
    lab.queue.update(web, changed, (ClusterEvent(Kind.TARGET_POD, classify_pod_change(web, changed)),))
    lab.queue.requeue(first, frozenset({"TaintToleration"}))
    lab.queue.requeue(second, frozenset({"TaintToleration"}))
    assert lab.pools == {"backoff": 1, "unschedulable": 1}
    lab.later(1)
    assert lab.pop().pod is changed


@pytest.mark.parametrize("place", ["active", "backoff", "errors", "unschedulable"])
def test_a_deleted_pod_is_in_no_pool(place: str) -> None:
    lab, web = Lab(), pod("web")
    lab.queue.add(web)
    if place == "errors":
        lab.queue.retry(lab.pop())
    elif place != "active":
        lab.queue.requeue(lab.pop(), frozenset({"NodeResourcesFit"}))
    if place == "backoff":
        lab.queue.move(NODE_ADDED, None, node("n1"))
    lab.queue.delete(web)
    assert lab.pools == {}
    lab.later(400)
    assert lab.popped() == []


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_an_updated_pod_is_the_one_that_is_popped(place: str) -> None:
    lab, web = Lab(), pod("web")
    lab.queue.add(web)
    if place != "active":
        lab.queue.requeue(lab.pop(), frozenset({"NodeResourcesFit"}))
    if place == "backoff":
        lab.queue.move(NODE_ADDED, None, node("n1"))
    changed = structs.replace(web, metadata=structs.replace(web.metadata, annotations={"a": "b"}))
    lab.queue.update(web, changed)
    lab.clock.advance(400)
    lab.queue.flush_unschedulable()
    lab.queue.flush_backoff()
    assert lab.pop().pod is changed


# -- gates


def test_a_pod_with_gates_waits_until_they_are_gone_and_then_has_no_backoff() -> None:
    lab = Lab()
    gated = pod("web", schedulingGates=[{"name": "a"}])
    lab.queue.add(gated)
    assert lab.pools == {"gated": 1}
    lab.queue.move(NODE_ADDED, None, node("n1"))
    lab.clock.advance(1000)
    lab.queue.flush_unschedulable()
    assert lab.popped() == []
    free = structs.replace(gated, spec=structs.replace(gated.spec, scheduling_gates=[]))
    lab.queue.update(gated, free, (ClusterEvent(Kind.TARGET_POD, classify_pod_change(gated, free)),))
    assert lab.popped() == ["web"]


def test_a_pod_is_held_while_its_victims_are_being_deleted() -> None:
    lab = Lab()
    lab.queue.add(pod("web", priority=10))
    queued = lab.pop()
    lab.queue.hold(queued.key, "DefaultPreemption")
    lab.queue.requeue(queued, frozenset({"NodeResourcesFit"}))
    lab.clock.advance(20)
    lab.queue.move(POD_DELETED, pod("victim", on="n1"), None)
    assert lab.pools == {"gated": 1}
    lab.queue.release(queued.key)
    lab.queue.move(POD_DELETED, pod("last-victim", on="n1"), None)
    assert lab.popped() == ["web"]


def test_a_pod_whose_preemption_failed_is_tried_again_at_once() -> None:
    lab = Lab()
    lab.queue.add(pod("web", priority=10))
    queued = lab.pop()
    lab.queue.hold(queued.key, "DefaultPreemption")
    lab.queue.requeue(queued, frozenset({"NodeResourcesFit"}))
    lab.queue.release(queued.key, wake=True)
    assert lab.popped() == ["web"]


def test_a_pod_that_is_held_again_does_not_wait_for_the_victim_of_an_earlier_failure() -> None:
    lab = Lab()
    lab.queue.add(pod("web", priority=10))
    queued = lab.pop()
    lab.queue.hold(queued.key, "DefaultPreemption")
    lab.queue.hold_until(queued.key, "default/first")
    lab.queue.release(queued.key, wake=True)  # the first victim could not be deleted
    lab.queue.hold(queued.key, "DefaultPreemption")
    lab.queue.requeue(queued, frozenset({"NodeResourcesFit"}))
    lab.queue.hold_until(queued.key, "default/second")
    lab.queue.note_victim_terminating("default/first")
    assert lab.pools == {"gated": 1}
    lab.queue.note_victim_terminating("default/second")
    assert lab.pools == {"unschedulable": 1}


async def test_waiting_ends_when_a_pod_comes() -> None:
    lab = Lab()
    waiting = asyncio.ensure_future(lab.queue.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    lab.queue.add(pod("web"))
    await asyncio.wait_for(waiting, 20)


# -- no pod is ever forgotten

Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "update", "delete", "pop", "refuse", "fail", "bind", "node", "pod", "time", "hold"]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(STEPS, st.booleans())
def test_every_pod_is_in_exactly_one_place_until_it_is_bound_or_deleted(steps: list[Step], early: bool) -> None:
    lab = Lab(pop_from_backoff=early)
    pods = [pod(f"p{number}", priority=number % 2, uid=f"uid-{number}") for number in range(6)]
    flying: dict[str, QueuedPod] = {}
    expected: set[str] = set()
    for what, number in steps:
        chosen = pods[number]
        key = chosen.metadata.uid
        match what:
            case "add" if key not in flying:
                lab.queue.add(chosen)
                expected.add(key)
            case "update" if key in expected or key in flying:
                lab.queue.update(chosen, chosen)
            case "delete":
                lab.queue.delete(chosen)
                expected.discard(key)
            case "pop":
                queued = lab.queue.pop()
                if queued is not None:
                    assert queued.key in expected
                    expected.discard(queued.key)
                    flying[queued.key] = queued
            case "refuse" | "fail" | "bind" if flying:
                queued = flying.pop(next(iter(flying)))
                if what == "bind":
                    lab.queue.forget_in_flight(queued.key)
                    continue
                expected.add(queued.key)
                if what == "fail":
                    lab.queue.retry(queued)
                else:
                    lab.queue.requeue(queued, frozenset({"NodeResourcesFit"}))
            case "node":
                lab.queue.move(NODE_ADDED, None, node("n1"))
            case "pod":
                lab.queue.move(POD_DELETED, pod("x", on="n1"), None)
            case "hold":
                lab.queue.hold(key, "DefaultPreemption")
                lab.queue.release(key, wake=number % 2 == 0)
            case "time":
                lab.later(number * 100)
                lab.queue.flush_unschedulable()
        assert sum(lab.queue.counts().values()) == len(expected)
    lab.clock.advance(400)
    lab.queue.flush_unschedulable()
    lab.queue.flush_backoff()
    assert {queued.key for queued in iter(lab.queue.pop, None)} == expected


def test_what_pools_are_called_is_what_kube_scheduler_calls_them() -> None:
    assert [pool.value for pool in Pool] == ["active", "backoff", "unschedulable", "gated"]


# -- pods with claims


class ClaimsLab:
    """A queue whose pods have claims, and a count of how often hints about them are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = Engine()
        self.asked = 0
        plain = DynamicResources._after_claim_change

        def counted(plugin: DynamicResources, *arguments: Any) -> QueueingHint:
            self.asked += 1
            return plain(plugin, *arguments)

        monkeypatch.setattr(DynamicResources, "_after_claim_change", counted)
        self.queue = SchedulingQueue(self.engine.profiles, MockClock())

    def claim(self, name: str, *, allocated: bool = False) -> ResourceClaim:
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        status: dict[str, Any] = {"allocation": {"devices": {}}} if allocated else {}
        return made(ResourceClaim, {"metadata": metadata, "spec": {}, "status": status})

    def change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> int:
        """Add, change or delete a claim; return how many pods that wakes."""
        if new is not None:
            self.engine.put(new)
        elif old is not None:
            self.engine.remove(old)
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE_OTHER
        return self.queue.move(ClusterEvent(Kind.RESOURCE_CLAIM, action), old, new)

    def using(self, name: str) -> Pod:
        return pod(f"pod-of-{name}", resourceClaims=[{"name": "c", "resourceClaimName": name}])

    def count(self) -> dict[str, int]:
        return {pool.value: number for pool, number in self.queue.counts().items() if number}


def test_a_claim_that_comes_lets_in_the_pod_that_names_it_and_asks_about_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = ClaimsLab(monkeypatch)
    for number in range(100):
        lab.queue.add(lab.using(f"c{number}"))
    assert lab.count() == {"gated": 100}
    assert lab.queue.move(NODE_ADDED, None, node("n1")) == 0, "a node opens no gate"
    assert lab.change(None, lab.claim("c7")) == 1
    assert (lab.asked, lab.count()) == (1, {"gated": 99, "active": 1})
    assert lab.change(None, lab.claim("other")) == 0
    assert lab.asked == 1


def test_a_claim_that_changes_wakes_its_pod_and_one_that_is_freed_all_that_wait_for_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = ClaimsLab(monkeypatch)
    for number in range(50):
        lab.change(None, lab.claim(f"c{number}"))
        lab.queue.add(lab.using(f"c{number}"))
        queued = lab.queue.pop()
        assert queued is not None
        lab.queue.requeue(queued, frozenset({"DynamicResources", "NodeResourcesFit"}))
    lab.asked = 0
    assert lab.change(lab.claim("c3"), lab.claim("c3", allocated=True)) == 1
    assert lab.change(None, lab.claim("somebody's", allocated=True)) == 0
    assert lab.asked == 1
    assert lab.change(lab.claim("somebody's", allocated=True), lab.claim("somebody's")) == 49


def test_a_pod_that_learns_the_name_of_its_claim_waits_for_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = ClaimsLab(monkeypatch)
    before = pod("p", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}])
    lab.queue.add(before)
    after = structs.replace(before, status=PodStatus(resource_claim_statuses=[MADE]))
    lab.queue.update(before, after, [ClusterEvent(Kind.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)])
    assert lab.count() == {"gated": 1}, "the claim itself has not been seen yet"
    claim = lab.claim("made")
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid=before.metadata.uid, controller=True)
    claim.metadata.owner_references = [owner]
    assert lab.change(None, claim) == 1
    assert lab.count() == {"active": 1}
