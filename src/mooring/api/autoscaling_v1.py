"""autoscaling/v1: Scale, the view of a workload through its scale subresource, and HorizontalPodAutoscaler as it was.

An autoscaler of this version knows the use of cpu only; what v2 knows besides travels in annotations
(``autoscaler_conversion.py``).
"""

from typing import ClassVar

from msgspec import field

from mooring.api.base import Int32, Int64, Merge, Object, always, atomic, required
from mooring.api.meta_v1 import Resource


class ScaleSpec(Object):
    """The desired number of pods of a workload."""

    replicas: Int32 = 0
    """The number of pods."""


class ScaleStatus(Object):
    """The observed number of pods of a workload."""

    replicas: Int32 = required(int)
    """The number of pods."""
    selector: str = ""
    """The selector of the pods, as text."""


class Scale(Resource):
    """A request to scale a workload, and its present scale."""

    spec: ScaleSpec = always(ScaleSpec)
    status: ScaleStatus = always(ScaleStatus)


class CrossVersionObjectReference(Object):
    """An object of the same namespace."""

    __merge__: ClassVar[Merge | None] = atomic()

    kind: str = required(str)
    name: str = required(str)
    api_version: str = ""


class HorizontalPodAutoscalerSpec(Object):
    """The scaled workload and its limits."""

    scale_target_ref: CrossVersionObjectReference = required(CrossVersionObjectReference)
    min_replicas: Int32 | None = None
    """The fewest pods; 1 when absent."""
    max_replicas: Int32 = required(int)
    """The most pods."""
    target_cpu_utilization_percentage: Int32 | None = field(default=None, name="targetCPUUtilizationPercentage")
    """The use of cpu over all pods that is aimed at, in percent of what they ask for."""


class HorizontalPodAutoscalerStatus(Object):
    """The observed state of an autoscaler."""

    observed_generation: Int64 | None = None
    last_scale_time: str | None = None
    """When it last changed the number of pods."""
    current_replicas: Int32 = required(int)
    """How many pods there were."""
    desired_replicas: Int32 = required(int)
    """How many there should be."""
    current_cpu_utilization_percentage: Int32 | None = field(default=None, name="currentCPUUtilizationPercentage")
    """The use of cpu over all pods."""


class HorizontalPodAutoscaler(Resource):
    """Scales a workload by its use of cpu."""

    spec: HorizontalPodAutoscalerSpec = required(HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = always(HorizontalPodAutoscalerStatus)
