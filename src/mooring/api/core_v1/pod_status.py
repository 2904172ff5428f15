"""What has become of a pod: its phase, conditions, addresses and the state of its containers."""

from typing import Annotated

from msgspec import field

from mooring.api.base import Int32, Int64, Object, StateCondition, always, list_map, list_set, patched_by, required
from mooring.api.core_v1.container import ResourceRequirements
from mooring.api.core_v1.volume import VolumeHealthCondition
from mooring.api.quantity import Quantity


class PodCondition(StateCondition):
    """One aspect of a pod's state, such as PodScheduled or Ready."""

    observed_generation: Int64 = 0
    """The generation of the pod for which the condition was set."""
    last_probe_time: str | None = always(lambda: None)


class ContainerStateWaiting(Object):
    """A container that does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Object):
    """A container that runs."""

    started_at: str | None = always(lambda: None)
    """Since when."""


class ContainerStateTerminated(Object):
    """A container that has ended."""

    exit_code: Int32 = required(int)
    signal: Int32 = 0
    """The signal that ended it."""
    reason: str = ""
    message: str = ""
    """A sentence for people, such as the container's termination message."""
    started_at: str | None = always(lambda: None)
    finished_at: str | None = always(lambda: None)
    """When it ended."""
    container_id: str = field(default="", name="containerID")
    """The id of the container in the container runtime."""


class ContainerState(Object):
    """The state of a container; exactly one field is set, and waiting is meant when none is."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ImageVolumeStatus(Object):
    """The state of a volume made from an image."""

    image_ref: str = required(str)
    """The digest of the image."""


class VolumeStatus(Object):
    """The state of a mounted volume."""

    image: ImageVolumeStatus | None = None
    """The image of the volume, where it has one."""


class VolumeMountStatus(Object):
    """The state of a volume mount."""

    name: str = required(str)
    mount_path: str = required(str)
    """Where the container sees it."""
    read_only: bool = False
    """Whether it is read-only."""
    recursive_read_only: str | None = None
    """Whether mounts below are read-only too."""
    volume_status: VolumeStatus | None = None


class LinuxContainerUser(Object):
    """The identity of a container's first process."""

    uid: Int64 = required(int)
    """The user id."""
    gid: Int64 = required(int)
    """The primary group id."""
    supplemental_groups: list[Int64] = []
    """Further group ids."""


class ContainerUser(Object):
    """The identity of a container's first process, by operating system."""

    linux: LinuxContainerUser | None = None


class ResourceHealth(Object):
    """The health of one device."""

    resource_id: str = required(str, name="resourceID")
    """The id of the device."""
    health: str = ""
    """Healthy, Unhealthy or Unknown."""
    message: str | None = None


class ResourceStatus(Object):
    """The health of the devices of a resource or claim."""

    name: str = required(str)
    """The resource, or claim:name/request."""
    resources: Annotated[list[ResourceHealth], list_map("resourceID", patch_key="")] = []
    """The health of each device."""


class ContainerStatus(Object):
    """The observed state of a container."""

    name: str = required(str)
    """The container."""
    state: ContainerState = always(ContainerState)
    last_state: ContainerState = always(ContainerState)
    ready: bool = required(bool)
    """Whether its readiness probe succeeds."""
    restart_count: Int32 = required(int)
    """How often it was restarted."""
    image: str = required(str)
    """The image that it runs."""
    image_id: str = required(str, name="imageID")
    container_id: str = field(default="", name="containerID")
    """The id of the container in the container runtime."""
    started: bool | None = None
    """Whether it has started and its startup probe has succeeded."""
    allocated_resources: dict[str, Quantity] = {}
    """What the node has set aside for it."""
    resources: ResourceRequirements | None = None
    volume_mounts: Annotated[list[VolumeMountStatus], list_map("mountPath")] = []
    """The state of its volume mounts."""
    user: ContainerUser | None = None
    allocated_resources_status: Annotated[list[ResourceStatus], list_map("name")] = []
    """The health of its devices."""
    stop_signal: str | None = None
    """The signal that ends it."""


class HostIP(Object):
    """An address of the node."""

    ip: str = required(str)


class PodIP(Object):
    """An address of the pod."""

    ip: str = required(str)


class PodResourceClaimStatus(Object):
    """The claim that was made for an entry of the pod's resourceClaims."""

    name: str = required(str)
    """The entry in the pod."""
    resource_claim_name: str | None = None
    """The claim; absent when none was needed."""


class ContainerExtendedResourceRequest(Object):
    """The mapping of a container's extended resource to a request of a claim."""

    container_name: str = required(str)
    resource_name: str = required(str)
    request_name: str = required(str)
    """The request in the claim."""


class PodExtendedResourceClaimStatus(Object):
    """The claim that was made for the pod's extended resources."""

    request_mappings: list[ContainerExtendedResourceRequest] = required(list)
    """Which request stands for which resource."""
    resource_claim_name: str = required(str)


class NodeAllocatableMappedResources(Object):
    """An amount of a node's resource that comes with devices."""

    name: str = required(str)
    """The resource, such as cpu."""
    quantity: Quantity | None = required(lambda: None)
    """The amount for the whole claim."""


class NodeAllocatableOverheadResources(Object):
    """An amount of a node's resource that using devices costs."""

    name: str = required(str)
    """The resource, such as memory."""
    per_pod: Quantity | None = None
    """The amount for each pod."""
    per_container: Quantity | None = None
    """The amount for each container that uses the claim."""


class NodeAllocatableResourceClaimStatus(Object):
    """The node's own resources that a claim gave to the pod."""

    resource_claim_name: str = required(str)
    containers: Annotated[list[str], list_set(patch_merge=False)] = []
    """The containers that use the claim."""
    mapping: Annotated[list[NodeAllocatableMappedResources], list_map("name")] = []
    """What comes with the devices."""
    overhead: Annotated[list[NodeAllocatableOverheadResources], list_map("name")] = []
    """What using the devices costs."""


class PodVolumeHealth(Object):
    """The health of a volume on the pod's node."""

    name: str = required(str)
    """The volume in the pod."""
    health_conditions: Annotated[list[VolumeHealthCondition], list_map("status", "reason", patch_key="")] = []
    """The error message; empty if there is none."""
    last_transition_time: str | None = None
    """When the present conditions first appeared."""


class PodStatus(Object):
    """The observed state of a pod."""

    observed_generation: Int64 = 0
    phase: str = ""
    """Pending, Running, Succeeded, Failed or Unknown."""
    conditions: Annotated[list[PodCondition], list_map("type")] = []
    message: str = ""
    reason: str = ""
    """The reason for the state in CamelCase, such as Evicted."""
    nominated_node_name: str = ""
    """The node that is being cleared for the pod, or on which it is expected."""
    host_ip: str = field(default="", name="hostIP")
    """The address of the node."""
    host_ips: Annotated[list[HostIP], patched_by("ip")] = field(default_factory=list, name="hostIPs")
    """The addresses of the node."""
    pod_ip: str = field(default="", name="podIP")
    """The address of the pod."""
    pod_ips: Annotated[list[PodIP], list_map("ip")] = field(default_factory=list, name="podIPs")
    """The addresses of the pod, at most one of each family."""
    start_time: str | None = None
    """When the node took note of the pod."""
    init_container_statuses: list[ContainerStatus] = []
    """What has become of the init containers."""
    container_statuses: list[ContainerStatus] = []
    """What has become of the containers."""
    qos_class: str = ""
    """Guaranteed, Burstable or BestEffort, from requests and limits."""
    ephemeral_container_statuses: list[ContainerStatus] = []
    """What has become of the ephemeral containers."""
    resize: str = ""
    """Use the conditions instead: how far a resize has come."""
    resource_claim_statuses: Annotated[
        list[PodResourceClaimStatus], list_map("name", strategies=("merge", "retainKeys"))
    ] = []
    """The claims that were made for the pod."""
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: dict[str, Quantity] = {}
    """What the node has set aside for the whole pod."""
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] = []
    """The node's own resources that claims gave to the pod."""
    volume_health: Annotated[list[PodVolumeHealth], list_map("name", patch_key="")] = []
    """The health of the pod's volumes on its node."""
