"""ResourceSlices: the devices that a driver publishes, with their attributes, capacities, counters and taints.

Fields behind gates that Mooring does not have (list attributes, node resources, skipped operations, partition types)
are dropped, as Kubernetes does with the gates at their defaults.
"""

import re
from itertools import pairwise

from mooring.admission import checks
from mooring.admission.dra import names as dra_names
from mooring.admission.dra.claim import validate_binding_conditions
from mooring.admission.dra.taints import set_time_added, validate_device_taint
from mooring.admission.node_selector import validate_node_selector
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names
from mooring.api import resource_v1 as v1
from mooring.api.core_v1 import NodeSelector
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quantity import MILLI, Quantity
from mooring.api.quoting import go_quote

MAX_DEVICES = 128
MAX_ADVANCED_DEVICES = 64
MAX_TAINTS = 16
_MAX_ATTRIBUTES_AND_CAPACITIES = 32
_MAX_COUNTER_SETS = 8
_MAX_COUNTERS = 32
_MAX_CONSUMPTIONS = 2
_MAX_VALUE_BYTES = 64
_SPEC = Path("spec")
_POOL_IS_ONE_OF = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_IS_ONE_OF = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_IDENTIFIER = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


class ResourceSliceStrategy(Strategy[v1.ResourceSlice]):
    def mutate(self, obj: v1.ResourceSlice, old: v1.ResourceSlice | None, request: Request) -> None:
        _drop_disabled_fields(obj.spec)
        for device in obj.spec.devices:
            set_time_added(device.taints, request)

    def warnings(self, new: v1.ResourceSlice, old: v1.ResourceSlice | None, request: Request) -> list[str]:
        driver = new.spec.driver
        if driver == driver.lower():
            return []
        return [f"spec.driver: driver names should be lowercase; {go_quote(driver)} contains uppercase characters"]

    def validate(self, obj: v1.ResourceSlice, old: v1.ResourceSlice | None, request: Request) -> Errors:
        spec = obj.spec
        errors = dra_names.validate_driver_name(spec.driver, _SPEC.child("driver"))
        errors += _validate_resource_pool(spec.pool, _SPEC.child("pool"))
        errors += checks.forbid_changes(obj, old, "spec.pool.name", "spec.driver", "spec.nodeName")
        errors += _validate_slice_nodes(spec)
        if spec.shared_counters and spec.devices:
            errors.append(field_errors.invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed"))
        return errors + _validate_devices_and_counters(spec, old.spec if old is not None else None)


def _drop_disabled_fields(spec: v1.ResourceSliceSpec) -> None:
    spec.partition_type_attribute = None
    spec.skip_node_operations = []
    for device in spec.devices:
        device.node_allocatable_resources = {}
        for attribute in device.attributes.values():
            attribute.int_values, attribute.bool_values = [], []
            attribute.string_values, attribute.version_values = [], []
        for consumption in device.consumes_counters:
            consumption.compatibility_groups = []


def _validate_resource_pool(pool: v1.ResourcePool, path: Path) -> Errors:
    errors = dra_names.validate_pool_name(pool.name, path.child("name"))
    errors += checks.positive(pool.resource_slice_count, path.child("resourceSliceCount"))
    detail = "must be greater than or equal to zero"
    return errors + checks.invalid_if(pool.generation < 0, path.child("generation"), pool.generation, detail)


def _validate_slice_nodes(spec: v1.ResourceSliceSpec) -> Errors:
    chosen, errors = _validate_node_choice(spec, _SPEC, "must be either unset or set to a non-empty string")
    if spec.node_selector is not None and len(spec.node_selector.node_selector_terms) != 1:
        terms = spec.node_selector.node_selector_terms
        here = _SPEC.child("nodeSelector", "nodeSelectorTerms")
        errors.append(field_errors.invalid(here, terms or None, "must have exactly one node selector term"))
    if spec.per_device_node_selection is not None:
        errors += _validate_only_true(spec.per_device_node_selection, _SPEC.child("perDeviceNodeSelection"))
        chosen += ["`perDeviceNodeSelection`"] if spec.per_device_node_selection else []
    if not chosen:
        errors.append(field_errors.required(_SPEC, _POOL_IS_ONE_OF))
    elif len(chosen) > 1:
        detail = f"{_POOL_IS_ONE_OF}, but multiple fields are set"
        errors.append(field_errors.invalid(_SPEC, f"{{{', '.join(chosen)}}}", detail))
    return errors


def _validate_device_nodes(device: v1.Device, path: Path, per_device: bool) -> Errors:
    if not per_device:
        if device.node_name is None and device.node_selector is None and device.all_nodes is None:
            return []
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
            "in the ResourceSlice spec"
        )
        return [field_errors.invalid(path, None, detail)]
    chosen, errors = _validate_node_choice(device, path, "must not be empty")
    if not chosen:
        errors.append(field_errors.required(path, _DEVICE_IS_ONE_OF))
    elif len(chosen) > 1:
        errors.append(field_errors.invalid(path, f"{{{', '.join(chosen)}}}", _DEVICE_IS_ONE_OF))
    return errors


def _validate_node_choice(
    of: v1.ResourceSliceSpec | v1.Device, path: Path, when_empty: str
) -> tuple[list[str], Errors]:
    chosen: list[str] = []
    errors: Errors = []
    if of.node_name is not None:
        here = path.child("nodeName")
        if of.node_name:
            chosen.append("`nodeName`")
            errors += names.validate(here, of.node_name, names.dns1123_subdomain(of.node_name))
        else:
            errors.append(field_errors.invalid(here, "", when_empty))
    selector: NodeSelector | None = of.node_selector
    if selector is not None:
        chosen.append("`nodeSelector`")
        errors += validate_node_selector(selector, path.child("nodeSelector"), dra_names.NODE_SELECTOR_RULES)
    if of.all_nodes is not None:
        errors += _validate_only_true(of.all_nodes, path.child("allNodes"))
        chosen += ["`allNodes`"] if of.all_nodes else []
    return chosen, errors


def _validate_only_true(value: bool, path: Path) -> Errors:
    return [] if value else [field_errors.invalid(path, value, "must be either unset or set to true")]


def _validate_devices_and_counters(spec: v1.ResourceSliceSpec, old: v1.ResourceSliceSpec | None) -> Errors:
    advanced = any(device.taints or device.consumes_counters for device in spec.devices)
    before = {device.name: device for device in old.devices} if old is not None else {}
    per_device = bool(spec.per_device_node_selection)
    errors = dra_names.validate_unique_list(
        spec.devices,
        MAX_ADVANCED_DEVICES if advanced else MAX_DEVICES,
        _SPEC.child("devices"),
        lambda device, here: _validate_device(device, here, before.get(device.name), per_device),
        lambda device: device.name,
    )
    return errors + dra_names.validate_unique_list(
        spec.shared_counters,
        _MAX_COUNTER_SETS,
        _SPEC.child("sharedCounters"),
        _validate_counter_set,
        lambda counters: counters.name,
    )


def _validate_device(device: v1.Device, path: Path, old: v1.Device | None, per_device: bool) -> Errors:
    errors = dra_names.validate_dns_label(device.name, path.child("name"))
    entries = len(device.attributes) + len(device.capacity)
    if entries > _MAX_ATTRIBUTES_AND_CAPACITIES:
        limit = _MAX_ATTRIBUTES_AND_CAPACITIES
        detail = f"the total number of attributes and capacities must not exceed {limit}"
        errors.append(field_errors.invalid(path, entries, detail))
    here = path.child("attributes")
    for name, attribute in device.attributes.items():
        errors += dra_names.validate_qualified_name(name, here) + _validate_device_attribute(attribute, here.key(name))
    if old is None or old.capacity != device.capacity:
        here = path.child("capacity")
        for name, capacity in device.capacity.items():
            errors += dra_names.validate_qualified_name(name, here)
            errors += validate_capacity(capacity, here.key(name), shared=bool(device.allow_multiple_allocations))
    if old is None or old.taints != device.taints:
        errors += dra_names.validate_bounded_list(
            device.taints, MAX_TAINTS, path.child("taints"), validate_device_taint
        )
    errors += dra_names.validate_unique_list(
        device.consumes_counters,
        _MAX_CONSUMPTIONS,
        path.child("consumesCounters"),
        _validate_counter_set,
        lambda consumption: consumption.counter_set,
    )
    errors += _validate_device_nodes(device, path, per_device)
    return errors + validate_binding_conditions(device.binding_conditions, device.binding_failure_conditions, path)


def _validate_device_attribute(attribute: v1.DeviceAttribute, path: Path) -> Errors:
    text, version = attribute.string_value, attribute.version_value
    errors = checks.limit_bytes(text or "", _MAX_VALUE_BYTES, path.child("string"))
    if version is not None:
        here = path.child("version")
        if not _SEMVER.fullmatch(version):
            errors.append(field_errors.invalid(here, version, "must be a string compatible with semver.org spec 2.0.0"))
        errors += checks.limit_bytes(version, _MAX_VALUE_BYTES, here)
    given = sum(value is not None for value in (attribute.bool_value, attribute.int_value, text, version))
    shown = attribute if given else ""
    return errors + checks.invalid_if(given != 1, path, shown, "exactly one value must be specified")


def _validate_counter_set(each: v1.CounterSet | v1.DeviceCounterConsumption, path: Path) -> Errors:
    """Return errors in the name and the counters of a set, or of the part of a set that a device consumes."""
    field, name = ("name", each.name) if isinstance(each, v1.CounterSet) else ("counterSet", each.counter_set)
    errors, here = checks.require_name(name, path.child(field), names.dns1123_label), path.child("counters")
    if not each.counters or len(each.counters) > _MAX_COUNTERS:
        return errors + checks.require(each.counters, here) + checks.limit_items(each.counters, _MAX_COUNTERS, here)
    return errors + [error for name in each.counters for error in dra_names.validate_dns_label(name, here)]


_MAX_VALUES = 10
_LARGEST = Quantity(2**63 - 1)


def validate_capacity(capacity: v1.DeviceCapacity, path: Path, *, shared: bool) -> Errors:
    """Return errors in a device capacity's request policy, which is only allowed if `shared` (multiply allocatable)."""
    policy = capacity.request_policy
    if policy is None:
        return []
    here = path.child("requestPolicy")
    if not shared:
        return [field_errors.forbidden(here, "allowMultipleAllocations must be true")]
    if policy.valid_values and policy.valid_range is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [field_errors.forbidden(here, detail)]
    if policy.valid_values:
        return _validate_capacity_values(policy, capacity.value, here)
    return checks.optional(policy.valid_range, here, _validate_capacity_range, policy, capacity.value)


def _validate_capacity_values(policy: v1.CapacityRequestPolicy, capacity: Quantity, path: Path) -> Errors:
    values, here = policy.valid_values, path.child("validValues")
    if policy.default is None:
        return [field_errors.required(path.child("default"), "required when validValues is defined")]
    errors = [
        field_errors.invalid(here.index(index), str(value), "values must be sorted in ascending order")
        for index, (before, value) in enumerate(pairwise(values), 1)
        if before > value
    ]

    def validate_option(value: Quantity, at: Path) -> Errors:
        detail = f"option is larger than capacity value: {capacity}"
        return [field_errors.invalid(at, str(value), detail)] if value > capacity else []

    errors += dra_names.validate_unique_list(values, _MAX_VALUES, here, validate_option)
    detail = "default value is not valid according to the requestPolicy"
    errors += checks.invalid_if(policy.default not in values, here, str(policy.default), detail)
    return errors


def _validate_capacity_range(
    valid: v1.CapacityRequestPolicyRange, path: Path, policy: v1.CapacityRequestPolicy, capacity: Quantity
) -> Errors:
    default, here = policy.default, path.child("validRange")
    if default is None:
        return [field_errors.required(path.child("default"), "required when validRange is defined")]
    problems: list[tuple[bool, str, Quantity, str]] = [
        (valid.min > capacity, "min", valid.min, f"min is larger than capacity value: {capacity}"),
        (default < valid.min, "default", default, f"default is less than min: {valid.min}"),
    ]
    if valid.max is not None:
        problems += [
            (valid.min > valid.max, "max", valid.min, f"min is larger than max: {valid.max}"),
            (valid.max > capacity, "max", valid.max, f"max is larger than capacity value: {capacity}"),
            (default > valid.max, "default", default, f"default is more than max: {valid.max}"),
        ]
    errors = [
        field_errors.invalid(here.child(name), str(value), detail) for wrong, name, value, detail in problems if wrong
    ]
    return errors + checks.optional(valid.step, here, _validate_capacity_step, default, valid, capacity)


def _validate_capacity_step(
    step: Quantity, path: Path, default: Quantity, valid: v1.CapacityRequestPolicyRange, capacity: Quantity
) -> Errors:
    here = path.child("step")
    if step.sign() <= 0:
        return [field_errors.invalid(here, str(step), "must be greater than zero")]
    first = valid.min + step
    detail = f"one step {first} is larger than capacity value: {capacity}"
    errors = checks.invalid_if(first > capacity, here, str(step), detail)
    for name, value in (("default", default), ("min", valid.min), ("max", valid.max), ("step", step)):
        if value is not None and value.sign() < 0:
            errors.append(field_errors.invalid(path.child(name), str(value), "must be greater than or equal to 0"))
        elif value is not None and value > _LARGEST:
            errors.append(field_errors.invalid(path.child(name), str(value), f"must not be larger than {_LARGEST}"))
    if errors:
        return errors
    return [
        field_errors.invalid(here, str(value), f"value is not a multiple of a given step ({step}) from ({valid.min})")
        for value in (default, valid.max)
        if value is not None and _subtract_in_milli(value, valid.min) % max(_subtract_in_milli(step), 1)
    ]


def _subtract_in_milli(value: Quantity, less: Quantity | None = None) -> int:
    return (value - less if less is not None else value).scaled_value(MILLI)
