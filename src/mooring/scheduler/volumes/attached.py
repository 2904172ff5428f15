"""Count the volumes of each CSI driver on each node, and their limits, for NodeVolumeLimits.

Both are arrays by row and driver, so that only nodes near a limit are examined. Rows are recounted when their pods
change; rows with an unbound claim also when a claim or volume changes. A bound claim keeps its volume, and neither is
deleted while a pod uses them.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim
from mooring.api.storage_v1 import CSINode, StorageClass, VolumeAttachment
from mooring.constraints.columns.revisions import NEVER, Reader
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.volumes import csi
from mooring.scheduler.volumes.csi import Attachment

NO_LIMIT = np.iinfo(np.int32).max
_NOTHING: frozenset[tuple[str, str]] = frozenset()


def limits_of(node: CSINode) -> dict[str, int]:
    """Return the maximum number of volumes on a node by driver."""
    limited = ((driver.name, driver.allocatable) for driver in node.spec.drivers)
    return {name: limit.count for name, limit in limited if limit is not None and limit.count is not None}


class AttachedVolumes:
    """The CSI volumes attached to each node, with their number and limit by driver."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reader = Reader(cluster.row_changes)
        self._capacity = 0
        self._settings = self._objects = NEVER
        self._on: dict[int, frozenset[tuple[str, str]]] = {}
        self._unsettled: set[int] = set()
        self._limits: dict[str, NDArray[np.int32]] = {}
        self._counts: dict[str, NDArray[np.int32]] = {}
        self._elsewise: dict[str, list[Attachment]] = {}
        self._are_known = True

    def rows_near_limit(self, volumes: Iterable[Attachment]) -> NDArray[np.intp]:
        """Return the node rows where the given volumes would exceed a limit if none of them is attached already."""
        self._refresh()
        found = np.zeros(self._cluster.capacity, np.bool_)
        for driver, number in Counter(volume.driver for volume in volumes).items():
            if driver in self._limits:
                counts = self._counts.get(driver, np.zeros(1, np.int32))
                found |= counts + np.int64(number) > self._limits[driver]
        return np.flatnonzero(found)

    def on(self, row: int) -> frozenset[tuple[str, str]]:
        """Return driver and volume id of each volume attached to the node of a row."""
        return self._on.get(row, _NOTHING)

    def csi_node(self, row: int) -> CSINode | None:
        info = self._cluster.nodes[row]
        return None if info is None else self._cluster.objects(CSINode).get(info.name)

    def _refresh(self) -> None:
        cluster = self._cluster
        settings = cluster.changed_at(CSINode, StorageClass, VolumeAttachment)
        objects = cluster.changed_at(PersistentVolumeClaim, PersistentVolume)
        changed = self._reader.changes()
        came = objects != self._objects and not self._are_known
        if settings != self._settings or came or changed is None or self._capacity != cluster.capacity:
            self._reset()
            rows: set[int] = set(cluster.row_of.values())
        else:
            rows = set(changed.tolist())
            if objects != self._objects:
                rows |= self._unsettled
        self._settings, self._objects, self._capacity = settings, objects, cluster.capacity
        for row in rows:
            self._recount_row(row)

    def _reset(self) -> None:
        self._on, self._unsettled, self._limits, self._counts, self._elsewise = {}, set(), {}, {}, {}
        self._are_known = True
        volumes = self._cluster.objects(PersistentVolume)
        for entry in self._cluster.objects(VolumeAttachment).values():
            volume = volumes.get(entry.spec.source.persistent_volume_name or "")
            self._are_known = self._are_known and volume is not None
            attachment = None if volume is None else csi.attachment_of(volume)
            if attachment is not None:
                self._elsewise.setdefault(entry.spec.node_name, []).append(attachment)

    def _recount_row(self, row: int) -> None:
        for driver, _ in self._on.pop(row, _NOTHING):
            self._counts[driver][row] -= 1
        self._unsettled.discard(row)
        for limits in self._limits.values():
            limits[row] = NO_LIMIT
        info, node = self._cluster.nodes[row], self.csi_node(row)
        if info is None or node is None:
            return
        for driver, limit in limits_of(node).items():
            self._column(self._limits, driver, NO_LIMIT)[row] = limit
        volumes, missing = list(self._elsewise.get(info.name, ())), list[str]()
        for pod in info.pods:
            if pod.spec.volumes:
                volumes += csi.attachments(pod, self._cluster, missing)
        if missing or any(volume.is_to_be_made for volume in volumes):
            self._unsettled.add(row)
        there = frozenset((volume.driver, volume.handle) for volume in volumes if volume.counts_on(node))
        if there:
            self._on[row] = there
            for driver, _ in there:
                self._column(self._counts, driver, 0)[row] += 1

    def _column(self, columns: dict[str, NDArray[np.int32]], driver: str, value: int) -> NDArray[np.int32]:
        if driver not in columns:
            columns[driver] = np.full(self._cluster.capacity, value, np.int32)
        return columns[driver]
