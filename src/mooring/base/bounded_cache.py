"""A cache that forgets its oldest entries: for what can always be worked out again."""

from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_PARTS = 32


class BoundedCache(Generic[K, V]):
    """At most `size` entries, first in, first out: keys are revisions, which are asked for while they are new.

    The oldest go several at a time. A dictionary finds its first key by passing all that were deleted before it: one
    by one that would take 24 µs each where there are 65,536.
    """

    __slots__ = ("_at_once", "_entries", "_size", "get")

    def __init__(self, size: int) -> None:
        self._size = size
        self._at_once = max(size // _PARTS, 1)
        self._entries: dict[K, V] = {}
        self.get: Callable[[K], V | None] = self._entries.get
        """The dictionary's own, as lists ask for every object."""

    def put(self, key: K, value: V) -> None:
        if len(self._entries) >= self._size:
            for oldest in list(islice(self._entries, self._at_once)):
                del self._entries[oldest]
        self._entries[key] = value

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
