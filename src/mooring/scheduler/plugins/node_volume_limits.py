"""NodeVolumeLimits: a node can have only so many volumes of a CSI driver, as its CSINode says.

Volumes count once however many pods of the node use them; what is attached still (VolumeAttachment) counts too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import CSINode, StorageClass, VolumeAttachment
from mooring.scheduler.columns.change_log import Reader
from mooring.scheduler.columns.cluster import Cluster, NodeInfo
from mooring.scheduler.columns.shapes import PodInfo
from mooring.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    EventWithHint,
    Handle,
    Kind,
    PluginArguments,
    PreFilterResult,
    QueueingHint,
    Reads,
    Rows,
    Scope,
    Status,
    Verdicts,
)
from mooring.scheduler.volumes import csi
from mooring.scheduler.volumes.claims import uses_claim
from mooring.scheduler.volumes.csi import Attachment

REASON = "node(s) exceed max volume count"
_READ: tuple[type[Resource], ...] = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, VolumeAttachment)


@dataclass(frozen=True, slots=True)
class _Wanted:
    cluster: Cluster
    volumes: frozenset[Attachment]
    missing: str
    """Why the pod cannot run anywhere: a claim that is not there, or not its own."""


class NodeVolumeLimits:
    name = "NodeVolumeLimits"
    scope = Scope.POD
    reads = Reads.NODE | Reads.PODS

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._attached = _Attached(handle.cluster)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[_Wanted] | Status:
        if not any(csi.is_counted(volume) for volume in pod.pod.spec.volumes):
            return SKIP
        missing: list[str] = []
        volumes = frozenset(csi.attachments(pod.pod, cluster, missing))
        # What is missing is told node by node: VolumeBinding refuses the pod as a whole, and knows better words.
        return PreFilterResult(_Wanted(cluster, volumes, missing[0] if missing else ""))

    def filter(self, state: _Wanted, rows: Rows) -> Verdicts:
        codes = np.full(state.cluster.capacity, -1 if state.missing else 0, np.int32)
        if state.volumes and not state.missing:
            numbers = range(state.cluster.capacity) if isinstance(rows, slice) else rows.tolist()
            nodes = state.cluster.objects(CSINode)
            for row in numbers:
                info = state.cluster.nodes[row]
                node = None if info is None else nodes.get(info.name)
                if info is not None and node is not None:
                    codes[row] = self._exceeds(state.volumes, info, node)
        return Verdicts(codes[rows], lambda _: (state.missing or REASON,))

    def _exceeds(self, volumes: frozenset[Attachment], info: NodeInfo, node: CSINode) -> bool:
        limits = _limits(node)
        if not limits:
            return False
        attached = self._attached.on(info, node)
        wanted = {(volume.driver, volume.handle) for volume in volumes if volume.counts_on(node)}
        there = Counter(driver for driver, _ in attached)
        new = Counter(driver for driver, _ in wanted - attached)
        return any(
            there[driver] + number > limits.get(driver, there[driver] + number) for driver, number in new.items()
        )

    def events_to_register(self) -> Sequence[EventWithHint]:
        return (
            EventWithHint(ClusterEvent(Kind.CSI_NODE, Action.ADD | Action.UPDATE), _after_csi_node_change),
            EventWithHint(ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE), _after_pod_deletion),
            EventWithHint(ClusterEvent(Kind.PERSISTENT_VOLUME_CLAIM, Action.ADD), _after_claim_addition),
            EventWithHint(ClusterEvent(Kind.VOLUME_ATTACHMENT, Action.DELETE), _after_detachment),
        )


class _Attached:
    """The CSI volumes of each node, as driver and id; found anew for nodes whose pods have changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reader = Reader(cluster.node_changes, cluster.pod_changes)
        self._revisions: tuple[int, ...] = ()
        self._by_row: dict[int, frozenset[tuple[str, str]]] = {}
        self._elsewise: dict[str, list[Attachment]] = {}

    def on(self, info: NodeInfo, node: CSINode) -> frozenset[tuple[str, str]]:
        self._catch_up()
        found = self._by_row.get(info.row)
        if found is None:
            volumes = list(self._elsewise.get(info.name, ()))
            for pod in info.pods:
                if pod.spec.volumes:
                    volumes += csi.attachments(pod, self._cluster, [])
            found = frozenset((volume.driver, volume.handle) for volume in volumes if volume.counts_on(node))
            self._by_row[info.row] = found
        return found

    def _catch_up(self) -> None:
        revisions = tuple(self._cluster.revision(kind) for kind in _READ)
        changed = self._reader.changes().either
        if revisions != self._revisions or changed is None:
            self._revisions = revisions
            self._by_row.clear()
            self._elsewise = self._attachments()
            return
        for row in changed.tolist():
            self._by_row.pop(row, None)

    def _attachments(self) -> dict[str, list[Attachment]]:
        """By node, what VolumeAttachments say."""
        found: dict[str, list[Attachment]] = {}
        volumes = self._cluster.objects(PersistentVolume)
        for entry in self._cluster.objects(VolumeAttachment).values():
            volume = volumes.get(entry.spec.source.persistent_volume_name or "")
            attachment = None if volume is None else csi.of_volume(volume)
            if attachment is not None:
                found.setdefault(entry.spec.node_name, []).append(attachment)
        return found


def _limits(node: CSINode) -> dict[str, int]:
    """The most volumes that a node can have, by driver."""
    limited = ((driver.name, driver.allocatable) for driver in node.spec.drivers)
    return {name: limit.count for name, limit in limited if limit is not None and limit.count is not None}


def _after_csi_node_change(_pod: Pod, old: CSINode | None, new: CSINode | None) -> QueueingHint:
    """A driver's limit must have risen, or a driver have come or gone."""
    if old is None or new is None:
        return QueueingHint.QUEUE
    before, after = _limits(old), _limits(new)
    risen = any(name not in after or after[name] > count for name, count in before.items())
    return QueueingHint.of(risen or csi.migrated_plugins(old) != csi.migrated_plugins(new))


def _after_pod_deletion(pod: Pod, old: Pod | None, _new: Pod | None) -> QueueingHint:
    """The pod that is gone must have had a volume; of which driver, nobody may know any more."""
    has_volume = old is not None and any(csi.is_counted(volume) for volume in old.spec.volumes)
    return QueueingHint.of(has_volume and any(csi.is_counted(volume) for volume in pod.spec.volumes))


def _after_claim_addition(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> QueueingHint:
    return QueueingHint.of(new is not None and uses_claim(pod, new))


def _after_detachment(pod: Pod, _old: VolumeAttachment | None, _new: VolumeAttachment | None) -> QueueingHint:
    return QueueingHint.of(any(csi.is_counted(volume) for volume in pod.spec.volumes))
