"""resource.k8s.io/v1beta1: claims and slices as they were before v1beta2.

A request has its fields at the top and not under `exactly`, and a device has its properties under `basic`. Whatever
contains neither has the same shape as in v1 and is shared with ``resource_v1.py``; ``conversion.py`` goes between them.
"""

from typing import Annotated

from mooring.api.base import Int64, Object, always, list_map, list_set, required
from mooring.api.core_v1 import NodeSelector
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.resource_v1 import (
    CapacityRequirements,
    CounterSet,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceDerivedAttribute,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    NodeAllocatableResource,
    ResourceClaimStatus,
    ResourcePool,
)


class BasicDevice(Object):
    """The properties of a device."""

    attributes: dict[str, DeviceAttribute] = {}
    """What the device is like, by qualified name."""
    capacity: dict[str, DeviceCapacity] = {}
    """What the device has, by qualified name."""
    consumes_counters: list[DeviceCounterConsumption] = []
    """What the device draws from shared counters while it is in use."""
    node_name: str | None = None
    """The only node that has the device; only where the slice leaves it to the devices."""
    node_selector: NodeSelector | None = None
    """The nodes that have the device; only where the slice leaves it to the devices."""
    all_nodes: bool | None = None
    """Whether all nodes have the device; only where the slice leaves it to the devices."""
    taints: list[DeviceTaint] = []
    """The taints that the driver gave the device."""
    binds_to_node: bool | None = None
    """Whether an allocation is bound to the node that it was made for."""
    binding_conditions: list[str] = []
    """Conditions that must be true before a pod with the device is bound; at most 4."""
    binding_failure_conditions: list[str] = []
    """Conditions that mean a failed binding if one is true; at most 4."""
    allow_multiple_allocations: bool | None = None
    """Whether several claims may share the device."""
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}
    """What the device means for the resources of the node, such as cpu and memory."""


class Device(Object):
    """One device of a pool."""

    name: str = required(str)
    """The name, unique in the pool of the driver."""
    basic: BasicDevice | None = None
    """The properties of the device."""


class ResourceSliceSpec(Object):
    """What a driver publishes in one slice."""

    driver: str = required(str)
    """The name of the driver."""
    pool: ResourcePool = required(ResourcePool)
    """The pool that the slice belongs to."""
    node_name: str | None = None
    """The only node that has the devices."""
    node_selector: NodeSelector | None = None
    """The nodes that have the devices; exactly one term."""
    all_nodes: bool | None = None
    """Whether all nodes have the devices."""
    devices: list[Device] = []
    """The devices; at most 128, or 64 where they use taints or counters."""
    per_device_node_selection: bool | None = None
    """Whether each device says itself which nodes have it."""
    shared_counters: list[CounterSet] = []
    """Counters that devices of the pool draw from; a slice has these or devices, not both."""
    partition_type_attribute: str | None = None
    """The attribute whose value says what sort of partition a device is."""
    skip_node_operations: Annotated[list[str], list_set(patch_merge=False)] = []
    """Calls to the driver on the node that are not needed for these devices."""


class ResourceSlice(Resource):
    """Some or all of the devices of a driver's pool."""

    spec: ResourceSliceSpec = required(ResourceSliceSpec)
    """What the driver publishes."""


class DeviceRequest(Object):
    """Asks for devices, in one way or in one of several; with several ways the fields of the one way are not given."""

    name: str = required(str)
    """The name by which pods, constraints and configuration refer to the request."""
    device_class_name: str = ""
    """The DeviceClass."""
    selectors: list[DeviceSelector] = []
    """What the devices must be like besides; all must hold."""
    allocation_mode: str = ""
    """ExactCount for a number of devices, All for every device that matches."""
    count: Int64 = 0
    """How many devices; 1 when not given. Only with ExactCount."""
    admin_access: bool | None = None
    """Whether access is for administration, also to devices in use."""
    first_available: list[DeviceSubRequest] = []
    """Alternative requests; the first that can be satisfied is used; at most 8."""
    tolerations: list[DeviceToleration] = []
    """The taints that do not matter."""
    capacity: CapacityRequirements | None = None
    """How much of each device is needed."""
    derived_attributes: Annotated[list[DeviceDerivedAttribute], list_map("name", patch_key="")] = []
    """Computed attributes, for use in constraints."""


class DeviceClaim(Object):
    """The devices that a claim asks for."""

    requests: list[DeviceRequest] = []
    """The requests; at most 32."""
    constraints: list[DeviceConstraint] = []
    """What the devices must have in common."""
    config: list[DeviceClaimConfiguration] = []
    """Configuration that drivers get with the devices."""


class ResourceClaimSpec(Object):
    """What a claim asks for."""

    devices: DeviceClaim = always(DeviceClaim)
    """The devices."""


class ResourceClaim(Resource):
    """Asks for devices, for one pod or several to use."""

    spec: ResourceClaimSpec = always(ResourceClaimSpec)
    """The desired state. Immutable."""
    status: ResourceClaimStatus = always(ResourceClaimStatus)
    """What was allocated."""


class ResourceClaimTemplateSpec(Object):
    """The claims that are made from a template."""

    metadata: ObjectMeta = always(ObjectMeta)
    """The labels and annotations of the claims."""
    spec: ResourceClaimSpec = always(ResourceClaimSpec)
    """What the claims ask for."""


class ResourceClaimTemplate(Resource):
    """Makes a claim for every pod that refers to it."""

    spec: ResourceClaimTemplateSpec = always(ResourceClaimTemplateSpec)
    """The claims; it cannot be changed."""
