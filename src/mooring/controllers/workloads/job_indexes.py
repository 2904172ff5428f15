"""Sets of completion indexes as Jobs write them (`1,3-5`), kept as intervals.

A Job may have 2,147,483,647 completions: memory and time grow with the number of intervals, not of indexes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain

_MAX_DIGITS = 10
"""Of an index, which is an int32."""


class IndexSet:
    """Indexes as disjoint intervals in ascending order; `stops` are exclusive.

    >>> found = IndexSet([5, 1, 3, 4, 7, 8])
    >>> str(found), len(found), 4 in found, list(found.vacant(11))
    ('1,3-5,7,8', 6, True, [0, 2, 6, 9, 10])
    """

    def __init__(self, indexes: Iterable[int] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._count = 0
        for index in sorted(indexes):
            self._append(index, index + 1)

    @classmethod
    def parse(cls, text: str, completions: int) -> "IndexSet":
        """Read the indexes below `completions`; skip what is not an index or a range.

        >>> str(IndexSet.parse("1,3-2147483647,x", 5))
        '1,3,4'
        """
        intervals = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            begin, end = _index(first), _index(last or first)
            if begin is not None and end is not None:
                intervals.append((begin, min(end + 1, completions)))
        return cls._of(intervals)

    @classmethod
    def _of(cls, intervals: Iterable[tuple[int, int]]) -> "IndexSet":
        found = cls()
        for start, stop in sorted(intervals):
            found._append(start, stop)
        return found

    def _append(self, start: int, stop: int) -> None:
        if self._stops:
            last = self._stops[-1]
            if start <= last:
                self._count += max(0, stop - last)
                self._stops[-1] = max(last, stop)
                return
        if start < stop:
            self._starts.append(start)
            self._stops.append(stop)
            self._count += stop - start

    def add(self, index: int) -> None:
        if index in self:
            return
        at = bisect_right(self._starts, index)
        follows = at > 0 and self._stops[at - 1] == index
        precedes = at < len(self._starts) and self._starts[at] == index + 1
        if follows and precedes:
            self._stops[at - 1] = self._stops.pop(at)
            del self._starts[at]
        elif follows:
            self._stops[at - 1] = index + 1
        elif precedes:
            self._starts[at] = index
        else:
            self._starts.insert(at, index)
            self._stops.insert(at, index + 1)
        self._count += 1

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._starts, index) - 1
        return at >= 0 and index < self._stops[at]

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexSet):
            return NotImplemented
        return (self._starts, self._stops) == (other._starts, other._stops)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: "IndexSet") -> "IndexSet":
        found = IndexSet()
        for start, stop in zip(self._starts, self._stops, strict=True):
            at = bisect_right(other._stops, start)
            while at < len(other._starts) and other._starts[at] < stop:
                found._append(max(start, other._starts[at]), min(stop, other._stops[at]))
                at += 1
        return found

    def __or__(self, other: "IndexSet") -> "IndexSet":
        pairs = (zip(each._starts, each._stops, strict=True) for each in (self, other))
        return IndexSet._of(chain(*pairs))

    def vacant(self, completions: int) -> Iterator[int]:
        """Yield the indexes below `completions` that are not in the set, lowest first."""
        for before, start in zip((0, *self._stops), (*self._starts, completions), strict=True):
            yield from range(before, min(start, completions))

    def __str__(self) -> str:
        """Write the shortest text: runs of three and more are ranges."""
        return ",".join(map(_interval, self._starts, self._stops))


def _index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def _interval(start: int, stop: int) -> str:
    return f"{start}-{stop - 1}" if stop - start > 2 else ",".join(map(str, range(start, stop)))
