"""Limit how fast nodes that are not ready lose their pods: the more nodes are down, the slower.

If all nodes seem to fail at once, this controller is more likely disconnected itself. `NodeLifecycle` asks before it
adds a NoExecute taint. The numbers are kube-controller-manager's.
"""

from collections.abc import Iterable
from enum import Enum

from mooring.api.core_v1 import Node
from mooring.api.states import is_ready

RATE, SLOW_RATE = 0.1, 0.01
"""Nodes per second and zone."""
LARGE_ZONE = 50
"""Smaller zones that are partly down lose no pods."""
UNHEALTHY_SHARE = 0.55
_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
Zone = tuple[str, str]


class State(Enum):
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


def zone_of(node: Node) -> Zone:
    labels = node.metadata.labels
    return labels.get(_REGION, ""), labels.get(_ZONE, "")


def state_of(nodes: int, ready: int) -> State:
    """Return the state of a zone.

    >>> [state_of(10, ready).value for ready in (10, 3, 0)]
    ['Normal', 'PartialDisruption', 'FullDisruption']
    """
    down = nodes - ready
    if nodes and not ready:
        return State.FULL_DISRUPTION
    if down > 2 and down / nodes >= UNHEALTHY_SHARE:
        return State.PARTIAL_DISRUPTION
    return State.NORMAL


class ZoneDisruption:
    """The state of each zone, and when it may lose its next node."""

    def __init__(self) -> None:
        self._states: dict[Zone, State] = {}
        self._sizes: dict[Zone, int] = {}
        self._next: dict[Zone, float] = {}

    @property
    def is_total(self) -> bool:
        """Return whether no zone has a ready node."""
        return bool(self._states) and all(state is State.FULL_DISRUPTION for state in self._states.values())

    def look(self, nodes: Iterable[Node]) -> bool:
        """Recompute the zones' states; return whether one changed."""
        sizes: dict[Zone, int] = {}
        ready: dict[Zone, int] = {}
        for node in nodes:
            zone = zone_of(node)
            sizes[zone] = sizes.get(zone, 0) + 1
            ready[zone] = ready.get(zone, 0) + is_ready(node)
        states = {zone: state_of(size, ready[zone]) for zone, size in sizes.items()}
        changed = states != self._states
        self._states, self._sizes = states, sizes
        self._next = {zone: at for zone, at in self._next.items() if zone in sizes}
        return changed

    def take(self, zone: Zone, now: float) -> float | None:
        """Return 0 if one more node may lose its pods, else the seconds to wait; None for never."""
        rate = self._rate(zone)
        if not rate or self.is_total:
            return None
        wait = self._next.get(zone, now) - now
        if wait > 0:
            return wait
        self._next[zone] = now + 1 / rate
        return 0.0

    def give_back(self, zone: Zone, now: float) -> None:
        """Return an unused `take`."""
        self._next[zone] = now

    def _rate(self, zone: Zone) -> float:
        if self._states.get(zone) is not State.PARTIAL_DISRUPTION:
            return RATE  # other zones show that this controller is connected
        return SLOW_RATE if self._sizes[zone] > LARGE_ZONE else 0.0
