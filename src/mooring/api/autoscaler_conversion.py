"""Convert HorizontalPodAutoscaler between autoscaling/v1 and v2, as Kubernetes does.

v1 has one metric, cpu utilization. The other fields of v2 are kept in annotations of the v1 object, in the format of
v1's former types, so that a v1 client that reads and writes loses nothing. A malformed annotation is dropped. Called by
the scheme (`Kind.to_hub`, `Kind.from_hub`).
"""

from typing import Any

import msgspec
from msgspec import structs

from mooring.api import autoscaling_v1 as v1
from mooring.api import autoscaling_v2 as v2
from mooring.api import codec
from mooring.api.json_tree import DecodeError

Tree = dict[str, Any]
_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT, CONDITIONS, BEHAVIOR = (
    _PREFIX + name for name in ("metrics", "current-metrics", "conditions", "behavior")
)
_ANNOTATIONS = frozenset({METRICS, CURRENT, CONDITIONS, BEHAVIOR})
DEFAULT_CPU_UTILIZATION = 80


def cpu_metric(utilization: int) -> v2.MetricSpec:
    """Return the v2 metric for v1's cpu percentage."""
    target = v2.MetricTarget(type="Utilization", average_utilization=utilization)
    return v2.MetricSpec(type="Resource", resource=v2.ResourceMetricSource(name="cpu", target=target))


def autoscaler_from_v1(old: v1.HorizontalPodAutoscaler) -> v2.HorizontalPodAutoscaler:
    annotations = old.metadata.annotations
    target = old.spec.scale_target_ref
    percentage = old.spec.target_cpu_utilization_percentage
    own = [cpu_metric(percentage)] if percentage is not None else []
    spec = v2.HorizontalPodAutoscalerSpec(
        scale_target_ref=v2.CrossVersionObjectReference(
            kind=target.kind, name=target.name, api_version=target.api_version
        ),
        min_replicas=old.spec.min_replicas,
        max_replicas=old.spec.max_replicas,
        metrics=[*_read(annotations.get(METRICS), list[v2.MetricSpec], _metrics_to_v2), *own],
        behavior=next(
            iter(_read(annotations.get(BEHAVIOR), list[v2.HorizontalPodAutoscalerBehavior], _to_camel)), None
        ),
    )
    spec.metrics = spec.metrics or [cpu_metric(DEFAULT_CPU_UTILIZATION)]
    status = v2.HorizontalPodAutoscalerStatus(
        observed_generation=old.status.observed_generation,
        last_scale_time=old.status.last_scale_time,
        current_replicas=old.status.current_replicas,
        desired_replicas=old.status.desired_replicas,
        current_metrics=_read(annotations.get(CURRENT), list[v2.MetricStatus], _statuses_to_v2) or _cpu_status(old),
        conditions=_read(annotations.get(CONDITIONS), list[v2.HorizontalPodAutoscalerCondition], _identity),
    )
    kept = {key: value for key, value in annotations.items() if key not in _ANNOTATIONS}
    metadata = structs.replace(old.metadata, annotations=kept)
    return v2.HorizontalPodAutoscaler(metadata=metadata, spec=spec, status=status)


def autoscaler_to_v1(new: v2.HorizontalPodAutoscaler) -> v1.HorizontalPodAutoscaler:
    spec, target = new.spec, new.spec.scale_target_ref
    percentages = [found for metric in spec.metrics if (found := _cpu_utilization(metric)) is not None]
    others = [metric for metric in spec.metrics if _cpu_utilization(metric) is None]
    annotations = {key: value for key, value in new.metadata.annotations.items() if key not in _ANNOTATIONS}
    for name, values, change in (
        (METRICS, others, _metric_to_v1),
        (CURRENT, new.status.current_metrics, _status_to_v1),
        (CONDITIONS, new.status.conditions, lambda tree: tree),
    ):
        if values:
            annotations[name] = _json([change(codec.to_tree(value)) for value in values])
    if spec.behavior is not None:
        annotations[BEHAVIOR] = _json(_change_case(codec.to_tree(spec.behavior), _upper))
    used = [
        metric.resource.current.average_utilization
        for metric in new.status.current_metrics
        if metric.resource is not None and metric.resource.name == "cpu"
    ]
    return v1.HorizontalPodAutoscaler(
        metadata=structs.replace(new.metadata, annotations=annotations),
        spec=v1.HorizontalPodAutoscalerSpec(
            scale_target_ref=v1.CrossVersionObjectReference(
                kind=target.kind, name=target.name, api_version=target.api_version
            ),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            target_cpu_utilization_percentage=percentages[0] if percentages else None,
        ),
        status=v1.HorizontalPodAutoscalerStatus(
            observed_generation=new.status.observed_generation,
            last_scale_time=new.status.last_scale_time,
            current_replicas=new.status.current_replicas,
            desired_replicas=new.status.desired_replicas,
            current_cpu_utilization_percentage=next((each for each in used if each is not None), None),
        ),
    )


def _cpu_utilization(metric: v2.MetricSpec) -> int | None:
    source = metric.resource
    if metric.type != "Resource" or source is None or source.name != "cpu":
        return None
    return source.target.average_utilization


def _cpu_status(old: v1.HorizontalPodAutoscaler) -> list[v2.MetricStatus]:
    used = old.status.current_cpu_utilization_percentage
    if used is None:
        return []
    current = v2.MetricValueStatus(average_utilization=used)
    return [v2.MetricStatus(type="Resource", resource=v2.ResourceMetricStatus(name="cpu", current=current))]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _read(text: str | None, wanted: Any, change: Any) -> Any:
    """Parse an annotation into v2 objects; return an empty list if it is malformed."""
    if not text:
        return []
    try:
        return codec.decode_tree(change(msgspec.json.decode(text)), wanted, codec.FieldValidation.IGNORE).object
    except (msgspec.MsgspecError, DecodeError, AttributeError, TypeError, KeyError, RecursionError):
        return []


def _identity(tree: Any) -> Any:
    return tree


def _to_camel(tree: Any) -> list[Any]:
    """Convert behavior from Go's field names (`ScaleUp`), without applying defaults, as v1 does not."""
    found = _change_case(tree, _lower)
    for rules in found.values():
        rules.setdefault("policies", [])
    return [found] if found else []


def _change_case(tree: Any, change: Any) -> Any:
    if isinstance(tree, dict):
        return {change(key): _change_case(value, change) for key, value in tree.items() if value is not None}
    return [_change_case(value, change) for value in tree] if isinstance(tree, list) else tree


def _upper(name: str) -> str:
    return name[:1].upper() + name[1:]


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]


_KINDS = ("object", "pods", "resource", "containerResource", "external")


def _metric_to_v1(tree: Tree) -> Tree:
    kind = next((name for name in _KINDS if name in tree), "")
    source = tree.get(kind, {})
    target, metric = source.get("target", {}), source.get("metric", {})
    average, value = target.get("averageValue"), target.get("value")
    match kind:
        case "object":
            words = {
                "target": source.get("describedObject"),
                "metricName": metric.get("name", ""),
                "targetValue": value or "0",
                "selector": metric.get("selector"),
                "averageValue": average,
            }
        case "pods":
            words = {
                "metricName": metric.get("name", ""),
                "targetAverageValue": average or "0",
                "selector": metric.get("selector"),
            }
        case "external":
            words = {
                "metricName": metric.get("name", ""),
                "metricSelector": metric.get("selector"),
                "targetValue": value,
                "targetAverageValue": average,
            }
        case _:
            words = {
                "name": source.get("name"),
                "targetAverageUtilization": target.get("averageUtilization"),
                "targetAverageValue": average,
                "container": source.get("container"),
            }
    return {"type": tree.get("type", ""), **({kind: _without_none(words)} if kind else {})}


def _metrics_to_v2(trees: list[Tree]) -> list[Tree]:
    return [_metric_to_v2(tree) for tree in trees]


def _metric_to_v2(tree: Tree) -> Tree:
    kind = next((name for name in _KINDS if tree.get(name) is not None), "")
    old = tree.get(kind, {})
    metric = _without_none({"name": old.get("metricName", ""), "selector": old.get("selector")})
    match kind:
        case "object":
            average = old.get("averageValue")
            target = _without_none(
                {
                    "type": "AverageValue" if average else "Value",
                    "value": None if average else old.get("targetValue"),
                    "averageValue": average,
                }
            )
            words: Tree = {"describedObject": old.get("target", {}), "target": target, "metric": metric}
        case "pods":
            words = {
                "metric": metric,
                "target": {"type": "AverageValue", "averageValue": old.get("targetAverageValue", "0")},
            }
        case "external":
            metric = _without_none({"name": old.get("metricName", ""), "selector": old.get("metricSelector")})
            target = _without_none(
                {
                    "type": "Value" if old.get("targetValue") is not None else "AverageValue",
                    "value": old.get("targetValue"),
                    "averageValue": old.get("targetAverageValue"),
                }
            )
            words = {"metric": metric, "target": target}
        case _:
            utilization = old.get("targetAverageUtilization")
            target = _without_none(
                {
                    "type": "AverageValue" if utilization is None else "Utilization",
                    "averageUtilization": utilization,
                    "averageValue": old.get("targetAverageValue"),
                }
            )
            words = _without_none({"name": old.get("name", ""), "target": target, "container": old.get("container")})
    return {"type": tree.get("type", ""), **({kind: words} if kind else {})}


def _status_to_v1(tree: Tree) -> Tree:
    kind = next((name for name in _KINDS if name in tree), "")
    source = tree.get(kind, {})
    current, metric = source.get("current", {}), source.get("metric", {})
    average, value = current.get("averageValue"), current.get("value")
    match kind:
        case "object":
            words = {
                "target": source.get("describedObject"),
                "metricName": metric.get("name", ""),
                "currentValue": value or "0",
                "selector": metric.get("selector"),
                "averageValue": average,
            }
        case "pods":
            words = {
                "metricName": metric.get("name", ""),
                "currentAverageValue": average or "0",
                "selector": metric.get("selector"),
            }
        case "external":
            words = {
                "metricName": metric.get("name", ""),
                "metricSelector": metric.get("selector"),
                "currentValue": value or "0",
                "currentAverageValue": average,
            }
        case _:
            words = {
                "name": source.get("name"),
                "currentAverageUtilization": current.get("averageUtilization"),
                "currentAverageValue": average or "0",
                "container": source.get("container"),
            }
    return {"type": tree.get("type", ""), **({kind: _without_none(words)} if kind else {})}


def _statuses_to_v2(trees: list[Tree]) -> list[Tree]:
    return [_status_to_v2(tree) for tree in trees]


def _status_to_v2(tree: Tree) -> Tree:
    kind = next((name for name in _KINDS if tree.get(name) is not None), "")
    old = tree.get(kind, {})
    selector = old.get("metricSelector") if kind == "external" else old.get("selector")
    metric = _without_none({"name": old.get("metricName", ""), "selector": selector})
    current = _without_none(
        {
            "value": old.get("currentValue"),
            "averageValue": old.get("averageValue") if kind == "object" else old.get("currentAverageValue"),
            "averageUtilization": old.get("currentAverageUtilization"),
        }
    )
    words: Tree = {"current": current}
    if kind in ("resource", "containerResource"):
        words |= _without_none({"name": old.get("name", ""), "container": old.get("container")})
    else:
        words["metric"] = metric
    if kind == "object":
        words["describedObject"] = old.get("target", {})
    return {"type": tree.get("type", ""), **({kind: words} if kind else {})}


def _without_none(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if value is not None}
