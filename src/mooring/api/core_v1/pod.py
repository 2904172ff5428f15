"""Pod: containers that run together on one node. The scheduler gives it that node.

What it says about its placement is in ``placement.py``, its containers in ``container.py``, its volumes in
``pod_volume.py``, and what has become of it in ``pod_status.py``.
"""

from typing import Annotated

from msgspec import field

from mooring.api.base import Int32, Int64, Object, always, atomic, list_map, required
from mooring.api.core_v1.container import (
    AppArmorProfile,
    Container,
    EphemeralContainer,
    ResourceRequirements,
    SeccompProfile,
    SELinuxOptions,
    WindowsSecurityContextOptions,
)
from mooring.api.core_v1.placement import Affinity, Toleration, TopologySpreadConstraint
from mooring.api.core_v1.pod_status import PodStatus
from mooring.api.core_v1.pod_volume import Volume
from mooring.api.core_v1.references import LocalObjectReference, ObjectReference
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.quantity import Quantity


class Sysctl(Object):
    """A kernel parameter."""

    name: str = required(str)
    """The name of the parameter."""
    value: str = required(str)
    """The value of the kernel parameter."""


class PodSecurityContext(Object):
    """The security of all containers of a pod."""

    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    """The user id that processes run as."""
    run_as_group: Int64 | None = None
    """The primary group id of processes."""
    run_as_non_root: bool | None = None
    """Whether containers must not run as root."""
    supplemental_groups: list[Int64] = []
    """Further groups of processes."""
    supplemental_groups_policy: str | None = None
    """Whether the image's groups are added: Merge or Strict."""
    fs_group: Int64 | None = None
    """The group that owns volumes."""
    sysctls: list[Sysctl] = []
    """Kernel parameters of the pod."""
    fs_group_change_policy: str | None = None
    """When the owner of a volume is changed: OnRootMismatch or Always."""
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None
    """How volumes get their SELinux label: Recursive or MountOption."""


class HostAlias(Object):
    """A line of the pod's hosts file."""

    ip: str = required(str)
    hostnames: list[str] = []
    """The names of the address."""


class PodDNSConfigOption(Object):
    """An option of the resolver."""

    name: str = ""
    value: str | None = None
    """The value of the option, if it has one."""


class PodDNSConfig(Object):
    """The DNS settings of a pod, in addition to its DNS policy."""

    nameservers: list[str] = []
    """Addresses of name servers."""
    searches: list[str] = []
    """Domains in which short names are looked up."""
    options: list[PodDNSConfigOption] = []
    """Options of the resolver."""


class PodReadinessGate(Object):
    """A condition that must be true for the pod to be ready."""

    condition_type: str = required(str)


class PodOS(Object):
    """The operating system of a pod."""

    name: str = required(str)
    """linux or windows."""


class PodSchedulingGate(Object):
    """Keeps a pod from being scheduled until it is removed."""

    name: str = required(str)
    """The name of the gate, unique within the pod."""


class PodResourceClaim(Object):
    """A ResourceClaim that the pod's containers can use."""

    name: str = required(str)
    """The name of the entry, unique within the pod."""
    resource_claim_name: str | None = None
    """An existing claim in the pod's namespace."""
    resource_claim_template_name: str | None = None
    """A template from which a claim is made for this pod."""


class PodSchedulingGroup(Object):
    """The group of pods that this one is scheduled with."""

    pod_group_name: str | None = None
    """The name of the PodGroup in the pod's namespace."""


class EvictionResponder(Object):
    """Someone who helps when the pod is to be evicted."""

    name: str = required(str)
    """The responder, with its domain."""
    priority: Int32 = required(int)
    """Responders with a higher priority come first."""


class PodSpec(Object):
    """The desired state of a pod: containers, volumes, and where and how they run."""

    volumes: Annotated[list[Volume], list_map("name", strategies=("merge", "retainKeys"))] = []
    """The volumes that containers can mount."""
    init_containers: Annotated[list[Container], list_map("name")] = []
    """Containers that run one after another before the others start."""
    containers: Annotated[list[Container], list_map("name")] = required(list)
    """The containers; there is at least one."""
    ephemeral_containers: Annotated[list[EphemeralContainer], list_map("name")] = []
    """Containers that were added to the running pod."""
    restart_policy: str = ""
    """When containers are restarted: Always, OnFailure or Never."""
    termination_grace_period_seconds: Int64 | None = None
    """How long the pod has to end."""
    active_deadline_seconds: Int64 | None = None
    """After how long the pod is ended by the system."""
    dns_policy: str = ""
    """Where names are resolved: ClusterFirst, ClusterFirstWithHostNet, Default or None."""
    node_selector: Annotated[dict[str, str], atomic()] = {}
    """Labels that the node must have."""
    service_account_name: str = ""
    """The ServiceAccount that the pod acts as."""
    service_account: str = ""
    """Use serviceAccountName instead."""
    automount_service_account_token: bool | None = None
    """Whether the service account's token is mounted."""
    node_name: str = ""
    """The node that the pod runs on; set when it is bound."""
    host_network: bool = False
    """Whether the pod shares the node's network."""
    host_pid: bool = field(default=False, name="hostPID")
    """Whether the pod sees the node's processes."""
    host_ipc: bool = field(default=False, name="hostIPC")
    """Whether the pod shares the node's inter-process communication."""
    share_process_namespace: bool | None = None
    """Whether the containers see each other's processes."""
    security_context: PodSecurityContext | None = None
    image_pull_secrets: Annotated[list[LocalObjectReference], list_map("name")] = []
    """Secrets with which images are pulled."""
    hostname: str = ""
    """The host name of the pod; its own name when absent."""
    subdomain: str = ""
    """The subdomain of the pod's full name."""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    """The scheduler that places the pod."""
    tolerations: list[Toleration] = []
    """The taints that the pod tolerates."""
    host_aliases: Annotated[list[HostAlias], list_map("ip")] = []
    """Lines of the pod's hosts file."""
    priority_class_name: str = ""
    """The PriorityClass of the pod."""
    priority: Int32 | None = None
    """How important the pod is, from its PriorityClass."""
    dns_config: PodDNSConfig | None = None
    readiness_gates: list[PodReadinessGate] = []
    """Conditions that must be true for the pod to be ready."""
    runtime_class_name: str | None = None
    """The RuntimeClass that runs the pod."""
    enable_service_links: bool | None = None
    """Whether services appear in environment variables."""
    preemption_policy: str | None = None
    """Whether the pod may displace others: PreemptLowerPriority or Never."""
    overhead: dict[str, Quantity] = {}
    """What the pod itself needs beside its containers, from its RuntimeClass."""
    topology_spread_constraints: Annotated[
        list[TopologySpreadConstraint], list_map("topologyKey", "whenUnsatisfiable")
    ] = []
    """How evenly pods like this one are spread; all must hold."""
    set_hostname_as_fqdn: bool | None = field(default=None, name="setHostnameAsFQDN")
    """Whether the host name is the full name."""
    os: PodOS | None = None
    host_users: bool | None = None
    """Whether the pod shares the node's user ids."""
    scheduling_gates: Annotated[list[PodSchedulingGate], list_map("name")] = []
    """While there are any, the pod is not scheduled."""
    resource_claims: Annotated[list[PodResourceClaim], list_map("name", strategies=("merge", "retainKeys"))] = []
    """The ResourceClaims that containers can use."""
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    """The host name inside the pod, whatever else is set."""
    scheduling_group: PodSchedulingGroup | None = None
    eviction_responders: Annotated[list[EvictionResponder], list_map("name")] = []
    """Who helps when the pod is to be evicted."""


class Pod(Resource):
    """Containers that run together on one node."""

    spec: PodSpec = always(PodSpec)
    status: PodStatus = always(PodStatus)


class PodTemplateSpec(Object):
    """The template from which a controller creates pods."""

    metadata: ObjectMeta = always(ObjectMeta)
    """Labels and annotations of the pods."""
    spec: PodSpec = always(PodSpec)


class PodTemplate(Resource):
    """A stored template of a pod."""

    template: PodTemplateSpec = always(PodTemplateSpec)


class Binding(Resource):
    """Ties a pod to a node; its name is the pod's."""

    target: ObjectReference = required(ObjectReference)
    """The node."""
