"""autoscaling/v2: HorizontalPodAutoscaler, which ``controllers/autoscaling/`` implements."""

from typing import Annotated

from mooring.api.base import Int32, Int64, Object, StateCondition, always, list_map, required
from mooring.api.meta_v1 import LabelSelector, Resource
from mooring.api.quantity import Quantity


class CrossVersionObjectReference(Object):
    """An object of the same namespace."""

    kind: str = required(str)
    name: str = required(str)
    api_version: str = ""


class MetricIdentifier(Object):
    """A metric."""

    name: str = required(str)
    selector: LabelSelector | None = None
    """Which of its series count."""


class MetricTarget(Object):
    """The target value."""

    type: str = required(str)
    """Utilization, Value or AverageValue."""
    value: Quantity | None = None
    """The value itself."""
    average_value: Quantity | None = None
    """The value divided by the number of pods."""
    average_utilization: Int32 | None = None
    """In percent of what the pods ask for."""


class ObjectMetricSource(Object):
    """A metric of one object."""

    described_object: CrossVersionObjectReference = required(CrossVersionObjectReference)
    target: MetricTarget = required(MetricTarget)
    metric: MetricIdentifier = required(MetricIdentifier)


class PodsMetricSource(Object):
    """A metric of each pod."""

    metric: MetricIdentifier = required(MetricIdentifier)
    target: MetricTarget = required(MetricTarget)


class ResourceMetricSource(Object):
    """The use of a resource by the pods."""

    name: str = required(str)
    """The resource."""
    target: MetricTarget = required(MetricTarget)


class ContainerResourceMetricSource(Object):
    """The use of a resource by one container of the pods."""

    name: str = required(str)
    """The resource."""
    target: MetricTarget = required(MetricTarget)
    container: str = required(str)


class ExternalMetricSource(Object):
    """A metric of something outside of the cluster."""

    metric: MetricIdentifier = required(MetricIdentifier)
    target: MetricTarget = required(MetricTarget)


class MetricSpec(Object):
    """A metric and its target value: one of the fields besides `type`."""

    type: str = required(str)
    """ContainerResource, External, Object, Pods or Resource."""
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None


class HPAScalingPolicy(Object):
    """The maximum change in a period."""

    type: str = required(str)
    """Pods or Percent."""
    value: Int32 = required(int)
    """How many, or how many percent."""
    period_seconds: Int32 = required(int)
    """In how many seconds."""


class HPAScalingRules(Object):
    """The limits on scaling a workload in one direction."""

    stabilization_window_seconds: Int32 | None = None
    """For how long earlier recommendations count."""
    select_policy: str | None = None
    """Which policy counts: Max, Min, or Disabled for none."""
    policies: list[HPAScalingPolicy] | None = None
    """How much may change; Kubernetes' own steps when absent, and an empty list is refused."""
    tolerance: Quantity | None = None
    """How far the measured value may be off before anything is done."""


class HorizontalPodAutoscalerBehavior(Object):
    """The limits on scaling a workload up and down."""

    scale_up: HPAScalingRules | None = None
    scale_down: HPAScalingRules | None = None


class HorizontalPodAutoscalerSpec(Object):
    """The scaled workload, its metrics and limits."""

    scale_target_ref: CrossVersionObjectReference = required(CrossVersionObjectReference)
    min_replicas: Int32 | None = None
    """The fewest pods; 1 when absent."""
    max_replicas: Int32 = required(int)
    """The most pods."""
    metrics: list[MetricSpec] = []
    """The metrics; the one that requires the most pods wins."""
    behavior: HorizontalPodAutoscalerBehavior | None = None


class MetricValueStatus(Object):
    """A measured value."""

    value: Quantity | None = None
    """The value itself."""
    average_value: Quantity | None = None
    """The value divided by the number of pods."""
    average_utilization: Int32 | None = None
    """In percent of what the pods ask for."""


class ObjectMetricStatus(Object):
    """A measured metric of one object."""

    metric: MetricIdentifier = required(MetricIdentifier)
    current: MetricValueStatus = required(MetricValueStatus)
    described_object: CrossVersionObjectReference = required(CrossVersionObjectReference)


class PodsMetricStatus(Object):
    """A measured metric of each pod."""

    metric: MetricIdentifier = required(MetricIdentifier)
    current: MetricValueStatus = required(MetricValueStatus)


class ResourceMetricStatus(Object):
    """The measured use of a resource."""

    name: str = required(str)
    """The resource."""
    current: MetricValueStatus = required(MetricValueStatus)


class ContainerResourceMetricStatus(Object):
    """The measured use of a resource by one container."""

    name: str = required(str)
    """The resource."""
    current: MetricValueStatus = required(MetricValueStatus)
    container: str = required(str)


class ExternalMetricStatus(Object):
    """A measured metric of something outside."""

    metric: MetricIdentifier = required(MetricIdentifier)
    current: MetricValueStatus = required(MetricValueStatus)


class MetricStatus(Object):
    """A measured value: one of the fields besides `type`."""

    type: str = required(str)
    """ContainerResource, External, Object, Pods or Resource."""
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class HorizontalPodAutoscalerCondition(StateCondition):
    """One aspect of an autoscaler's state: AbleToScale, ScalingActive, ScalingLimited or ScaledToZero."""

    observed_generation: Int64 | None = None
    """The generation for which it was set."""


class HorizontalPodAutoscalerStatus(Object):
    """The observed state of an autoscaler."""

    observed_generation: Int64 | None = None
    last_scale_time: str | None = None
    """When it last changed the number of pods."""
    current_replicas: Int32 = 0
    """How many pods there were."""
    desired_replicas: Int32 = required(int)
    """How many there should be."""
    current_metrics: list[MetricStatus] = always(list)
    """The measured values."""
    conditions: Annotated[list[HorizontalPodAutoscalerCondition], list_map("type")] = []


class HorizontalPodAutoscaler(Resource):
    """Scale a workload by metrics."""

    spec: HorizontalPodAutoscalerSpec = required(HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = always(HorizontalPodAutoscalerStatus)
