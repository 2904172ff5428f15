"""The pods in flight, which are being tried, and the events that occurred meanwhile.

A pod is evaluated with the state of the cluster at the time when it was popped. An event after that might help it, and
would be missed if the pod simply went to the unschedulable pool; so events are kept while any pod is in flight.

    pop a ──► event 0 ──► pop b ──► event 1 ──► a is rejected: check events 0 and 1; b is rejected: check event 1
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from mooring.scheduler.framework import ClusterEvent
from mooring.scheduler.queue.queued_pod import QueuedPod


class Happened(NamedTuple):
    event: ClusterEvent
    old: Any
    new: Any
    only: str
    """The key of the only pod that an event concerns; empty if it may concern any pod."""
    but: str
    """The key of the pod whose own scheduling caused the event, which the event therefore does not concern."""


class _Flight(msgspec.Struct):
    queued: QueuedPod
    since: int


class InFlight:
    """Pods in flight, by key, in the order in which they were popped."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight] = {}
        self._events: deque[Happened] = deque()
        self._first = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    def get(self, key: str) -> QueuedPod | None:
        flight = self._flights.get(key)
        return None if flight is None else flight.queued

    def begin(self, queued: QueuedPod) -> None:
        self._flights[queued.key] = _Flight(queued, self._first + len(self._events))

    def note(self, event: ClusterEvent, old: Any, new: Any, only: str = "", but: str = "") -> None:
        if self._flights:
            self._events.append(Happened(event, old, new, only, but))

    def events_for(self, key: str) -> Iterator[Happened]:
        """Return the events that occurred since a pod was popped."""
        flight = self._flights.get(key)
        if flight is None:
            return iter(())
        since = islice(self._events, max(0, flight.since - self._first), None)
        return (happened for happened in since if happened.only in ("", key) and happened.but != key)

    def end(self, key: str) -> None:
        if self._flights.pop(key, None) is None:
            return
        oldest = next(iter(self._flights.values()), None)
        if oldest is None:
            self._first += len(self._events)
            self._events.clear()
            return
        while self._first < oldest.since:
            self._events.popleft()
            self._first += 1
