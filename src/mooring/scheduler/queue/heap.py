"""A heap from which any entry can be removed, not only the first.

A removed entry stays in the heap as a dead entry until it reaches the top. If most entries are dead, the heap is
rebuilt.
"""

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Any

from mooring.scheduler.queue.queued_pod import QueuedPod

_Entry = tuple[tuple[Any, ...], int, QueuedPod]


class Heap:
    """A heap of queued pods, ordered by a sort key (first in, first out for equal ones) and indexed by pod key."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._live: dict[str, _Entry] = {}
        self._order = count()
        self._before = count(-1, -1)

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry[2] for entry in self._live.values())

    def put(self, queued: QueuedPod, order: tuple[Any, ...], *, before_equals: bool = False) -> None:
        entry = (order, next(self._before if before_equals else self._order), queued)
        self._live[queued.key] = entry
        heapq.heappush(self._entries, entry)

    def get(self, key: str) -> QueuedPod | None:
        entry = self._live.get(key)
        return None if entry is None else entry[2]

    def take(self, key: str) -> QueuedPod | None:
        """Remove a pod from any position and return it; None if it is not in the heap."""
        entry = self._live.pop(key, None)
        if entry is None:
            return None
        if len(self._entries) > 64 and len(self._entries) > 2 * len(self._live):
            self._entries = list(self._live.values())
            heapq.heapify(self._entries)
        return entry[2]

    def replace(self, key: str, queued: QueuedPod) -> bool:
        """Put another pod at the position of the pod `key`; return False if that is not in the heap."""
        entry = self._live.pop(key, None)
        if entry is None:
            return False
        index = next(index for index, each in enumerate(self._entries) if each is entry)
        self._live[queued.key] = self._entries[index] = (entry[0], entry[1], queued)
        return True

    def first(self) -> tuple[tuple[Any, ...], QueuedPod] | None:
        """Return the sort key and pod of the first entry without removing it; None if the heap is empty."""
        while self._entries:
            entry = self._entries[0]
            if self._live.get(entry[2].key) is entry:
                return entry[0], entry[2]
            heapq.heappop(self._entries)
        return None

    def pop(self) -> QueuedPod | None:
        while self._entries:
            entry = heapq.heappop(self._entries)
            key = entry[2].key
            if self._live.get(key) is entry:
                del self._live[key]
                return entry[2]
        return None
