"""A clock that only a test advances."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class MockClock:
    """A `mooring.base.clock.Clock` that only `advance` moves; it wakes sleepers in order.

    >>> clock = MockClock()
    >>> clock.advance(30)
    >>> clock.now().isoformat()
    '2026-01-01T00:00:30+00:00'
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = 0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._order += 1
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, self._order, woken))
        await woken

    def advance(self, seconds: float) -> None:
        """Move the clock and wake sleepers that are due. They run when the caller next awaits."""
        until = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= until:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
        self._elapsed = until

    async def run(self, seconds: float) -> None:
        """Advance like `advance`, but stop at every sleeper, so that a task that sleeps again is woken again."""
        until = self._elapsed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self.advance(self._sleepers[0][0] - self._elapsed)
            await settle()
        self.advance(until - self._elapsed)
        await settle()


async def settle(turns: int = 20) -> None:
    """Yield to the event loop this many times, so that tasks that are ready run."""
    for _ in range(turns):
        await asyncio.sleep(0)
