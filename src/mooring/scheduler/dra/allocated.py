"""Track which devices are allocated, and how much of the shared ones.

Counted are the claims in the state that informers show or that our own pending writes will give them, and the
allocations that are decided but not written yet (in flight). Only changed claims are processed again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import ResourceClaim
from mooring.constraints.columns.revisions import NEVER
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.dra.claims import claim_key
from mooring.scheduler.dra.devices import DeviceId
from mooring.scheduler.dra.inventory import Inventory
from mooring.scheduler.volumes.assumed import find_assumptions

Use: TypeAlias = tuple[DeviceId, dict[str, Quantity] | None]
"""A device that a claim uses and, if it is shared, the used amounts of its capacities."""
_ZERO = Quantity(0)


class Allocated:
    """The devices that ResourceClaims use, and the used capacities of shared devices."""

    def __init__(self, cluster: Cluster, inventory: Inventory) -> None:
        self._changes = cluster.changes(ResourceClaim)
        self._objects = cluster.objects(ResourceClaim)
        self._verified_at = NEVER
        self._claims = find_assumptions(cluster, ResourceClaim)
        self._inventory = inventory
        self._uses: dict[str, tuple[Use, ...]] = {}
        self._touched: set[str] = set()
        self._in_flight: dict[str, ResourceClaim] = {}
        self._exclusive: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._consumed: dict[DeviceId, dict[str, Quantity]] = {}

    def is_exclusive(self, device: DeviceId) -> bool:
        """Return whether a device is allocated to a claim that does not share it with others."""
        return device in self._exclusive

    def is_used(self, device: DeviceId) -> bool:
        return device in self._exclusive or device in self._consumed

    def consumed_capacities(self, device: DeviceId) -> Mapping[str, Quantity]:
        """Return the amounts of a shared device's capacities that claims use."""
        return self._consumed.get(device, {})

    def is_in_flight(self, claim: ResourceClaim) -> bool:
        """Return whether the allocation of a claim is decided but not written yet."""
        found = self._in_flight.get(claim_key(claim))
        return found is not None and found.metadata.uid == claim.metadata.uid

    def begin_allocation(self, claim: ResourceClaim) -> None:
        """Count the devices of a claim as used from now on, although its allocation is not written yet."""
        self._in_flight[claim_key(claim)] = claim
        self._touched.add(claim_key(claim))

    def end_allocation(self, claim: ResourceClaim) -> None:
        """Stop counting an unwritten allocation, because it was written or given up."""
        self._touched.add(claim_key(claim))
        self._in_flight.pop(claim_key(claim), None)

    def recount_claim(self, claim: ResourceClaim) -> None:
        """Let the next `refresh` recompute which devices a claim uses, because its assumed state changed."""
        self._touched.add(claim_key(claim))

    def refresh(self) -> None:
        """Recompute the devices of the claims that changed since the last call."""
        changed = self._changes.entries_since(self._verified_at, len(self._objects))
        self._verified_at = self._changes.changed_at
        changed = (changed if changed is not None else {*self._objects, *self._uses}) | self._touched
        self._touched.clear()
        devices: set[DeviceId] = set()
        for key in changed:
            devices.update(self._recount_devices(key))
        self._inventory.mark_devices_changed(devices)

    def _recount_devices(self, key: str) -> Iterator[DeviceId]:
        claim = self._in_flight.get(key) or self._claims.get(key)
        before, after = self._uses.pop(key, ()), () if claim is None else tuple(_device_uses(claim))
        if after:
            self._uses[key] = after
        if before == after:
            return
        for use in before:
            self._remove_use(*use)
            yield use[0]
        for use in after:
            self._add_use(*use)
            yield use[0]

    def _add_use(self, device: DeviceId, amounts: dict[str, Quantity] | None) -> None:
        if amounts is None:
            self._exclusive[device] += 1
            return
        consumed = self._consumed.setdefault(device, {})
        self._shares[device] += 1
        for name, amount in amounts.items():
            consumed[name] = consumed.get(name, _ZERO) + amount

    def _remove_use(self, device: DeviceId, amounts: dict[str, Quantity] | None) -> None:
        if amounts is None:
            self._exclusive[device] -= 1
            if not self._exclusive[device]:
                del self._exclusive[device]
            return
        for name, amount in amounts.items():
            self._consumed[device][name] -= amount
        self._shares[device] -= 1
        if not self._shares[device]:
            del self._shares[device], self._consumed[device]


def _device_uses(claim: ResourceClaim) -> Iterator[Use]:
    if claim.status.allocation is None:
        return
    for result in claim.status.allocation.devices.results:
        if not result.admin_access:
            shared = result.consumed_capacity if result.share_id is not None else None
            yield DeviceId(result.driver, result.pool, result.device), shared
