"""VolumeRestrictions: enforces ReadWriteOncePod claims, and disks that cannot be mounted twice on a node."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from mooring.api.core_v1 import PersistentVolumeClaim, Pod, PodSpec, Volume
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod, PodObserver, object_key, pod_key
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.volumes.claims import after_claim_change, claim_not_found

_DISKS: Final = ("gce_persistent_disk", "aws_elastic_block_store", "rbd", "iscsi")


class VolumeUse(PodObserver):
    """Counts the claims and disks that placed pods use, as an observer of pods that are placed or removed."""

    def __init__(self, cluster: Cluster) -> None:
        self.claims: Counter[str] = Counter()
        """The number of placed pods that use a claim, by "namespace/name"; ephemeral volumes are not counted."""
        self.disks: dict[str, dict[str, Pod]] = {}
        """By node, the pods that use disks which cannot be mounted twice."""
        self._plain: list[Volume] = []
        for info in cluster.node_infos():
            for placed in info.placed.values():
                self.pod_placed(placed, info)
        cluster.observers.append(self)

    def pod_placed(self, placed: PlacedPod, node: NodeInfo) -> None:
        pod = placed.pod
        volumes = pod.spec.volumes
        if not volumes or volumes is self._plain:
            return
        claims = _claim_keys(pod)
        self.claims.update(claims)
        if has_disks(pod):
            self.disks.setdefault(node.name, {})[pod_key(pod)] = pod
        elif not claims:
            self._plain = volumes

    def pod_left(self, placed: PlacedPod, node: NodeInfo) -> None:
        pod = placed.pod
        if not pod.spec.volumes or pod.spec.volumes is self._plain:
            return
        for name in _claim_keys(pod):
            self.claims[name] -= 1
            if not self.claims[name]:
                del self.claims[name]
        there = self.disks.get(node.name)
        if there is not None and there.pop(pod_key(pod), None) is not None and not there:
            del self.disks[node.name]


def _claim_keys(pod: Pod) -> list[str]:
    namespace = pod.metadata.namespace
    found = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [object_key(namespace, source.claim_name) for source in found if source is not None]


def has_disks(pod: Pod) -> bool:
    return any(map(is_disk, pod.spec.volumes))


def is_disk(volume: Volume) -> bool:
    """Return whether a volume is of a type of disk that cannot always be mounted twice on a node."""
    return any(getattr(volume, kind) is not None for kind in _DISKS)


def share_disk(volume: Volume, other: Volume) -> bool:
    """Return whether two volumes are the same disk, mounted in ways that exclude each other."""
    gce, gce_other = volume.gce_persistent_disk, other.gce_persistent_disk
    if gce is not None and gce_other is not None:
        return gce.pd_name == gce_other.pd_name and not (gce.read_only and gce_other.read_only)
    ebs, ebs_other = volume.aws_elastic_block_store, other.aws_elastic_block_store
    if ebs is not None and ebs_other is not None:
        return ebs.volume_id == ebs_other.volume_id
    iscsi, iscsi_other = volume.iscsi, other.iscsi
    if iscsi is not None and iscsi_other is not None:
        return iscsi.iqn == iscsi_other.iqn and not (iscsi.read_only and iscsi_other.read_only)
    rbd, rbd_other = volume.rbd, other.rbd
    if rbd is not None and rbd_other is not None:
        same = (rbd.pool, rbd.image) == (rbd_other.pool, rbd_other.image)
        same = same and not set(rbd.monitors).isdisjoint(rbd_other.monitors)
        return same and not (rbd.read_only and rbd_other.read_only)
    return False


def pods_share_disk(pod: Pod, other: Pod) -> bool:
    return any(share_disk(one, two) for one in pod.spec.volumes for two in other.spec.volumes)


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
    shares_claim = not set(_claim_keys(pod)).isdisjoint(_claim_keys(old))
    return fwk.QueueingHint.of(shares_claim or pods_share_disk(pod, old))
