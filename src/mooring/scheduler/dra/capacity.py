"""Compute how much of a device's capacities a request takes, and whether that amount is free.

A device lists, for each capacity, which amounts can be requested: some values, or a range with steps. A requested
amount is rounded up to one of them. Without a request, the default applies, or the whole capacity.
"""

from collections.abc import Mapping

from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import CapacityRequestPolicyRange, DeviceCapacity
from mooring.scheduler.dra.devices import PooledDevice

Amounts = Mapping[str, Quantity]
_ZERO = Quantity(0)


def consumption(device: PooledDevice, requested: Amounts) -> dict[str, Quantity] | None:
    """Return the amount of each of a device's capacities that a request takes; None when the device has too little."""
    wanted: dict[str, Quantity] = {}
    for name, amount in requested.items():
        own = _find_capacity_name(device, name)
        if own is None:
            return None
        wanted[own] = amount
    found: dict[str, Quantity] = {}
    for name, capacity in device.device.capacity.items():
        taken = _consumed_amount(wanted.get(name), capacity)
        if taken is None or taken > capacity.value:
            return None
        found[name] = taken
    return found


def fits(device: PooledDevice, taken: Amounts, *used: Amounts) -> bool:
    """Return whether a shared device has enough capacity for an additional request, given the amounts in use."""
    for name, amount in taken.items():
        total = sum((entry[name] for entry in used if name in entry), amount)
        if total > device.device.capacity[name].value:
            return False
    return True


def _find_capacity_name(device: PooledDevice, name: str) -> str | None:
    capacity, driver = device.device.capacity, device.id.driver
    domain, slash, identifier = name.partition("/")
    other = f"{driver}/{name}" if not slash else identifier if domain == driver else name
    return next((candidate for candidate in (name, other) if candidate in capacity), None)


def _consumed_amount(wanted: Quantity | None, capacity: DeviceCapacity) -> Quantity | None:
    policy = capacity.request_policy
    if wanted is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is not None and policy.valid_range is not None:
        return _round_up_to_step(wanted, policy.valid_range)
    if policy is not None and policy.valid_values:
        return min((value for value in policy.valid_values if value >= wanted), default=None)
    return wanted


def _round_up_to_step(wanted: Quantity, limits: CapacityRequestPolicyRange) -> Quantity | None:
    taken = max(wanted, limits.min)
    if limits.step is not None and limits.step > _ZERO:
        over, step = (taken - limits.min).milli_value(), limits.step.milli_value()
        taken = limits.min + limits.step * -(-over // step)
    return None if limits.max is not None and taken > limits.max else taken
