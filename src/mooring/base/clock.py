"""The clock interface. Every component takes a clock, so that tests can drive time."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The source of time for components. `mooring.testing.clock.MockClock` is the implementation for tests."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for measuring and for deadlines."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The operating system's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
