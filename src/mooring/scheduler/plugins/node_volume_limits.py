"""NodeVolumeLimits: rejects nodes where the pod's volumes would exceed the limit of a CSI driver, which CSINode has.

A volume counts once, however many pods of the node use it; volumes that are still attached (VolumeAttachment) count
too.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.storage_v1 import CSINode, VolumeAttachment
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.volumes import csi
from mooring.scheduler.volumes.claims import after_claim_change
from mooring.scheduler.volumes.csi import AttachedVolumes, Attachment, limits_of

REASON = "node(s) exceed max volume count"


class _PodVolumes(msgspec.Struct, frozen=True):
    """The CSI volumes of a pod, during one scheduling cycle."""

    cluster: Cluster
    volumes: frozenset[Attachment]
    missing: str
    """The reason why the pod can run on no node: a claim that does not exist, or that belongs to another pod."""


class NodeVolumeLimits(fwk.FilterPlugin[_PodVolumes]):
    name = "NodeVolumeLimits"
    filters = fwk.Declaration(fwk.Part.POD)

    def __init__(self, _arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        self._attached = AttachedVolumes(handle.cluster)

    def applies_to(self, spec: PodSpec) -> fwk.Status | None:
        return None if any(map(csi.may_be_attached, spec.volumes)) else fwk.SKIP

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_PodVolumes] | fwk.Status:
        if not any(map(csi.may_be_attached, pod.pod.spec.volumes)):
            return fwk.SKIP
        missing: list[str] = []
        volumes = frozenset(csi.attachments(pod.pod, cluster, missing))
        # Missing claims are reported by node; VolumeBinding rejects the pod as a whole with a better message.
        return fwk.PreFilterResult(_PodVolumes(cluster, volumes, missing[0] if missing else ""))

    def filter(self, state: _PodVolumes, rows: fwk.Rows) -> fwk.Verdicts:
        codes = np.full(state.cluster.capacity, -1 if state.missing else 0, np.int32)
        if state.volumes and not state.missing:
            for row in self._attached.rows_near_limit(state.volumes).tolist():
                codes[row] = self._exceeds_limit(state.volumes, row)
        return fwk.Verdicts(codes[rows], lambda _: (state.missing or REASON,))

    def _exceeds_limit(self, volumes: frozenset[Attachment], row: int) -> bool:
        node = self._attached.csi_node(row)
        if node is None:
            return False
        limits, attached = limits_of(node), self._attached.on(row)
        wanted = {(volume.driver, volume.handle) for volume in volumes if volume.counts_on(node)}
        there = Counter(driver for driver, _ in attached)
        new = Counter(driver for driver, _ in wanted - attached)
        return any(driver in limits and there[driver] + number > limits[driver] for driver, number in new.items())

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        return (
            fwk.wake_on(fwk.Kind.CSI_NODE, fwk.Action.ADD | fwk.Action.UPDATE, _after_csi_node_change),
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, fwk.Action.DELETE, _after_pod_deletion),
            fwk.wake_on(fwk.Kind.PERSISTENT_VOLUME_CLAIM, fwk.Action.ADD, after_claim_change),
            fwk.wake_on(fwk.Kind.VOLUME_ATTACHMENT, fwk.Action.DELETE, _after_detachment),
        )


def _after_csi_node_change(_pod: Pod, old: CSINode | None, new: CSINode | None) -> fwk.QueueingHint:
    if old is None or new is None:
        return fwk.QueueingHint.QUEUE
    before, after = limits_of(old), limits_of(new)
    risen = any(name not in after or after[name] > count for name, count in before.items())
    return fwk.QueueingHint.of(risen or csi.migrated_plugins(old) != csi.migrated_plugins(new))


def _after_pod_deletion(pod: Pod, old: Pod | None, _new: Pod | None) -> fwk.QueueingHint:
    has_volume = old is not None and any(map(csi.may_be_attached, old.spec.volumes))
    return fwk.QueueingHint.of(has_volume and any(map(csi.may_be_attached, pod.spec.volumes)))


def _after_detachment(pod: Pod, _old: VolumeAttachment | None, _new: VolumeAttachment | None) -> fwk.QueueingHint:
    return fwk.QueueingHint.of(any(map(csi.may_be_attached, pod.spec.volumes)))
