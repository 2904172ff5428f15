"""The states of a pod, as Kubernetes' workload controllers define them. Pure functions."""

import math
from collections.abc import Iterable
from datetime import datetime

from mooring.api import times
from mooring.api.core_v1 import Pod
from mooring.api.states import has_ended, is_ready
from mooring.constraints.tolerations import parse_canonical_int64
from mooring.controllers.conditions import find_condition

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod is terminating and has not ended."""
    return pod.metadata.deletion_timestamp is not None and not has_ended(pod)


def is_active(pod: Pod) -> bool:
    """Return whether the pod has neither ended nor is terminating."""
    return not has_ended(pod) and pod.metadata.deletion_timestamp is None


def readiness_time(pod: Pod) -> datetime | None:
    """Return when the pod became ready; None if it is not."""
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is None or ready.status != "True" or not ready.last_transition_time:
        return None
    return times.parse(ready.last_transition_time)


def seconds_to_availability(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Return the seconds until a pod is available (ready for `min_ready_seconds`): 0 if it is, None if not ready."""
    if not is_ready(pod):
        return None
    if min_ready_seconds == 0:
        return 0.0
    since = readiness_time(pod)
    if since is None:
        return None
    return max(0.0, min_ready_seconds - (now - since).total_seconds())


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Return whether the pod has been ready for long enough."""
    return seconds_to_availability(pod, min_ready_seconds, now) == 0.0


def seconds_to_next_availability(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> float | None:
    """Return in how many seconds the next pod becomes available; None if none will."""
    if min_ready_seconds == 0:
        return None
    waits = (seconds_to_availability(pod, min_ready_seconds, now) for pod in pods)
    return min((wait for wait in waits if wait), default=None)


def deletion_sort_key(pod: Pod, neighbours: int, now: datetime) -> tuple[object, ...]:
    """Return the key by which pods are sorted for scaling down: those to delete first come first.

    Unassigned before assigned, pending before running, not ready before ready, lower before higher deletion cost, more
    `neighbours` (pods of the workload on the node) before fewer, younger before older; ages compare by order of
    magnitude, so that not always the newest node loses its pods.
    """
    cost = pod.metadata.annotations.get(DELETION_COST, "0")
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        is_ready(pod),
        parse_canonical_int64(cost) or 0,
        -neighbours,
        _age_magnitude(readiness_time(pod), now),
        -max((status.restart_count for status in pod.status.container_statuses), default=0),
        _age_magnitude(creation_time(pod), now),
        pod.metadata.uid,
    )


def creation_time(pod: Pod) -> datetime | None:
    stamp = pod.metadata.creation_timestamp
    return times.parse(stamp) if stamp else None


def _age_magnitude(since: datetime | None, now: datetime) -> int:
    if since is None:
        return -1
    return int(math.log2(max(1.0, (now - since).total_seconds())))
