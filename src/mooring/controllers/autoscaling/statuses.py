"""Render metrics in an autoscaler's status, events and conditions. Pure functions."""

from datetime import datetime

from mooring.api import times
from mooring.api.autoscaling_v2 import (
    ContainerResourceMetricStatus,
    ExternalMetricStatus,
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
from mooring.api.quantity import Quantity
from mooring.controllers.autoscaling.measures import NoMeasureError
from mooring.controllers.autoscaling.proposals import Proposal
from mooring.controllers.conditions import find_condition, transition_time


def set_condition(
    status: HorizontalPodAutoscalerStatus, kind: str, content: tuple[str, str, str], now: datetime
) -> None:
    """Set a condition; its transition time changes with its status only."""
    value, reason, message = content
    before = find_condition(status.conditions, kind)
    since = transition_time(before, value, times.to_seconds(now))
    made = HorizontalPodAutoscalerCondition(
        type=kind, status=value, last_transition_time=since, reason=reason, message=message
    )
    place = len(status.conditions) if before is None else status.conditions.index(before)
    status.conditions[place : place + 1] = [made]


def target_of(metric: MetricSpec) -> MetricTarget:
    """Return the target of a metric. Raise NoMeasureError if its source is missing."""
    for part in (metric.resource, metric.container_resource, metric.pods, metric.object, metric.external):
        if part is not None:
            return part.target
    raise NoMeasureError(f'the metric source type "{metric.type}" has no source')


def resource_of(metric: MetricSpec) -> tuple[str, str]:
    """Return the resource and container of a metric, if any."""
    if metric.resource is not None:
        return metric.resource.name, ""
    if metric.container_resource is not None:
        return metric.container_resource.name, metric.container_resource.container
    return "", ""


def metric_name(metric: MetricSpec) -> str:
    for part in (metric.pods, metric.object, metric.external):
        if part is not None:
            return part.metric.name
    return resource_of(metric)[0]


def name_of(metric: MetricSpec) -> str:
    """Return the name of a metric in events."""
    resource, container = resource_of(metric)
    if container:
        return f"{resource} container resource utilization (percentage of request)"
    if resource:
        percent = target_of(metric).average_utilization is not None
        return f"{resource} resource{' utilization (percentage of request)' if percent else ''}"
    kind = {"Pods": "pods", "Object": "object", "External": "external"}.get(metric.type, metric.type)
    return f"{kind} metric {metric_name(metric)}"


def metric_status(metric: MetricSpec, proposal: Proposal) -> MetricStatus:
    """Return the status entry of a metric."""
    average = Quantity.parse(f"{proposal.average}m")
    current = MetricValueStatus(average_value=average, average_utilization=proposal.utilization)
    status = MetricStatus(type=metric.type)
    if metric.resource is not None:
        status.resource = ResourceMetricStatus(name=metric.resource.name, current=current)
    elif metric.container_resource is not None:
        part = metric.container_resource
        status.container_resource = ContainerResourceMetricStatus(
            name=part.name, container=part.container, current=current
        )
    elif metric.pods is not None:
        status.pods = PodsMetricStatus(metric=metric.pods.metric, current=current)
    else:
        if target_of(metric).value is not None:
            current = MetricValueStatus(value=average)
        if metric.object is not None:
            status.object = ObjectMetricStatus(
                metric=metric.object.metric, described_object=metric.object.described_object, current=current
            )
        elif metric.external is not None:
            status.external = ExternalMetricStatus(metric=metric.external.metric, current=current)
    return status
