"""Table printers of pods and pod templates: ready containers, status and restarts.

The name, address and node are encoded for each pod; `_PodRows` caches the other cells by the fields that they show.
"""

import sys
from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import Decoder, Encoder

from mooring.api import codec
from mooring.api.core_v1 import PodCondition
from mooring.api.meta_v1 import TableRowCondition
from mooring.apiserver.output import json_bytes
from mooring.apiserver.output.tables.printer import NAME, NONE, Printer, age, define, labels, printer, text
from mooring.apiserver.output.tables.row import Ago, Times, encode_cells, encode_row, split_metadata
from mooring.base.bounded_cache import BoundedCache
from mooring.constraints.requests import is_sidecar

_FINISHED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_MAX_ENTRIES = 4096

# The fields of a pod that its row shows, with the names and defaults of `mooring.api.core_v1`: decoding all of a pod
# would take longer than everything else. A property test compares the rows with those of whole pods.


class _Waiting(Struct, frozen=True, gc=False):
    reason: str = ""


class _Terminated(Struct, frozen=True, gc=False, rename="camel"):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""


class _LastTerminated(Struct, frozen=True, gc=False, rename="camel"):
    finished_at: str | None = None


class _Empty(Struct, frozen=True, gc=False):
    pass


class _State(Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    running: _Empty | None = None
    terminated: _Terminated | None = None


class _LastState(Struct, frozen=True, gc=False):
    terminated: _LastTerminated | None = None


class _ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    state: _State = _State()
    last_state: _LastState = _LastState()
    ready: bool = False
    restart_count: int = 0


class _InitContainerStatus(_ContainerStatus, frozen=True, gc=False, rename="camel"):
    name: str = ""
    started: bool | None = None


class _Condition(Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""


class _InitContainer(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    restart_policy: str | None = None


class _ReadinessGate(Struct, frozen=True, gc=False, rename="camel"):
    condition_type: str = ""


class _Spec(Struct, gc=False, rename="camel"):
    containers: list[_Empty] = []
    init_containers: tuple[_InitContainer, ...] = ()
    readiness_gates: tuple[_ReadinessGate, ...] = ()
    node_name: str = ""


class _PodIP(Struct, gc=False):
    ip: str = ""


class _Status(Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: list[_PodIP] = field(default_factory=list, name="podIPs")
    conditions: Raw = Raw(b"[]")
    """Decoded only if the row depends on them: nearly all pods have four."""
    init_container_statuses: tuple[_InitContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _Metadata(Struct, gc=False, rename="camel"):
    name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Pod(Struct, gc=False):
    metadata: _Metadata
    spec: _Spec
    status: _Status


_Conditions = Sequence[_Condition] | Sequence[PodCondition]
_POD, _CONDITIONS, _ENCODER = Decoder(_Pod), Decoder(tuple[_Condition, ...]), Encoder()
_GATED = b"SchedulingGated"
_G = ord("G")


class _Summary(Struct):
    """The status text, count of ready containers and restarts that a pod's Table row shows."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: _ContainerStatus) -> None:
        self.restarts += status.restart_count
        terminated = status.last_state.terminated
        if terminated and terminated.finished_at:
            self.last_restart = max(self.last_restart, terminated.finished_at)


def _make_cells(pod: _Pod, conditions: _Conditions) -> list[Any]:
    meta = pod.metadata
    summary = _summarize(pod, conditions)
    total = len(pod.spec.containers) + len([each for each in pod.spec.init_containers if is_sidecar(each)])
    restarts: Ago | str = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = Ago(summary.last_restart, f"{summary.restarts} (", " ago)")
    return [
        meta.name,
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        age(meta.creation_timestamp),
        _pod_address(pod.status),
        pod.spec.node_name or NONE,
        pod.status.nominated_node_name or NONE,
        _readiness_gates(pod, conditions),
    ]


def _pod_address(status: _Status) -> str:
    return (status.pod_ips[0].ip if status.pod_ips else status.pod_ip) or NONE


def _summarize(pod: _Pod, conditions: _Conditions) -> _Summary:
    status = pod.status
    summary = _Summary(status.reason or status.phase)
    if [each for each in conditions if each.reason == "SchedulingGated" and each.type == "PodScheduled"]:
        summary.reason = "SchedulingGated"
    if not status.init_container_statuses:
        _count_main_containers(pod, conditions, summary)
    else:
        sidecars = _Summary("")
        initializing = _count_init_containers(pod, summary, sidecars)
        if not initializing or _is_true(conditions, "Initialized"):
            summary.restarts, summary.last_restart = sidecars.restarts, sidecars.last_restart
            _count_main_containers(pod, conditions, summary)
    if pod.metadata.deletion_timestamp:
        if status.reason == "NodeLost":
            summary.reason = "Unknown"
        elif status.phase not in _FINISHED:
            summary.reason = "Terminating"
    return summary


def _count_init_containers(pod: _Pod, summary: _Summary, sidecars: _Summary) -> bool:
    """Count restarts of init containers; if one has not finished, set the status by it and return True."""
    specs = {each.name: each for each in pod.spec.init_containers}
    for done, status in enumerate(pod.status.init_container_statuses):
        summary.count_restarts(status)
        sidecar = status.name in specs and is_sidecar(specs[status.name])
        if sidecar:
            sidecars.count_restarts(status)
        state = status.state
        if state.terminated and state.terminated.exit_code == 0:
            continue
        if sidecar and status.started:
            summary.ready += status.ready
            continue
        if state.terminated:
            summary.reason = f"Init:{_format_termination(state.terminated)}"
        elif state.waiting and state.waiting.reason not in {"", "PodInitializing"}:
            summary.reason = f"Init:{state.waiting.reason}"
        else:
            summary.reason = f"Init:{done}/{len(specs)}"
        return True
    return False


def _count_main_containers(pod: _Pod, conditions: _Conditions, summary: _Summary) -> None:
    """Count ready main containers and restarts; the first container with a reason sets the status."""
    has_running = False
    for status in reversed(pod.status.container_statuses):
        summary.count_restarts(status)
        state = status.state
        if state.waiting and state.waiting.reason:
            summary.reason = state.waiting.reason
        elif state.terminated:
            summary.reason = _format_termination(state.terminated)
        elif status.ready and state.running:
            has_running = True
            summary.ready += 1
    if summary.reason == "Completed" and has_running:
        summary.reason = "Running" if _is_true(conditions, "Ready") else "NotReady"


def _format_termination(terminated: _Terminated) -> str:
    if terminated.reason:
        return terminated.reason
    return f"Signal:{terminated.signal}" if terminated.signal else f"ExitCode:{terminated.exit_code}"


def _is_true(conditions: _Conditions, condition: str) -> bool:
    return any(each.type == condition and each.status == "True" for each in conditions)


def _readiness_gates(pod: _Pod, conditions: _Conditions) -> str:
    gates = pod.spec.readiness_gates
    if not gates:
        return NONE
    met = sum(_is_true(conditions, gate.condition_type) for gate in gates)
    return f"{met}/{len(gates)}"


def _conditions(pod: _Pod) -> list[TableRowCondition]:
    message = _FINISHED.get(pod.status.phase)
    if not message:
        return []
    return [TableRowCondition(type="Completed", status="True", reason=pod.status.phase, message=message)]


class _PodRows:
    def __init__(self) -> None:
        self._shared: BoundedCache[Any, tuple[Raw, Raw, bytes]] = BoundedCache(_MAX_ENTRIES)
        """The cells between name and address, those after the node, and the conditions of a row, by what they show."""

    def __call__(self, text: bytes) -> tuple[bytes, Times, int]:
        """Return a pod's row as JSON, the times in it (shown as ages), and the index where its metadata ends."""
        shown, end = split_metadata(text)
        pod = _POD.decode(shown)
        meta, spec, status = pod.metadata, pod.spec, pod.status
        conditions = _CONDITIONS.decode(status.conditions) if _shows_conditions(spec, status) else ()
        key = (
            not meta.deletion_timestamp,
            len(spec.containers),
            spec.init_containers,
            spec.readiness_gates,
            status.phase,
            status.reason,
            status.nominated_node_name,
            conditions,
            status.init_container_statuses,
            status.container_statuses,
        )
        shared = self._shared.get(key)
        created = meta.creation_timestamp
        if shared is None or not created:
            cells, row_conditions = _make_cells(pod, conditions), _conditions(pod)
            if not created or type(cells[3]) is Ago:
                return *encode_row(cells, row_conditions), end
            middle, last = (Raw(encode_cells(some)[1:-1]) for some in (cells[1:5], cells[7:]))
            shared = middle, last, codec.encode(row_conditions) if row_conditions else b""
            self._shared.put(key, shared)
        middle, last, written = shared
        own = _ENCODER.encode((meta.name, middle, _pod_address(status), spec.node_name or NONE, last))
        return json_bytes.make_row(own, written), sys.intern(created), end


def _shows_conditions(spec: _Spec, status: _Status) -> bool:
    """Return whether a pod's row can depend on its conditions, so that they must be decoded."""
    return bool(
        spec.readiness_gates
        or status.init_container_statuses
        or len(status.container_statuses) > 1
        or (status.reason or status.phase) == "Completed"
        or (_G in (conditions := bytes(status.conditions)) and _GATED in conditions)  # one byte is found faster
    )


PODS = Printer(
    (
        *map(define, ("Name", "Ready", "Status", "Restarts", "Age")),
        *(define(name, priority=1) for name in ("IP", "Node", "Nominated Node", "Readiness Gates")),
    ),
    lambda pod: _make_cells(pod, pod.status.conditions),
    _conditions,
    write=_PodRows(),
)
PRINTERS = {
    "Pod": PODS,
    "PodTemplate": printer(
        NAME,
        text("Containers", lambda each: ",".join(one.name for one in each.template.spec.containers)),
        text("Images", lambda each: ",".join(one.image for one in each.template.spec.containers)),
        text("Pod Labels", lambda each: labels(each.template.metadata.labels)),
    ),
}
