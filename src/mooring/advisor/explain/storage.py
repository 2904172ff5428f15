"""Look up the claims and volumes of a pod, and the other users of them. Called by ``reasons/`` and ``remedies/``."""

from mooring.advisor.explain.view import View
from mooring.advisor.snapshot import Snapshot
from mooring.api.apps_v1 import StatefulSet
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.simulation import is_simulated
from mooring.api.storage_v1 import CSIDriver, CSINode
from mooring.scheduler.facade import BIND_COMPLETED, SELECTED_NODE, STORAGE, NodeInfo, claim_names, pods_share_disk

_ONE_POD = "ReadWriteOncePod"
_SIMULATED_PROVISIONER = "simulation.mooring.dev/volumes"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_BINDING = (BIND_COMPLETED, SELECTED_NODE, "pv.kubernetes.io/bound-by-controller")
_PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def claims_of(view: View) -> list[PersistentVolumeClaim]:
    """Return the claims of the pod that exist, in the order of its volumes."""
    found = (view.object(PersistentVolumeClaim, name, view.namespace) for name in claim_names(view.pod))
    return [claim for claim in found if claim is not None]


def missing_claims(view: View) -> list[str]:
    """Return the names of the pod's claims that do not exist."""
    names = dict.fromkeys(claim_names(view.pod))
    return [name for name in names if view.object(PersistentVolumeClaim, name, view.namespace) is None]


def volume_of(view: View, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    return view.object(PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None


def size_of(claim: PersistentVolumeClaim) -> str:
    size = claim.spec.resources.requests.get(STORAGE)
    return "no size" if size is None else str(size)


def volume_zones(view: View) -> list[tuple[PersistentVolume, str, list[str]]]:
    """Return the zones in the labels of the pod's volumes: volume, label key and allowed values."""
    found = []
    for claim in claims_of(view):
        volume = volume_of(view, claim)
        if volume is not None:
            labels = volume.metadata.labels
            own = {key: labels[key].split("__") for key in _ZONES if labels.get(key)}
            found += [(volume, key, [value.strip() for value in values]) for key, values in own.items()]
    return found


def volume_terms(volume: PersistentVolume) -> list[NodeSelectorTerm]:
    """Return the terms of a volume's required node affinity."""
    required = volume.spec.node_affinity and volume.spec.node_affinity.required
    return required.node_selector_terms if required else []


def one_pod_holders(view: View) -> list[Pod]:
    """Return the pods that already use one of the pod's ReadWriteOncePod claims."""
    wanted = {claim.metadata.name for claim in claims_of(view) if _ONE_POD in claim.spec.access_modes}
    if not wanted:
        return []
    placed = (each.pod for each in view.engine.cluster.placed_pods())
    return [
        pod
        for pod in placed
        if pod.spec.volumes and pod.metadata.namespace == view.namespace and not wanted.isdisjoint(claim_names(pod))
    ]


def disk_holders(view: View, info: NodeInfo) -> list[Pod]:
    """Return the pods on a node that share a disk with the pod."""
    return [pod for pod in info.pods if pod.spec.volumes and pods_share_disk(view.pod, pod)]


def working_provisioners(snapshot: Snapshot) -> list[str]:
    """Return the provisioners that work: those installed as a CSI driver, and those that have made a volume."""
    found = {each.metadata.name for each in snapshot.all(CSIDriver)}
    found |= {driver.name for each in snapshot.all(CSINode) for driver in each.spec.drivers}
    for volume in snapshot.all(PersistentVolume):
        found.add(volume.metadata.annotations.get(_PROVISIONED_BY, ""))
    if any(is_simulated(each) for each in snapshot.all(Node)):
        found.add(_SIMULATED_PROVISIONER)
    return sorted(found - {""})


def is_numbered(source: Resource, claim: str) -> bool:
    """Return whether a claim comes from a claim template of a StatefulSet."""
    return isinstance(source, StatefulSet) and any(
        claim.startswith(f"{each.metadata.name}-{source.metadata.name}-") for each in source.spec.volume_claim_templates
    )


def ephemeral_volume(pod: Pod, claim: str) -> str | None:
    """Return the generic ephemeral volume of a pod for which a claim was created; None if there is none."""
    names = (each.name for each in pod.spec.volumes if each.ephemeral is not None)
    return next((name for name in names if claim == f"{pod.metadata.name}-{name}"), None)


def without_binding(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return a claim as it was before any controller or scheduler has seen it."""
    found = copy_of(claim)
    found.spec.volume_name = ""
    for name in (*_BINDING, *_PROVISIONERS):
        found.metadata.annotations.pop(name, None)
    found.status = type(found.status)()
    return found
