"""Let writers and readers wait until memory has reached a revision. `store` keeps one and calls `resolve_up_to`.

A hundred writers may wait at once, each for no more than a millisecond, so waiting costs one future; a single task
watches all of them and acts only if they wait for long.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from mooring.base.clock import Clock
from mooring.store.errors import StoreError, Unreachable

_SOON_SECONDS = 0.002
_LATE_SECONDS = 0.05


class RevisionWaiters:
    """The callers that wait until memory has reached a revision."""

    def __init__(self, clock: Clock, seconds: float, *, soon: Callable[[], None], late: Callable[[], None]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._soon = soon
        self._late = late
        self._waiting: list[tuple[int, int, float, asyncio.Future[None]]] = []  # a heap: revision, number, deadline
        self._numbers = count()
        self._watchdog: asyncio.Task[None] | None = None

    async def wait(self, revision: int) -> None:
        """Wait until memory has reached a later revision. Raise `Unreachable` on timeout."""
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()
        deadline = self._clock.monotonic() + self._seconds
        heapq.heappush(self._waiting, (revision, next(self._numbers), deadline, reached))
        if self._watchdog is None:
            self._watchdog = loop.create_task(self._watch_waiters(), name="etcd revision waiters")
        await reached

    def resolve_up_to(self, revision: int) -> None:
        """Resolve the waiters for revisions up to this one."""
        while self._waiting and self._waiting[0][0] <= revision:
            future = heapq.heappop(self._waiting)[3]
            if not future.done():
                future.set_result(None)

    def close(self, error: StoreError) -> None:
        """Fail all waiters with an error."""
        if self._watchdog:
            self._watchdog.cancel()
        for *_, future in self._waiting:
            if not future.done():
                future.set_exception(error)

    async def _watch_waiters(self) -> None:
        """While there are waiters, call `soon` after a moment and `late` repeatedly after that."""
        try:
            await asyncio.sleep(_SOON_SECONDS)
            while self._waiting:
                self._soon()
                await asyncio.sleep(_LATE_SECONDS)
                if self._waiting and self._waiting[0][2] - self._seconds <= self._clock.monotonic() - _LATE_SECONDS:
                    self._late()
                    self._fail_expired()
        finally:
            self._watchdog = None

    def _fail_expired(self) -> None:
        now = self._clock.monotonic()
        for revision, _, deadline, future in self._waiting:
            if deadline <= now and not future.done():
                why = f"etcd has reached revision {revision}, but does not tell what it holds"
                future.set_exception(Unreachable(why))
        self._waiting = [entry for entry in self._waiting if not entry[3].done()]
        heapq.heapify(self._waiting)
