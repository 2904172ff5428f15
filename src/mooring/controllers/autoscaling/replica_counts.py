"""Compute the number of pods to scale a workload to, as Kubernetes does: by its metrics, then within limits.

Metric values are in thousandths. The limits are stabilization windows and policies per period; they use past
recommendations and changes, which are kept in memory, as in kube-controller-manager. Called by ``horizontal.py``.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from mooring.api import errors, times
from mooring.api.autoscaling_v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity, QuantityError, parse
from mooring.api.states import is_ready
from mooring.client import Client
from mooring.constraints.requests import is_sidecar
from mooring.controllers.conditions import find_condition

PREFIX = "metrics.mooring.dev/"


class NoMeasureError(Exception):
    """A metric has no value; the message says why, for events and a condition of the autoscaler."""


Measures: TypeAlias = Mapping[str, int]
"""Usage by pod name, in thousandths; pods without a value are missing."""


def read_annotated_value(metadata: ObjectMeta, name: str) -> int | None:
    """Read a metric from the annotation `metrics.mooring.dev/<name>`, in thousandths; None if missing or invalid."""
    return _parse_milli(metadata.annotations.get(PREFIX + name))


def read_annotated_usage(pods: Sequence[Pod], target: ObjectMeta, name: str, container: str = "") -> Measures:
    """Return usage in thousandths, by pod name, from annotations; pods without them share the rest of the total.

    The total is an annotation of the autoscaler's target. Only running pods count.
    """
    running = [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]
    key = f"{name}.{container}" if container else name
    found = {
        pod.metadata.name: value for pod in running if (value := read_annotated_value(pod.metadata, key)) is not None
    }
    total = read_annotated_value(target, f"total-{key}")
    rest = [pod for pod in running if pod.metadata.name not in found]
    if total is not None and rest:
        share = max(0, total - sum(found.values())) // len(rest)
        found |= {pod.metadata.name: share for pod in rest}
    return found


class _ContainerMetrics(msgspec.Struct):
    name: str = ""
    usage: dict[str, str] = {}


class _PodMetrics(msgspec.Struct):
    metadata: dict[str, Any] = {}
    containers: list[_ContainerMetrics] = []


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] = []


async def read_api_usage(client: Client, namespace: str, selector: str, name: str, container: str = "") -> Measures:
    """Return the usage of the resource `name` in thousandths, by pod name, from the API metrics.k8s.io.

    With `container`, only its usage counts. Pods with a value missing are left out. Raise NoMeasureError if the API is
    not served or its response is invalid.
    """
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
        parts = [
            _parse_milli(each.usage.get(name)) for each in pod.containers if not container or each.name == container
        ]
        if parts and None not in parts:
            found[str(pod.metadata.get("name", ""))] = sum(part or 0 for part in parts)
    return found


def _parse_milli(text: str | None) -> int | None:
    try:
        return parse(text).milli_value() if text is not None else None
    except QuantityError:
        return None


def sum_requests_by_pod(pods: Sequence[Pod], name: str, container: str = "") -> dict[str, int]:
    """Return requests of a resource in thousandths, by pod name. Raise NoMeasureError if a container has none."""
    found: dict[str, int] = {}
    for pod in pods:
        total = 0
        for each in (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)):
            if container and each.name != container:
                continue
            requested: Quantity | None = each.resources.requests.get(name)
            if requested is None:
                where = f"container {each.name} of Pod {pod.metadata.name}"
                raise NoMeasureError(f"missing request for {name} in {where}")
            total += requested.milli_value()
        found[pod.metadata.name] = total
    return found


_CPU_START_SECONDS = 300
"""How long CPU usage of an unready pod is ignored after its start."""
_FIRST_READY_SECONDS = 30
MAX_REPLICAS = 2**31 - 1


class ScalingTolerance(msgspec.Struct, frozen=True):
    """The relative deviations of a metric from its target, upwards and downwards, that do not cause scaling."""

    up: float = 0.1
    down: float = 0.1

    def includes_ratio(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(msgspec.Struct, frozen=True):
    """The number of pods that one metric requires, and the metric's current value."""

    replicas: int
    average: int
    utilization: int | None = None
    """The utilisation in per cent of requests."""


class _PodGroups(msgspec.Struct):
    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def propose_by_usage(
    pods: Sequence[Pod],
    measures: Measures,
    current: int,
    target: int,
    *,
    tolerance: ScalingTolerance,
    now: datetime,
    resource: str = "",
    requests: Mapping[str, int] | None = None,
) -> Proposal:
    """Propose the number of pods at which each uses `target`: in thousandths, or in per cent of `requests` if given.

    A pod without a value counts as idle before scaling up, and as using its target before scaling down, so that it
    cannot cause scaling. Raise NoMeasureError if no pod has a value.
    """
    if not pods:
        raise NoMeasureError("no pods returned by selector while calculating replica count")
    groups = _group_pods(pods, measures, resource, now)
    values = {name: value for name, value in measures.items() if name not in groups.ignored | groups.unready}
    names = {pod.metadata.name for pod in pods}
    values = {name: value for name, value in values.items() if name in names}
    if not values:
        raise NoMeasureError("did not receive metrics for targeted pods (pods might be unready)")
    ratio, seen = _usage_ratio(values, target, requests)
    average = sum(values.values()) // len(values)
    utilization = seen if requests is not None else None
    with_unready = bool(groups.unready) and ratio > 1.0
    if not with_unready and not groups.missing:
        wanted = current if tolerance.includes_ratio(ratio) else math.ceil(ratio * groups.ready)
        return Proposal(min(wanted, MAX_REPLICAS), average, utilization)
    for name in groups.missing:
        if ratio < 1.0:
            values[name] = requests[name] * max(100, target) // 100 if requests is not None else target
        elif ratio > 1.0:
            values[name] = 0
    if with_unready:
        values |= dict.fromkeys(groups.unready, 0)
    again, _ = _usage_ratio(values, target, requests)
    if tolerance.includes_ratio(again) or (ratio < 1.0 < again) or (ratio > 1.0 > again):
        return Proposal(current, average, utilization)
    wanted = min(math.ceil(again * len(values)), MAX_REPLICAS)
    turned = (again < 1.0 and wanted > current) or (again > 1.0 and wanted < current)
    return Proposal(current if turned else wanted, average, utilization)


def _usage_ratio(values: Mapping[str, int], target: int, requests: Mapping[str, int] | None) -> tuple[float, int]:
    used = sum(values.values())
    if requests is None:
        average = used // len(values)
        return average / target, average
    requested = sum(requests.get(name, 0) for name in values)
    if not requested:
        raise NoMeasureError("no metrics returned matched known pods")
    utilization = used * 100 // requested
    return utilization / target, utilization


def _group_pods(pods: Sequence[Pod], measures: Measures, resource: str, now: datetime) -> _PodGroups:
    groups = _PodGroups(0, set(), set(), set())
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            groups.ignored.add(name)
        elif pod.status.phase == "Pending":
            groups.unready.add(name)
        elif name not in measures:
            groups.missing.add(name)
        elif resource == "cpu" and _is_cpu_unreliable(pod, now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    return groups


def _is_cpu_unreliable(pod: Pod, now: datetime) -> bool:
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


def propose_by_total(
    pods: Sequence[Pod], measured: int, current: int, target: int, tolerance: ScalingTolerance
) -> Proposal:
    """Propose the number of pods at which one value measured for the whole workload falls to the target."""
    ratio = measured / target
    if not current:
        return Proposal(min(math.ceil(ratio), MAX_REPLICAS), measured)
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
    wanted = current if tolerance.includes_ratio(ratio) else min(math.ceil(ratio * ready), MAX_REPLICAS)
    return Proposal(wanted, measured)


def propose_by_value_per_pod(measured: int, replicas: int, target: int, tolerance: ScalingTolerance) -> Proposal:
    """Propose the number of pods at which each has at most `target` of one value that all pods share."""
    wanted = replicas
    if not replicas or not tolerance.includes_ratio(measured / (target * replicas)):
        wanted = min(math.ceil(measured / target), MAX_REPLICAS)
    return Proposal(wanted, math.ceil(measured / replicas) if replicas else measured)


_UP_POLICIES = [
    HPAScalingPolicy(type="Pods", value=4, period_seconds=15),
    HPAScalingPolicy(type="Percent", value=100, period_seconds=15),
]
_DOWN_POLICIES = [HPAScalingPolicy(type="Percent", value=100, period_seconds=15)]
_UP = HPAScalingRules(stabilization_window_seconds=0, select_policy="Max", policies=_UP_POLICIES)
_DOWN = HPAScalingRules(stabilization_window_seconds=300, select_policy="Max", policies=_DOWN_POLICIES)
_OLDEST_SECONDS = 3600.0


class ScalingDecision(msgspec.Struct, frozen=True):
    """The number of pods to scale to, and the contents of the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able: tuple[str, str]
    limited: tuple[str, str, str]


class ScalingRequest(msgspec.Struct, frozen=True):
    """The input of a scaling decision: current pods, pods that metrics require, minimum and maximum, and the time."""

    current: int
    wanted: int
    least: int
    most: int
    now: float


class ScalingHistory(msgspec.Struct):
    """Past recommendations and changes of one autoscaler, with their times."""

    recommended: list[tuple[float, int]] = msgspec.field(default_factory=list)
    changed: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """Changes of the number of pods, positive when scaled up."""

    def added_pods(self, seconds: float, now: float) -> int:
        """Return by how many pods the workload grew in the last `seconds`; negative if it shrank."""
        return sum(change for time, change in self.changed if now - time <= seconds)


def apply_behavior(
    behavior: HorizontalPodAutoscalerBehavior | None, history: ScalingHistory, request: ScalingRequest
) -> ScalingDecision:
    """Limit the number of pods that metrics require by stabilization windows, scaling policies, minimum and maximum.

    Add the required number to the history.
    """
    up = (behavior.scale_up if behavior else None) or _UP
    down = (behavior.scale_down if behavior else None) or _DOWN
    stable = _apply_stabilization(history, request, up, down)
    if stable == request.wanted:
        able = ("ReadyForNewScale", "recommended size matches current size")
    elif request.wanted >= request.current:
        text = "recent recommendations were lower than current one, applying the lowest recent recommendation"
        able = ("ScaleUpStabilized", text)
    else:
        text = "recent recommendations were higher than current one, applying the highest recent recommendation"
        able = ("ScaleDownStabilized", text)
    replicas, reason, message = _apply_limits(history, replace(request, wanted=stable), up, down)
    return ScalingDecision(replicas, able, ("False" if replicas == stable else "True", reason, message))


def _apply_stabilization(
    history: ScalingHistory, request: ScalingRequest, up: HPAScalingRules, down: HPAScalingRules
) -> int:
    lowest = highest = request.wanted
    for time, recommendation in history.recommended:
        if request.now - time < _stabilization_seconds(up, _UP):
            lowest = min(lowest, recommendation)
        if request.now - time < _stabilization_seconds(down, _DOWN):
            highest = max(highest, recommendation)
    history.recommended.append((request.now, request.wanted))
    history.recommended = [each for each in history.recommended if request.now - each[0] <= _OLDEST_SECONDS]
    history.changed = [each for each in history.changed if request.now - each[0] <= _OLDEST_SECONDS]
    return min(max(request.current, lowest), highest)


def _stabilization_seconds(rules: HPAScalingRules, default: HPAScalingRules) -> int:
    seconds = rules.stabilization_window_seconds
    return (default.stabilization_window_seconds or 0) if seconds is None else seconds


def _apply_limits(
    history: ScalingHistory, request: ScalingRequest, up: HPAScalingRules, down: HPAScalingRules
) -> tuple[int, str, str]:
    current, wanted = request.current, request.wanted
    if wanted > current:
        limit = max(current, _apply_policies(history, current, up, request.now, is_up=True))
        if request.most > limit:
            text = "the desired replica count is increasing faster than the maximum scale rate"
            limit_reason = ("ScaleUpLimit", text)
        else:
            limit_reason = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
        if wanted > min(request.most, limit):
            return min(request.most, limit), *limit_reason
    elif wanted < current:
        limit = min(current, _apply_policies(history, current, down, request.now, is_up=False))
        if request.least < limit:
            text = "the desired replica count is decreasing faster than the maximum scale rate"
            limit_reason = ("ScaleDownLimit", text)
        else:
            limit_reason = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
        if wanted < max(request.least, limit):
            return max(request.least, limit), *limit_reason
    return wanted, "DesiredWithinRange", "the desired count is within the acceptable range"


def _apply_policies(history: ScalingHistory, current: int, rules: HPAScalingRules, now: float, *, is_up: bool) -> int:
    """Return the highest (`is_up`) or lowest number of pods that the scaling policies allow now.

    With selectPolicy `Min` the strictest policy counts, otherwise the most permissive one.
    """
    if rules.select_policy == "Disabled":
        return current
    proposed = []
    for policy in rules.policies or (_UP_POLICIES if is_up else _DOWN_POLICIES):
        before = current - history.added_pods(policy.period_seconds, now)
        value = policy.value if is_up else -policy.value
        after = before + value if policy.type == "Pods" else before * (1 + value / 100)
        proposed.append(math.ceil(after) if is_up else int(after))
    return max(proposed) if is_up is (rules.select_policy != "Min") else min(proposed)
