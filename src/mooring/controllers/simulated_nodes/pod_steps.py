"""Compute the next step of a pod on a simulated node from its status, rules, commands and the time.

`next_step` returns what to write and when to look again. It is called after every change, so a restart changes nothing.
`PodRuns` provides the runs of containers (``commands.py``). Called by ``pods.py``; ``pod_status.py`` builds what is
written.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mooring.admission.pod.resources import sum_container_requests
from mooring.api import times
from mooring.api.core_v1 import ContainerStatus, Node, Pod
from mooring.api.quantity import Quantity
from mooring.api.states import has_ended
from mooring.controllers.simulated_nodes import pod_status
from mooring.controllers.simulated_nodes.commands import PLAIN, InitFailure, PodRules, PodRun, PodRuns, is_image_absent
from mooring.controllers.simulated_nodes.pod_status import FAILED, PENDING, RUNNING, SUCCEEDED

_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on


class Rejection(NamedTuple):
    """The reason and message with which a kubelet rejects a pod."""

    reason: str
    message: str


def find_rejection(pod: Pod, node: Node, others: Iterable[Pod]) -> Rejection | None:
    """Return why the node rejects the pod, given its other pods; None if it admits it."""
    there = [other for other in others if other.metadata.uid != pod.metadata.uid and not has_ended(other)]
    short = _find_shortage(pod, node, [other for other in there if other.status.start_time is not None])
    if short is not None:
        return short
    taken = [port for other in there if other.status.start_time is not None for port in _list_host_ports(other)]
    if any(
        (protocol, number) == other[:2] and (address == other[2] or not {address, other[2]}.isdisjoint(_ANY_ADDRESS))
        for protocol, number, address in _list_host_ports(pod)
        for other in taken
    ):
        why = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        return Rejection("NodePorts", f"Pod was rejected: {why}")
    return None


def _list_host_ports(pod: Pod) -> list[tuple[str, int, str]]:
    return [
        (port.protocol or "TCP", port.host_port, port.host_ip)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.ports
        if port.host_port
    ]


def _find_shortage(pod: Pod, node: Node, others: list[Pod]) -> Rejection | None:
    room = node.status.allocatable
    if "pods" in room and len(others) + 1 > int(room["pods"].value()):
        return _build_shortage_rejection("pods", 1, len(others), int(room["pods"].value()))
    wanted = sum_container_requests(pod.spec)
    if not wanted:
        return None
    used: dict[str, Quantity] = {}
    for other in others:
        for name, amount in sum_container_requests(other.spec).items():
            used[name] = used[name] + amount if name in used else amount
    for name, amount in wanted.items():
        if name not in room or amount.sign() <= 0:
            continue  # a resource that the node does not report
        requested, taken, all_of_it = (_amount_in_units(name, each) for each in (amount, used.get(name), room[name]))
        if taken + requested > all_of_it:
            return _build_shortage_rejection(name, requested, taken, all_of_it)
    return None


def _amount_in_units(name: str, amount: Quantity | None) -> int:
    if amount is None:
        return 0
    return amount.milli_value() if name == "cpu" else amount.value()


def _build_shortage_rejection(name: str, requested: int, used: int, capacity: int) -> Rejection:
    detail = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Pod was rejected: {detail}")


_BACKOFF, _LONGEST_BACKOFF = 10.0, 300.0


class Step(msgspec.Struct, frozen=True):
    """The next action on a pod: status fields to write, an event, its removal, and when to compute the next one."""

    status: dict[str, Any] | None = None
    """Fields of the status to write, by attribute; of conditions those that change."""
    again_at: datetime | None = None
    remove: bool = False
    """Whether to remove the pod after writing its status, because it was terminating and has ended."""
    event: str = ""
    """The event to record: Started, BackOff, Failed (image pull) or Killing."""


NOTHING = Step()


def next_step(pod: Pod, rules: PodRules, runs: PodRuns, now: datetime) -> Step:
    """Return what to write now of a pod on a working node, and when to call again; `NOTHING` until it changes."""
    if pod.metadata.deletion_timestamp is not None:
        return _plan_termination(pod, rules, now)
    if has_ended(pod):
        return NOTHING
    deadline = _deadline_of(pod)
    if deadline is not None and now >= deadline:
        return _plan_end_of_pod(pod, 137, now, reason="DeadlineExceeded")
    step = _plan_admitted_pod(pod, rules, runs, now)
    if deadline is None or (step.again_at is not None and step.again_at <= deadline):
        return step
    return Step(step.status, deadline, step.remove, step.event)


def is_unchanged_until_update(pod: Pod, rules: PodRules) -> bool:
    """Return whether `next_step` certainly has nothing to do until the pod changes, as for most running pods.

    It is called for every change, so it must be cheap: False may also mean unknown.
    """
    spec, meta, status = pod.spec, pod.metadata, pod.status
    return (
        status.phase == RUNNING
        and rules is PLAIN
        and meta.deletion_timestamp is None
        and status.observed_generation == meta.generation
        and bool(status.container_statuses)
        and status.container_statuses[0].ready
        and status.container_statuses[0].state.running is not None
        and status.start_time is not None
        and spec.active_deadline_seconds is None
        and not spec.readiness_gates
        and not any(container.command or container.args for container in spec.containers)
    )


def _plan_admitted_pod(pod: Pod, rules: PodRules, runs: PodRuns, now: datetime) -> Step:
    statuses = pod.status.container_statuses
    if pod.status.start_time is None or not statuses:
        if rules.start_seconds <= 0:
            return _plan_start(pod, runs, now)
        return Step(_build_creating_status(pod, now), times.add_seconds(now, rules.start_seconds))
    first = statuses[0]
    if first.state.running is not None:
        return _plan_running_pod(pod, runs, now, first)
    ended = first.last_state.terminated
    if ended is not None:
        finished = times.parse(ended.finished_at) if ended.finished_at else now
        due = times.add_seconds(finished, backoff_seconds(first.restart_count))
        return _plan_run(pod, runs, now, first.restart_count + 1) if now >= due else Step(again_at=due)
    starts = times.add_seconds(times.parse(pod.status.start_time), rules.start_seconds)
    return _plan_start(pod, runs, now) if now >= starts else Step(again_at=starts)


def _plan_start(pod: Pod, runs: PodRuns, now: datetime) -> Step:
    if not any(is_image_absent(container.image) for container in pod.spec.containers):
        return _plan_run(pod, runs, now, 0) if not pod.spec.init_containers else _plan_init_containers(pod, runs, now)
    wanted = pod_status.image_backoff_statuses(pod)
    if pod.status.container_statuses == wanted:
        return NOTHING  # until the image is changed
    return Step({**_build_creating_status(pod, now), "container_statuses": wanted}, event="Failed")


def _plan_init_containers(pod: Pod, runs: PodRuns, now: datetime) -> Step:
    last = next((each for each in pod.status.init_container_statuses if each.last_state.terminated), None)
    attempt = 0
    if last is not None and last.last_state.terminated is not None:
        attempt = last.restart_count + 1
        ended = times.parse(last.last_state.terminated.finished_at or times.to_seconds(now))
        due = times.add_seconds(ended, backoff_seconds(last.restart_count))
        if now < due:
            return Step(again_at=due)
    failure = runs.find_init_failure(attempt, now)
    if failure is None:
        return _plan_run(pod, runs, now, 0)
    return _plan_init_failure(pod, failure, attempt, now)


def _plan_init_failure(pod: Pod, failure: InitFailure, attempt: int, now: datetime) -> Step:
    moment = times.to_seconds(now)
    final = pod.spec.restart_policy == "Never"
    phase = FAILED if final else PENDING
    names = [container.name for container in pod.spec.init_containers]
    done = names[: names.index(failure.container)]
    status = {
        **_build_creating_status(pod, now),
        "phase": phase,
        "start_time": pod.status.start_time or moment,
        "conditions": pod_status.build_conditions(
            pod, moment, sandbox=False, containers_ready=False, phase=phase, done=done
        ),
        "init_container_statuses": pod_status.build_failed_init_statuses(pod, failure, moment, attempt, final=final),
    }
    again = None if final else times.add_seconds(now, backoff_seconds(attempt))
    return Step(status, again, event="" if final else "BackOff")


def _build_creating_status(pod: Pod, now: datetime) -> dict[str, Any]:
    moment = times.to_seconds(now)
    reason = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    return {
        "phase": PENDING,
        "start_time": moment,
        "observed_generation": pod.metadata.generation,
        "conditions": pod_status.build_conditions(pod, moment, sandbox=False, containers_ready=False, phase=PENDING),
        "init_container_statuses": pod_status.build_init_container_statuses(pod, moment, done=False),
        "container_statuses": pod_status.build_waiting_statuses(pod, reason),
    }


def _plan_run(
    pod: Pod, runs: PodRuns, now: datetime, restarts: int, before: Sequence[ContainerStatus] | None = None
) -> Step:
    moment = times.to_seconds(now)
    ends = _time_of_end(moment, runs(restarts, now))
    return Step(
        _build_running_status(pod, now, moment, restarts, before),
        _find_earliest_time(_time_of_readiness(pod, moment, now), ends),
        event="Started",
    )


def _build_running_status(
    pod: Pod, now: datetime, started_at: str, restarts: int, before: Sequence[ContainerStatus] | None = None
) -> dict[str, Any]:
    moment = times.to_seconds(now)
    ready = _time_of_readiness(pod, started_at, now) is None
    before = pod.status.container_statuses if before is None else before
    wanted: dict[str, Any] = {
        "phase": RUNNING,
        "start_time": pod.status.start_time or moment,
        "observed_generation": pod.metadata.generation,
        "conditions": pod_status.build_conditions(pod, moment, sandbox=True, containers_ready=ready, phase=RUNNING),
        "container_statuses": pod_status.build_running_statuses(pod, started_at, restarts, ready, before),
    }
    if pod.spec.init_containers and pod.status.phase != RUNNING:
        wanted["init_container_statuses"] = pod_status.build_init_container_statuses(pod, moment, done=True)
    if pod.spec.ephemeral_containers:
        wanted["ephemeral_container_statuses"] = pod_status.ephemeral_container_statuses_of(pod, moment)
    return wanted


def _plan_running_pod(pod: Pod, runs: PodRuns, now: datetime, first: ContainerStatus) -> Step:
    started_at = (first.state.running and first.state.running.started_at) or times.to_seconds(now)
    run = runs(first.restart_count, times.parse(started_at))
    ends = _time_of_end(started_at, run)
    if ends is not None and now >= ends:
        return _plan_end_of_run(pod, runs, run, now, first.restart_count)
    ready_at = _time_of_readiness(pod, started_at, now)
    late = ready_at is None and not first.ready
    if late or pod.status.observed_generation != pod.metadata.generation or _is_ready_condition_stale(pod):
        return Step(
            _build_running_status(pod, now, started_at, first.restart_count), _find_earliest_time(ready_at, ends)
        )
    return Step(again_at=_find_earliest_time(ready_at, ends))


def _plan_end_of_run(pod: Pod, runs: PodRuns, run: PodRun, now: datetime, restarts: int) -> Step:
    policy = pod.spec.restart_policy
    if policy == "Never" or (policy == "OnFailure" and not any(run.exit_codes.values())):
        return _plan_end_of_pod(pod, run.exit_codes, now)
    moment = times.to_seconds(now)
    ended = pod_status.build_terminated_statuses(pod, pod.status.container_statuses, run.exit_codes, moment)
    delay = backoff_seconds(restarts)
    if not delay:
        return _plan_run(pod, runs, now, restarts + 1, ended)
    message = (
        f"back-off {_format_duration(delay)} restarting failed container={pod.spec.containers[0].name} "
        f"pod={pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    )
    status = {
        "phase": RUNNING,
        "conditions": pod_status.build_conditions(pod, moment, sandbox=True, containers_ready=False, phase=RUNNING),
        "container_statuses": pod_status.build_waiting_statuses(pod, "CrashLoopBackOff", message, ended),
    }
    return Step(status, times.add_seconds(now, delay), event="BackOff")


def backoff_seconds(restarts: int) -> float:
    """Return the delay of a container restart as with a kubelet: 0, 10 s, 20 s, up to 5 minutes.

    >>> [backoff_seconds(restarts) for restarts in (0, 1, 2, 3, 20)]
    [0.0, 10.0, 20.0, 40.0, 300.0]
    """
    return min(_BACKOFF * 2 ** min(restarts - 1, 10), _LONGEST_BACKOFF) if restarts else 0.0


def _plan_end_of_pod(pod: Pod, codes: Mapping[str, int] | int, now: datetime, reason: str = "") -> Step:
    """Return the step that writes the end of a pod, with an exit code for each container or one for all."""
    exit_codes = dict.fromkeys((each.name for each in pod.spec.containers), codes) if isinstance(codes, int) else codes
    moment = times.to_seconds(now)
    phase = FAILED if any(exit_codes.values()) else SUCCEEDED
    status: dict[str, Any] = {
        "phase": phase,
        "observed_generation": pod.metadata.generation,
        "conditions": pod_status.build_conditions(pod, moment, sandbox=True, containers_ready=False, phase=phase),
        "container_statuses": pod_status.build_terminated_statuses(
            pod, pod.status.container_statuses, exit_codes, moment
        ),
    }
    if reason:
        status |= {"reason": reason, "message": "Pod was active on the node longer than the specified deadline"}
    return Step(status)


def _plan_termination(pod: Pod, rules: PodRules, now: datetime) -> Step:
    meta = pod.metadata
    grace = meta.deletion_grace_period_seconds or 0
    deleted = times.add_seconds(times.parse(meta.deletion_timestamp or ""), -grace)
    stops = times.add_seconds(deleted, min(rules.stop_seconds, grace))
    if now < stops:
        return Step(again_at=stops)
    waits_for_others = grace == 0 and bool(meta.finalizers)  # removed with its last finalizer
    if not has_ended(pod) and (pod.status.container_statuses or meta.finalizers):
        # Watchers see the exit codes and that it is not ready before it is removed.
        end = _plan_end_of_pod(pod, 0 if pod.spec.restart_policy == "Always" else 143, now)
        return Step(end.status, remove=not waits_for_others, event="Killing")
    return NOTHING if waits_for_others else Step(remove=True)


def _deadline_of(pod: Pod) -> datetime | None:
    seconds = pod.spec.active_deadline_seconds
    if seconds is None or pod.status.start_time is None:
        return None
    return times.add_seconds(times.parse(pod.status.start_time), seconds)


def _time_of_readiness(pod: Pod, started_at: str, now: datetime) -> datetime | None:
    delay = max(
        (container.readiness_probe.initial_delay_seconds for container in pod.spec.containers
         if container.readiness_probe is not None),
        default=0,
    )  # fmt: skip
    ready = times.add_seconds(times.parse(started_at), delay)
    return ready if now < ready else None


def _time_of_end(started_at: str, run: PodRun) -> datetime | None:
    return None if run.seconds is None else times.add_seconds(times.parse(started_at), run.seconds)


def build_rejection_step(pod: Pod, rejection: Rejection, now: datetime) -> Step:
    """Return the status write that sets a pod to Failed because its node rejects it, with an event."""
    status = {
        "phase": FAILED,
        "reason": rejection.reason,
        "message": rejection.message,
        "start_time": times.to_seconds(now),
        "observed_generation": pod.metadata.generation,
        "conditions": [],
    }
    return Step(status, event="Rejected")


def _is_ready_condition_stale(pod: Pod) -> bool:
    if not pod.spec.readiness_gates:
        return False
    states = {condition.type: condition.status for condition in pod.status.conditions}
    gates = all(states.get(gate.condition_type) == "True" for gate in pod.spec.readiness_gates)
    return (states.get("Ready") == "True") != (gates and states.get("ContainersReady") == "True")


def _find_earliest_time(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
