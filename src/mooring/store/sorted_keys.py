"""Keys in order, for range reads: a list of short sorted lists, so that an insert moves at most a few hundred keys.

Python orders strings by code point, which is the order of their UTF-8 bytes in etcd.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from itertools import chain

_BLOCK = 512


class SortedKeys:
    """A sorted set of strings. The caller knows whether a key is present."""

    def __init__(self) -> None:
        self._blocks: list[list[str]] = [[]]
        self._lows: list[str] = [""]  # no key of block i is below _lows[i]

    def add(self, key: str) -> None:
        """Insert a key that is not present."""
        index = bisect_right(self._lows, key) - 1
        block = self._blocks[index]
        insort(block, key)
        if len(block) > 2 * _BLOCK:
            self._blocks[index : index + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._lows.insert(index + 1, block[_BLOCK])

    def remove(self, key: str) -> None:
        """Remove a key that is present."""
        index = bisect_right(self._lows, key) - 1
        block = self._blocks[index]
        del block[bisect_left(block, key)]
        if not block and index > 0:
            del self._blocks[index], self._lows[index]

    def between(self, low: str, high: str | None, limit: int = 0) -> tuple[list[str], int]:
        """Return the first `limit` keys (0: all) between `low` and `high` (None: unbounded), and their total number."""
        first, start = self._position(low, bisect_right)
        block = self._blocks[first]
        if start < len(block) and high is not None and block[start] >= high:
            return [], 0  # often: most namespaces have no quotas and no limit ranges
        last, end = (
            (len(self._blocks) - 1, len(self._blocks[-1])) if high is None else self._position(high, bisect_left)
        )
        if (first, start) >= (last, end):
            return [], 0
        if first == last:
            keys = self._blocks[first][start:end]
            return (keys[:limit] if limit else keys), len(keys)
        middle = self._blocks[first + 1 : last]
        count = len(self._blocks[first]) - start + sum(map(len, middle)) + end
        keys = self._blocks[first][start:]
        for block in chain(middle, [self._blocks[last][:end]]):
            if limit and len(keys) >= limit:
                break
            keys += block
        return (keys[:limit] if limit else keys), count

    def _position(self, key: str, side: Callable[[list[str], str], int]) -> tuple[int, int]:
        index = bisect_right(self._lows, key) - 1
        return index, side(self._blocks[index], key)
