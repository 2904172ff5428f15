"""Pods that have a node and are not ready yet: how long each takes to start, in virtual time.

Without a start time a pod is ready as soon as it has a node. `measured_start` reads the time from pods of the snapshot.
"""

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.advisor.simulate.pods import SimulatedPod
from mooring.api import times
from mooring.api.core_v1 import Pod

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

StartTime = Callable[[SimulatedPod], float]
"""Return the seconds from binding to readiness."""


class StartingPods:
    """Hold the pods that start, ordered by the time at which they are ready."""

    def __init__(self, world: "World", start_time: StartTime | None) -> None:
        self._world = world
        self._start_time = start_time
        self._agenda: list[tuple[float, int, SimulatedPod, str]] = []
        self._order = 0

    def begin(self, pod: SimulatedPod) -> None:
        """Mark a pod that was just placed as ready, now or after its start time."""
        seconds = self._start_time(pod) if self._start_time is not None else 0.0
        if seconds <= 0:
            self._world.budgets.placed(pod)
            return
        pod.is_ready = False
        self._order += 1
        heapq.heappush(self._agenda, (self._world.clock.monotonic() + seconds, self._order, pod, pod.node))

    def next_due(self) -> float | None:
        """Return when the next pod is ready."""
        return self._agenda[0][0] if self._agenda else None

    def run(self) -> None:
        """Mark the pods as ready whose time has come, unless they have left their node."""
        now = self._world.clock.monotonic()
        while self._agenda and self._agenda[0][0] <= now:
            _, _, pod, node = heapq.heappop(self._agenda)
            if pod.node == node and self._world.pods.get(pod.key) is pod:
                pod.is_ready = True
                self._world.budgets.placed(pod)
                self._world.revision += 1


def measured_start(pod: Pod) -> float | None:
    """Return the seconds that a running pod took from binding to Ready; None where its status does not say.

    A pod whose containers have restarted became ready again later, so that its times say nothing about a start.
    """
    if any(each.restart_count for each in pod.status.container_statuses):
        return None
    changed = {each.type: each.last_transition_time for each in pod.status.conditions if each.status == "True"}
    bound, ready = changed.get("PodScheduled"), changed.get("Ready")
    if not bound or not ready:
        return None
    try:
        return max(0.0, (times.parse(ready) - times.parse(bound)).total_seconds())
    except times.TimeError:
        return None
