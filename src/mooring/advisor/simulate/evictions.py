"""Evictions: NoExecute taints in virtual time, and drains that respect PodDisruptionBudgets."""

import heapq
import math
from datetime import timedelta
from typing import TYPE_CHECKING

from mooring.advisor.simulate.pods import SimulatedPod
from mooring.api.core_v1 import Node, Taint
from mooring.constraints.tolerations import NO_EXECUTE, eviction_time
from mooring.controllers.eviction import bound_at

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

DRAIN_RETRY = 5.0
"""Seconds that `kubectl drain` waits before it retries a refused eviction."""
_MIRROR = "kubernetes.io/config.mirror"


class TaintEvictions:
    """Pods that tolerate a NoExecute taint for a limited time or not at all, by eviction time."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._taints: dict[str, list[Taint]] = {}
        self._agenda: list[tuple[float, int, SimulatedPod, str]] = []
        self._order = 0

    def next_due(self) -> float | None:
        """Return the time of the next eviction."""
        while self._agenda:
            due, _, pod, node = self._agenda[0]
            if pod.node == node:
                return due
            heapq.heappop(self._agenda)
        return None

    def node_changed(self, node: Node) -> None:
        name = node.metadata.name
        taints = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
        if taints == self._taints.get(name, []):
            return
        if taints:
            self._taints[name] = taints
        else:
            self._taints.pop(name, None)
        for pod in self._world.pods_on(name):
            self.consider(pod)

    def consider(self, pod: SimulatedPod) -> None:
        """Schedule the eviction of a pod, if a taint requires it."""
        due = self._due(pod)
        if due is not None:
            self._order += 1
            heapq.heappush(self._agenda, (due, self._order, pod, pod.node))

    def run(self) -> None:
        """Evict the pods whose time has come."""
        now = self._world.clock.monotonic()
        while self._agenda and self._agenda[0][0] <= now:
            _, _, pod, node = heapq.heappop(self._agenda)
            due = self._due(pod) if pod.node == node else None
            if due is not None and due <= now:  # the taint may have gone meanwhile
                taints = ", ".join(_format_taint(taint) for taint in self._taints[node])
                self._world.evict(pod, f"NoExecute taint {taints}")

    def _due(self, pod: SimulatedPod) -> float | None:
        taints = self._taints.get(pod.node)
        if not taints:
            return None
        clock = self._world.clock
        bound = bound_at(pod.pod) if pod.placed_at is None else clock.start + timedelta(seconds=pod.placed_at)
        options = self._world.settings.features.constraints
        moment = eviction_time(taints, pod.pod.spec.tolerations, bound, options, now=clock.now())
        if moment is None:
            return None
        # timeAdded has whole seconds: round up, so that no pod is evicted early.
        return max(float(math.ceil((moment - clock.start).total_seconds())), clock.monotonic())


class Drains:
    """The nodes being drained."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._nodes: dict[str, None] = {}
        self._tried_at_revision = -1
        self._next: float | None = None
        self.refused: dict[str, tuple[SimulatedPod, str]] = {}
        """Pods that may not go yet, and why."""

    def begin(self, node: str) -> None:
        self._nodes[node] = None
        self.run()

    def end(self, node: str) -> None:
        """Stop draining a node that is gone or uncordoned."""
        self._nodes.pop(node, None)

    def next_due(self) -> float | None:
        """Return when to retry; None as long as nothing has changed."""
        if not self.refused or self._world.revision == self._tried_at_revision:
            return None
        return self._next

    def run(self) -> None:
        """Evict the pods that may be evicted."""
        self.refused = {}
        for node in self._nodes:
            for pod in self._world.pods_on(node):
                if not is_drainable(pod):
                    continue
                why = self._world.budgets.eviction_problem(pod)
                if why:
                    self.refused[pod.key] = (pod, why)
                else:
                    self._world.evict(pod, "drained")
        self._tried_at_revision = self._world.revision
        self._next = self._world.clock.monotonic() + DRAIN_RETRY


def is_drainable(pod: SimulatedPod) -> bool:
    """Return False for what a drain leaves on a node: pods of DaemonSets and static pods."""
    is_daemon = pod.owner is not None and pod.owner.kind == "DaemonSet"
    return not is_daemon and _MIRROR not in pod.pod.metadata.annotations


def _format_taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}" if taint.value else taint.key
