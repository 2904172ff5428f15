"""Search devices on one node that satisfy all claims of a pod.

Claims, their requests and the devices of each request are taken in order. Each device that is free, selected, tolerated
and allowed by the constraints is tried; the first complete solution wins, as in kube-scheduler. Two attempts that
cannot succeed are skipped: the devices of one request in another order, and a device identical to one that just failed.
The search is still exponential in the worst case, so it stops after a limited number of tries.

A shared device lists, for each capacity, which amounts can be requested: some values, or a range with steps. A
requested amount is rounded up to one of them. Without a request, the default applies, or the whole capacity.

    claim ─► request ─► an alternative of it ─► device ─► device ─► … ─► next request ─► … ─► next claim
                                                └─ does not work: undo it, try the next one
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import CapacityRequestPolicyRange, DeviceCapacity, DeviceSelector, ResourceClaim
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import find_untolerated_device_taint
from mooring.scheduler.dra.allocated import Allocated
from mooring.scheduler.dra.claims import Alternatives, Request, full_name
from mooring.scheduler.dra.devices import DeviceId, PooledDevice, SelectorError, attribute_of
from mooring.scheduler.dra.inventory import CounterName, NodePool, Pool

MAX_DEVICES = 32
"""The maximum number of devices that one claim may have."""
MAX_ALTERNATIVES = 8
Amounts = Mapping[str, Quantity]
_ZERO = Quantity(0)


class AllocationError(ValueError):
    """A claim or device class is invalid, so that no node can satisfy it; the message is kube-scheduler's."""


class OutOfTriesError(Exception):
    """The device search gave up because it reached its limit of tries."""


class Wanted(msgspec.Struct, frozen=True):
    """A claim to which no devices are allocated yet, with its requests; the input of the search."""

    claim: ResourceClaim
    requests: tuple[Alternatives, ...]


class Chosen(msgspec.Struct, frozen=True):
    """A device that the search chose for a request."""

    request: Request
    device: PooledDevice
    consumed: dict[str, Quantity] | None
    """The amounts that the request takes of the device's capacities, if the device is shared."""


class Solution(msgspec.Struct, frozen=True):
    """A complete result of the search: the devices for each claim."""

    devices: tuple[tuple[Chosen, ...], ...]
    score: int
    """The score of the node: higher if earlier alternatives of requests were satisfied."""


@dataclass(slots=True)
class Tries:
    """The number of devices that the search may still try for a pod: on all nodes together, and on each node."""

    left: int = sys.maxsize
    per_node: int = sys.maxsize


def allocate(
    wanted: Sequence[Wanted], pools: Sequence[NodePool], allocated: Allocated, options: ConstraintOptions, tries: Tries
) -> Solution | None:
    """Find devices for all claims in the pools that a node can use; return None if there are not enough.

    Raise AllocationError for an invalid claim or class, OutOfTriesError at the limit of tries.
    """
    search = _Search(wanted, pools, allocated, options, min(tries.per_node, tries.left))
    try:
        found = search.allocate_claim(0)
    finally:
        tries.left -= search.tried
    if not found:
        return None
    return Solution(tuple(tuple(devices) for devices in search.result), search.score())


@dataclass(slots=True)
class _Constraint:
    """A constraint of a claim: an attribute is equal on the devices of some requests, or different on each."""

    attribute: str
    requests: frozenset[str]
    is_distinct: bool
    values: list[tuple[str, object]] = field(default_factory=list)
    """The attribute's values on the devices that the search has taken."""

    def add(self, request: Request, device: PooledDevice) -> bool:
        """Add a device if it meets the constraint; return whether it does."""
        if not request.is_listed_in(self.requests):
            return True
        value = attribute_of(device, self.attribute)
        if value is None or (value in self.values if self.is_distinct else self.values and self.values[0] != value):
            return False
        self.values.append(value)
        return True

    def remove_last(self, request: Request) -> None:
        """Remove the device that the last successful `add` added for a request."""
        if request.is_listed_in(self.requests):
            self.values.pop()


def _compile_constraints(claim: ResourceClaim) -> list[_Constraint]:
    found: list[_Constraint] = []
    for index, entry in enumerate(claim.spec.devices.constraints):
        attribute = entry.match_attribute if entry.match_attribute is not None else entry.distinct_attribute
        if attribute is None:
            what = "empty constraint (unsupported constraint type?)"
            raise AllocationError(f"claim {full_name(claim)}, constraint #{index}: {what}")
        found.append(_Constraint(attribute, frozenset(entry.requests), entry.match_attribute is None))
    return found


@dataclass(slots=True)
class _Search:
    """A depth-first search for devices on one node; it takes devices and releases them when it backtracks."""

    wanted: Sequence[Wanted]
    pools: Sequence[NodePool]
    allocated: Allocated
    options: ConstraintOptions
    limit: int
    tried: int = 0
    result: list[list[Chosen]] = field(default_factory=list)
    _picked: dict[tuple[int, int], int] = field(default_factory=dict)
    _constraints: list[list[_Constraint]] = field(default_factory=list)
    _allocating: dict[DeviceId, list[int]] = field(default_factory=dict)
    _sharing: dict[DeviceId, list[dict[str, Quantity]]] = field(default_factory=dict)
    _free_counters: dict[int, dict[CounterName, Quantity]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.result = [[] for _ in self.wanted]
        self._constraints = [_compile_constraints(entry.claim) for entry in self.wanted]

    def score(self) -> int:
        return sum(
            MAX_ALTERNATIVES - index
            for (claim, request), index in self._picked.items()
            if self.wanted[claim].requests[request][index].sub
        )

    def allocate_claim(self, number: int) -> bool:
        """Find devices for a claim and all claims after it; return whether there are enough."""
        return number == len(self.wanted) or self._allocate_request(number, 0)

    def _allocate_request(self, claim: int, number: int) -> bool:
        requests = self.wanted[claim].requests
        if number == len(requests):
            return self.allocate_claim(claim + 1)
        for index, request in enumerate(requests[number]):
            self._picked[claim, number] = index
            if self._allocate_alternative(claim, number, request):
                return True
        return False

    def _allocate_alternative(self, claim: int, number: int, request: Request) -> bool:
        if request.wants_all:
            everything = self._find_all_devices(claim, request)
            within = len(self.result[claim]) + len(everything) <= MAX_DEVICES
            return bool(everything) and within and self._take_all_devices(claim, number, request, everything)
        if len(self.result[claim]) + request.count > MAX_DEVICES:
            return False
        devices = [
            (device, entry.pool)
            for entry in self.pools
            if not (entry.pool.is_incomplete or entry.pool.is_invalid)
            for device in entry.devices
        ]
        return self._take_some_devices((claim, number), request, devices, 0, request.count)

    def _find_all_devices(self, claim: int, request: Request) -> list[tuple[PooledDevice, Pool]]:
        found: list[tuple[PooledDevice, Pool]] = []
        for entry in self.pools:
            if entry.pool.is_incomplete or entry.pool.is_invalid:
                state = "currently being updated" if entry.pool.is_incomplete else "currently invalid"
                what = f"asks for all devices, but resource pool {entry.pool} is {state}"
                raise AllocationError(f"claim {full_name(self.wanted[claim].claim)}, request {request.name}: {what}")
            found += [(device, entry.pool) for device in entry.devices if self._is_selected(claim, request, device)]
        return found

    def _take_all_devices(
        self, claim: int, number: int, request: Request, devices: list[tuple[PooledDevice, Pool]]
    ) -> bool:
        taken: list[tuple[PooledDevice, Pool]] = []
        for device, pool in devices:
            if not self._take_device(claim, request, device, pool):
                break
            taken.append((device, pool))
        if len(taken) == len(devices) and self._allocate_request(claim, number + 1):
            return True
        for device, pool in reversed(taken):
            self._release_device(claim, request, device, pool)
        return False

    def _take_some_devices(
        self,
        position: tuple[int, int],
        request: Request,
        devices: list[tuple[PooledDevice, Pool]],
        start: int,
        count: int,
    ) -> bool:
        claim, number = position
        if count == 0:
            return self._allocate_request(claim, number + 1)
        failed: set[tuple[object, ...]] = set()
        for index in range(start, len(devices)):
            device, pool = devices[index]
            if not self._is_free(claim, request, device) or not self._is_selected(claim, request, device):
                continue
            if device.twin_key in failed or not self._take_device(claim, request, device, pool):
                continue
            following = index + (not device.is_shareable)
            if self._take_some_devices(position, request, devices, following, count - 1):
                return True
            self._release_device(claim, request, device, pool)
            if not device.is_shareable:
                failed.add(device.twin_key)
        return False

    # -- one device

    def _is_free(self, claim: int, request: Request, device: PooledDevice) -> bool:
        taken = self._allocating.get(device.id, ())
        if request.admin_access:
            return claim not in taken
        if self.allocated.is_exclusive(device.id):
            return False
        return device.is_shareable or not taken

    def _is_selected(self, claim: int, request: Request, device: PooledDevice) -> bool:
        of_class = f"class {request.device_class.metadata.name}"
        of_claim = f"claim {full_name(self.wanted[claim].claim)}"
        return _matches_all(request.device_class.spec.selectors, device, of_class) and _matches_all(
            request.selectors, device, of_claim
        )

    def _take_device(self, claim: int, request: Request, device: PooledDevice, pool: Pool) -> bool:
        self.tried += 1
        if self.tried > self.limit:
            raise OutOfTriesError
        if not self._is_free(claim, request, device):
            return False
        if device.taints and find_untolerated_device_taint(device.taints, request.tolerations, self.options):
            return False
        consumed = self._compute_consumption(request, device)
        if consumed is None or not self._consume_counters(device, pool):
            return False
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(request, device):
                for earlier in constraints[:index]:
                    earlier.remove_last(request)
                self._return_counters(device, pool)
                return False
        self._allocating.setdefault(device.id, []).append(claim)
        if device.is_shareable:
            self._sharing.setdefault(device.id, []).append(consumed)
        self.result[claim].append(Chosen(request, device, consumed if device.is_shareable else None))
        return True

    def _release_device(self, claim: int, request: Request, device: PooledDevice, pool: Pool) -> None:
        self.result[claim].pop()
        self._allocating[device.id].remove(claim)
        if device.is_shareable:
            self._sharing[device.id].pop()
        for constraint in self._constraints[claim]:
            constraint.remove_last(request)
        self._return_counters(device, pool)

    def _compute_consumption(self, request: Request, device: PooledDevice) -> dict[str, Quantity] | None:
        if not device.is_shareable and not request.capacity:
            return {}
        taken = _consumed_capacities(device, request.capacity)
        if taken is None or not device.is_shareable or request.admin_access:
            return taken
        used = (self.allocated.consumed_capacities(device.id), *self._sharing.get(device.id, ()))
        return taken if _has_capacity(device, taken, *used) else None

    # -- counters that devices share

    def _consume_counters(self, device: PooledDevice, pool: Pool) -> bool:
        if not self._needs_counters(device):
            return True
        free = self._free_counters_of(pool)
        if any(free.get(name, _ZERO) < amount for name, amount in _consumed_counters(device)):
            return False
        for name, amount in _consumed_counters(device):
            free[name] -= amount
        return True

    def _return_counters(self, device: PooledDevice, pool: Pool) -> None:
        if self._needs_counters(device):
            free = self._free_counters_of(pool)
            for name, amount in _consumed_counters(device):
                free[name] += amount

    def _needs_counters(self, device: PooledDevice) -> bool:
        in_use = self.allocated.is_used(device.id) or bool(self._allocating.get(device.id))
        return bool(device.device.consumes_counters) and not in_use

    def _free_counters_of(self, pool: Pool) -> dict[CounterName, Quantity]:
        free = self._free_counters.get(id(pool))
        if free is None:
            free = self._free_counters[id(pool)] = dict(pool.counters)
            for device in pool.devices:
                if device.device.consumes_counters and self.allocated.is_used(device.id):
                    for name, amount in _consumed_counters(device):
                        free[name] = free.get(name, _ZERO) - amount
        return free


def _consumed_counters(device: PooledDevice) -> Iterator[tuple[CounterName, Quantity]]:
    for consumption in device.device.consumes_counters:
        for name, counter in consumption.counters.items():
            yield (consumption.counter_set, name), counter.value


def _matches_all(selectors: Sequence[DeviceSelector], device: PooledDevice, whose: str) -> bool:
    for index, selector in enumerate(selectors):
        if selector.cel is None:
            raise AllocationError(f"{whose}: selector #{index}: CEL expression empty (unsupported selector type?)")
        try:
            if not device.kind.is_selected_by(selector.cel.expression):
                return False
        except SelectorError as problem:
            raise AllocationError(f"{whose}: selector #{index} on device {device.id}: {problem}") from problem
    return True


def _consumed_capacities(device: PooledDevice, requested: Amounts) -> dict[str, Quantity] | None:
    """Return how much of each device capacity a request takes; None if one is missing or its total too small."""
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


def _has_capacity(device: PooledDevice, taken: Amounts, *used: Amounts) -> bool:
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
