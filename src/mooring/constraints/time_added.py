"""When a taint was added. Called by `tolerations` for countdowns, and by `expressions` for `taint.timeAdded`."""

from datetime import datetime
from typing import Protocol

from mooring.api import times


class Dated(Protocol):
    """A taint of a node or of a device."""

    time_added: str | None


def time_added(taint: Dated) -> datetime | None:
    """The moment; None when the taint does not say, or says nothing that can be read."""
    try:
        return times.parse(taint.time_added or "")
    except times.TimeError:
        return None
