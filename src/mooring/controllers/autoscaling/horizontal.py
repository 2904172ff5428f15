"""Scale workloads by the metrics of their HorizontalPodAutoscaler.

    every 15 s:
      no pods, though at least one is wanted → scaling is disabled
      outside the bounds                     → the bound
      otherwise                              → the largest number that a metric requires, within the limits
    then: scale, status, conditions

Metrics, the number of pods, and limits: ``replica_counts.py``.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from mooring.api import errors, label_selector, times
from mooring.api.autoscaling_v1 import Scale
from mooring.api.autoscaling_v2 import (
    ContainerResourceMetricStatus,
    CrossVersionObjectReference,
    ExternalMetricStatus,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricStatus,
    ResourceMetricStatus,
)
from mooring.api.core_v1 import Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.quantity import Quantity
from mooring.client import key_of
from mooring.controllers.autoscaling import replica_counts
from mooring.controllers.conditions import build_condition, find_condition
from mooring.controllers.controller import Context, Controller, index_by_namespace

_SOURCES: dict[str, Callable[..., Any]] = {
    "resource": ResourceMetricStatus,
    "container_resource": ContainerResourceMetricStatus,
    "pods": PodsMetricStatus,
    "object": ObjectMetricStatus,
    "external": ExternalMetricStatus,
}
"""The fields of a metric's spec and status that may hold its source, with the type in the status."""
_COPIED = ("name", "container", "metric", "described_object")


def set_condition(
    status: HorizontalPodAutoscalerStatus, kind: str, content: tuple[str, str, str], now: datetime
) -> None:
    """Set a condition in a status to the given status, reason and message, at its old place in the list."""
    before = find_condition(status.conditions, kind)
    stamp = times.to_seconds(now)
    condition = build_condition(HorizontalPodAutoscalerCondition, status.conditions, (kind, *content), stamp)
    place = len(status.conditions) if before is None else status.conditions.index(before)
    status.conditions[place : place + 1] = [condition]


def find_metric_source(metric: MetricSpec) -> tuple[str, Any]:
    """Return the source of an autoscaler's metric, and the field that holds it. Raise NoMeasureError if it has none."""
    for field in _SOURCES:
        source = getattr(metric, field)
        if source is not None:
            return field, source
    raise replica_counts.NoMeasureError(f'the metric source type "{metric.type}" has no source')


def resource_and_container(metric: MetricSpec) -> tuple[str, str]:
    """Return the resource (`cpu`) and the container that a metric measures; an empty string where it has none."""
    source = metric.resource or metric.container_resource
    return getattr(source, "name", ""), getattr(source, "container", "")


def describe_metric(metric: MetricSpec) -> str:
    """Describe a metric for events and conditions, in kube-controller-manager's words."""
    resource, container = resource_and_container(metric)
    if container:
        return f"{resource} container resource utilization (percentage of request)"
    field, source = find_metric_source(metric)
    if resource:
        percent = source.target.average_utilization is not None
        return f"{resource} resource{' utilization (percentage of request)' if percent else ''}"
    return f"{field} metric {source.metric.name}"


def build_metric_status(metric: MetricSpec, proposal: replica_counts.Proposal) -> MetricStatus:
    """Return the entry of a metric in an autoscaler's status, with its current value."""
    field, source = find_metric_source(metric)
    average = Quantity.parse(f"{proposal.average}m")
    current = MetricValueStatus(average_value=average, average_utilization=proposal.utilization)
    if field in ("object", "external") and source.target.value is not None:
        current = MetricValueStatus(value=average)
    copied = {name: getattr(source, name) for name in _COPIED if hasattr(source, name)}
    return MetricStatus(type=metric.type, **{field: _SOURCES[field](**copied, current=current)})


PERIOD_SECONDS = 15.0
ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
_TYPES = ("Resource", "ContainerResource", "Pods", "Object", "External")


class _AutoscalerState(msgspec.Struct):
    """An autoscaler, its target and the target's pods, as read in one reconcile; `status` is the new one."""

    key: str
    owner: HorizontalPodAutoscaler
    target: Resource
    scale: Scale
    pods: list[Pod]
    status: HorizontalPodAutoscalerStatus
    now: datetime
    reason: str = ""


class HorizontalPodAutoscalerController(Controller):
    """The controller of HorizontalPodAutoscalers; reconciles them by key."""

    name = "horizontalpodautoscaler"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._autoscalers = context.informers.of(HorizontalPodAutoscaler)
        self._pods = context.informers.of(Pod)
        self._by_namespace = index_by_namespace(self._pods)
        self._recorder = context.recorder("horizontal-pod-autoscaler")
        self._histories: dict[str, replica_counts.ScalingHistory] = {}
        self._autoscalers.add_handler(added=self.enqueue, updated=self._enqueue_updated, deleted=self._drop_history)

    def _enqueue_updated(self, old: HorizontalPodAutoscaler, new: HorizontalPodAutoscaler) -> None:
        if (old.spec, old.metadata.annotations) != (new.spec, new.metadata.annotations):
            self.enqueue(new)

    def _drop_history(self, owner: HorizontalPodAutoscaler) -> None:
        self._histories.pop(key_of(owner), None)

    async def reconcile(self, key: str) -> float | None:
        owner = self._autoscalers.by_key(key)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return None
        status = structs.replace(owner.status, conditions=list(owner.status.conditions))
        status.observed_generation = owner.metadata.generation
        state = await self._read_target(key, owner, status)
        if state is not None:
            await self._scale_target(state, await self._compute_desired_replicas(state))
        if status != owner.status:
            await self.client.update_status(structs.replace(owner, status=status))
        return PERIOD_SECONDS

    async def _read_target(
        self, key: str, owner: HorizontalPodAutoscaler, status: HorizontalPodAutoscalerStatus
    ) -> _AutoscalerState | None:
        """Read an autoscaler's target, scale and pods; return None if that fails. Set the condition AbleToScale."""
        reference, namespace = owner.spec.scale_target_ref, owner.metadata.namespace
        now = self.clock.now()
        try:
            target = await self._read_named_object(reference, namespace)
            scale = await self.client.get_scale(type(target), reference.name, namespace)
        except (StatusError, replica_counts.NoMeasureError) as error:
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            self._recorder.event(owner, "Warning", "FailedGetScale", str(error))
            set_condition(status, ABLE, ("False", "FailedGetScale", message), now)
            return None
        message = "the HPA controller was able to get the target's current scale"
        set_condition(status, ABLE, ("True", "SucceededGetScale", message), now)
        selector = label_selector.parse(scale.status.selector)
        pods = [pod for pod in self._by_namespace.get(namespace) if selector.matches(pod.metadata.labels)]
        return _AutoscalerState(key, owner, target, scale, pods, status, now)

    async def _read_named_object(self, reference: CrossVersionObjectReference, namespace: str) -> Resource:
        kind = self.client.scheme.kind(reference.api_version or "v1", reference.kind)
        if kind is None:
            where = f"{reference.api_version}, Kind={reference.kind}"
            raise replica_counts.NoMeasureError(f'no matches for kind "{reference.kind}" in version "{where}"')
        found: Resource = await self.client.get(kind.type, reference.name, namespace if kind.namespaced else "")
        return found

    async def _compute_desired_replicas(self, state: _AutoscalerState) -> int:
        spec, current = state.owner.spec, state.scale.spec.replicas
        least = 1 if spec.min_replicas is None else spec.min_replicas
        if not current and least:
            message = "scaling is disabled since the replica count of the target is zero"
            set_condition(state.status, ACTIVE, ("False", "ScalingDisabled", message), state.now)
            return current
        if current > spec.max_replicas:
            state.reason = "Current number of replicas above Spec.MaxReplicas"
            return spec.max_replicas
        if current < least:
            state.reason = "Current number of replicas below Spec.MinReplicas"
            return least
        proposed = await self._propose_replicas(state)
        if proposed is None:
            return current
        history = self._histories.setdefault(state.key, replica_counts.ScalingHistory())
        if not history.recommended:
            history.recommended.append((state.now.timestamp(), current))
        request = replica_counts.ScalingRequest(current, proposed, least, spec.max_replicas, state.now.timestamp())
        decision = replica_counts.apply_behavior(spec.behavior, history, request)
        set_condition(state.status, ABLE, ("True", *decision.able), state.now)
        set_condition(state.status, LIMITED, decision.limited, state.now)
        return decision.replicas

    async def _propose_replicas(self, state: _AutoscalerState) -> int | None:
        """Return the largest number of pods that a metric requires; None if a metric without value might need more."""
        current = state.scale.spec.replicas
        proposed: list[tuple[int, str]] = []
        measured: list[MetricStatus] = []
        first_failure: tuple[str, str] | None = None
        for metric in state.owner.spec.metrics:
            try:
                proposal = await self._propose_for_metric(state, metric)
            except (replica_counts.NoMeasureError, StatusError) as error:
                reason = f"FailedGet{metric.type}Metric" if metric.type in _TYPES else "InvalidMetricSourceType"
                message = f"the HPA was unable to compute the replica count: {error}"
                first_failure = first_failure or (reason, message)
                self._recorder.event(state.owner, "Warning", reason, str(error))
                continue
            proposed.append((proposal.replicas, describe_metric(metric)))
            measured.append(build_metric_status(metric, proposal))
        state.status.current_metrics = measured
        replicas, name = max(proposed, default=(-1, ""))
        if first_failure is not None and replicas <= current:
            set_condition(state.status, ACTIVE, ("False", *first_failure), state.now)
            return None
        message = f"the HPA was able to successfully calculate a replica count from {name}"
        set_condition(state.status, ACTIVE, ("True", "ValidMetricFound", message), state.now)
        state.reason = f"{name} above target" if replicas > current else "All metrics below target"
        return replicas

    async def _propose_for_metric(self, state: _AutoscalerState, metric: MetricSpec) -> replica_counts.Proposal:
        current, tolerance = state.scale.spec.replicas, _read_tolerance(state.owner)
        field, source = find_metric_source(metric)
        target: MetricTarget = source.target
        if field in ("object", "external"):
            value = await self._read_workload_value(state, metric)
            if target.value is not None:
                return replica_counts.propose_by_total(
                    state.pods, value, current, target.value.milli_value(), tolerance
                )
            if target.average_value is None:
                raise replica_counts.NoMeasureError("the target has neither a value nor an average value")
            return replica_counts.propose_by_value_per_pod(
                value, state.scale.status.replicas, target.average_value.milli_value(), tolerance
            )
        resource, container = resource_and_container(metric)
        measures = await self._read_pod_usage(state, metric)
        requests: dict[str, int] | None = None
        if target.average_utilization is not None:
            requests = replica_counts.sum_requests_by_pod(state.pods, resource, container)
            wanted = target.average_utilization
        elif target.average_value is not None:
            wanted = target.average_value.milli_value()
        else:
            raise replica_counts.NoMeasureError("the target has neither an average value nor a utilization")
        return replica_counts.propose_by_usage(
            state.pods,
            measures,
            current,
            wanted,
            tolerance=tolerance,
            now=state.now,
            resource=resource,
            requests=requests,
        )

    async def _read_pod_usage(self, state: _AutoscalerState, metric: MetricSpec) -> replica_counts.Measures:
        resource, container = resource_and_container(metric)
        name = metric.pods.metric.name if metric.pods is not None else resource
        found = replica_counts.read_annotated_usage(state.pods, state.target.metadata, name, container)
        if found or metric.pods is not None:
            return found
        return await replica_counts.read_api_usage(
            self.client, state.owner.metadata.namespace, state.scale.status.selector, name, container
        )

    async def _read_workload_value(self, state: _AutoscalerState, metric: MetricSpec) -> int:
        metadata: ObjectMeta = state.owner.metadata
        if metric.object is not None:
            described = await self._read_named_object(metric.object.described_object, metadata.namespace)
            metadata = described.metadata
        name = find_metric_source(metric)[1].metric.name
        value = replica_counts.read_annotated_value(metadata, name)
        if value is None:
            raise replica_counts.NoMeasureError(f"no annotation of {metadata.name} says what the metric {name} is")
        return value

    async def _scale_target(self, state: _AutoscalerState, wanted: int) -> None:
        owner, current, status = state.owner, state.scale.spec.replicas, state.status
        status.current_replicas = state.scale.status.replicas
        status.desired_replicas = wanted
        if wanted == current:
            return
        reference = owner.spec.scale_target_ref
        try:
            await self.client.scale(type(state.target), reference.name, owner.metadata.namespace, wanted)
        except errors.NotFound:
            return
        except StatusError as error:
            message = f"New size: {wanted}; reason: {state.reason}; error: {error}"
            self._recorder.event(owner, "Warning", "FailedRescale", message)
            message = f"the HPA controller was unable to update the target scale: {error}"
            set_condition(status, ABLE, ("False", "FailedUpdateScale", message), state.now)
            return
        self._recorder.event(owner, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {state.reason}")
        message = f"the HPA controller was able to update the target scale to {wanted}"
        set_condition(status, ABLE, ("True", "SucceededRescale", message), state.now)
        status.last_scale_time = times.to_seconds(state.now)
        history = self._histories.setdefault(state.key, replica_counts.ScalingHistory())
        history.changed.append((state.now.timestamp(), wanted - current))


def _read_tolerance(owner: HorizontalPodAutoscaler) -> replica_counts.ScalingTolerance:
    behavior = owner.spec.behavior
    rules = (behavior.scale_up, behavior.scale_down) if behavior is not None else (None, None)
    up, down = (
        each.tolerance.as_approximate_float() if each is not None and each.tolerance is not None else 0.1
        for each in rules
    )
    return replica_counts.ScalingTolerance(up, down)
