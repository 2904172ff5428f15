"""The simulated cluster: the scheduler's engine and queue, pods with their workloads, budgets, claims and evictions.

Every change is made here and propagated as in a real cluster: the queue wakes pods that it may help, workloads replace
deleted pods, budgets are updated. ``running.py`` advances the time. Read next: ``scheduling.py``, ``workloads.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import structs

from mooring.advisor.policies import policies_of
from mooring.advisor.policies.references import References
from mooring.advisor.simulate.admission import Admission
from mooring.advisor.simulate.claims import Claims
from mooring.advisor.simulate.clock import VirtualClock
from mooring.advisor.simulate.evictions import Budgets, Drains, TaintEvictions
from mooring.advisor.simulate.identical_pending_pods import IdenticalPendingPods
from mooring.advisor.simulate.node_pools import Autoscaler
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.pods import SimulatedPod, SimulationRecord, Workload, uid_of
from mooring.advisor.simulate.time_passing import StartingPods
from mooring.advisor.simulate.workloads import Workloads
from mooring.advisor.snapshot import Snapshot, engine
from mooring.advisor.snapshot.namespace_rules import NamespaceRules
from mooring.advisor.snapshot.objects import latest_timestamp
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.api.resource_v1 import ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.states import has_ended
from mooring.constraints.annotations import without_bridge
from mooring.scheduler.facade import (
    DEFAULT_SCHEDULER,
    OTHER_KINDS,
    POD_DELETED,
    SchedulingQueue,
    classify_node_change,
    object_key,
    on_node,
)
from mooring.scheduler.framework import Action, ClusterEvent, Kind

_POD_ADDED = ClusterEvent(Kind.ASSIGNED_POD, Action.ADD)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a simulation: the current step, the numbers of running and pending pods, and the virtual time."""

    doing: str
    running: int
    waiting: int
    seconds: float


class World:
    """A simulated cluster: nodes, pods, workloads and other objects. `revision` rises with every change."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        seed: int,
        record: Callable[[VirtualClock], SimulationRecord] = SimulationRecord,
    ) -> None:
        snapshot = _with_uids(snapshot)
        self.settings = settings
        self.clock = VirtualClock(latest_timestamp(snapshot))
        self.engine = engine(
            snapshot,
            profiles=settings.profiles,
            features=settings.features,
            registry=settings.registry,
            seed=seed,
            workload=settings.workload,
        )
        # Rejected pods wait their whole backoff: no attempt takes so long that a pod could be tried early.
        self.queue = SchedulingQueue(
            self.engine.profiles, self.clock, backoffs=settings.backoffs, pop_from_backoff=False
        )
        self.lines = IdenticalPendingPods(self.queue, self.engine.profiles.values())
        rules = NamespaceRules.from_snapshot(snapshot, settings.admission, self.clock.now)
        self.admission = Admission(settings.admission, self.engine.cluster, self.clock, rules)
        self.budgets = Budgets(self.engine)
        self.claims = Claims(self)
        self.workloads = Workloads(self)
        self.taints = TaintEvictions(self)
        self.drains = Drains(self)
        self.starting = StartingPods(self, settings.start_time)
        self.autoscaler = Autoscaler(self, settings.pools)
        self.record = record(self.clock)
        self.pods: dict[str, SimulatedPod] = {}
        """All existing pods, by key."""
        self.taken: set[tuple[str, str]] = set()
        """Namespaces and names that pods have."""
        self.running = 0
        """The number of pods with a node."""
        self.revision = 0
        """A number that rises with every change."""
        self._node_versions = 0
        self._load(snapshot)

    def _load(self, snapshot: Snapshot) -> None:
        for obj in (*snapshot.all(PriorityClass), *snapshot.all(ResourceClaimTemplate)):
            self.engine.put(obj)
        for kind in snapshot.kinds():
            self.admission.infer_missing(snapshot.all(kind))
        self.admission.policies = policies_of(snapshot)
        self.admission.references = References(snapshot)
        self.workloads.load(snapshot)
        for given in snapshot.all(Pod):
            pod = without_bridge(given)
            if has_ended(pod):
                continue
            if not pod.spec.scheduler_name:  # no server has seen it yet
                pod = structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))
            found = SimulatedPod(pod, None, node=pod.spec.node_name, is_ready=is_ready(pod))
            self.pods[found.key] = found
            self.taken.add((pod.metadata.namespace, pod.metadata.name))
            self.running += bool(found.node)
            self.workloads.adopt_pod(found)
        self.workloads.infer_replica_sets()
        for budget in snapshot.all(PodDisruptionBudget):
            self.budgets.put(budget)
        for found in self.pods.values():
            self.budgets.add_pod(found)

    def begin(self, *, keep_pending: bool) -> None:
        """Delete terminating pods and those of missing nodes; unless `keep_pending`, queue pods and reconcile."""
        for pod in list(self.pods.values()):
            if pod.pod.metadata.deletion_timestamp is not None:
                self.delete(pod, recreate=True)
            elif pod.node and self.engine.cluster.node(pod.node) is None:  # as garbage collection of pods does
                self.evict(pod, "its node does not exist")
            elif not pod.node and not keep_pending:
                self._queue_pod(pod)
        if not keep_pending:
            self.workloads.reconcile_all()
        for info in list(self.engine.cluster.node_infos()):
            self.taints.node_changed(info.node)

    def progress(self, doing: str) -> Progress:
        return Progress(doing, self.running, len(self.pods) - self.running, self.clock.monotonic())

    def create(self, pod: Pod, owner: Workload | None, slot: str = "", instead_of: SimulatedPod | None = None) -> None:
        """Add an admitted pod; queue it, or place it if it has a node. Constraint annotations count as its spec."""
        pod = without_bridge(pod)
        if pod.spec.resource_claims or pod.spec.volumes:
            pod = self.claims.prepare_pod(pod)
        made = SimulatedPod(pod, owner, created_at=self.clock.monotonic(), slot=slot)
        if instead_of is not None:
            made.replaces, instead_of.successor = instead_of.name, made
        self.pods[made.key] = made
        self.taken.add((pod.metadata.namespace, pod.metadata.name))
        self.revision += 1
        if owner is not None:
            self.workloads.add_pod(owner, made)
        self.budgets.add_pod(made)
        if pod.spec.node_name:
            self.place(made, pod.spec.node_name)
        else:
            self._queue_pod(made)

    def restore(self, pod: SimulatedPod) -> None:
        """Add a pod from a checkpoint: on its recorded node, or newly queued if it has none."""
        self.pods[pod.key] = pod
        self.taken.add((pod.pod.metadata.namespace, pod.pod.metadata.name))
        self.budgets.add_pod(pod)
        if pod.node:
            self.engine.assume(pod.pod, pod.node)
            self.running += 1
            self.taints.schedule_eviction(pod)
        else:
            self._queue_pod(pod)

    def _queue_pod(self, pod: SimulatedPod) -> None:
        name = pod.pod.spec.scheduler_name
        if name in self.engine.profiles:
            self.queue.add(pod.pod)
        else:
            pod.message = f"waits for the scheduler {name}, which is not simulated"

    def message_of(self, pod: SimulatedPod) -> str:
        """Return why a pod is pending; for one of a group of identical pods, the message of the group's first."""
        return self.pods[self.lines.first_in_group(pod.key)].message

    def place(self, pod: SimulatedPod, node: str) -> None:
        """Place a pod on a node, where it becomes ready later, and wake queued pods that were waiting for it."""
        self.engine.assume(pod.pod, node)
        pod.node, pod.placed_at, pod.message = node, self.clock.monotonic(), ""
        self.running += 1
        self.revision += 1
        self.record.record_placed(pod)
        self.starting.begin(pod)
        if self.queue.has_unschedulable:
            self.queue.move(_POD_ADDED, None, pod.pod)
        self.taints.schedule_eviction(pod)
        owner = pod.owner
        if owner is not None and pod.slot and owner.kind == "StatefulSet" and len(owner.pods) < owner.wanted:
            self.workloads.reconcile(owner)

    def delete(self, pod: SimulatedPod, *, recreate: bool) -> None:
        """Delete a pod at once; with `recreate`, its workload creates another one."""
        was_healthy, node = pod.is_healthy, pod.node
        nominated = self.engine.nominations.node_of(pod.pod)
        self.record.record_removed(pod)
        del self.pods[pod.key]
        meta = pod.pod.metadata
        self.taken.discard((meta.namespace, meta.name))
        self.engine.remove(pod.pod)
        if following := self.lines.remove_pod(pod.key):
            self.pods[following].message = pod.message
        self.queue.delete(pod.pod)
        self.budgets.remove_pod(pod, was_healthy=was_healthy)
        self.admission.rules.release(pod.pod)
        self.revision += 1
        self.running -= bool(node)
        pod.node = ""
        if pod.owner is not None:
            self.workloads.remove_pod(pod.owner, pod)
        self.claims.release_claims(pod)
        if node or nominated:  # the pod for which it had to go is in flight, and must hear of it
            self.queue.move(POD_DELETED, on_node(pod.pod, node or nominated or ""), None)
        if recreate:
            self.workloads.replace_deleted(pod)

    def evict(self, pod: SimulatedPod, cause: str) -> None:
        self.record.record_evicted(pod, cause)
        self.delete(pod, recreate=True)

    def pods_on(self, node: str) -> list[SimulatedPod]:
        info = self.engine.cluster.node(node)
        return [] if info is None else [self.pods[key] for key in info.placed if key in self.pods]

    def put_node(self, node: Node) -> None:
        """Add or update a node; run taint evictions and DaemonSets for it, and wake pending pods that it may help."""
        self._node_versions += 1
        meta = structs.replace(
            node.metadata,
            uid=node.metadata.uid or uid_of("Node", node.metadata.name),
            resource_version=f"simulated-{self._node_versions}",
        )
        node = structs.replace(node, metadata=meta)
        info = self.engine.cluster.node(meta.name)
        old = info.node if info is not None else None
        self.engine.put(node)
        self.revision += 1
        action = Action.ADD if old is None else classify_node_change(old, node)
        if action:
            self.queue.move(ClusterEvent(Kind.NODE, action), old, node)
            self.workloads.node_changed(node)
            self.taints.node_changed(node)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods are deleted, and their workloads replace them."""
        info = self.engine.cluster.node(name)
        if info is None:
            return
        pods = self.pods_on(name)
        self.engine.remove(info.node)
        self.drains.end(name)
        self.revision += 1
        self.queue.move(ClusterEvent(Kind.NODE, Action.DELETE), info.node, None)
        for pod in pods:
            self.evict(pod, "the node was removed")

    def put_object(self, obj: Resource) -> None:
        old = self.engine.cluster.objects(type(obj)).get(object_key(obj.metadata.namespace, obj.metadata.name))
        self.admission.rules.put(obj)
        self.engine.put(obj)
        self.revision += 1
        if isinstance(obj, PodDisruptionBudget):
            self.budgets.put(obj, self.pods.values())
        kind = OTHER_KINDS.get(type(obj))
        if kind is not None:
            action = Action.ADD if old is None else Action.UPDATE_OTHER
            self.queue.move(ClusterEvent(kind, action), old, obj)

    def remove_object(self, obj: Resource) -> None:
        self.admission.rules.remove(obj)
        self.admission.rules.release(obj)
        self.engine.remove(obj)
        self.revision += 1
        if isinstance(obj, PodDisruptionBudget):
            self.budgets.remove(obj)
        kind = OTHER_KINDS.get(type(obj))
        if kind is not None:
            self.queue.move(ClusterEvent(kind, Action.DELETE), obj, None)


def _with_uids(snapshot: Snapshot) -> Snapshot:
    nodes = [
        structs.replace(node, metadata=structs.replace(node.metadata, uid=uid_of("Node", node.metadata.name)))
        for node in snapshot.all(Node)
        if not node.metadata.uid
    ]
    return snapshot.replace(put=nodes) if nodes else snapshot


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready; one without the condition, as in manifests, counts as ready."""
    found: Sequence[str] = [entry.status for entry in pod.status.conditions if entry.type == "Ready"]
    return found[0] == "True" if found else True
