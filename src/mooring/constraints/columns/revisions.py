"""Revisions and change logs: how derived values find out what to recompute (docs/decisions/evaluation.md).

    revision      a number that only rises, from one counter for everything
    changed_at    the revision of the last change of an input or derived value
    verified_at   the revision up to which a reader has seen the changes
    refresh       update a derived value from the inputs that have changed since

A `ChangeLog` also has the rows or keys that have changed.
"""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)
ChangedRows: TypeAlias = NDArray[np.intp] | None
"""Row numbers, some perhaps twice; None stands for all rows."""
NO_ROWS: NDArray[np.intp] = np.empty(0, np.intp)
NEVER = -1
"""Verified at no revision at all."""
_SLACK = 256
_FEW = 8
next_revision: Callable[[], int] = count(1).__next__
"""The revision of a change that happens now."""


class ChangeLog(Generic[K]):
    """The entries that have changed, for readers that remember their positions.

    The log forgets its older half when it is longer than the table; a reader that is too far behind gets None and
    recomputes everything, which is then cheaper.
    """

    def __init__(self, limit: int = _SLACK) -> None:
        self._entries: list[K] = []
        self._forgotten = 0
        self.changed_at = 0
        """The number of changes so far."""
        self.limit = limit
        """How many changes are remembered: as many as there are rows."""

    def note(self, entry: K) -> None:
        self._entries.append(entry)
        self.changed_at += 1
        if len(self._entries) > 2 * (self.limit + _SLACK):
            half = len(self._entries) // 2
            del self._entries[:half]
            self._forgotten += half

    def invalidate(self, limit: int) -> None:
        """Invalidate the positions of all readers: their next `since` returns None."""
        self.changed_at += 1
        self._forgotten = self.changed_at
        self._entries.clear()
        self.limit = limit

    def entries_since(self, verified_at: int, most: int = _FEW) -> set[K] | None:
        """Return the entries that changed since; None when there are more than `most`, or they are forgotten."""
        start = verified_at - self._forgotten
        return None if start < 0 or len(self._entries) - start > most else set(self._entries[start:])


class RowLog(ChangeLog[int]):
    """A change log of rows, which returns the changed ones as an array."""

    _last: tuple[int, int, NDArray[np.intp]] = (NEVER, NEVER, NO_ROWS)
    """The positions between which rows were collected last, and these rows: often several readers are as far behind."""

    def since(self, verified_at: int) -> ChangedRows:
        """Return the rows that changed since; None when there are too many, or they are forgotten."""
        start = verified_at - self._forgotten
        number = len(self._entries) - start
        if number == 0:
            return NO_ROWS
        if start < 0 or 4 * number > self.limit + _SLACK:
            return None
        if number == 1:
            return np.array(self._entries[-1:], np.intp)
        if self._last[:2] != (verified_at, self.changed_at):
            rows = np.array(list(set(self._entries[start:])), np.intp)
            self._last = verified_at, self.changed_at, rows
        return self._last[2]


class Derived:
    """The last changes of a value that is computed from others: at which revisions, and on which rows."""

    changed_at = 0
    _all_changed_at = 0
    """The revision up to which changes are not remembered by row."""
    _history: tuple[tuple[int, NDArray[np.intp]], ...] = ()
    _MOST = 8

    def change(self, rows: ChangedRows = None) -> None:
        """Record that some rows changed now, or all (None)."""
        self.changed_at = revision = next_revision()
        if rows is None:
            self._all_changed_at, self._history = revision, ()
            return
        if len(self._history) == self._MOST:
            self._all_changed_at, self._history = self._history[0][0], self._history[1:]
        self._history += ((revision, rows),)

    def since(self, verified_at: int) -> ChangedRows:
        """Return the rows that changed after a revision; None for all."""
        if verified_at < self._all_changed_at:
            return None
        found: ChangedRows = NO_ROWS
        for changed_at, rows in reversed(self._history):
            if changed_at <= verified_at:
                break
            found = union(rows, found)
        return found


class Reader:
    """One reader of a `RowLog`, which remembers how far it has read."""

    def __init__(self, log: RowLog) -> None:
        self._log = log
        self._verified_at = NEVER

    def changes(self) -> ChangedRows:
        """Return the rows that changed since the last call; all at first."""
        rows = self._log.since(self._verified_at)
        self._verified_at = self._log.changed_at
        return rows


def union(one: ChangedRows, other: ChangedRows) -> ChangedRows:
    if one is other or other is NO_ROWS:
        return one
    if one is None or other is None:
        return None
    if not len(one) or not len(other):
        return other if not len(one) else one
    if len(one) == 1 == len(other) and one.item() == other.item():
        return one
    return np.concatenate((one, other))
