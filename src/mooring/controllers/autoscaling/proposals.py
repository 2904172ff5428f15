"""Compute the number of pods that a metric requires, as Kubernetes does. Pure; values in thousandths."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from mooring.api import times
from mooring.api.core_v1 import Pod
from mooring.api.states import is_ready
from mooring.controllers.autoscaling.measures import Measures, NoMeasureError
from mooring.controllers.conditions import find_condition

_CPU_START_SECONDS = 300
"""How long CPU usage of an unready pod is ignored after its start."""
_FIRST_READY_SECONDS = 30
MOST = 2**31 - 1


class Tolerance(msgspec.Struct, frozen=True):
    """The deviation from the target that is ignored."""

    up: float = 0.1
    down: float = 0.1

    def allows(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(msgspec.Struct, frozen=True):
    """The number of pods that one metric requires, and its value."""

    replicas: int
    average: int
    utilization: int | None = None
    """In percent of requests."""


class _Groups(msgspec.Struct):
    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def by_pods(
    pods: Sequence[Pod],
    measures: Measures,
    current: int,
    target: int,
    *,
    tolerance: Tolerance,
    now: datetime,
    resource: str = "",
    requests: Mapping[str, int] | None = None,
) -> Proposal:
    """Propose by usage per pod: `target` in thousandths, or with `requests` in percent of them.

    Raise NoMeasureError.
    """
    if not pods:
        raise NoMeasureError("no pods returned by selector while calculating replica count")
    groups = _grouped(pods, measures, resource, now)
    values = {name: value for name, value in measures.values.items() if name not in groups.ignored | groups.unready}
    names = {pod.metadata.name for pod in pods}
    values = {name: value for name, value in values.items() if name in names}
    if not values:
        raise NoMeasureError("did not receive metrics for targeted pods (pods might be unready)")
    ratio, seen = _ratio(values, target, requests)
    average = sum(values.values()) // len(values)
    utilization = seen if requests is not None else None
    with_unready = bool(groups.unready) and ratio > 1.0
    if not with_unready and not groups.missing:
        wanted = current if tolerance.allows(ratio) else math.ceil(ratio * groups.ready)
        return Proposal(min(wanted, MOST), average, utilization)
    for name in groups.missing:
        if ratio < 1.0:
            values[name] = requests[name] * max(100, target) // 100 if requests is not None else target
        elif ratio > 1.0:
            values[name] = 0
    if with_unready:
        values |= dict.fromkeys(groups.unready, 0)
    again, _ = _ratio(values, target, requests)
    if tolerance.allows(again) or (ratio < 1.0 < again) or (ratio > 1.0 > again):
        return Proposal(current, average, utilization)
    wanted = min(math.ceil(again * len(values)), MOST)
    turned = (again < 1.0 and wanted > current) or (again > 1.0 and wanted < current)
    return Proposal(current if turned else wanted, average, utilization)


def _ratio(values: Mapping[str, int], target: int, requests: Mapping[str, int] | None) -> tuple[float, int]:
    used = sum(values.values())
    if requests is None:
        average = used // len(values)
        return average / target, average
    asked = sum(requests.get(name, 0) for name in values)
    if not asked:
        raise NoMeasureError("no metrics returned matched known pods")
    utilization = used * 100 // asked
    return utilization / target, utilization


def _grouped(pods: Sequence[Pod], measures: Measures, resource: str, now: datetime) -> _Groups:
    groups = _Groups(0, set(), set(), set())
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            groups.ignored.add(name)
        elif pod.status.phase == "Pending":
            groups.unready.add(name)
        elif name not in measures.values:
            groups.missing.add(name)
        elif resource == "cpu" and _is_starting(pod, now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    return groups


def _is_starting(pod: Pod, now: datetime) -> bool:
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is None or pod.status.start_time is None:
        return True
    if ready.status != "False":
        return False
    started = times.parse(pod.status.start_time)
    if times.add_seconds(started, _CPU_START_SECONDS) > now:
        return True
    return times.add_seconds(started, _FIRST_READY_SECONDS) > times.parse(
        ready.last_transition_time or pod.status.start_time
    )


def by_value(pods: Sequence[Pod], measured: int, current: int, target: int, tolerance: Tolerance) -> Proposal:
    """Propose by one value of the whole workload."""
    ratio = measured / target
    if not current:
        return Proposal(min(math.ceil(ratio), MOST), measured)
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
    wanted = current if tolerance.allows(ratio) else min(math.ceil(ratio * ready), MOST)
    return Proposal(wanted, measured)


def propose_per_pod(measured: int, replicas: int, target: int, tolerance: Tolerance) -> Proposal:
    """Propose by one value that the pods share."""
    wanted = replicas
    if not replicas or not tolerance.allows(measured / (target * replicas)):
        wanted = min(math.ceil(measured / target), MOST)
    return Proposal(wanted, math.ceil(measured / replicas) if replicas else measured)
