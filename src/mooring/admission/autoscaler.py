"""Default and validate HorizontalPodAutoscalers."""

from collections.abc import Callable
from typing import Any

from mooring.admission import checks
from mooring.admission.pod.resources import container_resource_problems
from mooring.admission.strategy import Request, Strategy
from mooring.api import autoscaling_v2 as v2
from mooring.api import field_errors, names
from mooring.api.autoscaler_conversion import DEFAULT_CPU_UTILIZATION, cpu_metric
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


class HorizontalPodAutoscalerStrategy(Strategy[v2.HorizontalPodAutoscaler]):
    def default(self, obj: v2.HorizontalPodAutoscaler) -> None:
        spec = obj.spec
        if spec.min_replicas is None:
            spec.min_replicas = 1
        spec.metrics = spec.metrics or [cpu_metric(DEFAULT_CPU_UTILIZATION)]
        if spec.behavior is not None:
            growing = [
                v2.HPAScalingPolicy(type="Pods", value=4, period_seconds=15),
                v2.HPAScalingPolicy(type="Percent", value=100, period_seconds=15),
            ]
            shrinking = [v2.HPAScalingPolicy(type="Percent", value=100, period_seconds=15)]
            spec.behavior.scale_up = _default_rules(spec.behavior.scale_up, growing, window=0)
            spec.behavior.scale_down = _default_rules(spec.behavior.scale_down, shrinking, window=None)

    def rules(
        self, obj: v2.HorizontalPodAutoscaler, old: v2.HorizontalPodAutoscaler | None, request: Request
    ) -> Errors:
        spec = obj.spec
        lowest = 0 if request.options.scale_to_zero or (old is not None and old.spec.min_replicas == 0) else 1
        errors: Errors = []
        if spec.min_replicas is not None and spec.min_replicas < lowest:
            detail = f"must be greater than or equal to {lowest}"
            errors.append(field_errors.invalid(_SPEC.child("minReplicas"), spec.min_replicas, detail))
        most = _SPEC.child("maxReplicas")
        if spec.max_replicas == 0:
            errors.append(field_errors.required(most))
        elif spec.max_replicas < 0:
            errors.append(field_errors.invalid(most, spec.max_replicas, "must be greater than or equal to 1"))
        if spec.min_replicas is not None and spec.max_replicas < spec.min_replicas:
            detail = "must be greater than or equal to `minReplicas`"
            errors.append(field_errors.invalid(most, spec.max_replicas, detail))
        errors += _validate_reference(spec.scale_target_ref, _SPEC.child("scaleTargetRef"), needs_group=True)
        metrics = _SPEC.child("metrics")
        errors += checks.validate_items(spec.metrics, metrics, _validate_metric)
        if spec.min_replicas == 0 and not any(metric.type in ("Object", "External") for metric in spec.metrics):
            detail = "must specify at least one Object or External metric to support scaling to zero replicas"
            errors.append(field_errors.forbidden(metrics, detail))
        if spec.behavior is not None:
            here = _SPEC.child("behavior")
            errors += _validate_behavior(spec.behavior.scale_up, here.child("scaleUp"))
            errors += _validate_behavior(spec.behavior.scale_down, here.child("scaleDown"))
        return errors

    def status_rules(
        self, new: v2.HorizontalPodAutoscaler, old: v2.HorizontalPodAutoscaler, request: Request
    ) -> Errors:
        here, status = Path("status"), new.status
        errors: Errors = []
        for index, condition in enumerate(status.conditions):
            at = here.child("conditions").index(index).child("observedGeneration")
            errors += checks.non_negative(condition.observed_generation, at)
        errors += checks.non_negative(status.current_replicas, here.child("currentReplicas"))
        return errors + checks.non_negative(status.desired_replicas, here.child("desiredReplicas"))


def _default_rules(
    rules: v2.HPAScalingRules | None, policies: list[v2.HPAScalingPolicy], window: int | None
) -> v2.HPAScalingRules:
    rules = rules or v2.HPAScalingRules()
    rules.select_policy = "Max" if rules.select_policy is None else rules.select_policy
    if rules.stabilization_window_seconds is None:
        rules.stabilization_window_seconds = window
    if rules.policies is None:
        rules.policies = policies
    return rules


def _validate_reference(reference: v2.CrossVersionObjectReference, path: Path, *, needs_group: bool) -> Errors:
    errors = checks.require_name(reference.kind, path.child("kind"), names.path_segment_name)
    errors += checks.require_name(reference.name, path.child("name"), names.path_segment_name)
    here, version = path.child("apiVersion"), reference.api_version
    if version.count("/") > 1:
        errors.append(field_errors.invalid(here, version, f"unexpected GroupVersion string: {version}"))
    elif needs_group and "/" not in version:
        errors.append(field_errors.invalid(here, version, "apiVersion must specify API group"))
    return errors


def _validate_metric(metric: v2.MetricSpec, path: Path) -> Errors:
    here = path.child("type")
    errors = checks.require(metric.type, here, "must specify a metric source type")
    if metric.type not in _METRICS:
        errors.append(field_errors.not_supported(here, metric.type, _METRIC_TYPES))
    given = {
        "object": metric.object,
        "external": metric.external,
        "pods": metric.pods,
        "resource": metric.resource,
        "containerResource": metric.container_resource,
    }
    present = [name for name, source in given.items() if source is not None]
    if present:
        source: Any = given[present[0]]
        errors += _SOURCES[type(source)](source, path.child(present[0]))
    wanted = _METRICS.get(metric.type)
    detail = "must populate information for the given metric source"
    if wanted is not None and given[wanted] is None:
        errors.append(field_errors.required(path.child(wanted), detail))
    if len(present) != 1:
        detail = "must populate the given metric source only"
        errors += [field_errors.forbidden(path.child(name), detail) for name in present if name != wanted]
    return errors


def _validate_object(source: v2.ObjectMetricSource, path: Path) -> Errors:
    errors = _validate_reference(source.described_object, path.child("describedObject"), needs_group=False)
    errors += _validate_identifier(source.metric, path.child("metric")) + _validate_target(
        source.target, path.child("target")
    )
    if source.target.value is None and source.target.average_value is None:
        here = path.child("target", "averageValue")
        errors.append(field_errors.required(here, "must set either a target value or averageValue"))
    return errors


def _validate_external(source: v2.ExternalMetricSource, path: Path) -> Errors:
    errors = _validate_identifier(source.metric, path.child("metric")) + _validate_target(
        source.target, path.child("target")
    )
    value, average = source.target.value, source.target.average_value
    if value is None and average is None:
        here = path.child("target", "averageValue")
        errors.append(field_errors.required(here, "must set either a target value for metric or a per-pod target"))
    if value is not None and average is not None:
        here = path.child("target", "value")
        errors.append(field_errors.forbidden(here, "may not set both a target value for metric and a per-pod target"))
    return errors


def _validate_pods(source: v2.PodsMetricSource, path: Path) -> Errors:
    errors = _validate_identifier(source.metric, path.child("metric")) + _validate_target(
        source.target, path.child("target")
    )
    here = path.child("target", "averageValue")
    errors += checks.require(
        source.target.average_value is not None, here, "must specify a positive target averageValue"
    )
    return errors


def _validate_resource(source: v2.ResourceMetricSource, path: Path) -> Errors:
    errors = checks.require(source.name, path.child("name"), "must specify a resource name")
    return errors + _validate_use(source.target, path.child("target"))


def _validate_container_resource(source: v2.ContainerResourceMetricSource, path: Path) -> Errors:
    name, container = path.child("name"), path.child("container")
    errors = checks.require_name(source.name, name, container_resource_problems, "must specify a resource name")
    errors += checks.require_name(source.container, container, names.dns1123_label, "must specify a container")
    return errors + _validate_use(source.target, path.child("target"))


def _validate_use(target: v2.MetricTarget, path: Path) -> Errors:
    errors = _validate_target(target, path)
    if target.average_utilization is None and target.average_value is None:
        detail = "must set either a target raw value or a target utilization"
        errors.append(field_errors.required(path.child("averageUtilization"), detail))
    if target.average_utilization is not None and target.average_value is not None:
        detail = "may not set both a target raw value and a target utilization"
        errors.append(field_errors.forbidden(path.child("averageValue"), detail))
    return errors


_SOURCES: dict[type, Callable[[Any, Path], Errors]] = {
    v2.ObjectMetricSource: _validate_object,
    v2.ExternalMetricSource: _validate_external,
    v2.PodsMetricSource: _validate_pods,
    v2.ResourceMetricSource: _validate_resource,
    v2.ContainerResourceMetricSource: _validate_container_resource,
}


def _validate_identifier(metric: v2.MetricIdentifier, path: Path) -> Errors:
    return checks.require_name(metric.name, path.child("name"), names.path_segment_name, "must specify a metric name")


def _validate_target(target: v2.MetricTarget, path: Path) -> Errors:
    here = path.child("type")
    errors = checks.require(target.type, here, "must specify a metric target type")
    if target.type not in _TARGETS:
        errors.append(field_errors.invalid(here, target.type, "must be either Utilization, Value, or AverageValue"))
    for name, value in (("value", target.value), ("averageValue", target.average_value)):
        errors += checks.invalid_if(
            value is not None and value.sign() <= 0, path.child(name), value, "must be positive"
        )
    if target.average_utilization is not None and target.average_utilization < 1:
        here = path.child("averageUtilization")
        errors.append(field_errors.invalid(here, target.average_utilization, "must be greater than 0"))
    return errors


def _validate_behavior(rules: v2.HPAScalingRules | None, path: Path) -> Errors:
    if rules is None:
        return []
    errors: Errors = []
    window, here = rules.stabilization_window_seconds, path.child("stabilizationWindowSeconds")
    errors += checks.invalid_if(
        window is not None and window < 0, here, window, "must be greater than or equal to zero"
    )
    if window is not None and window > _LONGEST_WINDOW:
        errors.append(field_errors.invalid(here, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    errors += checks.optional_one_of(rules.select_policy, _SELECT, path.child("selectPolicy"))
    policies = path.child("policies")
    errors += checks.require(rules.policies, policies, "must specify at least one Policy")
    errors += checks.validate_items(rules.policies or (), policies, _validate_policy)
    return errors + checks.non_negative_quantity(rules.tolerance, path.child("tolerance"))


def _validate_policy(policy: v2.HPAScalingPolicy, path: Path) -> Errors:
    errors = checks.one_of(policy.type, _POLICIES, path.child("type"))
    errors += checks.invalid_if(policy.value <= 0, path.child("value"), policy.value, "must be greater than zero")
    period, here = policy.period_seconds, path.child("periodSeconds")
    errors += checks.invalid_if(period <= 0, here, period, "must be greater than zero")
    errors += checks.invalid_if(
        period > _LONGEST_PERIOD, here, period, f"must be less than or equal to {_LONGEST_PERIOD}"
    )
    return errors
