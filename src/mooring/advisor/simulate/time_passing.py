"""Advance virtual time: only when no pod is left to try, and to the next event.

That is the end of a backoff, a drain retry, or a taint eviction. Called by ``running.py`` for scenarios and by
``traces/replaying.py`` for traces, which know further events.
"""

from collections.abc import Callable

from mooring.advisor.simulate.world import World
from mooring.scheduler.facade import Pool

_TICK = 1.0
"""Backoffs end on whole seconds."""
_LOOK_AGAIN = 30.0
"""The interval in which the queue checks for pods that have waited too long."""
_LONGEST_SETTLING = 3600.0


class TimePassing:
    def __init__(self, world: World, work: Callable[[], None]) -> None:
        """Take `work`, which does everything possible at the current time."""
        self._world = world
        self._work = work
        self._looked_at = 0.0

    @property
    def _now(self) -> float:
        return self._world.clock.monotonic()

    def settle(self) -> None:
        """Advance until every pod has a node or waits for an external event."""
        limit = self._now + _LONGEST_SETTLING
        while (due := self._soon()) is not None and due <= limit:
            self.advance(due)
            self._work()

    def pass_until(self, until: float) -> None:
        """Process everything that is due until then."""
        while True:
            due = _first(self._soon(), self._world.taints.next_due())
            if due is None or due > until:
                return
            self.advance(due)
            self._work()

    def _soon(self) -> float | None:
        backoff = self._now + _TICK if self._world.queue.counts()[Pool.BACKOFF] else None
        world = self._world
        return _first(backoff, world.drains.next_due(), world.starting.next_due(), world.autoscaler.next_due())

    def advance(self, to: float) -> None:
        """Advance to a time before which nothing is due."""
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


def _first(*moments: float | None) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)
