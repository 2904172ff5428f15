"""What a row shows of a pod, and no more: reading the rest takes longer than everything else that a row needs.

``pods.py`` makes cells of it. Names and defaults are those of `mooring.api.core_v1`, so that a whole pod does as well,
and a property test compares the rows of both. Statuses of containers can be keys of what is remembered about pods with
the same (``pod_rows.py``), so they have no times but those that tell of a restart.
"""

from msgspec import Struct, field

from mooring.apiserver.output.tables.printer import Metadata


class Waiting(Struct, frozen=True, gc=False):
    """As `ContainerStateWaiting`."""

    reason: str = ""


class Terminated(Struct, frozen=True, gc=False, rename="camel"):
    """As `ContainerStateTerminated`."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""


class Ended(Struct, frozen=True, gc=False, rename="camel"):
    """As `ContainerStateTerminated` too, of the time before."""

    finished_at: str | None = None


class Running(Struct, frozen=True, gc=False):
    """As `ContainerStateRunning`."""


class State(Struct, frozen=True, gc=False):
    """As `ContainerState`."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class LastState(Struct, frozen=True, gc=False):
    """As `ContainerState` too."""

    terminated: Ended | None = None


class ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    """As `ContainerStatus`."""

    name: str = ""
    state: State = State()
    last_state: LastState = LastState()
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None


class Condition(Struct):
    """As `PodCondition`."""

    type: str = ""
    status: str = ""
    reason: str = ""


class Container(Struct, frozen=True, gc=False, rename="camel"):
    """As `Container`."""

    name: str = ""
    restart_policy: str | None = None


class ReadinessGate(Struct, rename="camel"):
    """As `PodReadinessGate`."""

    condition_type: str = ""


class Spec(Struct, rename="camel"):
    """As `PodSpec`."""

    containers: list[Container] = []
    init_containers: tuple[Container, ...] = ()
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
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class WholeStatus(Status):
    """The same with the conditions, which few rows tell of."""

    conditions: list[Condition] = []


class PodParts(Struct):
    """As `Pod`."""

    metadata: Metadata
    spec: Spec
    status: WholeStatus
