"""Virtual time: it stands still while pods are placed, and passes when nothing is left to do."""

from datetime import UTC, datetime, timedelta

from mooring.advisor.snapshot import Snapshot
from mooring.api import times
from mooring.api.core_v1 import Node, Pod

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Dumps can have any date; there has to be room after it."""


class VirtualClock:
    """A `mooring.base.clock.Clock` that whoever simulates moves on."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        self.start = start
        self._elapsed = 0.0
        self._written = ""

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def written(self) -> str:
        """`now` as timestamps of objects are written."""
        self._written = self._written or times.to_seconds(self.now())
        return self._written

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError("nothing waits in a simulation")

    def advance(self, to: float) -> None:
        """Go on to a moment, in seconds since the start."""
        self._elapsed = max(self._elapsed, to)
        self._written = ""


def moment_of(snapshot: Snapshot) -> datetime:
    """When the snapshot was taken: the latest moment that anything in it tells. The same for the same objects."""
    told = [DEFAULT_START] if not snapshot.all(Node) and not snapshot.all(Pod) else []
    texts: set[str] = set()
    for node in snapshot.all(Node):
        texts.add(node.metadata.creation_timestamp or "")
        texts.update(entry.last_heartbeat_time or "" for entry in node.status.conditions)
        texts.update(taint.time_added or "" for taint in node.spec.taints)
    for pod in snapshot.all(Pod):
        texts.add(pod.metadata.creation_timestamp or "")
        texts.update(entry.last_transition_time or "" for entry in pod.status.conditions)
    for text in texts:
        try:
            told += [times.parse(text)] if text else []
        except times.TimeError:
            continue
    return min(max(told, default=DEFAULT_START), _LATEST)


def written(seconds: float) -> str:
    """A time since the start for people: `0s`, `90s` as `1m30s`, `2h5m`.

    >>> written(0), written(90), written(7500)
    ('0s', '1m30s', '2h5m')
    """
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
