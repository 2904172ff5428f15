"""Queueing hints against an oracle: an event after which a refused pod would fit must wake it.

Whether it would fit is asked of a naive evaluation before and after the event; it knows nothing of hints.
"""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.scheduler.framework import Action, ClusterEvent, Kind
from mooring.scheduler.queue.cluster_events import classify_node_change, classify_pod_change
from mooring.scheduler.queue.hints import Help, Hints
from mooring.scheduler.queue.queued_pod import QueuedPod
from naive_scheduler import OK, POD_LABELS, Twins

pytestmark = pytest.mark.req("S.3", "5471.6", "5721.8")

Happened = tuple[ClusterEvent, Resource | None, Resource | None]


class Watched(Twins):
    """Change one object at a time, and return the event by which the scheduler hears of it."""

    def happen(self) -> Iterator[Happened]:
        lot = self.random.lot
        yield from lot.choice([self.node_comes, self.node_goes, self.pod_comes, self.pod_goes, self.pod_changes])()

    def node_comes(self) -> Iterator[Happened]:
        node = self.random.node(f"node-{self.random.lot.randint(0, 7)}")
        old = self.naive.nodes.get(node.metadata.name)
        if old is None and self.naive.on(node):
            return  # pods of a node that is gone are deleted before another of its name comes
        self.naive.nodes[node.metadata.name] = node
        self.engine.put(node)
        action = Action.ADD if old is None else classify_node_change(old, node)
        if action:
            yield ClusterEvent(Kind.NODE, action), old, node

    def node_goes(self) -> Iterator[Happened]:
        node: Node | None = self.naive.nodes.get(f"node-{self.random.lot.randint(0, 7)}")
        if node is not None and not self.naive.on(node):  # the pods of a node go before it, or with events of their own
            del self.naive.nodes[node.metadata.name]
            self.engine.remove(node)
            yield ClusterEvent(Kind.NODE, Action.DELETE), node, None

    def pod_comes(self) -> Iterator[Happened]:
        pod = self.random.pod(f"node-{self.random.lot.randint(0, 7)}")
        self.naive.pods[pod.metadata.uid] = pod
        self.engine.put(pod)
        if pod.status.phase == "Running":
            yield ClusterEvent(Kind.ASSIGNED_POD, Action.ADD), None, pod

    def pod_goes(self) -> Iterator[Happened]:
        running = [pod for pod in self.naive.pods.values() if pod.status.phase == "Running"]
        if running:
            pod = self.naive.pods.pop(self.random.lot.choice(running).metadata.uid)
            self.engine.remove(pod)
            yield ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE), pod, None

    def pod_changes(self) -> Iterator[Happened]:
        running = [pod for pod in self.naive.pods.values() if pod.status.phase == "Running"]
        if running:
            old = self.random.lot.choice(running)
            labels = {"app": self.random.lot.choice(POD_LABELS["app"])}
            new = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, labels=labels))
            self.naive.pods[new.metadata.uid] = new
            self.engine.put(new)
            if action := classify_pod_change(old, new):
                yield ClusterEvent(Kind.ASSIGNED_POD, action), old, new

    def fits(self, pod: Pod) -> bool:
        return any(self.naive.verdict(pod, node) == OK for node in self.naive.nodes.values())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
@example(936)  # a node that leaves the domains of affinity, and with it the pods that another node was refused for
@example(51052)  # a pod that one of two terms does not choose any more
@example(148049)  # a pod that is woken and refused again, for another reason
def test_an_event_after_which_a_pod_fits_wakes_it(seed: int) -> None:
    twins = Watched(seed)
    twins.put_namespace()
    for _ in range(25):
        twins.change()
    hints = Hints(twins.engine.profiles.values())
    for _ in range(12):
        pod = twins.random.pod()
        refused_by = refusals(twins, pod)
        if not refused_by or not twins.naive.nodes:
            continue
        for _ in range(4):
            queued = QueuedPod(pod, "default-scheduler", 0.0, refused_by=refused_by)
            helped = any(hints.help_for(queued, *what) is not Help.NONE for what in twins.happen())
            if twins.fits(pod):
                assert helped, queued.refused_by
                break
            if helped:
                refused_by = refusals(twins, pod)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_labels_of_its_own_with_which_a_pod_fits_wake_it(seed: int) -> None:
    twins = Watched(seed)
    twins.put_namespace()
    for _ in range(25):
        twins.change()
    hints = Hints(twins.engine.profiles.values())
    for _ in range(12):
        old = twins.random.pod()
        refused_by = refusals(twins, old)
        if not refused_by:
            continue
        labels = {"app": twins.random.lot.choice(POD_LABELS["app"])}
        new = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, labels=labels))
        action = classify_pod_change(old, new)
        if action and twins.fits(new):
            queued = QueuedPod(new, "default-scheduler", 0.0, refused_by=refused_by)
            assert hints.help_for(queued, ClusterEvent(Kind.TARGET_POD, action), old, new) is not Help.NONE, refused_by


def refusals(twins: Watched, pod: Pod) -> frozenset[str]:
    """Who refuses a pod that is tried now; it sleeps on until an event may help with one of them."""
    diagnosis = twins.engine.schedule(pod).diagnosis
    return diagnosis.plugins if diagnosis is not None else frozenset()
