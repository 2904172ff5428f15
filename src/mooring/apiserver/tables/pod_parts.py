"""What a row shows of a pod, and no more: reading the rest takes longer than everything else that a row needs.

``pods.py`` makes cells of it. Names and defaults are those of `mooring.api.core_v1`, so that a whole pod does as well,
and a property test compares the rows of both.
"""

from msgspec import Struct, field

from mooring.apiserver.tables.printer import Parts


class Waiting(Struct):
    """As `ContainerStateWaiting`."""

    reason: str = ""


class Terminated(Struct, rename="camel"):
    """As `ContainerStateTerminated`."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    finished_at: str | None = None


class Running(Struct):
    """As `ContainerStateRunning`."""


class State(Struct):
    """As `ContainerState`."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, rename="camel"):
    """As `ContainerStatus`."""

    name: str = ""
    state: State = field(default_factory=State)
    last_state: State = field(default_factory=State)
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None


class Condition(Struct):
    """As `PodCondition`."""

    type: str = ""
    status: str = ""
    reason: str = ""


class Container(Struct, rename="camel"):
    """As `Container`."""

    name: str = ""
    restart_policy: str | None = None


class ReadinessGate(Struct, rename="camel"):
    """As `PodReadinessGate`."""

    condition_type: str = ""


class Spec(Struct, rename="camel"):
    """As `PodSpec`."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    readiness_gates: list[ReadinessGate] = []
    node_name: str = ""


class PodIP(Struct):
    """As `PodIP`."""

    ip: str = ""


class Status(Struct, rename="camel"):
    """As `PodStatus`."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: list[PodIP] = field(default_factory=list, name="podIPs")
    conditions: list[Condition] = []
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []


class PodParts(Parts):
    """As `Pod`."""

    spec: Spec
    status: Status
