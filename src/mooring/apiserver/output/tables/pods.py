"""Rows of pods: how many containers are ready, and the one word that says how the pod is."""

from typing import Any

import msgspec

from mooring.api.meta_v1 import TableRowCondition
from mooring.apiserver.output.tables.pod_parts import ContainerStatus, PodParts
from mooring.apiserver.output.tables.pod_rows import PodRows
from mooring.apiserver.output.tables.printer import NONE, Ago, Metadata, Printer, age, text, wide
from mooring.constraints.requests import is_sidecar

_FINISHED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


class _Summary(msgspec.Struct):
    """What the containers of a pod come to."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: ContainerStatus) -> None:
        self.restarts += status.restart_count
        terminated = status.last_state.terminated
        if terminated and terminated.finished_at:
            self.last_restart = max(self.last_restart, terminated.finished_at)


def _cells(pod: PodParts) -> list[Any]:
    meta = pod.metadata
    summary = _summary(pod, meta)
    total = len(pod.spec.containers) + len([each for each in pod.spec.init_containers if is_sidecar(each)])
    restarts: Ago | str = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = Ago(summary.last_restart, f"{summary.restarts} (", " ago)")
    address = pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip
    return [
        meta.name,
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        age(meta.creation_timestamp),
        address or NONE,
        pod.spec.node_name or NONE,
        pod.status.nominated_node_name or NONE,
        _readiness_gates(pod),
    ]


def _summary(pod: PodParts, meta: Metadata) -> _Summary:
    status = pod.status
    summary = _Summary(status.reason or status.phase)
    if [each for each in status.conditions if each.reason == "SchedulingGated" and each.type == "PodScheduled"]:
        summary.reason = "SchedulingGated"
    if not status.init_container_statuses:
        _running(pod, summary)
    else:
        sidecars = _Summary("")
        initializing = _initializing(pod, summary, sidecars)
        if not initializing or _is_true(pod, "Initialized"):
            summary.restarts, summary.last_restart = sidecars.restarts, sidecars.last_restart
            _running(pod, summary)
    if meta.deletion_timestamp:
        if status.reason == "NodeLost":
            summary.reason = "Unknown"
        elif status.phase not in _FINISHED:
            summary.reason = "Terminating"
    return summary


def _initializing(pod: PodParts, summary: _Summary, sidecars: _Summary) -> bool:
    """Whether an init container is not done yet; if so, the reason says which."""
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
            summary.reason = f"Init:{_ended(state.terminated)}"
        elif state.waiting and state.waiting.reason not in {"", "PodInitializing"}:
            summary.reason = f"Init:{state.waiting.reason}"
        else:
            summary.reason = f"Init:{done}/{len(specs)}"
        return True
    return False


def _running(pod: PodParts, summary: _Summary) -> None:
    """Take in the main containers; the first that has something to say wins."""
    has_running = False
    for status in reversed(pod.status.container_statuses):
        summary.count_restarts(status)
        state = status.state
        if state.waiting and state.waiting.reason:
            summary.reason = state.waiting.reason
        elif state.terminated:
            summary.reason = _ended(state.terminated)
        elif status.ready and state.running:
            has_running = True
            summary.ready += 1
    if summary.reason == "Completed" and has_running:
        summary.reason = "Running" if _is_true(pod, "Ready") else "NotReady"


def _ended(terminated: Any) -> str:
    if terminated.reason:
        return str(terminated.reason)
    return f"Signal:{terminated.signal}" if terminated.signal else f"ExitCode:{terminated.exit_code}"


def _is_true(pod: PodParts, condition: str) -> bool:
    return any(each.type == condition and each.status == "True" for each in pod.status.conditions)


def _readiness_gates(pod: PodParts) -> str:
    gates = pod.spec.readiness_gates
    if not gates:
        return NONE
    met = sum(_is_true(pod, gate.condition_type) for gate in gates)
    return f"{met}/{len(gates)}"


def _conditions(pod: PodParts) -> list[TableRowCondition]:
    message = _FINISHED.get(pod.status.phase)
    if not message:
        return []
    return [TableRowCondition(type="Completed", status="True", reason=pod.status.phase, message=message)]


PODS = Printer(
    (
        text("Name"),
        text("Ready"),
        text("Status"),
        text("Restarts"),
        text("Age"),
        *map(wide, ("IP", "Node", "Nominated Node", "Readiness Gates")),
    ),
    _cells,
    _conditions,
    write=PodRows(_cells, _conditions),
)


def _template_cells(template: Any) -> list[Any]:
    from_spec = template.template.spec.containers
    pod_labels = template.template.metadata.labels
    return [
        template.metadata.name,
        ",".join(each.name for each in from_spec),
        ",".join(each.image for each in from_spec),
        ",".join(f"{key}={value}" for key, value in sorted(pod_labels.items())) or NONE,
    ]


POD_TEMPLATES = Printer(tuple(map(text, ("Name", "Containers", "Images", "Pod Labels"))), _template_cells)
