"""The words for what has changed, and the one mechanism behind them (docs/decisions/evaluation.md says why).

    revision      a number that only rises, from one counter for everything: later changes have higher ones
    changed_at    the revision at which an input, or something derived from inputs, has last changed
    verified_at   the revision up to which somebody has looked: what changed later is looked at again
    refresh       bring something derived up to date, by looking at the inputs that have changed since

Of inputs that concern rows (nodes, pods on nodes), or have names, a `ChangeLog` also tells which have changed.
"""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeAlias, TypeVar

import msgspec
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
    """Which entries have changed since a reader last looked.

    Revisions are those of the log alone. It forgets its older half when it has grown longer than the table; a reader
    that comes too late gets None and looks at everything, which is then cheaper anyway.
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

    def begin_anew(self, limit: int) -> None:
        """Everything may be different, and there may be another number of rows: all who come next get None."""
        self.changed_at += 1
        self._forgotten = self.changed_at
        self._entries.clear()
        self.limit = limit

    def entries_since(self, verified_at: int, most: int = _FEW) -> set[K] | None:
        """What has changed since, if that is at most so much; None when anything may have."""
        start = verified_at - self._forgotten
        return None if start < 0 or len(self._entries) - start > most else set(self._entries[start:])


class RowLog(ChangeLog[int]):
    """Which rows have changed."""

    def since(self, verified_at: int) -> ChangedRows:
        """The rows that changed after that; None when they are too many or forgotten."""
        start = verified_at - self._forgotten
        number = len(self._entries) - start
        if number == 0:
            return NO_ROWS
        if start < 0 or 4 * number > self.limit + _SLACK:
            return None
        if number == 1:
            return np.array(self._entries[-1:], np.intp)
        return np.array(list(set(self._entries[start:])), np.intp)


class Changes(msgspec.Struct, frozen=True):
    """What has changed since a reader last looked."""

    nodes: ChangedRows
    """Rows whose node has."""
    either: ChangedRows
    """Rows whose node or whose pods have."""


class Derived:
    """When something that is derived from inputs has changed, and for which rows. Only the last few are remembered."""

    _REMEMBERED = 8

    def __init__(self) -> None:
        self.changed_at = 0
        self._history: list[tuple[int, ChangedRows]] = []

    def change(self, rows: ChangedRows = None) -> None:
        """It is different now, for some rows or for all."""
        self.changed_at = next_revision()
        self._history.append((self.changed_at, rows))
        if len(self._history) > self._REMEMBERED:
            del self._history[0]

    def since(self, verified_at: int) -> ChangedRows:
        """The rows for which it has changed after a revision; None for all."""
        found: ChangedRows = NO_ROWS
        for changed_at, rows in reversed(self._history):
            if changed_at <= verified_at:
                return found
            found = union(rows, found)
        return None if self._history else NO_ROWS


EVERYTHING = Changes(None, None)
NOTHING = Changes(NO_ROWS, NO_ROWS)


class Reader:
    """Somebody who derives something from nodes and the pods on them, row by row."""

    def __init__(self, nodes: RowLog, pods: RowLog) -> None:
        self._nodes, self._pods = nodes, pods
        self._verified_at = (NEVER, NEVER)

    @property
    def knows_nodes(self) -> bool:
        """Whether no node has changed since the last call of `changes`."""
        return self._nodes.changed_at == self._verified_at[0]

    def changes(self) -> Changes:
        """What has changed since the last call; everything at first."""
        of_nodes, of_pods = self._verified_at
        nodes, pods = self._nodes.since(of_nodes), self._pods.since(of_pods)
        self._verified_at = self._nodes.changed_at, self._pods.changed_at
        return Changes(nodes, union(nodes, pods))


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


def both(one: Changes, other: Changes) -> Changes:
    return Changes(union(one.nodes, other.nodes), union(one.either, other.either))
