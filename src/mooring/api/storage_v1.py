"""storage.k8s.io/v1: classes of volumes, CSI drivers and what they can do on which node.

The volume plugins of the scheduler and the volume controllers read these; the volumes themselves are in
``core_v1/volume.py``.
"""

from typing import Annotated, ClassVar

from mooring.api.base import Int32, Int64, Merge, Object, always, atomic, list_map, list_set, required
from mooring.api.core_v1 import PersistentVolumeSpec
from mooring.api.meta_v1 import LabelSelector, Resource
from mooring.api.quantity import Quantity


class TopologySelectorLabelRequirement(Object):
    """The values that one node label may have."""

    key: str = required(str)
    values: list[str] = required(list)
    """The allowed values; one of them is enough."""


class TopologySelectorTerm(Object):
    """A part of the cluster, by the labels of its nodes."""

    __merge__: ClassVar[Merge | None] = atomic()

    match_label_expressions: list[TopologySelectorLabelRequirement] = []
    """What the labels must be; all must hold."""


class StorageClass(Resource):
    """Describes a sort of volumes that can be made on demand."""

    provisioner: str = required(str)
    """Who makes the volumes."""
    parameters: dict[str, str] = {}
    """What the provisioner needs to know."""
    reclaim_policy: str | None = None
    """Delete or Retain: what becomes of a volume when its claim is gone; Delete when not given."""
    mount_options: list[str] = []
    """Options with which the volumes are mounted."""
    allow_volume_expansion: bool | None = None
    """Whether claims may grow."""
    volume_binding_mode: str | None = None
    """Immediate, or WaitForFirstConsumer to choose the volume together with the node of the pod."""
    allowed_topologies: list[TopologySelectorTerm] = []
    """Where volumes may be made; everywhere when not given."""


class VolumeAttachmentSource(Object):
    """The volume to be attached; exactly one of the two is given."""

    persistent_volume_name: str | None = None
    """The PersistentVolume."""
    inline_volume_spec: PersistentVolumeSpec | None = None
    """The volume of a pod, translated to what a PersistentVolume would say."""


class VolumeAttachmentSpec(Object):
    """The volume to attach, and the node to attach it to."""

    attacher: str = required(str)
    """The CSI driver that attaches the volume."""
    source: VolumeAttachmentSource = required(VolumeAttachmentSource)
    node_name: str = required(str)


class VolumeError(Object):
    """An error of attaching or detaching a volume."""

    time: str | None = always(lambda: None)
    """When it went wrong."""
    message: str = ""
    """What went wrong, for people; no secrets."""
    error_code: Int32 | None = None
    """The gRPC code of the error."""


class VolumeAttachmentStatus(Object):
    """The observed state of an attachment: whether the volume is attached."""

    attached: bool = required(bool)
    """Whether the volume is attached; only the attacher sets it."""
    attachment_metadata: dict[str, str] = {}
    """What the attaching gave and mounting needs."""
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(Resource):
    """Asks for a volume to be attached to a node."""

    spec: VolumeAttachmentSpec = required(VolumeAttachmentSpec)
    """The desired state. Immutable."""
    status: VolumeAttachmentStatus = always(VolumeAttachmentStatus)


class TokenRequest(Object):
    """A service account token that a CSI driver needs."""

    audience: str = required(str)
    """The intended audience of the token; the API server if empty."""
    expiration_seconds: Int64 | None = None
    """For how long the token is valid."""


class CSIDriverSpec(Object):
    """The capabilities and requirements of a CSI driver."""

    attach_required: bool | None = None
    """Whether volumes must be attached before they are mounted; true when not given."""
    pod_info_on_mount: bool | None = None
    """Whether the driver wants to know the pod when it mounts."""
    volume_lifecycle_modes: Annotated[list[str], list_set(patch_merge=False)] = []
    """Persistent, Ephemeral or both; Persistent when not given."""
    storage_capacity: bool | None = None
    """Whether the scheduler should look at the capacity that the driver reports."""
    fs_group_policy: str | None = None
    """ReadWriteOnceWithFSType, File or None: whether a volume takes the group of the pod."""
    token_requests: list[TokenRequest] = []
    """Service account tokens that the driver gets when it mounts."""
    requires_republish: bool | None = None
    """Whether the volume is published again from time to time."""
    se_linux_mount: bool | None = None
    """Whether the driver can mount with an SELinux context."""
    node_allocatable_update_period_seconds: Int64 | None = None
    """How often the number of volumes that a node can take is asked for; never when not given."""
    service_account_token_in_secrets: bool | None = None
    """Whether the tokens are passed as secrets and not in the volume context."""
    prevent_pod_scheduling_if_missing: bool | None = None
    """Whether pods that use the driver stay away from nodes without it."""


class CSIDriver(Resource):
    """Registers a CSI driver in the cluster."""

    spec: CSIDriverSpec = required(CSIDriverSpec)


class VolumeNodeResources(Object):
    """The maximum number of volumes on a node."""

    count: Int32 | None = None
    """The most volumes of the driver that the node can use at a time; no limit when not given."""


class CSINodeDriver(Object):
    """A CSI driver on one node."""

    name: str = required(str)
    node_id: str = required(str, name="nodeID")
    """What the driver calls the node."""
    topology_keys: list[str] = always(list)
    """The node labels that say where the driver's volumes can be reached from."""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object):
    """The CSI drivers of a node."""

    drivers: Annotated[list[CSINodeDriver], list_map("name")] = required(list)


class StorageHealthCondition(Object):
    """One thing that is wrong with a driver's storage, seen from a node."""

    status: str = required(str)
    """StorageUnreachable or StorageDegraded."""
    reason: str = required(str)
    message: str = ""
    """The condition as a message for people."""
    access_mode: str | None = None
    """The access mode that is affected; all when not given."""
    volume_mode: str | None = None
    """The volume mode that is affected; both when not given."""
    last_transition_time: str | None = None
    """Since when it is so."""


class StorageHealth(Object):
    """The health of one driver's storage, seen from a node."""

    name: str = required(str)
    """The name of the driver."""
    health_conditions: list[StorageHealthCondition] = []
    """The errors; at most 16."""


class CSINodeStatus(Object):
    """The CSI drivers of a node."""

    storage_health: Annotated[list[StorageHealth], list_map("name", patch_key="")] = []
    """The health of the storage, by driver."""


class CSINode(Resource):
    """The CSI drivers of the node of the same name."""

    spec: CSINodeSpec = required(CSINodeSpec)
    status: CSINodeStatus | None = None


class CSIStorageCapacity(Resource):
    """The available storage of one class in one part of the cluster."""

    node_topology: LabelSelector | None = None
    """The nodes that can reach the storage: an empty selector means all, a missing one none."""
    storage_class_name: str = required(str)
    """The StorageClass that the number is about."""
    capacity: Quantity | None = None
    """How much is left; unknown when not given."""
    maximum_volume_size: Quantity | None = None
    """The largest volume that can be made; unknown when not given."""


class VolumeAttributesClass(Resource):
    """Describes attributes of volumes that a claim can change after the volume was made."""

    driver_name: str = required(str)
    """The CSI driver that understands the parameters; it cannot be changed."""
    parameters: dict[str, str] = {}
    """The attributes; they cannot be changed, a claim chooses another class instead."""
