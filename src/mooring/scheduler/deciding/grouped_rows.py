"""The best rows of a large cluster where points differ by group of rows, besides what each row has for itself.

With every pod that PodTopologySpread counts, the points of nearly all rows change, but those of a group all alike:
within a group the best rows stay the best. So these are kept for each group, and one pod moves one row. For example:

    base by row  [7, 9, 9, 5]    group of each row  [0, 0, 1, 1]    highest by group  [9, 9]    its rows  [[1], [2]]
    points by group  [20, 10]    the best is row 1 of group 0, with 29

Made by ``evaluation.py``, which says what has changed. Small clusters are summed up row by row instead.
"""

import random

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.framework import Mask, Scores

_NOBODY = -(1 << 40)
"""The highest base of a group without feasible rows."""
_NO_GROUP = -1


class GroupedRows:
    """Kept for a shape. `base` and `codes` may change in place; `update` is told where."""

    def __init__(self, base: Scores, codes: NDArray[np.intp], feasible: Mask) -> None:
        self.base, self.codes, self.feasible = base, codes, feasible
        self._highest: Scores = np.full(int(codes.max(initial=0)) + 1, _NOBODY, np.int64)
        """By group: no feasible row has more."""
        np.maximum.at(self._highest, codes[feasible], base[feasible])
        self._rows: dict[int, list[int]] = {}
        """By group the rows that have as much, where somebody has looked for them and there are any."""
        self._group_of: NDArray[np.int32] = np.full(len(base), _NO_GROUP, np.int32)
        """In which of these lists a row is ..."""
        self._place_of: NDArray[np.int32] = np.zeros(len(base), np.int32)
        """... and where."""
        self._best: list[list[int]] = []

    def update(self, rows: NDArray[np.intp], feasible: Mask) -> None:
        """Some rows may have another base or another group, or be feasible or no longer."""
        self.feasible = feasible
        for row in rows.tolist():
            self._leave(row)
            if feasible[row]:
                self._join(row, self.codes.item(row), self.base.item(row))

    def _leave(self, row: int) -> None:
        group = self._group_of.item(row)
        if group == _NO_GROUP:
            return
        rows, place = self._rows[group], self._place_of.item(row)
        last = rows.pop()
        if last != row:
            rows[place], self._place_of[last] = last, place
        self._group_of[row] = _NO_GROUP
        if not rows:
            del self._rows[group]

    def _join(self, row: int, group: int, base: int) -> None:
        if group >= len(self._highest):
            added = np.full(group + 1 - len(self._highest), _NOBODY, np.int64)
            self._highest = np.concatenate((self._highest, added))
        highest = self._highest.item(group)
        if base > highest:
            self._highest[group] = base
            for other in self._rows.pop(group, ()):
                self._group_of[other] = _NO_GROUP
            self._rows[group] = []
        if base >= highest and group in self._rows:
            self._group_of[row], self._place_of[row] = group, len(self._rows[group])
            self._rows[group].append(row)

    def rank(self, points: Scores) -> None:
        """Find the best rows when groups have these points."""
        while True:
            points = points[: len(self._highest)]
            totals = self._highest[: len(points)] + points
            groups = (totals == totals.max()).nonzero()[0].tolist()
            if all(group in self._rows or self._find(group) for group in groups):
                self._best = [self._rows[group] for group in groups]
                return

    def _find(self, group: int) -> bool:
        """List the best rows of a group; False when they have less than was thought."""
        members = (self.feasible & (self.codes == group)).nonzero()[0]
        bases = self.base[members]
        highest = int(bases.max(initial=_NOBODY))
        if highest < self._highest[group]:
            self._highest[group] = highest
            return False
        best = members[bases == highest]
        self._group_of[best], self._place_of[best] = group, np.arange(len(best))
        self._rows[group] = best.tolist()
        return True

    def rows(self) -> NDArray[np.intp]:
        """All of the best, in ascending order."""
        return np.sort(np.concatenate([np.array(rows, np.intp) for rows in self._best]))

    def pick(self, lot: random.Random) -> int:
        """One of them by lot."""
        number = sum(map(len, self._best))
        place = lot.randrange(number) if number > 1 else 0
        for rows in self._best:
            if place < len(rows):
                return rows[place]
            place -= len(rows)
        raise AssertionError("there is a best row whenever one is feasible")
