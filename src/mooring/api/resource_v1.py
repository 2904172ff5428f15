"""resource.k8s.io/v1: devices that drivers publish (ResourceSlice) and pods ask for (ResourceClaim).

The scheduler allocates devices to claims; taints on devices keep claims away or evict pods, as taints on nodes do.
v1beta2 has the same shapes; ``resource_v1beta1.py`` has those that differ, ``conversion.py`` goes between them.
"""

from typing import Annotated, Any

from msgspec import field

from mooring.api.base import Int64, Object, always, list_map, list_set, required
from mooring.api.core_v1 import NodeSelector
from mooring.api.meta_v1 import Condition, ObjectMeta, Resource
from mooring.api.quantity import Quantity

ZERO = Quantity(0)


ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
"""On a namespace: `true` lets its claims ask for access as an administrator."""


class DeviceAttribute(Object):
    """The value of an attribute of a device; exactly one of the fields is given."""

    int_value: Int64 | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    """True or false."""
    string_value: str | None = field(default=None, name="string")
    """A text of at most 64 characters."""
    version_value: str | None = field(default=None, name="version")
    """A semantic version."""
    int_values: list[Int64] = field(default_factory=list, name="ints")
    """Several numbers."""
    bool_values: list[bool] = field(default_factory=list, name="bools")
    """Several times true or false."""
    string_values: list[str] = field(default_factory=list, name="strings")
    """Several texts."""
    version_values: list[str] = field(default_factory=list, name="versions")
    """Several semantic versions."""


class CapacityRequestPolicyRange(Object):
    """The amounts of a capacity that may be asked for, as a range."""

    min: Quantity = required(lambda: ZERO)
    """The smallest amount; less is rounded up to it."""
    max: Quantity | None = None
    """The largest amount."""
    step: Quantity | None = None
    """Amounts are the smallest one plus a multiple of this; others are rounded up."""


class CapacityRequestPolicy(Object):
    """The amounts of a capacity that can be requested."""

    default: Quantity | None = None
    """The amount for requests that name none."""
    valid_values: list[Quantity] = []
    """The only amounts; others are rounded up to the next one."""
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Object):
    """An amount that a device has, and how it can be requested."""

    value: Quantity = required(lambda: ZERO)
    """The amount."""
    request_policy: CapacityRequestPolicy | None = None
    """Which amounts may be asked for, where several claims share the device."""


class Counter(Object):
    """An amount that devices draw from."""

    value: Quantity = required(lambda: ZERO)
    """The amount."""


class CounterSet(Object):
    """Named amounts that several devices share."""

    name: str = required(str)
    """The name by which devices refer to the set."""
    counters: dict[str, Counter] = required(dict)
    """The amounts; at most 32."""


class DeviceCounterConsumption(Object):
    """The amounts that a device draws from one counter set."""

    counter_set: str = required(str)
    counters: dict[str, Counter] = required(dict)
    """How much of each counter."""
    compatibility_groups: list[str] = []
    """Devices on the same set can be in use together only when they have a group in common."""


class NodeAllocatableMapping(Object):
    """The mapping of a device's use to a resource of its node."""

    capacity_key: str | None = None
    """The capacity of the device whose use is counted."""
    capacity_multiplier: Quantity | None = None
    """How much of the node's resource one unit of that capacity is."""
    device_multiplier: Quantity | None = None
    """How much of the node's resource one device is, where no capacity is counted."""


class NodeAllocatableOverhead(Object):
    """The additional resources of the node that using a device takes."""

    per_pod: Quantity | None = None
    """Once for every pod that uses the claim."""
    per_container: Quantity | None = None
    """Once for every container that uses the claim."""


class NodeAllocatableResource(Object):
    """The effect of a device on one resource of the node, such as cpu."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class DeviceTaint(Object):
    """Keeps claims away from a device unless they tolerate it."""

    key: str = required(str)
    """The key, a label name."""
    value: str = ""
    """The value, a label value."""
    effect: str = required(str)
    """NoSchedule, NoExecute to evict the pods as well, or None for information only."""
    time_added: str | None = None
    """When the taint was added; the server sets it."""


class DeviceProperties(Object):
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


class Device(DeviceProperties):
    """One device of a pool."""

    name: str = required(str)
    """The name, unique in the pool of the driver."""


class ResourcePool(Object):
    """The pool that a slice belongs to."""

    name: str = required(str)
    """The name of the pool, often that of a node."""
    generation: Int64 = required(int)
    """A number that the driver raises with every change; only slices with the highest count."""
    resource_slice_count: Int64 = required(int)
    """How many slices the pool has in this generation."""


class SliceProperties(Object):
    """The driver, the pool and the nodes of a slice."""

    driver: str = required(str)
    pool: ResourcePool = required(ResourcePool)
    node_name: str | None = None
    """The only node that has the devices."""
    node_selector: NodeSelector | None = None
    """The nodes that have the devices; exactly one term."""
    all_nodes: bool | None = None
    """Whether all nodes have the devices."""
    per_device_node_selection: bool | None = None
    """Whether each device says itself which nodes have it."""
    shared_counters: list[CounterSet] = []
    """Counters that devices of the pool draw from; a slice has these or devices, not both."""
    partition_type_attribute: str | None = None
    """The attribute whose value says what sort of partition a device is."""
    skip_node_operations: Annotated[list[str], list_set(patch_merge=False)] = []
    """Calls to the driver on the node that are not needed for these devices."""


class ResourceSliceSpec(SliceProperties):
    """The devices that a driver publishes in one slice."""

    devices: list[Device] = []
    """The devices; at most 128, or 64 where they use taints or counters."""


class ResourceSlice(Resource):
    """Some or all of the devices of a driver's pool."""

    spec: ResourceSliceSpec = required(ResourceSliceSpec)


class CELDeviceSelector(Object):
    """Selects devices by a CEL expression."""

    expression: str = required(str)
    """An expression over `device` that is true for the devices which are wanted."""


class DeviceSelector(Object):
    """Selects devices; exactly one of the fields is given."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Object):
    """Lets a request have devices in spite of a taint."""

    key: str = ""
    """The key of the taint; with Exists and no key all taints are tolerated."""
    operator: str = ""
    """Equal, Exists, Lt or Gt; Equal when not given."""
    value: str = ""
    """The value that the taint's value is compared with."""
    effect: str = ""
    """The effect that is tolerated; all when not given."""
    toleration_seconds: Int64 | None = None
    """For how many seconds a NoExecute taint is tolerated; for ever when not given."""


class CapacityRequirements(Object):
    """The requested amounts of a device's capacities."""

    requests: dict[str, Quantity] = {}
    """The amounts, by the name of the capacity."""


class DeviceDerivedAttribute(Object):
    """An attribute that a request computes from what a device publishes, for use in constraints."""

    name: str = required(str)
    """The qualified name of the attribute; it hides a published one of the same name."""
    expression: str = required(str)
    """A CEL expression over `device` that gives the value."""


class RequestedDevices(Object):
    """The devices that a request or sub-request asks for."""

    device_class_name: str = required(str)
    """The DeviceClass."""
    selectors: list[DeviceSelector] = []
    """What the devices must be like besides; all must hold."""
    allocation_mode: str = ""
    """ExactCount for a number of devices, All for every device that matches."""
    count: Int64 = 0
    """How many devices; 1 when not given. Only with ExactCount."""
    tolerations: list[DeviceToleration] = []
    """The taints that do not matter."""
    capacity: CapacityRequirements | None = None
    derived_attributes: Annotated[list[DeviceDerivedAttribute], list_map("name", patch_key="")] = []
    """Computed attributes, for use in constraints."""


class ExactDeviceRequest(RequestedDevices):
    """Asks for devices of one class."""

    admin_access: bool | None = None
    """Whether access is for administration, also to devices in use."""


class DeviceSubRequest(RequestedDevices):
    """One of several ways to fulfil a request."""

    name: str = required(str)
    """The name of this way, by which constraints and configuration refer to it."""


class DeviceRequest(Object):
    """Asks for devices, in one way or in one of several; exactly one of the two is given."""

    name: str = required(str)
    """The name by which pods, constraints and configuration refer to the request."""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] = []
    """Alternative requests; the first that can be satisfied is used; at most 8."""


class DeviceConstraint(Object):
    """A constraint on the attributes of the devices of several requests."""

    requests: list[str] = []
    """The requests that the constraint is about; all when not given."""
    match_attribute: str | None = None
    """An attribute that must be equal on all devices."""
    distinct_attribute: str | None = None
    """An attribute that must differ on all devices."""


class OpaqueDeviceConfiguration(Object):
    """Configuration that only a driver understands."""

    driver: str = required(str)
    parameters: dict[str, Any] | None = required(lambda: None)
    """The configuration, in the form that the driver chose."""


class DeviceClaimConfiguration(Object):
    """Configuration for the devices of a claim."""

    requests: list[str] = []
    """The requests that the configuration is for; all when not given."""
    opaque: OpaqueDeviceConfiguration | None = None


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


class DeviceRequestAllocationResult(Object):
    """A device that was allocated for a request."""

    request: str = required(str)
    """The request, followed by a slash and the sub-request where there are several ways."""
    driver: str = required(str)
    pool: str = required(str)
    device: str = required(str)
    admin_access: bool | None = None
    """Whether access is for administration."""
    tolerations: list[DeviceToleration] = []
    """The tolerations of the request, as they were then."""
    binding_conditions: list[str] = []
    """The binding conditions of the device, as they were then."""
    binding_failure_conditions: list[str] = []
    """The binding failure conditions of the device, as they were then."""
    share_id: str | None = field(default=None, name="shareID")
    """Identifies the share of a device that several claims use."""
    consumed_capacity: dict[str, Quantity] = {}
    """How much of a shared device's capacities is used."""
    skip_node_operations: Annotated[list[str], list_set(patch_merge=False)] = []
    """Calls to the driver that are not needed, as the slice said then."""


class DeviceAllocationConfiguration(Object):
    """Configuration for allocated devices."""

    source: str = required(str)
    """FromClass or FromClaim: where the configuration comes from."""
    requests: list[str] = []
    """The requests that the configuration is for; all when not given."""
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Object):
    """The devices that were allocated."""

    results: list[DeviceRequestAllocationResult] = []
    """The devices."""
    config: list[DeviceAllocationConfiguration] = []
    """The configuration of the allocated devices, from classes and the claim."""


class AllocationResult(Object):
    """The devices allocated for a claim, and where they can be used."""

    devices: DeviceAllocationResult = always(DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    """The nodes on which they can be used; all when not given."""
    allocation_timestamp: str | None = None
    """When they were allocated."""


class ResourceClaimConsumerReference(Object):
    """A consumer that may use a claim, usually a pod."""

    api_group: str = ""
    """The group of the consumer; empty for the core group."""
    resource: str = required(str)
    """The resource of the consumer, such as pods."""
    name: str = required(str)
    uid: str = required(str)


class NetworkDeviceData(Object):
    """The state of a network device."""

    interface_name: str = ""
    """The name of the interface in the pod."""
    ips: list[str] = []
    """The addresses of the network interface, with the length of the network's prefix."""
    hardware_address: str = ""
    """The hardware address of the network interface."""


class AllocatedDeviceStatus(Object):
    """The state of an allocated device, as its driver reports it."""

    driver: str = required(str)
    pool: str = required(str)
    device: str = required(str)
    share_id: str | None = field(default=None, name="shareID")
    """Identifies the share of a device that several claims use."""
    conditions: Annotated[list[Condition], list_map("type", patch_key="")] = []
    """The conditions of the device; at most 8."""
    data: dict[str, Any] | None = None
    """What else the driver reports, in its own form."""
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(Object):
    """The allocation of a claim, and its consumers."""

    allocation: AllocationResult | None = None
    """The devices; the claim can be used as soon as this is given."""
    reserved_for: Annotated[list[ResourceClaimConsumerReference], list_map("uid")] = []
    """Who may use the claim; at most 256."""
    devices: Annotated[list[AllocatedDeviceStatus], list_map("driver", "device", "pool", "shareID", patch_key="")] = []
    """What drivers report about the devices."""


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


class DeviceClassConfiguration(Object):
    """Configuration for all devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Object):
    """The selectors and configuration of a class of devices."""

    selectors: list[DeviceSelector] = []
    """What the devices must be like; all must hold."""
    config: list[DeviceClassConfiguration] = []
    """Configuration that drivers get with devices of the class."""
    extended_resource_name: str | None = None
    """The extended resource by which pods can ask for a device of the class."""


class DeviceClass(Resource):
    """A sort of devices that claims can ask for."""

    spec: DeviceClassSpec = always(DeviceClassSpec)


class DeviceTaintSelector(Object):
    """Selects the devices that a rule taints; absent fields match everything."""

    driver: str | None = None
    """The driver of the devices."""
    pool: str | None = None
    """The pool of the devices."""
    device: str | None = None


class DeviceTaintRuleSpec(Object):
    """The devices that a rule taints, and the taint."""

    device_selector: DeviceTaintSelector | None = None
    """The devices; an empty selector means all, a missing one none."""
    taint: DeviceTaint = required(DeviceTaint)


class DeviceTaintRuleStatus(Object):
    """The observed state of a rule."""

    conditions: Annotated[list[Condition], list_map("type")] = []
    """The conditions of the rule; EvictionInProgress is true while pods remain to be evicted."""


class DeviceTaintRule(Resource):
    """Taints devices from outside their driver."""

    spec: DeviceTaintRuleSpec = required(DeviceTaintRuleSpec)
    status: DeviceTaintRuleStatus = always(DeviceTaintRuleStatus)
