"""The runs of a container on a simulated node, read from the pod's status."""

from datetime import datetime

import msgspec

from mooring.api import errors, times
from mooring.api.core_v1 import Container, ContainerStateTerminated, ContainerStatus, EphemeralContainer, Pod
from mooring.api.quoting import go_quote


class ContainerRun(msgspec.Struct, frozen=True):
    """One execution of a simulated container: when it started and ended (None while running), and its exit code."""

    began: datetime
    ended: datetime | None = None
    exit_code: int = 0
    restarts: int = 0


def find_container_spec(pod: Pod, name: str) -> Container | EphemeralContainer | None:
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    return next((each for each in containers if each.name == name), None)


def _find_container_status(pod: Pod, name: str) -> ContainerStatus | None:
    status = pod.status
    statuses = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    return next((each for each in statuses if each.name == name), None)


def find_current_run(pod: Pod, name: str) -> ContainerRun:
    """Return a container's current run; raise InternalError, worded as by a kubelet, if it is not running."""
    status = _find_container_status(pod, name)
    if status is None or status.state.running is None:
        raise errors.internal_error(f"container not found ({go_quote(name)})")
    return ContainerRun(_parse_time(pod, status.state.running.started_at), restarts=status.restart_count)


def find_latest_run(pod: Pod, name: str) -> ContainerRun:
    """Return a container's current or else last run; raise BadRequest, worded as by a kubelet, if it never ran."""
    status = _find_container_status(pod, name)
    where = f"container {go_quote(name)} in pod {go_quote(pod.metadata.name)}"
    if status is None:
        raise errors.bad_request(f"{where} is waiting to start - no logs yet")
    if status.state.running is not None:
        return ContainerRun(_parse_time(pod, status.state.running.started_at), restarts=status.restart_count)
    ended = status.state.terminated or status.last_state.terminated
    if ended is not None:
        return _make_ended_run(pod, ended, status.restart_count)
    reason = status.state.waiting.reason if status.state.waiting else ""
    raise errors.bad_request(f"{where} is waiting to start: {reason}")


def find_previous_run(pod: Pod, name: str) -> ContainerRun:
    """Return a container's run before the last restart; raise BadRequest if there was none."""
    status = _find_container_status(pod, name)
    if status is None or status.last_state.terminated is None:
        where = f"container {go_quote(name)} in pod {go_quote(pod.metadata.name)}"
        raise errors.bad_request(f"previous terminated {where} not found")
    return _make_ended_run(pod, status.last_state.terminated, max(0, status.restart_count - 1))


def _make_ended_run(pod: Pod, state: ContainerStateTerminated, restarts: int) -> ContainerRun:
    return ContainerRun(
        _parse_time(pod, state.started_at), _parse_time(pod, state.finished_at), state.exit_code, restarts
    )


def _parse_time(pod: Pod, text: str | None) -> datetime:
    return times.parse(text or pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
