"""Find the workload of every pod in a snapshot, by an index that is built once."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from mooring.advisor.snapshot.objects import Snapshot
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import Pod, ReplicationController
from mooring.api.meta_v1 import Resource
from mooring.api.states import controller_of
from mooring.controllers.workloads.deployment_replica_sets import find_current_replica_set

WORKLOADS: Mapping[str, type[Resource]] = {
    cls.__name__: cls for cls in (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, ReplicationController, CronJob)
}
OwnerKey = tuple[str, str, str]
"""Kind, namespace and name of an owner."""


class Owners:
    """An index of owners: finds the top workload of a pod, and the pods of a workload."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._pods: dict[OwnerKey, list[Pod]] = defaultdict(list)
        self._top: dict[OwnerKey, OwnerKey] = {}
        for pod in snapshot.all(Pod):
            for key in self._walk_controllers(pod):
                self._pods[key].append(pod)

    def _walk_controllers(self, pod: Pod) -> Iterator[OwnerKey]:
        """Yield the controller of a pod, the controller of that, and so on, as far as they are in the snapshot."""
        obj: Resource | None = pod
        while obj is not None and (reference := controller_of(obj.metadata)) is not None:
            key = (reference.kind, pod.metadata.namespace, reference.name)
            yield key
            obj = self.find(key)

    def key_of(self, obj: Resource) -> OwnerKey | None:
        """Return the kind, namespace and name of the top workload that owns an object; None if it has no controller."""
        reference = controller_of(obj.metadata)
        if reference is None:
            return None
        key = (reference.kind, obj.metadata.namespace, reference.name)
        if key not in self._top:
            parent = self.find(key)
            self._top[key] = (self.key_of(parent) if parent is not None else None) or key
        return self._top[key]

    def find(self, key: OwnerKey) -> Resource | None:
        """Return the workload of a kind, namespace and name; None if the snapshot lacks it or the kind is unknown."""
        cls = WORKLOADS.get(key[0])
        return None if cls is None else self._snapshot.find(cls, key[1], key[2])

    def top_owner_of(self, obj: Resource) -> Resource | None:
        """Return the top workload that owns an object; None if it has no controller, or the snapshot lacks it."""
        key = self.key_of(obj)
        return None if key is None else self.find(key)

    def replica_sets_of(self, deployment: Resource) -> Sequence[ReplicaSet]:
        """Return all ReplicaSets of a Deployment."""
        return self._replica_sets.get((deployment.metadata.namespace, deployment.metadata.name), ())

    def current_replica_set(self, owner: Resource) -> ReplicaSet | None:
        """Return the ReplicaSet with a Deployment's current template; None if there is none, or for other workloads."""
        return find_current_replica_set(owner, self.replica_sets_of(owner)) if isinstance(owner, Deployment) else None

    @cached_property
    def _replica_sets(self) -> Mapping[tuple[str, str], list[ReplicaSet]]:
        found: dict[tuple[str, str], list[ReplicaSet]] = defaultdict(list)
        for each in self._snapshot.all(ReplicaSet):
            reference = controller_of(each.metadata)
            if reference is not None and reference.kind == "Deployment":
                found[each.metadata.namespace, reference.name].append(each)
        return found

    def pods_of(self, owner: Resource) -> Sequence[Pod]:
        """Return all pods of a workload, including those of a Deployment's old ReplicaSets."""
        return self._pods.get((owner.kind, owner.metadata.namespace, owner.metadata.name), ())


def owners_of(snapshot: Snapshot) -> Owners:
    """Return the owners index of a snapshot; it is built on the first call."""
    return snapshot.derive(Owners)
