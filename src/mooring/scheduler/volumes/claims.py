"""Find the PersistentVolumeClaims of a pod, and which of them are bound.

Called by all volume plugins. Messages are those of Kubernetes' listers and its volume binder.
"""

from collections.abc import Iterator

import msgspec

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from mooring.api.states import controller_of
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.framework import QueueingHint, Status, error, unresolvable
from mooring.scheduler.volumes.assumed import Assumed

STORAGE = "storage"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim that a volume of a pod uses; None if it uses none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    return (name for volume in pod.spec.volumes if (name := claim_name(pod, volume)) is not None)


def after_claim_change(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> QueueingHint:
    """Return the queueing hint for a new or changed claim: QUEUE if the pod uses it."""
    is_near = new is not None and pod.metadata.namespace == new.metadata.namespace
    return QueueingHint.of(is_near and new is not None and new.metadata.name in claim_names(pod))


def class_of(thing: PersistentVolume | PersistentVolumeClaim) -> str:
    """Return the name of the StorageClass of a volume or claim, "" if none; the beta annotation takes precedence."""
    return thing.metadata.annotations.get(_BETA_CLASS, thing.spec.storage_class_name or "")


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def claim_not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def binding_mode_not_set(class_name: str) -> str:
    return f'VolumeBindingMode not set for StorageClass "{class_name}"'


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Return the error if the claim of a pod's ephemeral volume was not created for the pod; None if it was."""
    owner = controller_of(claim.metadata)
    if owner is not None and owner.uid == pod.metadata.uid:
        return None
    of_claim = f"{claim.metadata.namespace}/{claim.metadata.name}"
    of_pod = f"{pod.metadata.namespace}/{pod.metadata.name}"
    return f"PVC {of_claim} was not created for pod {of_pod} (pod is not owner)"


class PodClaims(msgspec.Struct, frozen=True):
    """The bound claims of a pod, and the unbound ones that wait until the pod has a node (WaitForFirstConsumer)."""

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]


def pod_claims(pod: Pod, cluster: Cluster, assumed: Assumed[PersistentVolumeClaim]) -> PodClaims | Status | None:
    """Return the claims of a pod, or None if it has none.

    Return a rejection if the pod cannot be scheduled before a claim changes: it is missing, being deleted, lost, or
    waits for immediate binding.
    """
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    found_any = immediate = False
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        found_any = True
        claim = assumed.get(object_key(pod.metadata.namespace, name))
        problem = _find_claim_problem(pod, volume, name, claim)
        if problem is not None or claim is None:
            return unresolvable(problem or claim_not_found(name))
        if is_bound(claim):
            bound.append(claim)
            continue
        waits = _waits_for_consumer(claim, cluster)
        if isinstance(waits, Status):
            return waits
        if waits and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            immediate = True
    if immediate:
        return unresolvable(UNBOUND_IMMEDIATE)
    return PodClaims(tuple(bound), tuple(delayed)) if found_any else None


def _find_claim_problem(pod: Pod, volume: Volume, name: str, claim: PersistentVolumeClaim | None) -> str | None:
    is_ephemeral = volume.persistent_volume_claim is None
    if claim is None:
        waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return waiting if is_ephemeral else claim_not_found(name)
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return ownership_problem(pod, claim) if is_ephemeral else None


def _waits_for_consumer(claim: PersistentVolumeClaim, cluster: Cluster) -> bool | Status:
    class_name = class_of(claim)
    storage_class = cluster.objects(StorageClass).get(class_name) if class_name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        return error(binding_mode_not_set(class_name))
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
