"""A first-in, first-out cache of bounded size."""

from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_EVICTED_FRACTION = 32


class BoundedCache(Generic[K, V]):
    """Hold at most `size` entries and evict the oldest. Keys are revisions, which are read mostly while they are new.

    Evict several entries at a time: a dictionary finds its first key by skipping all deleted ones before it, which
    takes 24 µs per eviction with 65,536 entries.
    """

    __slots__ = ("_entries", "_evict_count", "_size", "get")

    def __init__(self, size: int) -> None:
        self._size = size
        self._evict_count = max(size // _EVICTED_FRACTION, 1)
        self._entries: dict[K, V] = {}
        self.get: Callable[[K], V | None] = self._entries.get
        """Bound to the dictionary's own method: list requests call it for every object."""

    def put(self, key: K, value: V) -> None:
        if len(self._entries) >= self._size:
            for oldest in list(islice(self._entries, self._evict_count)):
                del self._entries[oldest]
        self._entries[key] = value

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
