"""Track which claims and disks the placed pods use, for VolumeRestrictions and NodeVolumeLimits.

Updated whenever a pod is placed or removed; a pod without volumes costs almost nothing.
"""

from collections import Counter
from typing import Final

from mooring.api.core_v1 import Pod, Volume
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod, PodObserver, object_key, pod_key

_DISKS: Final = ("gce_persistent_disk", "aws_elastic_block_store", "rbd", "iscsi")


class VolumeUse(PodObserver):
    """An observer of placed pods that counts the claims and disks they use."""

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
        claims = _named_claims(pod)
        self.claims.update(claims)
        if has_disks(pod):
            self.disks.setdefault(node.name, {})[pod_key(pod)] = pod
        elif not claims:
            self._plain = volumes

    def pod_left(self, placed: PlacedPod, node: NodeInfo) -> None:
        pod = placed.pod
        if not pod.spec.volumes or pod.spec.volumes is self._plain:
            return
        for name in _named_claims(pod):
            self.claims[name] -= 1
            if not self.claims[name]:
                del self.claims[name]
        there = self.disks.get(node.name)
        if there is not None and there.pop(pod_key(pod), None) is not None and not there:
            del self.disks[node.name]


def _named_claims(pod: Pod) -> list[str]:
    namespace = pod.metadata.namespace
    found = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [object_key(namespace, source.claim_name) for source in found if source is not None]


def has_disks(pod: Pod) -> bool:
    return any(map(is_disk, pod.spec.volumes))


def is_disk(volume: Volume) -> bool:
    """Return whether a volume may be a disk that cannot be mounted twice on a node."""
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
