"""PersistentVolume and PersistentVolumeClaim: storage that outlives pods, and the wish for some of it."""

from typing import Annotated

from msgspec import field

from mooring.api.base import Object, StateCondition, always, granular, list_map, required
from mooring.api.core_v1 import volume_source as vs
from mooring.api.core_v1.placement import NodeSelector
from mooring.api.core_v1.references import ObjectReference, TypedLocalObjectReference, TypedObjectReference
from mooring.api.meta_v1 import LabelSelector, ObjectMeta, Resource
from mooring.api.quantity import Quantity


class VolumeNodeAffinity(Object):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None
    """The nodes; all when absent."""


class PersistentVolumeSpec(Object):
    """The source, capacity and access of a PersistentVolume."""

    capacity: dict[str, Quantity] = {}
    """How much the volume holds, by resource."""
    gce_persistent_disk: vs.GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: vs.AWSElasticBlockStoreVolumeSource | None = None
    host_path: vs.HostPathVolumeSource | None = None
    """A directory of the node, for tests on a single node."""
    glusterfs: vs.GlusterfsPersistentVolumeSource | None = None
    nfs: vs.NFSVolumeSource | None = None
    rbd: vs.RBDPersistentVolumeSource | None = None
    iscsi: vs.ISCSIPersistentVolumeSource | None = None
    cinder: vs.CinderPersistentVolumeSource | None = None
    cephfs: vs.CephFSPersistentVolumeSource | None = None
    fc: vs.FCVolumeSource | None = None
    flocker: vs.FlockerVolumeSource | None = None
    flex_volume: vs.FlexPersistentVolumeSource | None = None
    azure_file: vs.AzureFilePersistentVolumeSource | None = None
    vsphere_volume: vs.VsphereVirtualDiskVolumeSource | None = None
    quobyte: vs.QuobyteVolumeSource | None = None
    azure_disk: vs.AzureDiskVolumeSource | None = None
    photon_persistent_disk: vs.PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: vs.PortworxVolumeSource | None = None
    scale_io: vs.ScaleIOPersistentVolumeSource | None = field(default=None, name="scaleIO")
    local: vs.LocalVolumeSource | None = None
    storageos: vs.StorageOSPersistentVolumeSource | None = None
    csi: vs.CSIPersistentVolumeSource | None = None
    access_modes: list[str] = []
    """The ways in which the volume can be mounted, such as ReadWriteOnce."""
    claim_ref: Annotated[ObjectReference | None, granular()] = None
    """The claim that the volume is bound to, or reserved for."""
    persistent_volume_reclaim_policy: str = ""
    """What happens to the volume when its claim is gone: Retain, Delete or Recycle."""
    storage_class_name: str = ""
    """The StorageClass of the volume; empty for none."""
    mount_options: list[str] = []
    """Options with which the volume is mounted."""
    volume_mode: str | None = None
    """Filesystem or Block."""
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    """The VolumeAttributesClass of the volume."""


class PersistentVolumeStatus(Object):
    """The state of a PersistentVolume."""

    phase: str = ""
    """Pending, Available, Bound, Released or Failed."""
    message: str = ""
    reason: str = ""
    last_phase_transition_time: str | None = None
    """When the phase last changed."""


class PersistentVolume(Resource):
    """A piece of storage in the cluster."""

    spec: PersistentVolumeSpec = always(PersistentVolumeSpec)
    status: PersistentVolumeStatus = always(PersistentVolumeStatus)


class VolumeResourceRequirements(Object):
    """The requested and maximum storage."""

    limits: dict[str, Quantity] = {}
    """The most that is allowed, by resource."""
    requests: dict[str, Quantity] = {}
    """The least that is needed, by resource."""


class PersistentVolumeClaimSpec(Object):
    """The storage that a claim asks for."""

    access_modes: list[str] = []
    """The ways in which the volume must be mountable."""
    selector: LabelSelector | None = None
    """Chooses volumes by their labels."""
    resources: VolumeResourceRequirements = always(VolumeResourceRequirements)
    volume_name: str = ""
    """The PersistentVolume that the claim is bound to."""
    storage_class_name: str | None = None
    """The StorageClass; the default when absent, none when empty."""
    volume_mode: str | None = None
    """Filesystem or Block."""
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None
    """The VolumeAttributesClass that the volume should have."""


class PersistentVolumeClaimCondition(StateCondition):
    """One aspect of a claim's state, such as Resizing."""

    last_probe_time: str | None = always(lambda: None)


class ModifyVolumeStatus(Object):
    """The progress of the change to another VolumeAttributesClass."""

    target_volume_attributes_class_name: str = ""
    """The class that the volume changes to."""
    status: str = required(str)
    """Pending, InProgress or Infeasible."""


class VolumeHealthCondition(Object):
    """Something that is wrong with a volume."""

    status: str = required(str)
    """The category: Inaccessible, DataLoss or Degraded."""
    reason: str = required(str)
    message: str = ""


class VolumeHealthStatus(Object):
    """The health of a volume as its CSI controller reports it."""

    health_conditions: Annotated[list[VolumeHealthCondition], list_map("status", "reason", patch_key="")] = []
    """The error message; empty if there is none."""
    last_transition_time: str | None = None
    """When the present conditions first appeared."""


class PersistentVolumeClaimStatus(Object):
    """The state of a claim."""

    phase: str = ""
    """Pending, Bound or Lost."""
    access_modes: list[str] = []
    """The ways in which the bound volume can be mounted."""
    capacity: dict[str, Quantity] = {}
    """How much the bound volume holds."""
    conditions: Annotated[list[PersistentVolumeClaimCondition], list_map("type")] = []
    """Aspects of the state, such as a resize that goes on."""
    allocated_resources: dict[str, Quantity] = {}
    """How much is reserved while the volume grows."""
    allocated_resource_statuses: Annotated[dict[str, str], granular()] = {}
    """How far the growth of each resource has come."""
    current_volume_attributes_class_name: str | None = None
    """The VolumeAttributesClass that the volume has now."""
    modify_volume_status: ModifyVolumeStatus | None = None
    health_status: VolumeHealthStatus | None = None


class PersistentVolumeClaim(Resource):
    """A user's wish for storage, bound to a PersistentVolume that fulfils it."""

    spec: PersistentVolumeClaimSpec = always(PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = always(PersistentVolumeClaimStatus)


class PersistentVolumeClaimTemplate(Object):
    """From which claims are made, one for each pod."""

    metadata: ObjectMeta = always(ObjectMeta)
    """Labels and annotations of the claims."""
    spec: PersistentVolumeClaimSpec = required(PersistentVolumeClaimSpec)
