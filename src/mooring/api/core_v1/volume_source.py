"""Where the bytes of a volume live: the sources that pods and PersistentVolumes have in common.

Many come in two shapes, because a pod's secret is in its own namespace and a PersistentVolume's in any. Most in-tree
sources are deprecated in favour of CSI; Mooring keeps them, and its scheduler looks at the few it needs.
Read next: ``volume.py`` for PersistentVolumes and claims, ``pod_volume.py`` for what only pods have.
"""

from msgspec import field

from mooring.api.base import Int32, Object, required
from mooring.api.core_v1.references import LocalObjectReference, ObjectReference, SecretReference


class HostPathVolumeSource(Object):
    """A file or directory of the node."""

    path: str = required(str)
    """The path on the node."""
    type: str | None = None
    """What must be there or is created: Directory, DirectoryOrCreate, File, FileOrCreate, Socket and so on."""


class LocalVolumeSource(Object):
    """A disk or directory of one node, whose PersistentVolume names the node."""

    path: str = required(str)
    """The path of the directory or block device on the node."""
    fs_type: str | None = None
    """The file system to make on a block device."""


class NFSVolumeSource(Object):
    """A directory of an NFS server."""

    server: str = required(str)
    """The name or address of the server."""
    path: str = required(str)
    """The path that the server exports."""
    read_only: bool = False


class GCEPersistentDiskVolumeSource(Object):
    """A disk of Google Compute Engine. Deprecated: CSI serves it."""

    pd_name: str = required(str)
    fs_type: str = ""
    partition: Int32 = 0
    """The partition to mount; 0 for the whole disk."""
    read_only: bool = False
    """Whether it is attached and mounted read-only."""


class AWSElasticBlockStoreVolumeSource(Object):
    """A disk of AWS. Deprecated: CSI serves it."""

    volume_id: str = required(str, name="volumeID")
    """The id of the disk."""
    fs_type: str = ""
    partition: Int32 = 0
    """The partition to mount; 0 for the whole disk."""
    read_only: bool = False


class AzureDiskVolumeSource(Object):
    """A disk of Azure. Deprecated: CSI serves it."""

    disk_name: str = required(str)
    disk_uri: str = required(str, name="diskURI")
    """The address of the disk."""
    caching_mode: str | None = None
    """How the host caches: None, ReadOnly or ReadWrite."""
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None
    """Shared, Dedicated or Managed."""


class AzureFileVolumeSource(Object):
    """A file share of Azure. Deprecated: CSI serves it."""

    secret_name: str = required(str)
    """The Secret with the account's name and key."""
    share_name: str = required(str)
    read_only: bool = False


class AzureFilePersistentVolumeSource(AzureFileVolumeSource):
    """A file share of Azure. Deprecated: CSI serves it."""

    secret_namespace: str | None = None
    """The namespace of the Secret; the pod's when absent."""


class _ISCSIVolume(Object):
    """An iSCSI disk, without its Secret."""

    target_portal: str = required(str)
    """The address of the portal."""
    iqn: str = required(str)
    """The qualified name of the target."""
    lun: Int32 = required(int)
    """The number of the logical unit."""
    iscsi_interface: str = ""
    """The interface that is used; default when absent."""
    fs_type: str = ""
    read_only: bool = False
    portals: list[str] = []
    """Addresses of further portals."""
    chap_auth_discovery: bool = False
    """Whether discovery authenticates by CHAP."""
    chap_auth_session: bool = False
    """Whether the session authenticates by CHAP."""
    initiator_name: str | None = None


class ISCSIVolumeSource(_ISCSIVolume):
    """An iSCSI disk."""

    secret_ref: LocalObjectReference | None = None
    """The Secret for CHAP."""


class ISCSIPersistentVolumeSource(_ISCSIVolume):
    """An iSCSI disk."""

    secret_ref: SecretReference | None = None
    """The Secret for CHAP."""


class GlusterfsVolumeSource(Object):
    """A Glusterfs volume. Deprecated."""

    endpoints: str = required(str)
    """The Endpoints object that lists the servers."""
    path: str = required(str)
    read_only: bool = False


class GlusterfsPersistentVolumeSource(GlusterfsVolumeSource):
    """A Glusterfs volume. Deprecated."""

    endpoints_namespace: str | None = None
    """The namespace of the Endpoints object; the claim's when absent."""


class _RBDVolume(Object):
    """A block device of Ceph, without its Secret."""

    monitors: list[str] = required(list)
    """The addresses of the monitors."""
    image: str = required(str)
    fs_type: str = ""
    """The file system of the device."""
    pool: str = ""
    """The pool of the image; rbd when absent."""
    user: str = ""
    """The Ceph user; admin when absent."""
    keyring: str = ""
    """The path of the user's key ring."""
    read_only: bool = False


class RBDVolumeSource(_RBDVolume):
    """A block device of Ceph. Deprecated."""

    secret_ref: LocalObjectReference | None = None
    """The Secret with the user's key; it wins over the key ring."""


class RBDPersistentVolumeSource(_RBDVolume):
    """A block device of Ceph. Deprecated."""

    secret_ref: SecretReference | None = None
    """The Secret with the user's key; it wins over the key ring."""


class _CephFSVolume(Object):
    """A file system of Ceph, without its Secret."""

    monitors: list[str] = required(list)
    """The addresses of the monitors."""
    path: str = ""
    """The directory to mount; / when absent."""
    user: str = ""
    """The Ceph user; admin when absent."""
    secret_file: str = ""
    """The path of the user's key ring."""
    read_only: bool = False


class CephFSVolumeSource(_CephFSVolume):
    """A file system of Ceph. Deprecated."""

    secret_ref: LocalObjectReference | None = None
    """The Secret with the user's key; it wins over the key ring."""


class CephFSPersistentVolumeSource(_CephFSVolume):
    """A file system of Ceph. Deprecated."""

    secret_ref: SecretReference | None = None
    """The Secret with the user's key; it wins over the key ring."""


class _FlexVolume(Object):
    """A volume of an executable driver, without its Secret."""

    driver: str = required(str)
    fs_type: str = ""
    read_only: bool = False
    options: dict[str, str] = {}
    """Further options of the driver."""


class FlexVolumeSource(_FlexVolume):
    """A volume of an executable driver. Deprecated: use CSI."""

    secret_ref: LocalObjectReference | None = None
    """The Secret that the driver gets."""


class FlexPersistentVolumeSource(_FlexVolume):
    """A volume of an executable driver. Deprecated: use CSI."""

    secret_ref: SecretReference | None = None
    """The Secret that the driver gets."""


class _CinderVolume(Object):
    """A disk of OpenStack, without its Secret."""

    volume_id: str = required(str, name="volumeID")
    """The id of the disk."""
    fs_type: str = ""
    read_only: bool = False


class CinderVolumeSource(_CinderVolume):
    """A disk of OpenStack. Deprecated: CSI serves it."""

    secret_ref: LocalObjectReference | None = None
    """The Secret with the OpenStack credentials."""


class CinderPersistentVolumeSource(_CinderVolume):
    """A disk of OpenStack. Deprecated: CSI serves it."""

    secret_ref: SecretReference | None = None
    """The Secret with the OpenStack credentials."""


class FlockerVolumeSource(Object):
    """A dataset of Flocker. Deprecated."""

    dataset_name: str = ""
    """The name of the dataset; deprecated in favour of its id."""
    dataset_uuid: str = field(default="", name="datasetUUID")
    """The id of the dataset."""


class FCVolumeSource(Object):
    """A Fibre Channel disk."""

    target_wwns: list[str] = field(default_factory=list, name="targetWWNs")
    """The world wide names of the targets."""
    lun: Int32 | None = None
    """The number of the logical unit."""
    fs_type: str = ""
    read_only: bool = False
    wwids: list[str] = []
    """World wide identifiers, instead of targets and number."""


class VsphereVirtualDiskVolumeSource(Object):
    """A disk of vSphere. Deprecated: CSI serves it."""

    volume_path: str = required(str)
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = field(default="", name="storagePolicyID")


class QuobyteVolumeSource(Object):
    """A volume of Quobyte. Deprecated."""

    registry: str = required(str)
    """The addresses of the registries, separated by commas."""
    volume: str = required(str)
    read_only: bool = False
    user: str = ""
    """The user to mount as."""
    group: str = ""
    """The group to mount as."""
    tenant: str = ""
    """The tenant that owns the volume."""


class PhotonPersistentDiskVolumeSource(Object):
    """A disk of the Photon controller. Deprecated."""

    pd_id: str = required(str, name="pdID")
    fs_type: str = ""


class PortworxVolumeSource(Object):
    """A volume of Portworx. Deprecated: CSI serves it."""

    volume_id: str = required(str, name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class _ScaleIOVolume(Object):
    """A volume of ScaleIO, without its Secret."""

    gateway: str = required(str)
    """The address of the gateway."""
    system: str = required(str)
    """The name of the storage system."""
    ssl_enabled: bool = False
    """Whether the gateway is reached by TLS."""
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: str = ""
    """ThickProvisioned or ThinProvisioned."""
    volume_name: str = ""
    fs_type: str = ""
    read_only: bool = False


class ScaleIOVolumeSource(_ScaleIOVolume):
    """A volume of ScaleIO. Deprecated."""

    secret_ref: LocalObjectReference | None = required(lambda: None)
    """The Secret with which to log in."""


class ScaleIOPersistentVolumeSource(_ScaleIOVolume):
    """A volume of ScaleIO. Deprecated."""

    secret_ref: SecretReference | None = required(lambda: None)
    """The Secret with which to log in."""


class _StorageOSVolume(Object):
    """A volume of StorageOS, without its Secret."""

    volume_name: str = ""
    volume_namespace: str = ""
    """The scope of the volume within StorageOS."""
    fs_type: str = ""
    read_only: bool = False


class StorageOSVolumeSource(_StorageOSVolume):
    """A volume of StorageOS. Deprecated."""

    secret_ref: LocalObjectReference | None = None
    """The Secret with which to log in."""


class StorageOSPersistentVolumeSource(_StorageOSVolume):
    """A volume of StorageOS. Deprecated."""

    secret_ref: ObjectReference | None = None
    """The Secret with which to log in."""


class CSIVolumeSource(Object):
    """A volume that a CSI driver makes for one pod."""

    driver: str = required(str)
    read_only: bool | None = None
    fs_type: str | None = None
    """The file system of the volume; the driver's choice when absent."""
    volume_attributes: dict[str, str] = {}
    """Properties that the driver understands."""
    node_publish_secret_ref: LocalObjectReference | None = None
    """The Secret that the driver gets when it mounts the volume."""


class CSIPersistentVolumeSource(Object):
    """A volume that a CSI driver keeps."""

    driver: str = required(str)
    volume_handle: str = required(str)
    """The id by which the driver knows the volume."""
    read_only: bool = False
    """Whether it is attached and mounted read-only."""
    fs_type: str = ""
    volume_attributes: dict[str, str] = {}
    """Properties that the driver understands."""
    controller_publish_secret_ref: SecretReference | None = None
    """The Secret for attaching and detaching."""
    node_stage_secret_ref: SecretReference | None = None
    """The Secret for staging on the node."""
    node_publish_secret_ref: SecretReference | None = None
    """The Secret for mounting."""
    controller_expand_secret_ref: SecretReference | None = None
    """The Secret for growing the volume."""
    node_expand_secret_ref: SecretReference | None = None
    """The Secret for growing the file system on the node."""
