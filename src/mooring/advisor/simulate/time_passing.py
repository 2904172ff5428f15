"""Advance virtual time to the next event once no pod is left to try; track the pods that are starting.

Events are the end of a backoff, a drain retry, a taint eviction, and a pod that becomes ready. Called by ``running.py``
for scenarios and by ``traces/replaying.py`` for traces, which add events of their own.
"""

import heapq
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from mooring.advisor.simulate.pods import SimulatedPod
from mooring.api import times
from mooring.api.core_v1 import Pod
from mooring.scheduler.facade import Pool

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

_TICK = 1.0
"""The granularity of the end of backoffs, in seconds."""
_LOOK_AGAIN = 30.0
"""The interval, in seconds, at which the queue is checked for pods that have waited too long."""
_LONGEST_SETTLING = 3600.0


class TimePassing:
    """Advances the virtual time of a simulated cluster from event to event."""

    def __init__(self, world: "World", work: Callable[[], None]) -> None:
        """`work` is called at every event: it does everything that is possible at the current time."""
        self._world = world
        self._work = work
        self._looked_at = 0.0

    @property
    def _now(self) -> float:
        return self._world.clock.monotonic()

    def settle(self) -> None:
        """Advance time by at most an hour, until no backoff, drain, starting pod or ordered node is pending."""
        limit = self._now + _LONGEST_SETTLING
        while (due := self._next_event()) is not None and due <= limit:
            self.advance(due)
            self._work()

    def pass_until(self, until: float) -> None:
        """Advance time to each event up to `until`, and do the work that each makes possible."""
        while True:
            due = _find_earliest(self._next_event(), self._world.taints.next_due())
            if due is None or due > until:
                return
            self.advance(due)
            self._work()

    def _next_event(self) -> float | None:
        backoff = self._now + _TICK if self._world.queue.counts()[Pool.BACKOFF] else None
        world = self._world
        return _find_earliest(backoff, world.drains.next_due(), world.starting.next_due(), world.autoscaler.next_due())

    def advance(self, to: float) -> None:
        """Set the clock to `to`, before which no event is due; run evictions, drains and starts that are due then."""
        world = self._world
        world.clock.advance(to)
        world.queue.flush_backoff()
        if self._now - self._looked_at >= _LOOK_AGAIN:
            self._looked_at = self._now
            world.queue.flush_unschedulable()
        world.starting.run()
        world.autoscaler.run()
        due = world.drains.next_due()
        if due is not None and due <= self._now:
            world.drains.run()
        world.taints.run()


def _find_earliest(*moments: float | None) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)


StartTime = Callable[[SimulatedPod], float]
"""A function that returns the seconds from binding to readiness; infinity for a pod that never becomes ready."""


class StartingPods:
    """The placed pods that are not ready yet, ordered by the time at which they become ready."""

    def __init__(self, world: "World", start_time: StartTime | None) -> None:
        self._world = world
        self._start_time = start_time
        self._agenda: list[tuple[float, int, SimulatedPod, str]] = []
        self._order = 0

    def begin(self, pod: SimulatedPod) -> None:
        """Record a placed pod, which is ready at once, after its start time, or (infinite start time) never."""
        seconds = self._start_time(pod) if self._start_time is not None else 0.0
        if seconds <= 0:
            self._world.budgets.count_healthy(pod)
            return
        pod.is_ready = False
        if seconds == inf:
            return
        self._order += 1
        heapq.heappush(self._agenda, (self._world.clock.monotonic() + seconds, self._order, pod, pod.node))

    def next_due(self) -> float | None:
        """Return when the next starting pod becomes ready, in seconds since the start; None if none is starting."""
        return self._agenda[0][0] if self._agenda else None

    def run(self) -> None:
        """Mark pods whose start time is over as ready, unless they have left their node."""
        now = self._world.clock.monotonic()
        while self._agenda and self._agenda[0][0] <= now:
            _, _, pod, node = heapq.heappop(self._agenda)
            if pod.node == node and self._world.pods.get(pod.key) is pod:
                pod.is_ready = True
                self._world.budgets.count_healthy(pod)
                self._world.revision += 1


def measured_start(pod: Pod) -> float | None:
    """Return the seconds that a running pod took from binding to Ready; None if its status does not show them.

    A pod whose containers have restarted became ready again later, so its times do not show how long a start takes.
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
