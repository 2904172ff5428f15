"""Default and validate HorizontalPodAutoscalers."""

from typing import Any

from mooring.admission import checks
from mooring.admission.pod.resources import find_container_resource_problems
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.api import autoscaling_v2 as v2
from mooring.api import field_errors, names
from mooring.api.autoscaler_conversion import DEFAULT_CPU_UTILIZATION, cpu_metric
from mooring.api.autoscaling_v2 import HorizontalPodAutoscaler as Autoscaler
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_SPEC = Path("spec")
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800
_SELECT = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_METRICS = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_METRIC_TYPES = sorted(_METRICS)
_TARGETS = ("Utilization", "Value", "AverageValue")


class HorizontalPodAutoscalerStrategy(Strategy[Autoscaler]):
    def default(self, obj: Autoscaler) -> None:
        spec = obj.spec
        set_missing(spec, min_replicas=1)
        spec.metrics = spec.metrics or [cpu_metric(DEFAULT_CPU_UTILIZATION)]
        if spec.behavior is not None:
            growing = [
                v2.HPAScalingPolicy(type="Pods", value=4, period_seconds=15),
                v2.HPAScalingPolicy(type="Percent", value=100, period_seconds=15),
            ]
            shrinking = [v2.HPAScalingPolicy(type="Percent", value=100, period_seconds=15)]
            spec.behavior.scale_up = _default_scaling_rules(spec.behavior.scale_up, growing, window=0)
            spec.behavior.scale_down = _default_scaling_rules(spec.behavior.scale_down, shrinking, window=None)

    def validate(self, obj: Autoscaler, old: Autoscaler | None, request: Request) -> Errors:
        spec = obj.spec
        lowest = 0 if request.options.scale_to_zero or (old is not None and old.spec.min_replicas == 0) else 1
        least, most, fewest = spec.min_replicas, spec.max_replicas, _SPEC.child("minReplicas")
        detail, here = f"must be greater than or equal to {lowest}", _SPEC.child("maxReplicas")
        errors = checks.invalid_if(least is not None and least < lowest, fewest, least, detail)
        errors += checks.require(most, here)
        errors += checks.invalid_if(most < 0, here, most, "must be greater than or equal to 1")
        is_less = least is not None and most < least
        errors += checks.invalid_if(is_less, here, most, "must be greater than or equal to `minReplicas`")
        errors += _validate_object_reference(spec.scale_target_ref, _SPEC.child("scaleTargetRef"), needs_group=True)
        metrics = _SPEC.child("metrics")
        errors += checks.validate_items(spec.metrics, metrics, _validate_metric)
        cannot_wake = least == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics)
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors += checks.forbidden_if(cannot_wake, metrics, detail)
        given = checks.select_fields(spec.behavior, "scaleUp", "scaleDown") if spec.behavior is not None else ()
        for name, rules in given:
            errors += checks.optional(rules, _SPEC.child("behavior", name), _validate_scaling_rules)
        return errors

    def validate_status(self, new: Autoscaler, old: Autoscaler, request: Request) -> Errors:
        here, status = Path("status"), new.status
        errors: Errors = []
        for index, condition in enumerate(status.conditions):
            at = here.child("conditions").index(index).child("observedGeneration")
            errors += checks.non_negative(condition.observed_generation, at)
        errors += checks.non_negative(status.current_replicas, here.child("currentReplicas"))
        return errors + checks.non_negative(status.desired_replicas, here.child("desiredReplicas"))


def _default_scaling_rules(
    rules: v2.HPAScalingRules | None, policies: list[v2.HPAScalingPolicy], window: int | None
) -> v2.HPAScalingRules:
    rules = rules or v2.HPAScalingRules()
    set_missing(rules, select_policy="Max", stabilization_window_seconds=window, policies=policies)
    return rules


def _validate_object_reference(reference: v2.CrossVersionObjectReference, path: Path, *, needs_group: bool) -> Errors:
    errors = checks.require_name(reference.kind, path.child("kind"), names.path_segment_name)
    errors += checks.require_name(reference.name, path.child("name"), names.path_segment_name)
    here, version = path.child("apiVersion"), reference.api_version
    if version.count("/") > 1:
        errors.append(field_errors.invalid(here, version, f"unexpected GroupVersion string: {version}"))
    elif needs_group and "/" not in version:
        errors.append(field_errors.invalid(here, version, "apiVersion must specify API group"))
    return errors


def _validate_metric(metric: v2.MetricSpec, path: Path) -> Errors:
    errors = checks.require(metric.type, path.child("type"), "must specify a metric source type")
    errors += checks.one_of(metric.type, _METRIC_TYPES, path.child("type"))
    given = [(name, source) for name, source in checks.select_fields(metric, *_METRICS.values()) if source is not None]
    for name, source in given[:1]:
        errors += _validate_metric_source(source, path.child(name))
    wanted = _METRICS.get(metric.type)
    if wanted is not None and wanted not in dict(given):
        detail = "must populate information for the given metric source"
        errors.append(field_errors.required(path.child(wanted), detail))
    detail = "must populate the given metric source only"
    surplus = [name for name, _ in given if name != wanted] if len(given) > 1 else []
    return errors + [field_errors.forbidden(path.child(name), detail) for name in surplus]


def _validate_metric_source(source: Any, path: Path) -> Errors:
    here, target = path.child("target"), source.target
    value, average, use = target.value, target.average_value, target.average_utilization
    match source:
        case v2.ResourceMetricSource():
            errors = checks.require(source.name, path.child("name"), "must specify a resource name")
        case v2.ContainerResourceMetricSource():
            name, container = path.child("name"), path.child("container")
            errors = checks.require_name(
                source.name, name, find_container_resource_problems, "must specify a resource name"
            )
            errors += checks.require_name(source.container, container, names.dns1123_label, "must specify a container")
        case _:
            errors = []
            if isinstance(source, v2.ObjectMetricSource):
                errors += _validate_object_reference(
                    source.described_object, path.child("describedObject"), needs_group=False
                )
            at, detail = path.child("metric", "name"), "must specify a metric name"
            errors += checks.require_name(source.metric.name, at, names.path_segment_name, detail)
    errors += _validate_metric_target(target, here)
    match source:
        case v2.ObjectMetricSource():
            detail = "must set either a target value or averageValue"
            errors += checks.require(value is not None or average is not None, here.child("averageValue"), detail)
        case v2.ExternalMetricSource():
            detail = "must set either a target value for metric or a per-pod target"
            errors += checks.require(value is not None or average is not None, here.child("averageValue"), detail)
            detail = "may not set both a target value for metric and a per-pod target"
            errors += checks.forbidden_if(value is not None and average is not None, here.child("value"), detail)
        case v2.PodsMetricSource():
            detail = "must specify a positive target averageValue"
            errors += checks.require(average is not None, here.child("averageValue"), detail)
        case _:
            detail = "must set either a target raw value or a target utilization"
            errors += checks.require(use is not None or average is not None, here.child("averageUtilization"), detail)
            detail = "may not set both a target raw value and a target utilization"
            errors += checks.forbidden_if(use is not None and average is not None, here.child("averageValue"), detail)
    return errors


def _validate_metric_target(target: v2.MetricTarget, path: Path) -> Errors:
    here, use = path.child("type"), target.average_utilization
    errors = checks.require(target.type, here, "must specify a metric target type")
    detail = "must be either Utilization, Value, or AverageValue"
    errors += checks.invalid_if(target.type not in _TARGETS, here, target.type, detail)
    for name, value in checks.select_fields(target, "value", "averageValue"):
        is_wrong = value is not None and value.sign() <= 0
        errors += checks.invalid_if(is_wrong, path.child(name), value, "must be positive")
    return errors + checks.positive(use, path.child("averageUtilization"), "must be greater than 0")


def _validate_scaling_rules(rules: v2.HPAScalingRules, path: Path) -> Errors:
    window, here = rules.stabilization_window_seconds, path.child("stabilizationWindowSeconds")
    errors = checks.invalid_if((window or 0) < 0, here, window, "must be greater than or equal to zero")
    errors += checks.limit_number(window, _LONGEST_WINDOW, here)
    errors += checks.optional_one_of(rules.select_policy, _SELECT, path.child("selectPolicy"))
    errors += checks.require(rules.policies, path.child("policies"), "must specify at least one Policy")
    errors += checks.validate_items(rules.policies or (), path.child("policies"), _validate_scaling_policy)
    return errors + checks.non_negative_quantity(rules.tolerance, path.child("tolerance"))


def _validate_scaling_policy(policy: v2.HPAScalingPolicy, path: Path) -> Errors:
    errors = checks.one_of(policy.type, _POLICIES, path.child("type"))
    errors += checks.positive(policy.value, path.child("value"))
    errors += checks.positive(policy.period_seconds, path.child("periodSeconds"))
    return errors + checks.limit_number(policy.period_seconds, _LONGEST_PERIOD, path.child("periodSeconds"))
