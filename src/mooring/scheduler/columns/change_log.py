"""Which rows have changed since a reader last looked.

A reader remembers `position` and later asks `since(position)`. The log forgets its older half when it has grown longer
than the table; a reader that comes too late gets None and looks at all rows, which is then cheaper anyway.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

ChangedRows: TypeAlias = NDArray[np.intp] | None
"""Row numbers, some perhaps twice; None stands for all rows."""
NO_ROWS: NDArray[np.intp] = np.empty(0, np.intp)
_SLACK = 256
_FEW = 8


class ChangeLog:
    def __init__(self) -> None:
        self._rows: list[int] = []
        self._forgotten = 0
        self.limit = _SLACK
        """How many changes are remembered: as many as there are rows."""

    @property
    def position(self) -> int:
        return self._forgotten + len(self._rows)

    def note(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > 2 * (self.limit + _SLACK):
            half = len(self._rows) // 2
            del self._rows[:half]
            self._forgotten += half

    def since(self, position: int) -> ChangedRows:
        """The rows that changed after `position`; None when they are too many or forgotten."""
        start = position - self._forgotten
        number = len(self._rows) - start
        if number == 0:
            return NO_ROWS
        if start < 0 or 4 * number > self.limit + _SLACK:
            return None
        if number == 1:
            return np.array(self._rows[-1:], np.intp)
        return np.array(list(set(self._rows[start:])), np.intp)

    def few_since(self, position: int) -> set[int] | None:
        """As `since`, for readers who go through them one by one; None also when they are more than a few."""
        start = position - self._forgotten
        return None if start < 0 or len(self._rows) - start > _FEW else set(self._rows[start:])


class Changes(NamedTuple):
    """What has changed since a reader last looked."""

    nodes: ChangedRows
    """Rows whose node has."""
    either: ChangedRows
    """Rows whose node or whose pods have."""


class Revisions:
    """A number that rises with every change of something that concerns many rows, and which rows they were.

    Only the last few changes are remembered.
    """

    _REMEMBERED = 8

    def __init__(self) -> None:
        self.number = 0
        self._rows: list[ChangedRows] = []

    def note(self, rows: ChangedRows = None) -> None:
        self.number += 1
        self._rows.append(rows)
        if len(self._rows) > self._REMEMBERED:
            del self._rows[0]

    def since(self, number: int) -> ChangedRows:
        """The rows that changed after the revision `number`; None for all."""
        behind = self.number - number
        if behind > len(self._rows):
            return None
        found: ChangedRows = NO_ROWS
        for rows in self._rows[len(self._rows) - behind :]:
            found = union(found, rows)
        return found


EVERYTHING = Changes(None, None)
NOTHING = Changes(NO_ROWS, NO_ROWS)


class Reader:
    """A place in the log of nodes and in that of pods."""

    def __init__(self, nodes: ChangeLog, pods: ChangeLog) -> None:
        self._nodes, self._pods = nodes, pods
        self._node_position = self._pod_position = -1

    def changes(self) -> Changes:
        """What has changed since the last call; everything at first."""
        nodes = self._nodes.since(self._node_position)
        pods = self._pods.since(self._pod_position)
        self._node_position, self._pod_position = self._nodes.position, self._pods.position
        return Changes(nodes, union(nodes, pods))


def union(one: ChangedRows, other: ChangedRows) -> ChangedRows:
    if one is None or other is None:
        return None
    if one is other:
        return one
    if not len(one) or not len(other):
        return other if not len(one) else one
    if len(one) == 1 == len(other) and one[0] == other[0]:
        return one
    return np.concatenate((one, other))


def both(one: Changes, other: Changes) -> Changes:
    return Changes(union(one.nodes, other.nodes), union(one.either, other.either))
