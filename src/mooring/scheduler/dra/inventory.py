"""Index all devices that drivers publish in ResourceSlices, by pool and by the nodes that can use them.

A pool consists of the ResourceSlices of its highest generation. It is incomplete while slices are missing, and invalid
if it has two devices with the same name. `changed_at` has, for each node row, the revision at which the node's devices
or their allocation last changed, so that search results can be cached until then.
"""

from collections.abc import Iterable, Sequence
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from mooring.api import codec
from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import Device, DeviceTaint, DeviceTaintRule, ResourceSlice, ResourceSliceSpec
from mooring.constraints import node_selector
from mooring.constraints.columns.revisions import NEVER
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.dra.devices import DeviceId, DeviceKind, PooledDevice
from mooring.scheduler.framework import ALL_ROWS, Rows

CounterName = tuple[str, str]
"""The names of a counter set and of a counter in it."""
PoolKey = tuple[str, str]
"""The names of a driver and of its pool."""


class Pool(msgspec.Struct, eq=False):
    """A driver's pool of devices, with the node rows from which each device can be used."""

    driver: str
    name: str
    is_incomplete: bool = False
    is_invalid: bool = False
    devices: list[PooledDevice] = msgspec.field(default_factory=list)
    counters: dict[CounterName, Quantity] = msgspec.field(default_factory=dict)
    """The available amounts of the shared counters from which the pool's devices draw."""
    everywhere: list[PooledDevice] = msgspec.field(default_factory=list)
    by_row: dict[int, list[PooledDevice]] = msgspec.field(default_factory=dict)
    named: set[str] = msgspec.field(default_factory=set)
    """The names of the nodes that the pool's ResourceSlices name."""
    selects: bool = False
    """Whether a ResourceSlice of the pool selects nodes by labels."""

    @property
    def rows(self) -> Rows:
        """The node rows from which a device of the pool can be used."""
        return ALL_ROWS if self.everywhere else np.fromiter(self.by_row, np.intp)

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"

    def devices_on(self, row: int) -> list[PooledDevice]:
        """Return the devices of the pool that the node of a row can use."""
        here = self.by_row.get(row)
        if not here or not self.everywhere:
            return here or self.everywhere
        return sorted((*here, *self.everywhere), key=lambda device: device.order)


class NodePool(msgspec.Struct, frozen=True):
    """The devices of a pool that one node can use."""

    pool: Pool
    devices: Sequence[PooledDevice]


class Inventory:
    """All pools of devices, indexed by node row. A change of objects rebuilds only the pools that it affects."""

    def __init__(self, cluster: Cluster, options: ConstraintOptions) -> None:
        self._cluster = cluster
        self._options = replace(options, cel=False)  # slices know no expressions over nodes: they fail closed
        self._kinds: WeakValueDictionary[bytes, DeviceKind] = WeakValueDictionary()
        self._slices = cluster.objects(ResourceSlice)
        self._changes = cluster.changes(ResourceSlice)
        self._slices_verified_at = NEVER
        self._verified_at = (NEVER, NEVER, NEVER)
        self._rules: list[DeviceTaintRule] = []
        self._pool_of: dict[str, PoolKey] = {}
        self._members: dict[PoolKey, set[str]] = {}
        self._by_key: dict[PoolKey, Pool] = {}
        self._everywhere: dict[PoolKey, Pool] = {}
        self._by_row: dict[int, dict[PoolKey, Pool]] = {}
        self._by_node: dict[str, set[PoolKey]] = {}
        self._rows: dict[str, int | None] = {}
        self._selecting: set[PoolKey] = set()
        self._on: dict[int, tuple[NodePool, ...]] = {}
        self.now = 0
        self.changed_at: NDArray[np.int64] = np.zeros(cluster.capacity, np.int64)

    def refresh(self) -> None:
        """Update the pools after changes of ResourceSlices, DeviceTaintRules and node labels."""
        capacity = self._cluster.capacity
        if len(self.changed_at) < capacity:
            grown = np.full(capacity, self.now, np.int64)
            grown[: len(self.changed_at)] = self.changed_at
            self.changed_at = grown
        changed = self._changed_pools()
        if changed:
            self.now += 1
            for key in changed:
                self._rebuild(key)

    def pools_on(self, row: int) -> tuple[NodePool, ...]:
        """Return the pools whose devices a node can use: those without binding conditions first, then by name."""
        found = self._on.get(row)
        if found is None:
            pools = sorted({**self._by_row.get(row, {}), **self._everywhere}.values(), key=_pool_sort_key)
            found = self._on[row] = tuple(NodePool(pool, pool.devices_on(row)) for pool in pools)
        return found

    def mark_devices_changed(self, devices: Iterable[DeviceId]) -> None:
        """Make search results stale on all nodes that can use a pool with one of these allocated or freed devices."""
        keys = {(device.driver, device.pool) for device in devices}
        self.now += bool(keys)
        for key in keys:
            pool = self._by_key.get(key)
            if pool is not None:
                self.changed_at[pool.rows] = self.now

    def _changed_pools(self) -> set[PoolKey]:
        changed: set[PoolKey] = set()
        slices = self._changes.entries_since(self._slices_verified_at, len(self._slices))
        self._slices_verified_at = self._changes.changed_at
        for name in {*self._slices, *self._pool_of} if slices is None else slices:
            before, current = self._pool_of.pop(name, None), self._slices.get(name)
            if before is not None:
                self._members[before].discard(name)
                changed.add(before)
            if current is not None:
                key = self._pool_of[name] = (current.spec.driver, current.spec.pool.name)
                self._members.setdefault(key, set()).add(name)
                changed.add(key)
        cluster, known = self._cluster, self._verified_at
        rules, labels, nodes = cluster.changed_at(DeviceTaintRule), cluster.labels.changed_at, cluster.nodes_changed_at
        self._verified_at = rules, labels, nodes
        if rules != known[0]:
            self._rules = sorted(cluster.objects(DeviceTaintRule).values(), key=lambda rule: rule.metadata.name)
            return {*changed, *self._members}
        if (labels, nodes) != known[1:]:
            changed |= self._selecting
        if nodes != known[2]:
            for name, row in self._rows.items():
                if cluster.row_of.get(name) != row:
                    changed |= self._by_node[name]
        return changed

    def _rebuild(self, key: PoolKey) -> None:
        before = self._by_key.pop(key, None)
        if before is not None:
            self._remove_pool(key, before)
            self._mark_pool_changed(before)
        members = self._members.get(key)
        if not members:
            self._members.pop(key, None)
            return
        pool = self._by_key[key] = self._build_pool(key, [self._slices[name] for name in members])
        if pool.everywhere:
            self._everywhere[key] = pool
        for row in pool.by_row:
            self._by_row.setdefault(row, {})[key] = pool
        for name in pool.named:
            self._by_node.setdefault(name, set()).add(key)
            self._rows[name] = self._cluster.row_of.get(name)
        if pool.selects:
            self._selecting.add(key)
        self._mark_pool_changed(pool)

    def _remove_pool(self, key: PoolKey, pool: Pool) -> None:
        self._everywhere.pop(key, None)
        self._selecting.discard(key)
        for row in pool.by_row:
            self._by_row[row].pop(key)
            if not self._by_row[row]:
                del self._by_row[row]
        for name in pool.named:
            self._by_node[name].discard(key)
            if not self._by_node[name]:
                del self._by_node[name], self._rows[name]

    def _mark_pool_changed(self, pool: Pool) -> None:
        self.changed_at[pool.rows] = self.now
        if pool.everywhere:
            self._on.clear()
        for row in pool.by_row:
            self._on.pop(row, None)

    def _build_pool(self, key: PoolKey, slices: list[ResourceSlice]) -> Pool:
        generation = max(entry.spec.pool.generation for entry in slices)
        current = sorted(
            (entry for entry in slices if entry.spec.pool.generation == generation),
            key=lambda entry: entry.metadata.name,
        )
        pool = Pool(*key, is_incomplete=len(current) != current[0].spec.pool.resource_slice_count)
        for entry in current:
            for counters in entry.spec.shared_counters:
                for name, counter in counters.counters.items():
                    pool.counters[counters.name, name] = counter.value
            self._add_slice(pool, entry)
        pool.is_invalid = len({device.id for device in pool.devices}) < len(pool.devices)
        return pool

    def _add_slice(self, pool: Pool, entry: ResourceSlice) -> None:
        spec = entry.spec
        rows: Sequence[int] | None = ()
        if not spec.per_device_node_selection:
            rows = self._rows_that_can_use(spec, pool)
        for source in spec.devices:
            device = self._build_device(pool, entry, source)
            pool.devices.append(device)
            own = rows
            if spec.per_device_node_selection:
                own = self._rows_that_can_use(source, pool)
            if own is None:
                pool.everywhere.append(device)
            else:
                for row in own:
                    pool.by_row.setdefault(row, []).append(device)

    def _rows_that_can_use(self, source: ResourceSliceSpec | Device, pool: Pool) -> Sequence[int] | None:
        if source.node_name:
            pool.named.add(source.node_name)
            row = self._cluster.row_of.get(source.node_name)
            return () if row is None else (row,)
        if source.all_nodes:
            return None
        if source.node_selector is None:
            return ()
        pool.selects = True
        compiled = node_selector.compile_selector(source.node_selector, self._options)
        rows: list[int] = np.flatnonzero(self._cluster.labels.selector_mask(compiled)).tolist()
        return rows

    def _build_device(self, pool: Pool, entry: ResourceSlice, source: Device) -> PooledDevice:
        id_ = DeviceId(pool.driver, pool.name, source.name)
        taints = tuple(source.taints)
        if self._rules:
            taints += tuple(rule.spec.taint for rule in self._rules if _taints_device(rule, id_))
        read = codec.encode((pool.driver, source.attributes, source.capacity, source.allow_multiple_allocations))
        kind = self._kinds.get(read)
        if kind is None:
            kind = self._kinds[read] = DeviceKind(pool.driver, source)
        twin_key = (kind, pool.name, entry.metadata.name, *_searched_fields(source, taints))
        return PooledDevice(id_, source, entry, kind, taints, twin_key, len(pool.devices))


def _pool_sort_key(pool: Pool) -> tuple[bool, str, str]:
    return any(device.device.binding_conditions for device in pool.devices), pool.driver, pool.name


def _searched_fields(device: Device, taints: Sequence[DeviceTaint]) -> tuple[object, ...]:
    parts = (
        device.consumes_counters,
        taints,
        device.node_name,
        device.node_selector,
        device.all_nodes,
        device.binds_to_node,
        device.binding_conditions,
    )
    return (codec.encode(parts),) if any(parts) else ()


def _taints_device(rule: DeviceTaintRule, device: DeviceId) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return False
    wanted = (selector.driver, selector.pool, selector.device)
    return all(want is None or want == have for want, have in zip(wanted, device, strict=True))
