"""The parts of a pod's status as a kubelet writes them: container statuses, conditions, images."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from mooring.api.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
)
from mooring.api.states import ENDED
from mooring.controllers.conditions import build_condition
from mooring.controllers.simulated_nodes.commands import InitFailure, is_image_absent

RUNNING, PENDING, SUCCEEDED, FAILED = "Running", "Pending", "Succeeded", "Failed"
IMAGE_BACKOFF = "ImagePullBackOff"


@lru_cache(maxsize=1024)
def full_image(image: str) -> str:
    """Return an image's full name, as container runtimes report it.

    >>> full_image("nginx"), full_image("example.com/app:2")
    ('docker.io/library/nginx:latest', 'example.com/app:2')
    """
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif "." not in first and ":" not in first and first != "localhost":
        image = f"docker.io/{image}"
    return image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"


@lru_cache(maxsize=1024)
def image_id(image: str) -> str:
    repository = full_image(image).partition("@")[0]
    name, _, tag = repository.rpartition(":")
    return f"{name if name and '/' not in tag else repository}@sha256:{_sha256_hex(image)}"


def image_size(image: str) -> int:
    """Return a plausible size of an image in bytes, computed from its name."""
    return 20_000_000 + int(_sha256_hex(image)[:8], 16) % 300_000_000


def _sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def container_id(pod: Pod, container: str, restarts: int) -> str:
    return f"containerd://{_sha256_hex(f'{pod.metadata.uid}/{container}/{restarts}')}"


def build_waiting_statuses(
    pod: Pod, reason: str, message: str = "", before: Sequence[ContainerStatus] = ()
) -> list[ContainerStatus]:
    """Return waiting statuses of a pod's containers, with a reason; `before` are the earlier statuses."""
    known = {status.name: status for status in before}
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
    statuses = []
    for container in pod.spec.containers:
        last = known.get(container.name)
        before_it = _last_state(last)
        statuses.append(
            ContainerStatus(
                name=container.name,
                state=state,
                last_state=before_it,
                restart_count=last.restart_count if last else 0,
                image=full_image(container.image) if last else container.image,
                image_id=image_id(container.image) if last else "",
                container_id=before_it.terminated.container_id if before_it.terminated else "",
                started=False,
            )
        )
    return statuses


def image_backoff_statuses(pod: Pod) -> list[ContainerStatus]:
    """Return container statuses of a pod that has images which cannot be pulled: these wait in ImagePullBackOff."""
    statuses = build_waiting_statuses(pod, "ContainerCreating")
    for status in statuses:
        if is_image_absent(status.image):
            message = f'Back-off pulling image "{status.image}"'
            status.state = ContainerState(waiting=ContainerStateWaiting(reason=IMAGE_BACKOFF, message=message))
    return statuses


def build_running_statuses(
    pod: Pod, started_at: str, restarts: int, ready: bool, before: Sequence[ContainerStatus] = ()
) -> list[ContainerStatus]:
    """Return statuses of a pod's containers, running since `started_at`; `before` are the earlier statuses."""
    known = {status.name: status for status in before}
    return [
        _running_status_of(
            pod, container, started_at, restarts, ready=ready, last_state=_last_state(known.get(container.name))
        )
        for container in pod.spec.containers
    ]


def _running_status_of(
    pod: Pod, container: Container, started_at: str, restarts: int = 0, **fields: Any
) -> ContainerStatus:
    return _build_status(
        pod,
        container,
        restarts,
        state=ContainerState(running=ContainerStateRunning(started_at=started_at)),
        started=True,
        allocated_resources=container.resources.requests,
        resources=container.resources,
        **{"ready": True, **fields},
    )


def _build_status(pod: Pod, container: Container, restarts: int, **fields: Any) -> ContainerStatus:
    """Build a container's status with its image ids; the caller passes the state and other fields."""
    return ContainerStatus(
        name=container.name,
        restart_count=restarts,
        image=full_image(container.image),
        image_id=image_id(container.image),
        container_id=container_id(pod, container.name, restarts),
        **fields,
    )


def build_terminated_statuses(
    pod: Pod, before: Sequence[ContainerStatus], exit_codes: Mapping[str, int], finished_at: str
) -> list[ContainerStatus]:
    """Return statuses of containers that have ended for good, with their exit codes."""
    known = {status.name: status for status in before}
    statuses = []
    for container in pod.spec.containers:
        last = known.get(container.name)
        restarts = last.restart_count if last else 0
        began = last.state.running.started_at if last and last.state.running else finished_at
        exit_code = exit_codes.get(container.name, 0)
        last_state = last.last_state if last else ContainerState()
        identity = container_id(pod, container.name, restarts)
        state = _build_ended_state(exit_code, began, finished_at, identity)
        statuses.append(_build_status(pod, container, restarts, state=state, last_state=last_state, started=False))
    return statuses


def build_init_container_statuses(pod: Pod, now: str, done: bool) -> list[ContainerStatus]:
    """Return statuses of init containers: completed or running as sidecars if `done`, else waiting."""
    statuses = []
    for container in pod.spec.init_containers:
        if done and container.restart_policy == "Always":
            statuses.append(_running_status_of(pod, container, now))
        elif done:
            state = _build_ended_state(0, now, now, container_id(pod, container.name, 0))
            statuses.append(_build_status(pod, container, 0, state=state, ready=True, started=False))
        else:
            state = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))
            statuses.append(ContainerStatus(name=container.name, state=state, image=container.image, started=False))
    return statuses


def build_failed_init_statuses(
    pod: Pod, failure: InitFailure, now: str, restarts: int, *, final: bool
) -> list[ContainerStatus]:
    """Return statuses of init containers up to a failed one; those after it wait."""
    statuses = build_init_container_statuses(pod, now, done=True)
    waiting_statuses = build_init_container_statuses(pod, now, done=False)
    place = next(index for index, each in enumerate(statuses) if each.name == failure.container)
    failed = statuses[place]
    ended = _build_ended_state(failure.exit_code, now, now, container_id(pod, failure.container, restarts))
    waiting_again = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    failed.ready, failed.restart_count = False, restarts
    failed.state, failed.last_state = (ended, ContainerState()) if final else (waiting_again, ended)
    return [*statuses[: place + 1], *waiting_statuses[place + 1 :]]


def ephemeral_container_statuses_of(pod: Pod, now: str) -> list[ContainerStatus]:
    """Return statuses of ephemeral containers, running since they were first seen."""
    known = {status.name: status for status in pod.status.ephemeral_container_statuses}
    state = ContainerState(running=ContainerStateRunning(started_at=now))
    return [
        known.get(container.name) or _build_status(pod, container, 0, state=state)
        for container in pod.spec.ephemeral_containers
    ]


def _build_ended_state(code: int, began: str | None, ended: str, identity: str) -> ContainerState:
    reason = "Error" if code else "Completed"
    found = ContainerStateTerminated(
        exit_code=code, reason=reason, started_at=began, finished_at=ended, container_id=identity
    )
    return ContainerState(terminated=found)


def _last_state(status: ContainerStatus | None) -> ContainerState:
    """Return the `lastState` of a container that starts again: how it ended most recently."""
    ended = None if status is None else status.state.terminated or status.last_state.terminated
    return ContainerState(terminated=ended)


def build_conditions(
    pod: Pod, now: str, *, sandbox: bool, containers_ready: bool, phase: str, done: Sequence[str] = ()
) -> list[PodCondition]:
    """Return the pod conditions that a kubelet writes, in its order; a transition time changes only with its status.

    `done` names the init containers that have completed while others have not.
    """
    known = {condition.type: condition for condition in pod.status.conditions}
    names = ", ".join(container.name for container in pod.spec.containers)
    reason, message = "", ""
    if phase == SUCCEEDED:
        reason = "PodCompleted"
    elif phase == FAILED:
        reason = "PodFailed"
    elif not containers_ready:
        reason, message = "ContainersNotReady", f"containers with unready status: [{names}]"
    gates = all(
        (gate := known.get(wanted.condition_type)) is not None and gate.status == "True"
        for wanted in pod.spec.readiness_gates
    )
    ready_reason, ready_message = reason, message
    if containers_ready and not gates:
        ready_reason, ready_message = "ReadinessGatesNotReady", "the status of a readiness gate is not True"
    initialized = sandbox or phase == SUCCEEDED
    init_reason, init_message = ("PodCompleted" if phase == SUCCEEDED else ""), ""
    if not initialized and pod.spec.init_containers:
        inits = " ".join(container.name for container in pod.spec.init_containers if container.name not in done)
        init_reason, init_message = "ContainersNotInitialized", f"containers with incomplete status: [{inits}]"
    wanted_conditions = [
        ("PodReadyToStartContainers", sandbox and phase not in ENDED, "", ""),
        ("Initialized", initialized, init_reason, init_message),
        ("Ready", containers_ready and gates, ready_reason, ready_message),
        ("ContainersReady", containers_ready, reason, message),
    ]
    return [
        build_condition(PodCondition, pod.status.conditions, (kind, "True" if holds else "False", why, text), now)
        for kind, holds, why, text in wanted_conditions
    ]


def merge_conditions(before: Iterable[PodCondition], own: Iterable[PodCondition]) -> list[PodCondition]:
    """Return the conditions `before` with those of the kubelet (`own`) replaced or appended."""
    wanted = {condition.type: condition for condition in own}
    kept = [wanted.pop(condition.type, condition) for condition in before]
    return [*kept, *wanted.values()]
