"""Node: a machine that runs pods."""

from typing import Annotated

from msgspec import field

from mooring.api.base import Int32, Int64, Object, StateCondition, always, list_map, list_set, required
from mooring.api.core_v1.placement import Taint
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity


class ConfigMapNodeConfigSource(Object):
    """A ConfigMap with the kubelet's configuration. No longer supported."""

    namespace: str = required(str)
    """The namespace of the ConfigMap."""
    name: str = required(str)
    """The name of the ConfigMap."""
    uid: str = ""
    """The unique id of the ConfigMap."""
    resource_version: str = ""
    """The version of the ConfigMap."""
    kubelet_config_key: str = required(str)
    """The key with the configuration."""


class NodeConfigSource(Object):
    """The source of the kubelet's configuration. No longer supported."""

    config_map: ConfigMapNodeConfigSource | None = None


class NodePodPreemptionPolicy(Object):
    """The policy on when pods of the node may be preempted."""

    disable_resize_preemption: Annotated[list[str], list_set(patch_merge=False)] = []
    """Who has asked that growing pods displace no others; it holds while there is anyone."""


class NodeSpec(Object):
    """The desired state of a node."""

    pod_cidr: str = field(default="", name="podCIDR")
    """The network of the node's pods."""
    pod_cidrs: Annotated[list[str], list_set()] = field(default_factory=list, name="podCIDRs")
    """The networks of the node's pods, at most one of each family."""
    provider_id: str = field(default="", name="providerID")
    """The node's id at the cloud provider."""
    unschedulable: bool = False
    """Whether new pods are kept away."""
    taints: list[Taint] = []
    """What keeps pods away that do not tolerate it."""
    config_source: NodeConfigSource | None = None
    external_id: str = field(default="", name="externalID")
    """Not used any more."""
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class NodeCondition(StateCondition):
    """One aspect of a node's state, such as Ready."""

    last_heartbeat_time: str | None = always(lambda: None)
    """When the node last reported it."""


class NodeAddress(Object):
    """An address of a node."""

    type: str = required(str)
    """Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS."""
    address: str = required(str)


class DaemonEndpoint(Object):
    """A port on which a daemon listens."""

    port: Int32 = required(int, name="Port")


class NodeDaemonEndpoints(Object):
    """The ports of a node's daemons."""

    kubelet_endpoint: DaemonEndpoint = always(DaemonEndpoint)


class NodeSwapStatus(Object):
    """The swap memory of a node."""

    capacity: Int64 | None = None
    """How much there is, in bytes."""


class NodeSystemInfo(Object):
    """Names and versions of a node's software."""

    machine_id: str = required(str, name="machineID")
    system_uuid: str = required(str, name="systemUUID")
    """The id of the system."""
    boot_id: str = required(str, name="bootID")
    """The id of the last boot."""
    kernel_version: str = required(str)
    os_image: str = required(str)
    """The name of the operating system's image."""
    container_runtime_version: str = required(str)
    kubelet_version: str = required(str)
    kube_proxy_version: str = required(str)
    """The version of kube-proxy. Deprecated."""
    operating_system: str = required(str)
    """linux or windows."""
    architecture: str = required(str)
    """The processor architecture, such as amd64."""
    swap: NodeSwapStatus | None = None
    running_in_user_namespace: bool | None = None
    """Whether the node itself runs in a user namespace."""


class ContainerImage(Object):
    """An image that a node has."""

    names: list[str] = []
    """The names by which it is known."""
    size_bytes: Int64 = 0


class AttachedVolume(Object):
    """A volume that is attached to a node."""

    name: str = required(str)
    """The unique name of the volume."""
    device_path: str = required(str)
    """The device under which the node sees it."""


class NodeConfigStatus(Object):
    """The state of the kubelet's configuration. No longer supported."""

    assigned: NodeConfigSource | None = None
    active: NodeConfigSource | None = None
    last_known_good: NodeConfigSource | None = None
    error: str = ""
    """What went wrong."""


class NodeRuntimeHandlerFeatures(Object):
    """The features of a runtime handler."""

    recursive_read_only_mounts: bool | None = None
    """Whether it knows recursive read-only mounts."""
    user_namespaces: bool | None = None
    """Whether it knows user namespaces."""


class NodeRuntimeHandler(Object):
    """A handler of the container runtime."""

    name: str = always(str)
    """The name of the handler; empty for the default."""
    features: NodeRuntimeHandlerFeatures | None = None


class NodeFeatures(Object):
    """The features of a node's container runtime."""

    supplemental_groups_policy: bool | None = None
    """Whether it knows the policy for supplemental groups."""


class NodeStatus(Object):
    """The state of a node."""

    capacity: dict[str, Quantity] = {}
    """How much the node has, by resource."""
    allocatable: dict[str, Quantity] = {}
    """How much of it pods can use."""
    phase: str = ""
    """Not used any more."""
    conditions: Annotated[list[NodeCondition], list_map("type")] = []
    addresses: Annotated[list[NodeAddress], list_map("type")] = []
    """How the node is reached."""
    daemon_endpoints: NodeDaemonEndpoints = always(NodeDaemonEndpoints)
    node_info: NodeSystemInfo = always(NodeSystemInfo)
    images: list[ContainerImage] = []
    """The images that it has."""
    volumes_in_use: list[str] = []
    """The volumes that its pods use."""
    volumes_attached: list[AttachedVolume] = []
    config: NodeConfigStatus | None = None
    runtime_handlers: list[NodeRuntimeHandler] = []
    """The handlers of its container runtime."""
    features: NodeFeatures | None = None
    declared_features: list[str] = []
    """Names of features that the node declares to have."""


class Node(Resource):
    """A machine that runs pods."""

    spec: NodeSpec = always(NodeSpec)
    status: NodeStatus = always(NodeStatus)
