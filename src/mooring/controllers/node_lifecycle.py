"""Taint nodes by their conditions, and detect nodes that no longer report.

A node is alive while its Lease or status changes. After `node_grace_seconds` without a change its conditions become
Unknown; conditions and `spec.unschedulable` become taints. ``taint_eviction.py`` evicts by NoExecute taints;
`ZoneDisruption` limits how fast they are added: the more nodes are down, the slower; if all nodes seem to fail at
once, this controller is more likely disconnected itself. Silence is measured by this controller's clock since the last
change that it saw, so clocks of nodes may be wrong and a restart starts every countdown again.
"""

from collections.abc import Iterable
from datetime import timedelta
from enum import Enum

from mooring.api import errors, times
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Node, NodeCondition, Pod, Taint
from mooring.api.errors import StatusError
from mooring.api.states import is_ready
from mooring.base import logs
from mooring.client import ClientError, Informer, PatchType
from mooring.controllers.conditions import find_condition, is_condition_true
from mooring.controllers.controller import Context, Controller
from mooring.controllers.taint_eviction import index_by_node

RATE, SLOW_RATE = 0.1, 0.01
"""The maximum eviction rates: nodes per second in each zone."""
LARGE_ZONE = 50
"""The number of nodes above which a partly failed zone still loses pods, slowly; smaller ones lose none."""
UNHEALTHY_SHARE = 0.55
_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
Zone = tuple[str, str]


class ZoneState(Enum):
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


def zone_of(node: Node) -> Zone:
    labels = node.metadata.labels
    return labels.get(_REGION, ""), labels.get(_ZONE, "")


def compute_zone_state(nodes: int, ready: int) -> ZoneState:
    """Return the state of a zone with a number of nodes, of which `ready` are ready.

    >>> [compute_zone_state(10, ready).value for ready in (10, 3, 0)]
    ['Normal', 'PartialDisruption', 'FullDisruption']
    """
    down = nodes - ready
    if nodes and not ready:
        return ZoneState.FULL_DISRUPTION
    if down > 2 and down / nodes >= UNHEALTHY_SHARE:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


class ZoneDisruption:
    """The states of zones, which limit how often nodes in them may be tainted NoExecute."""

    def __init__(self) -> None:
        self._states: dict[Zone, ZoneState] = {}
        self._sizes: dict[Zone, int] = {}
        self._next: dict[Zone, float] = {}

    @property
    def are_all_zones_down(self) -> bool:
        """Return whether no zone has a ready node."""
        return bool(self._states) and all(state is ZoneState.FULL_DISRUPTION for state in self._states.values())

    def update_states(self, nodes: Iterable[Node]) -> bool:
        """Compute the state of every zone from its nodes; return whether any has changed."""
        sizes: dict[Zone, int] = {}
        ready: dict[Zone, int] = {}
        for node in nodes:
            zone = zone_of(node)
            sizes[zone] = sizes.get(zone, 0) + 1
            ready[zone] = ready.get(zone, 0) + is_ready(node)
        states = {zone: compute_zone_state(size, ready[zone]) for zone, size in sizes.items()}
        changed = states != self._states
        self._states, self._sizes = states, sizes
        self._next = {zone: at for zone, at in self._next.items() if zone in sizes}
        return changed

    def reserve_taint_slot(self, zone: Zone, now: float) -> float | None:
        """Reserve a NoExecute taint in a zone's rate limit; return the seconds to wait, None while its rate is 0."""
        rate = self._taints_per_second(zone)
        if not rate or self.are_all_zones_down:
            return None
        wait = self._next.get(zone, now) - now
        if wait > 0:
            return wait
        self._next[zone] = now + 1 / rate
        return 0.0

    def cancel_reservation(self, zone: Zone, now: float) -> None:
        """Cancel the last `reserve_taint_slot` of a zone, because the node could not be tainted."""
        self._next[zone] = now

    def _taints_per_second(self, zone: Zone) -> float:
        if self._states.get(zone) is not ZoneState.PARTIAL_DISRUPTION:
            return RATE  # other zones show that this controller is connected
        return SLOW_RATE if self._sizes[zone] > LARGE_ZONE else 0.0


LEASES = "kube-node-lease"
MONITOR_SECONDS = 5.0
STARTUP_GRACE_SECONDS = 60.0
_MANY = 10

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_NO_SCHEDULE, _NO_EXECUTE = "NoSchedule", "NoExecute"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OWN_TAINT_KEYS = {(key, _NO_SCHEDULE) for key in (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values())} | {
    (NOT_READY, _NO_EXECUTE),
    (UNREACHABLE, _NO_EXECUTE),
}
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
log = logs.get(__name__)


class NodeLifecycleController(Controller):
    """The controller that taints nodes by their conditions; reconciles them by name."""

    name = "node-lifecycle"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("node-controller")
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._by_node = index_by_node(self._pods)
        self._leases: Informer[Lease] = context.informers.of(Lease)
        self._zones = ZoneDisruption()
        self._grace = self._patience = context.options.node_grace_seconds
        self._last_seen: dict[str, float] = {}
        """By node, the time at which its Lease or status was last seen to change."""
        self._nodes.add_handler(
            added=self._record_node_as_seen, updated=self._record_heartbeat, deleted=self._forget_node
        )
        self.follow(self._leases, self._record_lease_renewal)
        self.periodic = (self._monitor_heartbeats,)

    def _record_node_as_seen(self, node: Node) -> None:
        self._last_seen.setdefault(node.metadata.name, self.clock.monotonic())
        self.enqueue(node)

    def _record_heartbeat(self, old: Node, new: Node) -> None:
        before, after = _find_ready_condition(old), _find_ready_condition(new)
        if after is not None and (before is None or before.last_heartbeat_time != after.last_heartbeat_time):
            self._last_seen[new.metadata.name] = self.clock.monotonic()
        self.enqueue(new)

    def _forget_node(self, node: Node) -> None:
        self._last_seen.pop(node.metadata.name, None)

    def _record_lease_renewal(self, lease: Lease) -> None:
        if lease.metadata.namespace == LEASES:
            self._last_seen[lease.metadata.name] = self.clock.monotonic()

    async def _monitor_heartbeats(self) -> None:
        while True:
            changed = self._zones.update_states(self._nodes.objects())
            self._patience = self._grace_seconds()
            for node in self._nodes.objects():
                if self._has_stopped_reporting(node) or (changed and not is_ready(node)):
                    self.enqueue(node)
            for name in [name for name in self._last_seen if self._nodes.get(name) is None]:
                del self._last_seen[name]
            began = self.clock.monotonic()
            await self.clock.sleep(MONITOR_SECONDS)
            late = self.clock.monotonic() - began - MONITOR_SECONDS
            if late > MONITOR_SECONDS:  # this process was too busy to receive heartbeats: extend all grace periods
                self._last_seen = {name: heard + late for name, heard in self._last_seen.items()}

    def _grace_seconds(self) -> float:
        """Return the grace period for heartbeats, doubled if most nodes are silent: this process is then overloaded."""
        overdue = self.clock.monotonic() - self._grace / 2
        count = sum(heard < overdue for heard in self._last_seen.values())
        return 2 * self._grace if count > _MANY and count * 2 > len(self._last_seen) else self._grace

    def _has_stopped_reporting(self, node: Node) -> bool:
        ready = _find_ready_condition(node)
        if ready is not None and ready.status == "Unknown":
            return False
        if ready is None:
            grace = timedelta(seconds=STARTUP_GRACE_SECONDS)
            created = node.metadata.creation_timestamp
            return created is not None and self.clock.now() - times.parse(created) > grace
        heard = self._last_seen.get(node.metadata.name)
        return heard is not None and self.clock.monotonic() - heard > self._patience

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.get(key)
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        if self._has_stopped_reporting(node):
            node = await self._mark_conditions_unknown(node)
        ready = _find_ready_condition(node)
        down = ready is not None and ready.status != "True"
        if not down:
            await self._update_taints_by_conditions(node, evicts=False)
            return None
        again = await self._taint_unready_node(node)
        await self._mark_pods_not_ready(node)
        return again

    async def _taint_unready_node(self, node: Node) -> float | None:
        """Write the taints of a node that is not ready; return the seconds to wait if NoExecute must be delayed."""
        zone = zone_of(node)
        has = any(taint.effect == _NO_EXECUTE and _taint_key(taint) in _OWN_TAINT_KEYS for taint in node.spec.taints)
        if has:
            await self._update_taints_by_conditions(node, evicts=not self._zones.are_all_zones_down)
            return None
        wait = self._zones.reserve_taint_slot(zone, self.clock.monotonic())
        if wait != 0:
            await self._update_taints_by_conditions(node, evicts=False)
            return wait
        try:
            await self._update_taints_by_conditions(node, evicts=True)
        except (StatusError, ClientError):
            self._zones.cancel_reservation(zone, self.clock.monotonic())
            raise
        return None

    async def _update_taints_by_conditions(self, node: Node, *, evicts: bool) -> None:
        wanted = compute_taints(node, evicts=evicts)
        if wanted != node.spec.taints:
            body = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": wanted}}
            await self.client.patch(Node, node.metadata.name, body, type=PatchType.MERGE)

    async def _mark_conditions_unknown(self, node: Node) -> Node:
        now = times.to_seconds(self.clock.now())
        known = {condition.type: condition for condition in node.status.conditions}
        never = "Ready" not in known
        reason = "NodeStatusNeverUpdated" if never else "NodeStatusUnknown"
        message = "Kubelet never posted node status." if never else "Kubelet stopped posting node status."
        unknown = [
            {
                "type": kind,
                "status": "Unknown",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
                "lastHeartbeatTime": known[kind].last_heartbeat_time if kind in known else now,
            }
            for kind in _REPORTED
            if kind not in known or known[kind].status != "Unknown"
        ]
        body = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": unknown}}
        marked = await self.client.patch(Node, node.metadata.name, body, subresource="status")
        name = node.metadata.name
        log.warning("node %s has stopped reporting", name, extra={"fields": {"node": name}})
        self._recorder.event(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        return marked

    async def _mark_pods_not_ready(self, node: Node) -> None:
        now = times.to_seconds(self.clock.now())
        body = {"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]}}
        for pod in list(self._by_node.get(node.metadata.name)):
            if not is_condition_true(pod.status.conditions, "Ready"):
                continue
            try:
                await self.client.patch(Pod, pod.metadata.name, body, pod.metadata.namespace, subresource="status")
            except errors.NotFound:
                continue
            self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")


def compute_taints(node: Node, *, evicts: bool) -> list[Taint]:
    """Return the taints that a node should have: those of other components, and those that its state requires.

    `evicts` adds NoExecute taints to a node that is not ready.
    """
    keys = _compute_own_taint_keys(node, evicts=evicts)
    kept = [
        taint for taint in node.spec.taints if _taint_key(taint) not in _OWN_TAINT_KEYS or _taint_key(taint) in keys
    ]
    present = {_taint_key(taint) for taint in kept}
    return [*kept, *(Taint(key=key, effect=effect) for key, effect in keys if (key, effect) not in present)]


def _compute_own_taint_keys(node: Node, *, evicts: bool) -> dict[tuple[str, str], None]:
    found: dict[tuple[str, str], None] = {}
    if node.spec.unschedulable:
        found[UNSCHEDULABLE, _NO_SCHEDULE] = None
    for condition in node.status.conditions:
        if condition.type in _PRESSURES and condition.status == "True":
            found[_PRESSURES[condition.type], _NO_SCHEDULE] = None
    ready = _find_ready_condition(node)
    if ready is None:  # admission taints a new node until it has reported once
        if any(_taint_key(taint) == (NOT_READY, _NO_SCHEDULE) for taint in node.spec.taints):
            found[NOT_READY, _NO_SCHEDULE] = None
    elif ready.status != "True":
        key = NOT_READY if ready.status == "False" else UNREACHABLE
        found[key, _NO_SCHEDULE] = None
        if evicts:
            found[key, _NO_EXECUTE] = None
    return found


def _taint_key(taint: Taint) -> tuple[str, str]:
    return taint.key, taint.effect


def _find_ready_condition(node: Node) -> NodeCondition | None:
    return find_condition(node.status.conditions, "Ready")
