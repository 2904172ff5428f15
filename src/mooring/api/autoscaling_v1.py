"""autoscaling/v1: Scale, the view of a workload through its scale subresource."""

from mooring.api.base import Int32, Object, always, required
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
