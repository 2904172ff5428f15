"""Find the CSI drivers and ids of volumes, and count the volumes attached to each node by driver.

Volumes of former in-tree drivers count for the CSI driver that replaced them, on nodes whose CSINode says so in an
annotation. Counts and limits are arrays by node row and driver, so that only nodes near a limit are examined. Rows are
recounted when their pods change; rows with an unbound claim also when a claim or volume changes, because a bound claim
keeps its volume, and neither is deleted while a pod uses them. Called by ``plugins/node_volume_limits.py``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod, Volume
from mooring.api.storage_v1 import CSINode, StorageClass, VolumeAttachment
from mooring.constraints.columns.revisions import NEVER, Reader
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.volumes import claims

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_Source: TypeAlias = Volume | PersistentVolumeSpec


class Attachment(msgspec.Struct, frozen=True):
    """A volume as its CSI driver identifies it: driver and volume id."""

    driver: str
    handle: str
    migrated_from: str = ""
    """The in-tree driver that the volume is written for; it counts only where CSI replaced that driver."""
    is_to_be_made: bool = False
    """Whether the volume is not provisioned yet."""

    def counts_on(self, node: CSINode | None) -> bool:
        """Return whether the volume counts for the CSI driver on a node."""
        return not self.migrated_from or self.migrated_from in migrated_plugins(node)


class _InTreeDriver(msgspec.Struct, frozen=True):
    """A former in-tree volume driver, and the CSI driver that replaces it."""

    driver: str
    """The CSI driver that replaces the in-tree driver."""
    source: str
    """The field of a volume that the in-tree driver reads."""
    id_fields: tuple[str, ...]
    """The fields of the source that identify the volume."""

    def volume_id(self, source: _Source) -> str | None:
        """Return the id of a volume of this driver; None for volumes of other drivers."""
        found = getattr(source, self.source)
        return None if found is None else "#".join(getattr(found, name) for name in self.id_fields)


_BUILT_IN: Final[Mapping[str, _InTreeDriver]] = {
    "kubernetes.io/gce-pd": _InTreeDriver("pd.csi.storage.gke.io", "gce_persistent_disk", ("pd_name",)),
    "kubernetes.io/aws-ebs": _InTreeDriver("ebs.csi.aws.com", "aws_elastic_block_store", ("volume_id",)),
    "kubernetes.io/azure-disk": _InTreeDriver("disk.csi.azure.com", "azure_disk", ("disk_uri",)),
    "kubernetes.io/azure-file": _InTreeDriver("file.csi.azure.com", "azure_file", ("secret_name", "share_name")),
    "kubernetes.io/cinder": _InTreeDriver("cinder.csi.openstack.org", "cinder", ("volume_id",)),
    "kubernetes.io/vsphere-volume": _InTreeDriver("csi.vsphere.vmware.com", "vsphere_volume", ("volume_path",)),
    "kubernetes.io/portworx-volume": _InTreeDriver("pxd.portworx.com", "portworx_volume", ("volume_id",)),
}


def migrated_plugins(node: CSINode | None) -> frozenset[str]:
    """Return the in-tree drivers that CSI drivers have replaced on a node."""
    names = "" if node is None else node.metadata.annotations.get(MIGRATED_PLUGINS, "")
    return frozenset(filter(None, names.split(",")))


def may_be_attached(volume: Volume) -> bool:
    """Return whether a volume of a pod may be a CSI volume, which is attached to the node."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or _in_tree_attachment(volume) is not None
    )


def attachments(pod: Pod, cluster: Cluster, missing: list[str]) -> Iterator[Attachment]:
    """Yield the CSI volumes of a pod; append an error to `missing` for each claim that is absent or another pod's."""
    known = cluster.objects(PersistentVolumeClaim)
    for volume in pod.spec.volumes:
        name = claims.claim_name(pod, volume)
        if name is None:
            found = _in_tree_attachment(volume)
        else:
            key = object_key(pod.metadata.namespace, name)
            claim = known.get(key)
            if claim is None:
                missing.append(f"looking up PVC {key}: {claims.claim_not_found(name)}")
                continue
            foreign = claims.ownership_problem(pod, claim) if volume.ephemeral is not None else None
            if foreign is not None:
                missing.append(foreign)
                continue
            found = _attachment_of_claim(claim, cluster)
        if found is not None:
            yield found


def attachment_of(volume: PersistentVolume) -> Attachment | None:
    """Return driver and volume id of a CSI volume or a migrated in-tree one; None for other volumes."""
    source = volume.spec.csi
    if source is not None:
        return Attachment(source.driver, source.volume_handle)
    return _in_tree_attachment(volume.spec)


def _attachment_of_claim(claim: PersistentVolumeClaim, cluster: Cluster) -> Attachment | None:
    name = claim.spec.volume_name
    volume = cluster.objects(PersistentVolume).get(name) if name else None
    if volume is not None:
        return attachment_of(volume)
    storage_class = cluster.objects(StorageClass).get(claims.class_of(claim))
    if storage_class is None or not storage_class.provisioner:
        return None
    # A name that no driver gives, so that it is no volume that is there already.
    handle = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
    built_in = _BUILT_IN.get(storage_class.provisioner)
    if built_in is not None:
        return Attachment(built_in.driver, handle, storage_class.provisioner, is_to_be_made=True)
    return Attachment(storage_class.provisioner, handle, is_to_be_made=True)


def _in_tree_attachment(source: _Source) -> Attachment | None:
    for name, built_in in _BUILT_IN.items():
        handle = built_in.volume_id(source)
        if handle is not None:
            return Attachment(built_in.driver, handle, name)
    return None


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
            attachment = None if volume is None else attachment_of(volume)
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
            self._get_or_add_column(self._limits, driver, NO_LIMIT)[row] = limit
        volumes, missing = list(self._elsewise.get(info.name, ())), list[str]()
        for pod in info.pods:
            if pod.spec.volumes:
                volumes += attachments(pod, self._cluster, missing)
        if missing or any(volume.is_to_be_made for volume in volumes):
            self._unsettled.add(row)
        there = frozenset((volume.driver, volume.handle) for volume in volumes if volume.counts_on(node))
        if there:
            self._on[row] = there
            for driver, _ in there:
                self._get_or_add_column(self._counts, driver, 0)[row] += 1

    def _get_or_add_column(self, columns: dict[str, NDArray[np.int32]], driver: str, value: int) -> NDArray[np.int32]:
        if driver not in columns:
            columns[driver] = np.full(self._cluster.capacity, value, np.int32)
        return columns[driver]
