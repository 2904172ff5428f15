"""Find the CSI driver and the id of a volume, to count volumes per node.

Volumes of former in-tree drivers count for the CSI driver that replaced them, on nodes whose CSINode says so in an
annotation. Called by ``attached.py``.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod, Volume
from mooring.api.storage_v1 import CSINode, StorageClass
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
