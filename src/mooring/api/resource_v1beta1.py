"""resource.k8s.io/v1beta1: claims and slices as they were before v1beta2.

A request has its fields at the top and not under `exactly`, and a device has its properties under `basic`. Whatever
contains neither has the same shape as in v1 and is shared with ``resource_v1.py``; ``conversion.py`` goes between them.
"""

from mooring.api.base import Object, always, required
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.resource_v1 import (
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceProperties,
    DeviceSubRequest,
    RequestedDevices,
    ResourceClaimStatus,
    SliceProperties,
)


class BasicDevice(DeviceProperties):
    """The properties of a device."""


class Device(Object):
    """One device of a pool."""

    name: str = required(str)
    """The name, unique in the pool of the driver."""
    basic: BasicDevice | None = None


class ResourceSliceSpec(SliceProperties):
    """The devices that a driver publishes in one slice."""

    devices: list[Device] = []
    """The devices; at most 128, or 64 where they use taints or counters."""


class ResourceSlice(Resource):
    """Some or all of the devices of a driver's pool."""

    spec: ResourceSliceSpec = required(ResourceSliceSpec)


class DeviceRequest(RequestedDevices):
    """Asks for devices, in one way or in one of several; with several ways the fields of the one way are not given."""

    name: str = required(str)
    """The name by which pods, constraints and configuration refer to the request."""
    device_class_name: str = ""
    """The DeviceClass."""
    admin_access: bool | None = None
    """Whether access is for administration, also to devices in use."""
    first_available: list[DeviceSubRequest] = []
    """Alternative requests; the first that can be satisfied is used; at most 8."""


class DeviceClaim(Object):
    """The devices that a claim asks for."""

    requests: list[DeviceRequest] = []
    """The requests; at most 32."""
    constraints: list[DeviceConstraint] = []
    """What the devices must have in common."""
    config: list[DeviceClaimConfiguration] = []
    """Configuration that drivers get with the devices."""


class ResourceClaimSpec(Object):
    """The device requests of a claim."""

    devices: DeviceClaim = always(DeviceClaim)


class ResourceClaim(Resource):
    """Asks for devices, for one pod or several to use."""

    spec: ResourceClaimSpec = always(ResourceClaimSpec)
    """The desired state. Immutable."""
    status: ResourceClaimStatus = always(ResourceClaimStatus)


class ResourceClaimTemplateSpec(Object):
    """The claims that are made from a template."""

    metadata: ObjectMeta = always(ObjectMeta)
    """The labels and annotations of the claims."""
    spec: ResourceClaimSpec = always(ResourceClaimSpec)


class ResourceClaimTemplate(Resource):
    """Makes a claim for every pod that refers to it."""

    spec: ResourceClaimTemplateSpec = always(ResourceClaimTemplateSpec)
    """The claims; it cannot be changed."""
