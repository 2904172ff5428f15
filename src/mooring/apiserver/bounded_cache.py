"""A cache that forgets its oldest entries: for what can always be worked out again."""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """At most `size` entries, first in, first out: keys are revisions, which are asked for while they are new."""

    __slots__ = ("_entries", "_size", "get")

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: dict[K, V] = {}
        self.get: Callable[[K], V | None] = self._entries.get
        """The dictionary's own, as lists ask for every object."""

    def put(self, key: K, value: V) -> None:
        if len(self._entries) >= self._size:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = value

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
