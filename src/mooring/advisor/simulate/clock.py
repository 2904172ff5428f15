"""Virtual time: it stands still while pods are placed, and advances when nothing is left to do."""

from datetime import datetime, timedelta

from mooring.advisor.snapshot.objects import DEFAULT_START
from mooring.api import times


class VirtualClock:
    """A `mooring.base.clock.Clock` that the simulation advances."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        self.start = start
        self._elapsed = 0.0
        self._written = ""

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def timestamp(self) -> str:
        """Return `now` in the format of object timestamps."""
        self._written = self._written or times.to_seconds(self.now())
        return self._written

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError("nothing waits in a simulation")

    def advance(self, to: float) -> None:
        """Set the clock to a later time, in seconds since the start."""
        self._elapsed = max(self._elapsed, to)
        self._written = ""


def format_seconds(seconds: float) -> str:
    """Format seconds since the start: `0s`, `90s` as `1m30s`, `2h5m`.

    >>> format_seconds(0), format_seconds(90), format_seconds(7500)
    ('0s', '1m30s', '2h5m')
    """
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
