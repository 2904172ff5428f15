"""Evaluate pod failure policies, success policies and backoff of Jobs. Pure functions."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from mooring.api import times
from mooring.api.batch_v1 import Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule
from mooring.api.core_v1 import ContainerStatus, Pod
from mooring.client import Backoff
from mooring.controllers.conditions import find_condition
from mooring.controllers.workloads.job_indexes import IndexSet

POD_BACKOFF = Backoff(initial=10.0, maximum=600.0)


class FailureDecision(msgspec.Struct, frozen=True):
    """The action of a failure policy for a failed pod."""

    action: str = "Count"
    message: str = ""


COUNTS = FailureDecision()


def failure_action(job: Job, pod: Pod) -> FailureDecision:
    """Return the action of the first matching rule; without one the failure counts."""
    policy = job.spec.pod_failure_policy
    if policy is None or pod.status.phase != "Failed":
        return COUNTS
    for index, rule in enumerate(policy.rules):
        why = _match(rule, pod)
        if why is not None:
            return FailureDecision(rule.action, f"{why} matching {rule.action} rule at index {index}")
    return COUNTS


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        for status in _statuses(pod):
            code = _failed_with(rule.on_exit_codes, status)
            if code is not None:
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return None
    for pattern in rule.on_pod_conditions:
        condition = find_condition(pod.status.conditions, pattern.type)
        if condition is not None and condition.status == (pattern.status or "True"):
            return f"Pod {where} has condition {condition.type}"
    return None


def _statuses(pod: Pod) -> Iterator[ContainerStatus]:
    yield from pod.status.container_statuses
    yield from pod.status.init_container_statuses


def _failed_with(wanted: PodFailurePolicyOnExitCodesRequirement, status: ContainerStatus) -> int | None:
    ended = status.state.terminated
    if ended is None or ended.exit_code == 0:
        return None
    if wanted.container_name is not None and wanted.container_name != status.name:
        return None
    return ended.exit_code if (ended.exit_code in wanted.values) is (wanted.operator == "In") else None


def find_met_success_rule(job: Job, completed: IndexSet) -> str | None:
    """Return the message of the first success rule that the completed indexes meet."""
    policy = job.spec.success_policy
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        chosen = completed
        if rule.succeeded_indexes is not None:
            wanted = IndexSet.parse(rule.succeeded_indexes, job.spec.completions or 0)
            chosen = completed & wanted
            if rule.succeeded_count is None and chosen == wanted:
                return f"Matched rules at index {index}"
        if rule.succeeded_count is not None and len(chosen) >= rule.succeeded_count:
            return f"Matched rules at index {index}"
    return None


def finish_time(pod: Pod) -> datetime | None:
    """Return when a pod ended: its last container, else when it became unready, else its deletion."""
    ended = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at
    ]
    if ended:
        return max(map(times.parse, ended))
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return times.parse(ready.last_transition_time)
    stamp = pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp
    return times.parse(stamp) if stamp else None


def backoff_after(failed: Iterable[Pod], succeeded: Iterable[Pod], now: datetime) -> float:
    """Return for how many seconds no pod is created, by the failures since the last success."""
    last_success = max(filter(None, map(finish_time, succeeded)), default=None)
    failures = [
        time for time in map(finish_time, failed) if time is not None and (last_success is None or time > last_success)
    ]
    if not failures:
        return 0.0
    until = times.add_seconds(max(failures), POD_BACKOFF.delay(len(failures)))
    return max(0.0, (until - now).total_seconds())


def exceeds_restart_limit(job: Job, active: Iterable[Pod]) -> bool:
    """Return whether container restarts have used up the backoff limit."""
    if job.spec.template.spec.restart_policy != "OnFailure" or job.spec.backoff_limit is None:
        return False
    restarts = sum(
        status.restart_count
        for pod in active
        if pod.status.phase in ("Pending", "Running")
        for status in _statuses(pod)
    )
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit
