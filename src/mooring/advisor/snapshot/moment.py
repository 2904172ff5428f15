"""Determine the time at which a snapshot was taken."""

from datetime import UTC, datetime

from mooring.advisor.snapshot.objects import Snapshot
from mooring.api import times
from mooring.api.core_v1 import Node, Pod

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""The latest allowed time: dumps can contain any date, and simulated time needs room after it."""


def moment_of(snapshot: Snapshot) -> datetime:
    """Return when a snapshot was taken: as recorded, or the latest timestamp in its objects."""
    if snapshot.taken_at is not None:
        return min(snapshot.taken_at, _LATEST)
    return latest_timestamp(snapshot)


def latest_timestamp(snapshot: Snapshot) -> datetime:
    """Return the latest timestamp of nodes and pods."""
    found = [DEFAULT_START] if not snapshot.all(Node) and not snapshot.all(Pod) else []
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
            found += [times.parse(text)] if text else []
        except times.TimeError:
            continue
    return min(max(found, default=DEFAULT_START), _LATEST)
