"""Simulate the workload controllers: create pods through admission, replace deleted ones, and roll out changes.

Steps that controllers take one by one are done here at once. Pods are created by the controllers' own functions
(``pod_creation.py``), and the sizes in a rolling update are the controllers'
(``controllers/workloads/deployment_pace.py``, ``controllers/workloads/stateful_pods.py``).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from mooring.advisor.simulate import pod_creation
from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.pods import SimulatedPod, Workload, suffix_of, uid_of, with_uid
from mooring.advisor.snapshot import Snapshot
from mooring.api import label_selector
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, ReplicaSetStatus, StatefulSet
from mooring.api.base import copy_of
from mooring.api.batch_v1 import Job
from mooring.api.core_v1 import Node, Pod, ReplicationController
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.states import controller_of
from mooring.controllers.workloads import deployment_pace as pace
from mooring.controllers.workloads import stateful_pods
from mooring.controllers.workloads.daemon_nodes import DaemonPlacement
from mooring.controllers.workloads.deployment_replica_sets import build_replica_set, is_same_template

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""
_GENERATED_BASE = 63 - 5
_MAX_PODS = 1_000_000
MakesPods = ReplicaSet | ReplicationController | StatefulSet | Job | DaemonSet


class Workloads:
    """The workloads of a simulated cluster, which create, replace and roll out their pods."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._all: dict[Key, Workload] = {}
        self._deployments: dict[tuple[str, str], Deployment] = {}
        self._sets: dict[tuple[str, str], list[Workload]] = {}
        """ReplicaSets, by namespace and name of their Deployment."""
        self._rolling: dict[tuple[str, str], Deployment] = {}
        """Deployments that have pods of several templates."""
        self._outdated: dict[Key, tuple[Workload, list[SimulatedPod]]] = {}
        """StatefulSets and DaemonSets whose template has changed, with their outdated pods."""
        self._daemons: list[Workload] = []
        self._placements: dict[Key, DaemonPlacement] = {}

    def load(self, snapshot: Snapshot) -> None:
        """Load the workloads of a snapshot without pods; the caller passes each pod to `adopt_pod` afterwards."""
        for kind in (ReplicaSet, ReplicationController, StatefulSet, Job, DaemonSet):
            for obj in snapshot.all(kind):
                self._register(pod_creation.workload_of(with_uid(obj, obj.metadata.uid)))  # type: ignore[arg-type] # one of these kinds
        for deployment in snapshot.all(Deployment):
            found = with_uid(deployment, deployment.metadata.uid)
            self._deployments[_key_of(found)] = found
            for owner in self._sets.get(_key_of(found), ()):
                owner.deployment = found
            self._rolling[_key_of(found)] = found

    def adopt_pod(self, pod: SimulatedPod) -> None:
        """Add a pod of the snapshot to its workload; if the snapshot lacks that, infer it from the pod."""
        reference = controller_of(pod.pod.metadata)
        if reference is None or reference.kind == "Node":  # static pods come and go with their node
            return
        key = (reference.kind, pod.pod.metadata.namespace, reference.name)
        owner = self._all.get(key)
        if owner is None:
            owner = self._all[key] = Workload(reference, key[1], template=pod_creation.infer_template(pod.pod))
        if owner.object is None and pod.pod.metadata.deletion_timestamp is None:
            owner.wanted += 1
        pod.owner, pod.slot = owner, pod_creation.slot_of(reference, pod.pod)
        self.add_pod(owner, pod)

    def infer_replica_sets(self) -> None:
        """Create the ReplicaSets of Deployments that the snapshot lacks although it has their pods."""
        for deployment in self._deployments.values():
            if self._sets.get(_key_of(deployment)) or deployment.spec.selector is None:
                continue
            selector = label_selector.from_label_selector(deployment.spec.selector)
            for owner in self._all.values():
                unknown = owner.kind == "ReplicaSet" and owner.object is None and owner.template is not None
                if not unknown or owner.namespace != deployment.metadata.namespace:
                    continue
                if selector.matches(owner.template.metadata.labels):  # type: ignore[union-attr] # it has one
                    self._infer_object(owner, deployment)

    def _infer_object(self, owner: Workload, deployment: Deployment) -> None:
        made = build_replica_set(deployment, [], pod_creation.reference_to(deployment), None)
        meta = structs.replace(made.metadata, name=owner.name, uid=owner.reference.uid)
        owner.object = structs.replace(made, api_version="apps/v1", kind="ReplicaSet", metadata=meta)
        owner.template, owner.deployment = made.spec.template, deployment
        owner.wanted = pace.wanted_replicas(deployment)
        self._sets.setdefault(_key_of(deployment), []).append(owner)

    def list_all(self) -> Iterable[Workload]:
        return self._all.values()

    def find(self, kind: str, namespace: str, name: str) -> Resource | None:
        if kind == "Deployment":
            return self._deployments.get((namespace, name))
        owner = self._all.get((kind, namespace, name))
        return owner.object if owner is not None else None

    def current_workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """Return the workload that creates new pods (of a Deployment, the current ReplicaSet); None if none does."""
        if kind != "Deployment":
            return self._all.get((kind, namespace, name))
        deployment = self._deployments.get((namespace, name))
        return None if deployment is None else self._current_set(deployment, self._sets.get((namespace, name), []))

    def add_pod(self, owner: Workload, pod: SimulatedPod) -> None:
        owner.pods[pod.key] = pod
        if pod.slot:
            owner.by_slot[pod.slot] = pod

    def remove_pod(self, owner: Workload, pod: SimulatedPod) -> None:
        owner.pods.pop(pod.key, None)
        if owner.by_slot.get(pod.slot) is pod:
            del owner.by_slot[pod.slot]

    def put(self, obj: Resource) -> None:
        """Add or update a workload: create, delete or roll out pods."""
        before = self.find(obj.kind, obj.metadata.namespace, obj.metadata.name)
        obj = with_uid(obj, before.metadata.uid if before is not None else "")
        if isinstance(obj, Deployment):
            self._put_deployment(obj)
            return
        if not isinstance(obj, MakesPods):
            raise AssertionError(f"{obj.kind} makes no pods")
        owner = self._all.get((obj.kind, obj.metadata.namespace, obj.metadata.name))
        if owner is None:
            owner = self._register(pod_creation.workload_of(obj))
        else:
            is_changed = owner.template != obj.spec.template
            owner.object, owner.wanted = obj, pod_creation.count_wanted(obj)
            owner.template, owner.prototype, owner.refusal = obj.spec.template, None, ""
            self._placements.pop(owner.key, None)
            if is_changed:
                self._mark_outdated(owner)
        self._world.put_object(obj)
        self.reconcile(owner)

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        """Delete a workload and its pods; return whether it existed."""
        if kind == "Deployment":
            deployment = self._deployments.pop((namespace, name), None)
            self._rolling.pop((namespace, name), None)
            owners = [] if deployment is None else self._sets.pop((namespace, name), [])
        else:
            found = self._all.get((kind, namespace, name))
            owners = [found] if found is not None else []
            deployment = None
        above = owners[0].deployment if owners and kind != "Deployment" else None
        if above is not None:
            self._sets[_key_of(above)].remove(owners[0])
        for owner in owners:
            owner.is_gone = True
            if owner in self._daemons:
                self._daemons.remove(owner)
            self._all.pop(owner.key, None)
            for pod in list(owner.pods.values()):
                self._world.delete(pod, recreate=False)
            if owner.object is not None:
                self._world.remove_object(owner.object)
        if above is not None:  # which creates a new one at once
            self._put_deployment(above)
        return bool(owners) or deployment is not None

    def reconcile(self, owner: Workload) -> None:
        """Create missing pods and delete surplus ones. Raise ScenarioError for more pods than memory may hold."""
        if owner.is_gone:
            return
        if owner.wanted > _MAX_PODS:
            raise ScenarioError(f"{owner.display_name} wants {owner.wanted:,} pods; the limit is {_MAX_PODS:,}")
        if owner.kind == "DaemonSet":
            for info in list(self._world.engine.cluster.node_infos()):
                self._sync_daemon_pod(owner, info.node)
        elif pod_creation.has_slots(owner) and owner.object is not None:
            self._reconcile_slots(owner)
        else:
            self._reconcile_identical(owner)

    def reconcile_all(self) -> None:
        """Create missing and delete surplus pods of every workload."""
        for deployment in list(self._deployments.values()):
            if not self._sets.get(_key_of(deployment)):
                self._put_deployment(deployment)
        for owner in list(self._all.values()):
            if owner.object is not None:
                self.reconcile(owner)

    def retry_refused(self) -> None:
        """Retry creating the pods of workloads whose last pod admission rejected."""
        for owner in list(self._all.values()):
            if owner.refusal:
                self.reconcile(owner)

    def node_changed(self, node: Node) -> None:
        """Create or delete the DaemonSets' pods on a new or changed node."""
        for owner in self._daemons:
            self._sync_daemon_pod(owner, node)

    def replace_deleted(self, pod: SimulatedPod) -> None:
        """Create a replacement for a deleted pod if its workload still wants that many."""
        owner = pod.owner
        if owner is None or owner.is_gone:
            return
        owner.lost.append(pod)
        if owner.kind == "DaemonSet":
            info = self._world.engine.cluster.node(pod.slot)
            if info is not None:
                self._sync_daemon_pod(owner, info.node)
        elif pod_creation.has_slots(owner) and owner.object is None:
            self._create_pod(owner, pod.slot)
        else:
            self.reconcile(owner)
        owner.lost.clear()

    def advance_rollouts(self) -> bool:
        """Take one step of every rolling update; return whether any step was possible."""
        moved = [self._roll_out(deployment) for deployment in list(self._rolling.values())]  # all, not the first
        moved += [self._replace_next(owner, pods) for owner, pods in list(self._outdated.values())]
        return any(moved)

    def _put_deployment(self, deployment: Deployment) -> None:
        self._deployments[_key_of(deployment)] = deployment
        self._rolling[_key_of(deployment)] = deployment
        sets = list(self._sets.get(_key_of(deployment), ()))
        for owner in sets:
            owner.deployment = deployment
        if self._current_set(deployment, sets) is None:
            views = [_as_replica_set(owner) for owner in sets]
            made = build_replica_set(deployment, views, pod_creation.reference_to(deployment), None)
            made.metadata.uid = uid_of("ReplicaSet", made.metadata.namespace, made.metadata.name)
            made = structs.replace(made, api_version="apps/v1", kind="ReplicaSet")
            owner = self._register(pod_creation.workload_of(made))
            owner.deployment = deployment
            owner.wanted = 0
            self._world.put_object(made)
        self._roll_out(deployment)

    def _roll_out(self, deployment: Deployment) -> bool:
        sets = self._sets.get(_key_of(deployment), [])
        new = self._current_set(deployment, sets)
        if new is None or deployment.spec.paused:
            return False
        old = [owner for owner in sets if owner is not new and (owner.wanted or owner.pods)]
        before = [(owner, owner.wanted) for owner in sets]
        if not old:
            self._rolling.pop(_key_of(deployment), None)
            self._resize(new, pace.wanted_replicas(deployment))
        elif not pace.is_rolling(deployment):
            for owner in old:
                self._resize(owner, 0)
            self._resize(new, pace.wanted_replicas(deployment))
        else:
            self._resize(new, pace.compute_new_size(deployment, [_as_replica_set(owner) for owner in sets], new.wanted))
            sizes = pace.compute_old_sizes(deployment, _as_replica_set(new), [_as_replica_set(owner) for owner in old])
            for owner in old:
                self._resize(owner, sizes.get(owner.name, owner.wanted))
        return any(owner.wanted != size for owner, size in before)

    def _mark_outdated(self, owner: Workload) -> None:
        spec = owner.object.spec if isinstance(owner.object, StatefulSet | DaemonSet) else None
        if spec is not None and spec.update_strategy.type != "OnDelete":
            self._outdated[owner.key] = (owner, list(owner.pods.values()))

    def _replace_next(self, owner: Workload, outdated: list[SimulatedPod]) -> bool:
        old = [pod for pod in outdated if owner.pods.get(pod.key) is pod]
        if not old or owner.is_gone:
            self._outdated.pop(owner.key, None)
            return False
        if isinstance(owner.object, StatefulSet):
            return self._replace_in_set(owner, owner.object, set(old))
        if old[-1].node and owner.placed < len(owner.pods):  # replace running pods one by one, others at any time
            return False
        self._world.delete(old[-1], recreate=True)
        return True

    def _replace_in_set(self, owner: Workload, obj: StatefulSet, old: set[SimulatedPod]) -> bool:
        if stateful_pods.is_ordered(obj) and owner.placed < owner.wanted:
            return False
        wanted = stateful_pods.ordinals(obj)
        numbered = ((stateful_pods.parse_ordinal(pod.pod), pod) for pod in owner.pods.values())
        doomed = stateful_pods.find_pods_to_replace(
            obj,
            {number: pod for number, pod in numbered if number in wanted},
            is_outdated=old.__contains__,
            is_available=lambda pod: bool(pod.node),
            at_once=self._world.settings.stateful_pods_at_once,
        )
        for pod in doomed:  # all of them before the first is created again
            self._world.delete(pod, recreate=False)
        owner.lost.extend(doomed)
        self.reconcile(owner)
        return bool(doomed)

    def _resize(self, owner: Workload, size: int) -> None:
        if owner.wanted != size:
            owner.wanted = size
            self.reconcile(owner)

    def _current_set(self, deployment: Deployment, sets: Iterable[Workload]) -> Workload | None:
        template = deployment.spec.template
        same = (owner for owner in sets if owner.template is not None and is_same_template(owner.template, template))
        return next(same, None)

    def _reconcile_identical(self, owner: Workload) -> None:
        surplus = len(owner.pods) - owner.wanted
        if surplus > 0:
            # Delete pending pods first, then the youngest.
            ordered = sorted(owner.pods.values(), key=lambda pod: (bool(pod.node), -(pod.created_at or -1.0)))
            for pod in ordered[:surplus]:
                self._world.delete(pod, recreate=False)
        while len(owner.pods) < owner.wanted:
            if not self._create_pod(owner, ""):
                return
        owner.refusal = ""

    def _reconcile_slots(self, owner: Workload) -> None:
        wanted = list(pod_creation.list_slots(owner))
        names = set(wanted)
        for surplus in [pod for pod in owner.pods.values() if pod.slot not in names]:
            self._world.delete(surplus, recreate=False)
        is_ordered = pod_creation.is_ordered(owner)
        for slot in wanted:
            pod: SimulatedPod | None = owner.by_slot.get(slot)
            if pod is None:
                if not self._create_pod(owner, slot):
                    return
                pod = owner.by_slot[slot]
            if is_ordered and not pod.node:
                break
        owner.refusal = ""

    def _sync_daemon_pod(self, owner: Workload, node: Node) -> None:
        if owner.template is None or owner.object is None:
            return
        placement = self._placements.get(owner.key)
        if placement is None:
            constraints = self._world.settings.features.constraints
            placement = self._placements[owner.key] = DaemonPlacement(owner.template.spec, constraints)
        suitability = placement.evaluate(node)
        pod = owner.by_slot.get(node.metadata.name)
        if pod is None and suitability.should_run:
            self._create_pod(owner, node.metadata.name)
        elif pod is not None and not suitability.may_stay:
            self._world.record.record_evicted(pod, "its DaemonSet does not run there any more")
            self._world.delete(pod, recreate=False)

    def _create_pod(self, owner: Workload, slot: str) -> bool:
        pod = self._admit_pod(owner, slot)
        if pod is None:
            return False
        if isinstance(owner.object, StatefulSet):
            for claim in stateful_pods.build_claims(owner.object, int(slot), owner.reference):
                self._world.claims.create_volume_claim(claim)
        before = next((lost for lost in owner.lost if lost.slot == slot), None)
        if before is not None:
            owner.lost.remove(before)
        self._world.create(pod, owner, slot, before)
        return True

    def _admit_pod(self, owner: Workload, slot: str) -> Pod | None:
        if not slot and owner.prototype is not None:
            pod = self._copy_prototype(owner, owner.prototype)
            refusal = self._world.admission.rules.charge(pod)
            return self._record_rejection(owner, pod, refusal) if refusal else pod
        pod = copy_of(pod_creation.new_pod(owner, slot))
        meta = pod.metadata
        meta.name = meta.name or self._free_name(owner, meta.generate_name)
        refusal = self._world.admission.admit(pod)
        if refusal:
            return self._record_rejection(owner, pod, refusal)
        meta.uid = self._new_uid(owner, meta)
        if not slot:
            owner.prototype = pod
        return pod

    @staticmethod
    def _record_rejection(owner: Workload, pod: Pod, refusal: str) -> None:
        meta = pod.metadata
        owner.refusal = refusal.replace(meta.name, meta.generate_name or meta.name)

    def _copy_prototype(self, owner: Workload, prototype: Pod) -> Pod:
        given = prototype.metadata
        meta = ObjectMeta(
            name=self._free_name(owner, given.generate_name),
            generate_name=given.generate_name,
            namespace=given.namespace,
            labels=given.labels,
            annotations=given.annotations,
            owner_references=given.owner_references,
            creation_timestamp=self._world.clock.timestamp(),
            generation=1,
        )
        meta.uid = self._new_uid(owner, meta)
        return Pod(api_version="v1", kind="Pod", metadata=meta, spec=prototype.spec, status=prototype.status)

    def _free_name(self, owner: Workload, generated: str) -> str:
        while True:
            owner.made += 1
            name = generated[:_GENERATED_BASE] + suffix_of(owner.kind, owner.namespace, owner.name, owner.made)
            if (owner.namespace, name) not in self._world.taken:
                return name

    def _new_uid(self, owner: Workload, meta: ObjectMeta) -> str:
        owner.made += 1
        return uid_of("Pod", meta.namespace, meta.name, owner.made)

    def _register(self, owner: Workload) -> Workload:
        self._all[owner.key] = owner
        above = controller_of(owner.object.metadata) if isinstance(owner.object, ReplicaSet) else None
        if above is not None and above.kind == "Deployment":
            self._sets.setdefault((owner.namespace, above.name), []).append(owner)
        if owner.kind == "DaemonSet":
            self._daemons.append(owner)
        return owner


def _key_of(obj: Resource) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name


def _as_replica_set(owner: Workload) -> ReplicaSet:
    if not isinstance(owner.object, ReplicaSet):
        raise AssertionError(f"{owner.display_name} is no ReplicaSet")
    spec = structs.replace(owner.object.spec, replicas=owner.wanted)
    status = ReplicaSetStatus(replicas=len(owner.pods), available_replicas=owner.placed)
    return structs.replace(owner.object, spec=spec, status=status)
