"""Compute the number of pods that a metric requires, as Kubernetes does. Pure functions; values are in thousandths."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from mooring.api import errors, times
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity, QuantityError, parse
from mooring.api.states import is_ready
from mooring.client import Client
from mooring.constraints.requests import is_sidecar
from mooring.controllers.conditions import find_condition

PREFIX = "metrics.mooring.dev/"


class NoMeasureError(Exception):
    """The metric has no value; the message is for a condition."""


Measures: TypeAlias = Mapping[str, int]
"""Usage by pod name, in thousandths; pods without a value are missing."""


def annotation_value(metadata: ObjectMeta, name: str) -> int | None:
    """Return the value of an annotation, in thousandths."""
    return _milli(metadata.annotations.get(PREFIX + name))


def of_pods(pods: Sequence[Pod], target: ObjectMeta, name: str, container: str = "") -> Measures:
    """Return the usage of running pods from their annotations."""
    running = [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]
    key = f"{name}.{container}" if container else name
    found = {pod.metadata.name: value for pod in running if (value := annotation_value(pod.metadata, key)) is not None}
    total = annotation_value(target, f"total-{key}")
    rest = [pod for pod in running if pod.metadata.name not in found]
    if total is not None and rest:
        share = max(0, total - sum(found.values())) // len(rest)
        found |= {pod.metadata.name: share for pod in rest}
    return found


class _Usage(msgspec.Struct):
    name: str = ""
    usage: dict[str, str] = {}


class _PodMetrics(msgspec.Struct):
    metadata: dict[str, Any] = {}
    containers: list[_Usage] = []


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] = []


async def from_api(client: Client, namespace: str, selector: str, name: str, container: str = "") -> Measures:
    """Read the usage of pods from metrics.k8s.io. Raise NoMeasureError if it is not served."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
    try:
        answer = await client.raw("GET", path, query=[("labelSelector", selector)])
        listed = msgspec.json.decode(answer.body, type=_PodMetricsList)
    except errors.StatusError as error:
        raise NoMeasureError(
            f"no annotation {PREFIX}{name} on the pods, and the server has no metrics API: {error}"
        ) from None
    except msgspec.DecodeError as error:
        raise NoMeasureError(f"the metrics API cannot be understood: {error}") from None
    found: dict[str, int] = {}
    for pod in listed.items:
        parts = [_milli(each.usage.get(name)) for each in pod.containers if not container or each.name == container]
        if parts and None not in parts:
            found[str(pod.metadata.get("name", ""))] = sum(part or 0 for part in parts)
    return found


def _milli(text: str | None) -> int | None:
    try:
        return parse(text).milli_value() if text is not None else None
    except QuantityError:
        return None


def requests_of(pods: Sequence[Pod], name: str, container: str = "") -> dict[str, int]:
    """Return the resource requests of pods, in thousandths. Raise NoMeasureError if one has none."""
    found: dict[str, int] = {}
    for pod in pods:
        total = 0
        for each in (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)):
            if container and each.name != container:
                continue
            asked: Quantity | None = each.resources.requests.get(name)
            if asked is None:
                where = f"container {each.name} of Pod {pod.metadata.name}"
                raise NoMeasureError(f"missing request for {name} in {where}")
            total += asked.milli_value()
        found[pod.metadata.name] = total
    return found


_CPU_START_SECONDS = 300
"""How long CPU usage of an unready pod is ignored after its start."""
_FIRST_READY_SECONDS = 30
MOST = 2**31 - 1


class Tolerance(msgspec.Struct, frozen=True):
    """The relative deviation from the target that does not cause scaling."""

    up: float = 0.1
    down: float = 0.1

    def allows(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(msgspec.Struct, frozen=True):
    """The number of pods that one metric requires, and the metric's current value."""

    replicas: int
    average: int
    utilization: int | None = None
    """The utilisation in per cent of requests."""


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
    """Propose pods by usage per pod: `target` in thousandths, or per cent of `requests`. Raise NoMeasureError."""
    if not pods:
        raise NoMeasureError("no pods returned by selector while calculating replica count")
    groups = _group_pods(pods, measures, resource, now)
    values = {name: value for name, value in measures.items() if name not in groups.ignored | groups.unready}
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


def _group_pods(pods: Sequence[Pod], measures: Measures, resource: str, now: datetime) -> _Groups:
    groups = _Groups(0, set(), set(), set())
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            groups.ignored.add(name)
        elif pod.status.phase == "Pending":
            groups.unready.add(name)
        elif name not in measures:
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
    """Propose a number of pods by one value of the whole workload."""
    ratio = measured / target
    if not current:
        return Proposal(min(math.ceil(ratio), MOST), measured)
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
    wanted = current if tolerance.allows(ratio) else min(math.ceil(ratio * ready), MOST)
    return Proposal(wanted, measured)


def propose_per_pod(measured: int, replicas: int, target: int, tolerance: Tolerance) -> Proposal:
    """Propose a number of pods by one value that is divided among the pods."""
    wanted = replicas
    if not replicas or not tolerance.allows(measured / (target * replicas)):
        wanted = min(math.ceil(measured / target), MOST)
    return Proposal(wanted, math.ceil(measured / replicas) if replicas else measured)
