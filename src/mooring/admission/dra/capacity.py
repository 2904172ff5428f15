"""Validate capacities that several claims may share, and their request policies."""

from itertools import pairwise

from mooring.admission.dra.names import validate_set
from mooring.api import field_errors
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.quantity import MILLI, Quantity
from mooring.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity

_MAX_VALUES = 10
_LARGEST = Quantity(2**63 - 1)


def validate_capacity(capacity: DeviceCapacity, path: Path, *, shared: bool) -> list[FieldError]:
    """Validate a capacity; only devices with multiple allocations have policies."""
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
        return _values(policy, capacity.value, here)
    return _range(policy, policy.valid_range, capacity.value, here) if policy.valid_range is not None else []


def _values(policy: CapacityRequestPolicy, capacity: Quantity, path: Path) -> list[FieldError]:
    values, here = policy.valid_values, path.child("validValues")
    if policy.default is None:
        return [field_errors.required(path.child("default"), "required when validValues is defined")]
    errors = [
        field_errors.invalid(here.index(index), str(value), "values must be sorted in ascending order")
        for index, (before, value) in enumerate(pairwise(values), 1)
        if before > value
    ]

    def check(value: Quantity, at: Path) -> list[FieldError]:
        detail = f"option is larger than capacity value: {capacity}"
        return [field_errors.invalid(at, str(value), detail)] if value > capacity else []

    errors += validate_set(values, _MAX_VALUES, here, check)
    if policy.default not in values:
        detail = "default value is not valid according to the requestPolicy"
        errors.append(field_errors.invalid(here, str(policy.default), detail))
    return errors


def _range(
    policy: CapacityRequestPolicy, valid: CapacityRequestPolicyRange, capacity: Quantity, path: Path
) -> list[FieldError]:
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
    return errors + (_step(default, valid, valid.step, capacity, here) if valid.step is not None else [])


def _step(
    default: Quantity, valid: CapacityRequestPolicyRange, step: Quantity, capacity: Quantity, path: Path
) -> list[FieldError]:
    here = path.child("step")
    if step.sign() <= 0:
        return [field_errors.invalid(here, str(step), "must be greater than zero")]
    errors = []
    first = valid.min + step
    if first > capacity:
        detail = f"one step {first} is larger than capacity value: {capacity}"
        errors.append(field_errors.invalid(here, str(step), detail))
    for name, value in (("default", default), ("min", valid.min), ("max", valid.max), ("step", step)):
        if value is not None and value.sign() < 0:
            detail = "must be greater than or equal to 0"
            errors.append(field_errors.invalid(path.child(name), str(value), detail))
        elif value is not None and value > _LARGEST:
            detail = f"must not be larger than {_LARGEST}"
            errors.append(field_errors.invalid(path.child(name), str(value), detail))
    if errors:
        return errors
    return [
        field_errors.invalid(here, str(value), f"value is not a multiple of a given step ({step}) from ({valid.min})")
        for value in (default, valid.max)
        if value is not None and _milli(value, valid.min) % max(_milli(step), 1)
    ]


def _milli(value: Quantity, less: Quantity | None = None) -> int:
    return (value - less if less is not None else value).scaled_value(MILLI)
