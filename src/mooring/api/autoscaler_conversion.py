"""Convert HorizontalPodAutoscaler between autoscaling/v1 and v2, as Kubernetes does.

v1 has one metric, cpu utilization. The other fields of v2 are kept in annotations of the v1 object, in the format of
v1's former types, so that a v1 client that reads and writes loses nothing. A malformed annotation is dropped. Called by
the scheme (`Kind.to_hub`, `Kind.from_hub`).
"""

from functools import partial
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
    percentage = old.spec.target_cpu_utilization_percentage
    own = [cpu_metric(percentage)] if percentage is not None else []
    spec = v2.HorizontalPodAutoscalerSpec(
        scale_target_ref=v2.CrossVersionObjectReference(**structs.asdict(old.spec.scale_target_ref)),
        min_replicas=old.spec.min_replicas,
        max_replicas=old.spec.max_replicas,
        metrics=[
            *_read(
                annotations.get(METRICS), list[v2.MetricSpec], lambda trees: [_metric_to_v2(tree) for tree in trees]
            ),
            *own,
        ],
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
        current_metrics=_read(
            annotations.get(CURRENT), list[v2.MetricStatus], lambda trees: [_to_v2(tree, _STATUSES) for tree in trees]
        )
        or _cpu_status(old),
        conditions=_read(annotations.get(CONDITIONS), list[v2.HorizontalPodAutoscalerCondition], _identity),
    )
    kept = {key: value for key, value in annotations.items() if key not in _ANNOTATIONS}
    metadata = structs.replace(old.metadata, annotations=kept)
    return v2.HorizontalPodAutoscaler(metadata=metadata, spec=spec, status=status)


def autoscaler_to_v1(new: v2.HorizontalPodAutoscaler) -> v1.HorizontalPodAutoscaler:
    spec = new.spec
    percentages = [found for metric in spec.metrics if (found := _cpu_utilization(metric)) is not None]
    others = [metric for metric in spec.metrics if _cpu_utilization(metric) is None]
    annotations = {key: value for key, value in new.metadata.annotations.items() if key not in _ANNOTATIONS}
    for name, values, change in (
        (METRICS, others, partial(_to_v1, by_kind=_METRICS)),
        (CURRENT, new.status.current_metrics, partial(_to_v1, by_kind=_STATUSES)),
        (CONDITIONS, new.status.conditions, _identity),
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
            scale_target_ref=v1.CrossVersionObjectReference(**structs.asdict(spec.scale_target_ref)),
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


_Fields = dict[str, tuple[str, str | None]]
"""Fields of v1's former types: for each its path in v2, and the value that v1 requires where v2 has none."""
_METRIC_OF_RESOURCE: _Fields = {
    "name": ("name", None),
    "targetAverageUtilization": ("target.averageUtilization", None),
    "targetAverageValue": ("target.averageValue", None),
    "container": ("container", None),
}
_METRICS: dict[str, _Fields] = {
    "object": {
        "target": ("describedObject", None),
        "metricName": ("metric.name", ""),
        "targetValue": ("target.value", "0"),
        "selector": ("metric.selector", None),
        "averageValue": ("target.averageValue", None),
    },
    "pods": {
        "metricName": ("metric.name", ""),
        "targetAverageValue": ("target.averageValue", "0"),
        "selector": ("metric.selector", None),
    },
    "resource": _METRIC_OF_RESOURCE,
    "containerResource": _METRIC_OF_RESOURCE,
    "external": {
        "metricName": ("metric.name", ""),
        "metricSelector": ("metric.selector", None),
        "targetValue": ("target.value", None),
        "targetAverageValue": ("target.averageValue", None),
    },
}
"""The fields of a metric in a specification, by the kind of its source."""
_STATUS_OF_RESOURCE: _Fields = {
    "name": ("name", None),
    "currentAverageUtilization": ("current.averageUtilization", None),
    "currentAverageValue": ("current.averageValue", "0"),
    "container": ("container", None),
}
_STATUSES: dict[str, _Fields] = {
    "object": {
        "target": ("describedObject", None),
        "metricName": ("metric.name", ""),
        "currentValue": ("current.value", "0"),
        "selector": ("metric.selector", None),
        "averageValue": ("current.averageValue", None),
    },
    "pods": {
        "metricName": ("metric.name", ""),
        "currentAverageValue": ("current.averageValue", "0"),
        "selector": ("metric.selector", None),
    },
    "resource": _STATUS_OF_RESOURCE,
    "containerResource": _STATUS_OF_RESOURCE,
    "external": {
        "metricName": ("metric.name", ""),
        "metricSelector": ("metric.selector", None),
        "currentValue": ("current.value", "0"),
        "currentAverageValue": ("current.averageValue", None),
    },
}
"""The fields of a metric in a status, by the kind of its source."""


def _to_v1(tree: Tree, by_kind: dict[str, _Fields]) -> Tree:
    kind = next((name for name in by_kind if name in tree), "")
    found = {}
    for name, (path, default) in by_kind.get(kind, {}).items():
        outer, _, inner = path.partition(".")
        value = tree[kind].get(outer, {}).get(inner) if inner else tree[kind].get(outer)
        found[name] = default if value is None else value
    return {
        "type": tree.get("type", ""),
        **({kind: {name: value for name, value in found.items() if value is not None}} if kind else {}),
    }


def _to_v2(tree: Tree, by_kind: dict[str, _Fields]) -> Tree:
    kind = next((name for name in by_kind if tree.get(name) is not None), "")
    found: Tree = {}
    for name, (path, _) in by_kind.get(kind, {}).items():
        value = tree[kind].get(name)
        if value is not None:
            outer, _, inner = path.partition(".")
            if inner:
                found.setdefault(outer, {})[inner] = value
            else:
                found[outer] = value
    return {"type": tree.get("type", ""), **({kind: found} if kind else {})}


def _metric_to_v2(tree: Tree) -> Tree:
    metric = _to_v2(tree, _METRICS)
    for kind in metric.keys() & _METRICS.keys():
        target = metric[kind].setdefault("target", {})
        target["type"] = "AverageValue"
        if kind == "pods":
            target.setdefault("averageValue", "0")
        elif kind == "object" and target.get("averageValue"):
            target.pop("value", None)
        elif kind == "object" or (kind == "external" and "value" in target):
            target["type"] = "Value"
        elif "averageUtilization" in target:
            target["type"] = "Utilization"
    return metric
