"""A container of a pod: its image, environment, resources, probes, lifecycle and security."""

from typing import Annotated

from msgspec import field

from mooring.api.base import Int32, Int64, IntOrString, Object, always, list_map, list_set, required
from mooring.api.core_v1.pod_volume import VolumeDevice, VolumeMount
from mooring.api.core_v1.references import (
    ConfigMapKeySelector,
    FileKeySelector,
    ObjectFieldSelector,
    ResourceFieldSelector,
    SecretKeySelector,
)
from mooring.api.quantity import Quantity


class ContainerPort(Object):
    """A port that a container listens on."""

    name: str = ""
    """A name by which services can refer to the port."""
    host_port: Int32 = 0
    """The port of the node that leads here; 0 for none."""
    container_port: Int32 = required(int)
    """The port of the pod's address."""
    protocol: str = ""
    host_ip: str = field(default="", name="hostIP")
    """The address of the node to bind the host port to."""


class ConfigMapEnvSource(Object):
    """All keys of a ConfigMap as environment variables."""

    name: str = ""
    """The name of the ConfigMap."""
    optional: bool | None = None
    """Whether the ConfigMap may be missing."""


class SecretEnvSource(Object):
    """All keys of a Secret as environment variables."""

    name: str = ""
    optional: bool | None = None
    """Whether the Secret may be missing."""


class EnvFromSource(Object):
    """A set of environment variables."""

    prefix: str = ""
    """A prefix for each key."""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class EnvVarSource(Object):
    """The source of an environment variable's value; exactly one field is set."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Object):
    """An environment variable."""

    name: str = required(str)
    """The name of the variable."""
    value: str = ""
    """The value, in which $(NAME) is expanded."""
    value_from: EnvVarSource | None = None
    """Where the value comes from, when it is not given."""


class ResourceClaim(Object):
    """An entry of the pod's resourceClaims that a container uses."""

    name: str = required(str)
    """The entry's name in the pod."""
    request: str = ""
    """One request of the claim; all when absent."""


class ResourceRequirements(Object):
    """The requests and limits of each resource."""

    limits: dict[str, Quantity] = {}
    """The most that is allowed, by resource."""
    requests: dict[str, Quantity] = {}
    """What the scheduler sets aside, by resource."""
    claims: Annotated[list[ResourceClaim], list_map("name", patch_key="")] = []
    """The resource claims that are used."""


class ContainerResizePolicy(Object):
    """The effect of resizing a resource on a running container."""

    resource_name: str = required(str)
    restart_policy: str = required(str)
    """NotRequired or RestartContainer."""


class ContainerRestartRuleOnExitCodes(Object):
    """A condition on a container's exit code."""

    operator: str = required(str)
    """In or NotIn."""
    values: Annotated[list[Int32], list_set(patch_merge=False)] = []


class ContainerRestartRule(Object):
    """The action after a container exits in a certain way."""

    action: str = required(str)
    """Restart, or RestartAllContainers."""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class ExecAction(Object):
    """Runs a command in the container; exit code 0 is success."""

    command: list[str] = []
    """The command and its arguments, without a shell."""


class HTTPHeader(Object):
    """A header of a probe's request."""

    name: str = required(str)
    value: str = required(str)


class HTTPGetAction(Object):
    """Sends an HTTP GET; a status from 200 to 399 is success."""

    path: str = ""
    """The path to ask for."""
    port: IntOrString = required(int)
    host: str = ""
    """The host to connect to; the pod's address when absent."""
    scheme: str = ""
    """HTTP or HTTPS."""
    http_headers: list[HTTPHeader] = []
    """Headers of the request."""
    protocol: str | None = None
    """The wire protocol; HTTP/1.1 when absent."""


class TCPSocketAction(Object):
    """Opens a TCP connection; a connection is success."""

    port: IntOrString = required(int)
    host: str = ""
    """The host to connect to; the pod's address when absent."""


class GRPCAction(Object):
    """Calls the gRPC health service."""

    port: Int32 = required(int)
    service: str | None = always(lambda: None)
    """The name of the service that is asked about."""
    mode: str | None = None
    """TLS or Plaintext; Plaintext when absent."""


class SleepAction(Object):
    """Waits."""

    seconds: Int64 = required(int)
    """How long."""


class Probe(Object):
    """Looks regularly whether a container is alive, ready or started."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 = 0
    """How long after the start the first probe comes."""
    timeout_seconds: Int32 = 0
    """After how long a probe has failed."""
    period_seconds: Int32 = 0
    """How often the probe runs."""
    success_threshold: Int32 = 0
    """How many successes in a row turn a failure into a success."""
    failure_threshold: Int32 = 0
    """How many failures in a row turn a success into a failure."""
    termination_grace_period_seconds: Int64 | None = None
    """How long the pod has to end when the probe fails; the pod's own period when absent."""


class LifecycleHandler(Object):
    """A lifecycle action; exactly one field is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    """Not supported as a handler; kept for compatibility."""
    sleep: SleepAction | None = None


class Lifecycle(Object):
    """Lifecycle hooks of a container."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None
    """The signal that ends the container; the image's own when absent."""


class Capabilities(Object):
    """Linux capabilities to add and drop."""

    add: list[str] = []
    drop: list[str] = []


class SELinuxOptions(Object):
    """SELinux labels."""

    user: str = ""
    """The user label."""
    role: str = ""
    """The role label."""
    type: str = ""
    """The type label."""
    level: str = ""
    """The level label."""


class WindowsSecurityContextOptions(Object):
    """Security options of Windows."""

    gmsa_credential_spec_name: str | None = None
    """The name of the GMSA credential specification."""
    gmsa_credential_spec: str | None = None
    """The GMSA credential specification itself."""
    run_as_user_name: str | None = None
    """The user that the process runs as."""
    host_process: bool | None = None
    """Whether it runs as a process of the host."""


class SeccompProfile(Object):
    """The seccomp profile, which limits system calls."""

    type: str = required(str)
    """Localhost, RuntimeDefault or Unconfined."""
    localhost_profile: str | None = None
    """The profile's file on the node, for Localhost."""


class AppArmorProfile(Object):
    """The AppArmor profile of a container."""

    type: str = required(str)
    """Localhost, RuntimeDefault or Unconfined."""
    localhost_profile: str | None = None
    """The profile loaded on the node, for Localhost."""


class SecurityContext(Object):
    """The security of one container; it wins over the pod's."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    """Whether the container has all rights of the host's root."""
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    """The user id that the process runs as."""
    run_as_group: Int64 | None = None
    """The primary group id of the process."""
    run_as_non_root: bool | None = None
    """Whether the container must not run as root."""
    read_only_root_filesystem: bool | None = None
    """Whether the root file system is read-only."""
    allow_privilege_escalation: bool | None = None
    """Whether a process may gain more rights than its parent."""
    proc_mount: str | None = None
    """How /proc is mounted: Default or Unmasked."""
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class Container(Object):
    """A container of a pod."""

    name: str = required(str)
    """The name of the container, unique within the pod."""
    image: str = ""
    """The image to run."""
    command: list[str] = []
    """The command; the image's entry point when empty."""
    args: list[str] = []
    """The arguments; the image's own when empty."""
    working_dir: str = ""
    """The working directory; the image's own when absent."""
    ports: Annotated[list[ContainerPort], list_map("containerPort", "protocol")] = []
    """The ports that the container listens on."""
    env_from: list[EnvFromSource] = []
    """Sets of environment variables; a later one wins."""
    env: Annotated[list[EnvVar], list_map("name")] = []
    """Environment variables; they win over the sets."""
    resources: ResourceRequirements = always(ResourceRequirements)
    resize_policy: list[ContainerResizePolicy] = []
    """What a change of resources means for the running container."""
    restart_policy: str | None = None
    """When the container is restarted; Always makes an init container a sidecar."""
    restart_policy_rules: list[ContainerRestartRule] = []
    """Rules by exit code that come before the restart policy."""
    volume_mounts: Annotated[list[VolumeMount], list_map("mountPath")] = []
    """The volumes that the container sees."""
    volume_devices: Annotated[list[VolumeDevice], list_map("devicePath")] = []
    """The raw block devices that the container sees."""
    liveness_probe: Probe | None = None
    """Restarts the container when it fails."""
    readiness_probe: Probe | None = None
    """Takes the pod out of its services when it fails."""
    startup_probe: Probe | None = None
    """Must succeed before the other probes begin."""
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    """The file whose contents become the termination message."""
    termination_message_policy: str = ""
    """File, or FallbackToLogsOnError."""
    image_pull_policy: str = ""
    """When the image is pulled: Always, Never or IfNotPresent."""
    security_context: SecurityContext | None = None
    stdin: bool = False
    """Whether the container has a standard input."""
    stdin_once: bool = False
    """Whether the standard input is closed after the first client."""
    tty: bool = False
    """Whether the container has a terminal."""


class EphemeralContainer(Container):
    """A container that is added to a running pod to look into it."""

    target_container_name: str = ""
    """The container whose processes it sees."""
