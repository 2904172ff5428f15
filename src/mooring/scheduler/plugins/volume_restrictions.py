"""VolumeRestrictions: enforces ReadWriteOncePod claims, and disks that cannot be mounted twice on a node."""

from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.api.core_v1 import PersistentVolumeClaim, Pod, PodSpec
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.volumes.claims import after_claim_change, claim_not_found
from mooring.scheduler.volumes.use import VolumeUse, has_disks, is_disk, pods_share_disk

REASON_DISK = "node(s) had no available disk"
REASON_ONE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_REASONS = ("", REASON_DISK, REASON_ONE_POD)
_ONE_POD = "ReadWriteOncePod"


class _PodDisksAndClaims(msgspec.Struct, frozen=True):
    """A pod with disks that cannot be mounted twice, or whose ReadWriteOncePod claim is in use."""

    pod: Pod
    cluster: Cluster
    is_taken: bool
    """Whether a pod on any node uses a ReadWriteOncePod claim of this pod."""


class VolumeRestrictions(fwk.FilterPlugin[_PodDisksAndClaims]):
    name = "VolumeRestrictions"
    filters = fwk.Declaration(fwk.Part.POD)

    def __init__(self, _arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        self._use = VolumeUse(handle.cluster)

    def applies_to(self, spec: PodSpec) -> fwk.Status | None:
        return None if any(each.persistent_volume_claim or is_disk(each) for each in spec.volumes) else fwk.SKIP

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_PodDisksAndClaims] | fwk.Status:
        if not pod.pod.spec.volumes:
            return fwk.SKIP
        taken = False
        known, namespace = cluster.objects(PersistentVolumeClaim), pod.pod.metadata.namespace
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            key = object_key(namespace, volume.persistent_volume_claim.claim_name)
            claim = known.get(key)
            if claim is None:
                return fwk.unresolvable(claim_not_found(volume.persistent_volume_claim.claim_name))
            taken = taken or (_ONE_POD in claim.spec.access_modes and self._use.claims[key] > 0)
        if not taken and not has_disks(pod.pod):
            return fwk.SKIP
        return fwk.PreFilterResult(_PodDisksAndClaims(pod.pod, cluster, taken))

    def filter(self, state: _PodDisksAndClaims, rows: fwk.Rows) -> fwk.Verdicts:
        codes = np.full(state.cluster.capacity, 2 if state.is_taken else 0, np.int32)
        if has_disks(state.pod):
            for name, pods in self._use.disks.items():
                if any(pods_share_disk(state.pod, other) for other in pods.values()):
                    codes[state.cluster.row_of[name]] = 1
        return fwk.Verdicts(codes[rows], lambda code: (_REASONS[code],))

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        return (
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, fwk.Action.DELETE, _after_pod_deletion),
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD),
            fwk.wake_on(fwk.Kind.PERSISTENT_VOLUME_CLAIM, fwk.Action.ADD | fwk.Action.UPDATE, after_claim_change),
        )


def _after_pod_deletion(pod: Pod, old: Pod | None, _new: Pod | None) -> fwk.QueueingHint:
    if old is None:
        return fwk.QueueingHint.SKIP
    shares_claim = old.metadata.namespace == pod.metadata.namespace and not _claims(pod).isdisjoint(_claims(old))
    return fwk.QueueingHint.of(shares_claim or pods_share_disk(pod, old))


def _claims(pod: Pod) -> set[str]:
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return {source.claim_name for source in sources if source is not None}
