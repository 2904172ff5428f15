"""Simulate a remedy on a copy of the cluster: does the whole workload run then, and does any other pod lose its node?

The search for remedies tries one pod on the scheduler's engine. A remedy is offered for a workload, so it is simulated:
the objects change, controllers roll the workload out, old pods terminate, quotas and budgets apply, until nothing
changes any more. Called by ``explanation.py`` and, for many workloads at once, by ``overview.py``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec import structs

from mooring.advisor.explain.storage import working_provisioners
from mooring.advisor.explain.subject import Subject
from mooring.advisor.simulate.changes import Add, Remove, Scenario, ScenarioError, Step
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.running import SimulationRun
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.engines import needs_node
from mooring.api.apps_v1 import DaemonSet, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import Node, PersistentVolumeClaim, Pod, ReplicationController
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.facade import NO_PROVISIONER, SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, class_of

_REHEARSED_OBJECTS = 100_000
_LEAST_REHEARSALS = 2
_KEEP_PODS = ReplicaSet | StatefulSet | ReplicationController | DaemonSet | Job
"""Workload kinds that keep pending pods when their template changes; the command deletes these pods."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A remedy to simulate: the workload or pod before and after it, and other changed objects."""

    before: Subject
    after: Subject
    put: tuple[Resource, ...] = ()
    remove: tuple[Resource, ...] = ()

    @property
    def is_source_changed(self) -> bool:
        """Whether the remedy changes the workload, or deletes a pod without a controller and creates it again."""
        return self.after.source is not self.before.source


@dataclass(frozen=True, slots=True)
class RehearsalResult:
    """The result of simulating a remedy: how many pods of the workload run, and which other pods it hurts."""

    helps: int
    """How many pods of the workload have a node with the remedy."""
    wanted: int
    """How many pods the workload should have."""
    hurt: tuple[str, ...] = ()
    """Pods of other workloads that lose their node and find no other one."""

    @property
    def is_enough(self) -> bool:
        return self.helps >= self.wanted and not self.hurt


@dataclass
class Rehearsal:
    """Simulates remedies on copies of one snapshot, to count the pods that then have a node."""

    snapshot: Snapshot
    settings: Settings = field(default_factory=Settings)

    @property
    def budget(self) -> int:
        """The number of remedies to simulate one by one: fewer in a large cluster, where each takes seconds."""
        size = len(self.snapshot.all(Node)) + len(self.snapshot.all(Pod))
        return max(_REHEARSED_OBJECTS // max(size, 1), _LEAST_REHEARSALS)

    @cached_property
    def _base_snapshot(self) -> Snapshot:
        """The snapshot, in which no volumes are provisioned for StorageClasses whose provisioner does not work."""
        working = self.snapshot.derive(working_provisioners)
        broken = []
        for claim in self.snapshot.all(PersistentVolumeClaim):
            found = self.snapshot.find(StorageClass, "", class_of(claim))
            if found is None or claim.spec.volume_name or found.provisioner in working:
                continue
            if SELECTED_NODE in claim.metadata.annotations or found.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
                broken.append(structs.replace(found, provisioner=NO_PROVISIONER))
        return self.snapshot.replace(put=broken) if broken else self.snapshot

    @cached_property
    def _pending_before(self) -> Counter[str]:
        return _count_pending(self._run_simulation(()).world)

    def simulate(self, proposal: Proposal) -> RehearsalResult:
        """Simulate one remedy; return how many pods of its workload then have a node, and which others lost theirs."""
        return self.simulate_together((proposal,))[0]

    def simulate_together(self, proposals: Sequence[Proposal]) -> list[RehearsalResult]:
        """Simulate several remedies in one simulation; return the result of each."""
        try:
            world = self._run_simulation(proposals).world
        except ScenarioError:
            return [RehearsalResult(0, 1) for _ in proposals]
        own = {_owner_name(each.after) for each in proposals}
        before = self._pending_before
        hurt = tuple(
            name for name, count in _count_pending(world).items() if count > before[name] and name not in own
        ) + tuple(each.pod.name for each in world.record.preemptions if each.pod.owner is None)
        is_placed = not self.snapshot.why_unread("nodes")
        return [_result_of(world, each, hurt, is_placed=is_placed) for each in proposals]

    def _run_simulation(self, proposals: Sequence[Proposal]) -> SimulationRun:
        changed = [each for each in proposals if isinstance(each.after.source, _KEEP_PODS) and each.is_source_changed]
        put = [obj for each in proposals for obj in each.put]
        put += [each.after.source for each in changed if _is_stored(self.snapshot, each.after.source)]
        removed = [obj for each in proposals for obj in each.remove if not isinstance(obj, Pod)]
        pods = [each for each in proposals if isinstance(each.after.source, Pod) and each.is_source_changed]
        removed += [each.before.pod for each in pods]
        after = self._base_snapshot.replace(put=put, remove=removed) if put or removed else self._base_snapshot
        steps = tuple(step for each in proposals for step in _scenario_steps(self.snapshot, each))
        running = SimulationRun(after, Scenario(steps=steps), self.settings)
        running.run()
        return running


def has_not_started(pod: Pod) -> bool:
    """Return whether a pod has no node, or is Pending and none of its containers has ever run."""
    return not pod.spec.node_name or (
        pod.status.phase == "Pending"
        and not any(
            each.state.waiting is None or each.last_state.terminated is not None
            for each in pod.status.container_statuses
        )
    )


def _is_stored(snapshot: Snapshot, source: Resource) -> bool:
    return snapshot.find(type(source), source.metadata.namespace, source.metadata.name) is not None


def _scenario_steps(snapshot: Snapshot, proposal: Proposal) -> Iterator[Step]:
    victims = [obj for obj in proposal.remove if isinstance(obj, Pod)]
    source, is_stored = proposal.after.source, _is_stored(snapshot, proposal.after.source)
    old: Any = proposal.before.source
    if is_stored and isinstance(source, _KEEP_PODS) and source.spec.template != old.spec.template:
        victims += [pod for pod in proposal.before.siblings if has_not_started(pod)]
    if victims:
        yield Step(tuple(Remove("Pod", each.metadata.namespace, each.metadata.name) for each in victims))
    if not is_stored or (proposal.is_source_changed and not isinstance(source, CronJob | _KEEP_PODS)):
        yield Step((Add((source,)),))


def _result_of(world: World, proposal: Proposal, hurt: tuple[str, ...], *, is_placed: bool) -> RehearsalResult:
    """Return how many pods of a workload have a node (or exist, without `is_placed`) of how many it should have."""
    source = proposal.after.source
    meta = source.metadata
    if isinstance(source, Pod):
        names = {f"{meta.namespace}/{meta.name}"}
    elif (owner := world.workloads.current_workload(source.kind, meta.namespace, meta.name)) is not None:
        wanted = max(owner.desired, len(owner.pods)) if owner.kind != "DaemonSet" else len(owner.pods)
        return RehearsalResult(owner.placed if is_placed else len(owner.pods), max(wanted, 1), hurt)
    else:  # a CronJob: its Jobs create pods
        names = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in proposal.before.siblings if needs_node(pod)}
    placed = sum(bool(pod.node) for pod in world.pods.values() if pod.name in names)
    return RehearsalResult(placed, max(len(names), 1), hurt)


def _count_pending(world: World) -> Counter[str]:
    found = Counter(pod.owner_name or pod.name for pod in world.pods.values() if not pod.node)
    for owner in world.workloads.list_all():
        if owner.refusal:
            found[owner.display_name] += max(owner.wanted - len(owner.pods), 0)
    return found


def _owner_name(subject: Subject) -> str:
    meta = subject.source.metadata
    if isinstance(subject.source, Pod):
        return f"{meta.namespace}/{meta.name}"
    return f"{subject.source.kind} {meta.namespace}/{meta.name}"
