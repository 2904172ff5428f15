"""The pods in flight, which are being tried, and the events that occurred meanwhile.

A pod is evaluated with the state of the cluster at the time when it was popped. An event after that might help it, and
would be missed if the pod simply went to the unschedulable pool; so events are kept while any pod is in flight.

    pop a ──► event 0 ──► pop b ──► event 1 ──► a is rejected: check events 0 and 1; b is rejected: check event 1
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from mooring.scheduler.framework import ClusterEvent
from mooring.scheduler.queue.queued_pod import QueuedPod


class EventInFlight(NamedTuple):
    """An event that occurred while pods were in flight, with the object before and after it."""

    event: ClusterEvent
    old: Any
    new: Any
    only: str
    """The key of the only pod that an event concerns; empty if it may concern any pod."""
    but: str
    """The key of the pod whose own scheduling caused the event, which the event therefore does not concern."""


class InFlight:
    """Pods in flight, by key, in the order in which they were popped, and the events since the first of them."""

    def __init__(self) -> None:
        self._flights: dict[str, tuple[QueuedPod, int]] = {}
        self._events: deque[EventInFlight] = deque()
        self._first = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    def get(self, key: str) -> QueuedPod | None:
        flight = self._flights.get(key)
        return None if flight is None else flight[0]

    def begin(self, queued: QueuedPod) -> None:
        self._flights[queued.key] = (queued, self._first + len(self._events))

    def record_event(self, event: ClusterEvent, old: Any, new: Any, only: str = "", but: str = "") -> None:
        if self._flights:
            self._events.append(EventInFlight(event, old, new, only, but))

    def events_for(self, key: str) -> Iterator[EventInFlight]:
        """Return the events that occurred since a pod was popped, without events that are only for other pods."""
        flight = self._flights.get(key)
        if flight is None:
            return iter(())
        since = islice(self._events, max(0, flight[1] - self._first), None)
        return (event for event in since if event.only in ("", key) and event.but != key)

    def end(self, key: str) -> None:
        if self._flights.pop(key, None) is None:
            return
        oldest = next(iter(self._flights.values()), None)
        if oldest is None:
            self._first += len(self._events)
            self._events.clear()
            return
        while self._first < oldest[1]:
            self._events.popleft()
            self._first += 1
