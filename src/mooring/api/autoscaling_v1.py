"""autoscaling/v1: Scale, the view of a workload through its scale subresource, and HorizontalPodAutoscaler as it was.

An autoscaler of this version knows the use of cpu only; what v2 knows besides travels in annotations
(``autoscaler_conversion.py``).
"""

from typing import ClassVar

from msgspec import field

from mooring.api.base import Int32, Int64, Merge, Object, always, atomic, required
from mooring.api.meta_v1 import Resource


class ScaleSpec(Object):
    """How many pods a workload should have."""

    replicas: Int32 = 0
    """The number of pods."""


class ScaleStatus(Object):
    """How many pods a workload has."""

    replicas: Int32 = required(int)
    """The number of pods."""
    selector: str = ""
    """The selector of the pods, as text."""


class Scale(Resource):
    """A request to scale a workload, and its present scale."""

    spec: ScaleSpec = always(ScaleSpec)
    """How many pods there should be."""
    status: ScaleStatus = always(ScaleStatus)
    """How many there are."""


class CrossVersionObjectReference(Object):
    """An object of the same namespace."""

    __merge__: ClassVar[Merge | None] = atomic()

    kind: str = required(str)
    """Its kind."""
    name: str = required(str)
    """Its name."""
    api_version: str = ""
    """Its group and version."""


class HorizontalPodAutoscalerSpec(Object):
    """The scaled workload and its limits."""

    scale_target_ref: CrossVersionObjectReference = required(CrossVersionObjectReference)
    """The workload that is scaled."""
    min_replicas: Int32 | None = None
    """The fewest pods; 1 when absent."""
    max_replicas: Int32 = required(int)
    """The most pods."""
    target_cpu_utilization_percentage: Int32 | None = field(default=None, name="targetCPUUtilizationPercentage")
    """The use of cpu over all pods that is aimed at, in percent of what they ask for."""


class HorizontalPodAutoscalerStatus(Object):
    """What an autoscaler has seen and done."""

    observed_generation: Int64 | None = None
    """The generation that was seen."""
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
    """The scaled workload and its limits."""
    status: HorizontalPodAutoscalerStatus = always(HorizontalPodAutoscalerStatus)
    """What it has seen and done."""
