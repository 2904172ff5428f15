"""Compute the status of a Deployment: counts, and the conditions that `kubectl rollout status` reads."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from mooring.api import times
from mooring.api.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from mooring.controllers.conditions import find_condition, new_condition
from mooring.controllers.workloads import deployment_pace as pace
from mooring.controllers.workloads.replicas import REPLICA_FAILURE

AVAILABLE, PROGRESSING = "Available", "Progressing"
NEW_AVAILABLE, UPDATED, TIMED_OUT = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"
CREATED, FOUND, CREATE_ERROR = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetCreateError"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
NO_DEADLINE = 2**31 - 1

Conditions = Sequence[DeploymentCondition]


def without(conditions: Conditions, kind: str) -> list[DeploymentCondition]:
    return [each for each in conditions if each.type != kind]


def with_condition(
    conditions: Conditions, kind: str, content: tuple[str, str, str], now: datetime, *, always: bool = False
) -> list[DeploymentCondition]:
    """Set a condition; return the same list if only the message differs, unless `always`."""
    before = find_condition(conditions, kind)
    if not always and before is not None and (before.status, before.reason) == content[:2]:
        return list(conditions)
    stamp = times.to_seconds(now)
    condition = new_condition(DeploymentCondition, conditions, (kind, *content), stamp, last_update_time=stamp)
    return [*without(conditions, kind), condition]


def has_deadline(deployment: Deployment) -> bool:
    deadline = deployment.spec.progress_deadline_seconds
    return deadline is not None and deadline != NO_DEADLINE


def compute_counts(
    deployment: Deployment, conditions: Conditions, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return the pod counts of a Deployment's status, and whether it is available."""
    available = pace.total_available(sets)
    if available >= pace.replicas(deployment) - pace.max_unavailable(deployment):
        content = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        content = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    terminating = [each.status.terminating_replicas for each in sets]
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(each.status.ready_replicas for each in sets),
        available_replicas=available,
        unavailable_replicas=max(0, pace.total(sets) - available),
        terminating_replicas=None if None in terminating else sum(number or 0 for number in terminating),
        conditions=with_condition(conditions, AVAILABLE, content, now),
        collision_count=deployment.status.collision_count,
    )


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return whether all pods have the current template and are available, and no others exist."""
    wanted = pace.replicas(deployment)
    return (
        status.updated_replicas == status.replicas == status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )


def _is_progressing(deployment: Deployment, status: DeploymentStatus) -> bool:
    before = deployment.status
    return (
        status.updated_replicas > before.updated_replicas
        or status.replicas - status.updated_replicas < before.replicas - before.updated_replicas
        or status.ready_replicas > before.ready_replicas
        or status.available_replicas > before.available_replicas
    )


def seconds_to_deadline(deployment: Deployment, conditions: Conditions, now: datetime) -> float | None:
    """Return in how many seconds a rollout without progress fails; None if none is in progress."""
    condition = find_condition(conditions, PROGRESSING)
    if condition is None or not has_deadline(deployment) or condition.reason in (NEW_AVAILABLE, TIMED_OUT):
        return None
    since = times.parse(condition.last_update_time) if condition.last_update_time else now
    deadline = times.add_seconds(since, deployment.spec.progress_deadline_seconds or 0)
    return (deadline - now).total_seconds()


def _has_timed_out(deployment: Deployment, conditions: Conditions, now: datetime) -> bool:
    condition = find_condition(conditions, PROGRESSING)
    if condition is not None and condition.reason == TIMED_OUT:
        return True
    left = seconds_to_deadline(deployment, conditions, now)
    return left is not None and left < 0


def compute_rollout_status(
    deployment: Deployment, conditions: Conditions, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return the status during and after a rollout."""
    status = compute_counts(deployment, conditions, new, sets, now)
    found = status.conditions
    if not has_deadline(deployment):
        found = without(found, PROGRESSING)
    progress = find_condition(found, PROGRESSING)
    was_complete = (
        status.replicas == status.updated_replicas and progress is not None and progress.reason == NEW_AVAILABLE
    )
    if has_deadline(deployment) and not was_complete:
        what = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
        if is_complete(deployment, status):
            text = f"{what} has successfully progressed."
            found = with_condition(found, PROGRESSING, ("True", NEW_AVAILABLE, text), now)
        elif _is_progressing(deployment, status):
            content = ("True", UPDATED, f"{what} is progressing.")
            found = with_condition(found, PROGRESSING, content, now, always=True)
        elif _has_timed_out(deployment, found, now):
            text = f"{what} has timed out progressing."
            found = with_condition(found, PROGRESSING, ("False", TIMED_OUT, text), now)
    return structs.replace(status, conditions=_replica_failure(found, new, sets, now))


def _replica_failure(
    conditions: Conditions, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: datetime
) -> list[DeploymentCondition]:
    ordered = [*([new] if new is not None else []), *sets]
    failures = (each for owner in ordered for each in owner.status.conditions if each.type == REPLICA_FAILURE)
    failure = next((each for each in failures if each.status == "True"), None)
    if failure is None:
        return without(conditions, REPLICA_FAILURE)
    return with_condition(conditions, REPLICA_FAILURE, ("True", failure.reason, failure.message), now)
