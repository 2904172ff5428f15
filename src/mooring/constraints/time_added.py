"""When a taint was added. Used by `tolerations` for countdowns and by `expressions` for `taint.timeAdded`."""

from datetime import datetime
from typing import Protocol

from mooring.api import times


class Dated(Protocol):
    """A taint of a node or of a device."""

    time_added: str | None


def parse_time_added(taint: Dated) -> datetime | None:
    """Parse `timeAdded`; return None if it is missing or malformed."""
    try:
        return times.parse(taint.time_added or "")
    except times.TimeError:
        return None
