"""The volumes of a pod: the sources that only pods have, projections, and how containers mount them."""

from typing import Annotated

from msgspec import field

from mooring.api.base import Int32, Int64, Object, always, list_set, required
from mooring.api.core_v1 import volume_source as vs
from mooring.api.core_v1.references import ObjectFieldSelector, ResourceFieldSelector
from mooring.api.core_v1.volume import PersistentVolumeClaimTemplate
from mooring.api.meta_v1 import LabelSelector
from mooring.api.quantity import Quantity


class EmptyDirVolumeSource(Object):
    """An empty directory that lives as long as the pod."""

    medium: str = ""
    """Where the directory is kept: empty for the node's disk, Memory, or HugePages."""
    size_limit: Quantity | None = None
    """How large it may grow."""
    mode: Int32 | None = None
    """The permission bits of the directory."""


class GitRepoVolumeSource(Object):
    """A clone of a git repository. Deprecated: clone in an init container."""

    repository: str = required(str)
    """The address of the repository."""
    revision: str = ""
    """The commit to check out."""
    directory: str = ""
    """The directory within the volume to clone into."""


class PersistentVolumeClaimVolumeSource(Object):
    """A claim in the pod's namespace."""

    claim_name: str = required(str)
    read_only: bool = False
    """Whether every mount of it is read-only."""


class KeyToPath(Object):
    """Writes one key of a ConfigMap or Secret to a file."""

    key: str = required(str)
    path: str = required(str)
    """The path of the file within the volume."""
    mode: Int32 | None = None
    """The permission bits of the file."""
    user: Int64 | None = None
    """The owner of the file."""


class SecretVolumeSource(Object):
    """Files made from a Secret."""

    secret_name: str = ""
    items: list[KeyToPath] = []
    """The keys to write; all when empty."""
    default_mode: Int32 | None = None
    """The permission bits of files that give none."""
    optional: bool | None = None
    """Whether the Secret or its keys may be missing."""
    default_user: Int64 | None = None
    """The owner of files that give none."""


class ConfigMapVolumeSource(Object):
    """Files made from a ConfigMap."""

    name: str = ""
    """The name of the ConfigMap."""
    items: list[KeyToPath] = []
    """The keys to write; all when empty."""
    default_mode: Int32 | None = None
    """The permission bits of files that give none."""
    optional: bool | None = None
    """Whether the ConfigMap or its keys may be missing."""
    default_user: Int64 | None = None
    """The owner of files that give none."""


class DownwardAPIVolumeFile(Object):
    """Writes a field of the pod to a file."""

    path: str = required(str)
    """The path of the file within the volume."""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None
    """The permission bits of the file."""
    user: Int64 | None = None
    """The owner of the file."""


class DownwardAPIVolumeSource(Object):
    """Files made from fields of the pod."""

    items: list[DownwardAPIVolumeFile] = []
    """The files."""
    default_mode: Int32 | None = None
    """The permission bits of files that give none."""
    default_user: Int64 | None = None
    """The owner of files that give none."""


class SecretProjection(Object):
    """The part of a projected volume that comes from a Secret."""

    name: str = ""
    items: list[KeyToPath] = []
    """The keys to write; all when empty."""
    optional: bool | None = None
    """Whether the Secret or its keys may be missing."""


class ConfigMapProjection(Object):
    """The part of a projected volume that comes from a ConfigMap."""

    name: str = ""
    """The name of the ConfigMap."""
    items: list[KeyToPath] = []
    """The keys to write; all when empty."""
    optional: bool | None = None
    """Whether the ConfigMap or its keys may be missing."""


class DownwardAPIProjection(Object):
    """The part of a projected volume that comes from fields of the pod."""

    items: list[DownwardAPIVolumeFile] = []
    """The files."""


class ServiceAccountTokenProjection(Object):
    """A token of the pod's service account as a file."""

    audience: str = ""
    """The intended audience of the token; the API server if absent."""
    expiration_seconds: Int64 | None = None
    """How long the token is valid; it is renewed before."""
    path: str = required(str)
    """The path of the file within the volume."""
    user: Int64 | None = None
    """The owner of the file."""


class ClusterTrustBundleProjection(Object):
    """Trust anchors as a file."""

    name: str | None = None
    """The ClusterTrustBundle; excludes the signer."""
    signer_name: str | None = None
    """Chooses all bundles of a signer; excludes the name."""
    label_selector: LabelSelector | None = None
    """Chooses among the signer's bundles."""
    optional: bool | None = None
    """Whether the bundles may be missing."""
    path: str = required(str)
    """The path of the file within the volume."""
    user: Int64 | None = None
    """The owner of the file."""


class PodCertificateProjection(Object):
    """A private key and a certificate for the pod as files."""

    signer_name: str = required(str)
    """The signer that is asked for the certificate."""
    key_type: str = required(str)
    """The kind of key to make, such as ED25519."""
    max_expiration_seconds: Int32 | None = None
    """The longest lifetime of the certificate."""
    credential_bundle_path: str = ""
    """The path of one file with key and chain."""
    key_path: str = ""
    """The path of the key's file."""
    certificate_chain_path: str = ""
    """The path of the chain's file."""
    user_annotations: dict[str, str] = {}
    """Additional annotations for the signer."""
    user: Int64 | None = None
    """The owner of the files."""


class VolumeProjection(Object):
    """One part of a projected volume; exactly one field is set."""

    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = field(default=None, name="downwardAPI")
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Object):
    """Files from several sources in one volume."""

    sources: list[VolumeProjection] = always(list)
    """The parts."""
    default_mode: Int32 | None = None
    """The permission bits of files that give none."""
    default_user: Int64 | None = None
    """The owner of files that give none."""


class EphemeralVolumeSource(Object):
    """A volume with a claim of its own that lives as long as the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Object):
    """The contents of a container image or artifact."""

    reference: str = ""
    pull_policy: str = ""
    """When the image is pulled: Always, Never or IfNotPresent."""


class Volume(Object):
    """A named directory that the pod's containers can mount; exactly one source is set."""

    name: str = required(str)
    """The name of the volume, unique within the pod."""
    host_path: vs.HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    gce_persistent_disk: vs.GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: vs.AWSElasticBlockStoreVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    nfs: vs.NFSVolumeSource | None = None
    iscsi: vs.ISCSIVolumeSource | None = None
    glusterfs: vs.GlusterfsVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    rbd: vs.RBDVolumeSource | None = None
    flex_volume: vs.FlexVolumeSource | None = None
    cinder: vs.CinderVolumeSource | None = None
    cephfs: vs.CephFSVolumeSource | None = None
    flocker: vs.FlockerVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = field(default=None, name="downwardAPI")
    fc: vs.FCVolumeSource | None = None
    azure_file: vs.AzureFileVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    vsphere_volume: vs.VsphereVirtualDiskVolumeSource | None = None
    quobyte: vs.QuobyteVolumeSource | None = None
    azure_disk: vs.AzureDiskVolumeSource | None = None
    photon_persistent_disk: vs.PhotonPersistentDiskVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    portworx_volume: vs.PortworxVolumeSource | None = None
    scale_io: vs.ScaleIOVolumeSource | None = field(default=None, name="scaleIO")
    storageos: vs.StorageOSVolumeSource | None = None
    csi: vs.CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None


class VolumeMount(Object):
    """Mounts a volume into a container."""

    name: str = required(str)
    """The volume."""
    read_only: bool = False
    recursive_read_only: str | None = None
    """Whether mounts below are read-only too: Disabled, IfPossible or Enabled."""
    mount_path: str = required(str)
    """Where the container sees it."""
    sub_path: str = ""
    """The directory within the volume to mount."""
    mount_propagation: str | None = None
    """Whether later mounts are seen on the other side: None, HostToContainer or Bidirectional."""
    sub_path_expr: str = ""
    """As subPath, with environment variables expanded."""
    bind_mount_options: Annotated[list[str], list_set(patch_merge=False)] = []
    """Further options of the mount: noexec, nodev or nosuid."""


class VolumeDevice(Object):
    """Gives a container a raw block device."""

    name: str = required(str)
    """The volume, which must be a claim."""
    device_path: str = required(str)
    """Where the container sees the device."""
