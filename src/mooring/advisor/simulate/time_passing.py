"""How time passes in a simulated world: only when nobody is left to try, and on to whatever comes first.

That is a pod whose backoff ends, a drain that asks again, or a pod that a taint drives out. Called by ``running.py``
for scenarios and by ``traces/replaying.py`` for traces, which know what else is to happen.
"""

from collections.abc import Callable

from mooring.advisor.simulate.world import World
from mooring.scheduler.facade import Pool

_TICK = 1.0
"""Backoffs end on whole seconds."""
_LOOK_AGAIN = 30.0
"""How often the queue looks for pods that have waited too long."""
_LONGEST_SETTLING = 3600.0


class TimePassing:
    def __init__(self, world: World, work: Callable[[], None]) -> None:
        """`work` does all that can be done at a moment."""
        self._world = world
        self._work = work
        self._looked_at = 0.0

    @property
    def _now(self) -> float:
        return self._world.clock.monotonic()

    def settle(self) -> None:
        """Go on until every pod has a node or waits for something that has to happen first."""
        limit = self._now + _LONGEST_SETTLING
        while (due := self._soon()) is not None and due <= limit:
            self.advance(due)
            self._work()

    def pass_until(self, until: float) -> None:
        """Let everything happen that is due until then."""
        while True:
            due = _first(self._soon(), self._world.taints.next_due())
            if due is None or due > until:
                return
            self.advance(due)
            self._work()

    def _soon(self) -> float | None:
        """When something follows from what has happened already."""
        backoff = self._now + _TICK if self._world.queue.counts()[Pool.BACKOFF] else None
        return _first(backoff, self._world.drains.next_due())

    def advance(self, to: float) -> None:
        """Go on to a moment before which nothing is due."""
        world = self._world
        world.clock.advance(to)
        world.queue.flush_backoff()
        if self._now - self._looked_at >= _LOOK_AGAIN:
            self._looked_at = self._now
            world.queue.flush_unschedulable()
        due = world.drains.next_due()
        if due is not None and due <= self._now:
            world.drains.run()
        world.taints.run()


def _first(*moments: float | None) -> float | None:
    """The earliest of those that there are."""
    return min((moment for moment in moments if moment is not None), default=None)
