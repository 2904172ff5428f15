"""The best rows of a large cluster where one score is the same for all rows of a group.

With every pod that PodTopologySpread counts, the scores of nearly all rows change, but by the same amount within a
group: the best rows of a group stay its best. So a few hundred good rows of each group are kept by their base, the sum
of all other scores, and one pod moves one row. For example:

    base by row  [7, 9, 9, 5]    group of each row  [0, 0, 1, 1]    good rows by group  [{9: [1], 7: [0]}, {9: [2]}]
    score by group  [20, 10]     the best is row 1 of group 0, with 29

Used by ``score_sum.py``; small clusters are summed up row by row instead.
"""

import random

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.framework import Mask, Scores

_NO_ROWS = -(1 << 40)
"""The highest base of a group without feasible rows."""
_NO_GROUP = -1
_GOOD = 256
"""The number of good rows kept for a group, with all that equal the last of them."""


class GroupedRows:
    """The good rows by group. `base` and `codes` may change in place; `update` is called with the rows."""

    def __init__(self, base: Scores, codes: NDArray[np.intp], feasible: Mask) -> None:
        self.base, self.codes, self.feasible = base, codes, feasible
        self._highest: Scores = np.full(int(codes.max(initial=0)) + 1, _NO_ROWS, np.int64)
        np.maximum.at(self._highest, codes[feasible], base[feasible])
        self._good: dict[int, dict[int, list[int]]] = {}
        self._floor: dict[int, int] = {}
        self._group_of: NDArray[np.int32] = np.full(len(base), _NO_GROUP, np.int32)
        self._base_of: NDArray[np.int64] = np.zeros(len(base), np.int64)
        self._place_of: NDArray[np.int32] = np.zeros(len(base), np.int32)
        self._best: list[list[int]] = []

    def update(self, rows: NDArray[np.intp], feasible: Mask) -> None:
        """Update rows whose base, group or feasibility may have changed."""
        self.feasible = feasible
        for row in rows.tolist():
            self._leave(row)
            if feasible[row]:
                self._join(row, self.codes.item(row), self.base.item(row))

    def _leave(self, row: int) -> None:
        group = self._group_of.item(row)
        if group == _NO_GROUP:
            return
        good, base, place = self._good[group], self._base_of.item(row), self._place_of.item(row)
        rows = good[base]
        last = rows.pop()
        if last != row:
            rows[place], self._place_of[last] = last, place
        self._group_of[row] = _NO_GROUP
        if not rows:
            del good[base]
            if good:
                self._highest[group] = max(good)
            else:
                del self._good[group]  # others are looked for when the group is the best

    def _join(self, row: int, group: int, base: int) -> None:
        if group >= len(self._highest):
            added = np.full(group + 1 - len(self._highest), _NO_ROWS, np.int64)
            self._highest = np.concatenate((self._highest, added))
        self._highest[group] = max(self._highest[group], base)
        good = self._good.get(group)
        if good is not None and base >= self._floor[group]:
            rows = good.setdefault(base, [])
            self._group_of[row], self._base_of[row], self._place_of[row] = group, base, len(rows)
            rows.append(row)

    def rank(self, points: Scores) -> None:
        """Find the best rows when groups have these scores."""
        while True:
            totals = self._highest + points[: len(self._highest)]
            groups = (totals == totals.max()).nonzero()[0].tolist()
            if all(group in self._good or self._find(group) for group in groups):
                self._best = [self._good[group][self._highest.item(group)] for group in groups]
                return

    def _find(self, group: int) -> bool:
        members = (self.feasible & (self.codes == group)).nonzero()[0]
        bases = self.base[members]
        highest = int(bases.max(initial=_NO_ROWS))
        if highest < self._highest[group]:
            self._highest[group] = highest
            return False
        floor = int(np.partition(bases, -_GOOD)[-_GOOD]) if len(bases) > _GOOD else _NO_ROWS
        self._floor[group], self._good[group] = floor, {}
        members, bases = members[bases >= floor], bases[bases >= floor]
        for base in np.unique(bases).tolist():
            rows = members[bases == base]
            self._group_of[rows], self._base_of[rows], self._place_of[rows] = group, base, np.arange(len(rows))
            self._good[group][base] = rows.tolist()
        return True

    def rows(self) -> NDArray[np.intp]:
        """Return all of the best rows in ascending order."""
        return np.sort(np.concatenate([np.array(rows, np.intp) for rows in self._best]))

    def pick(self, lot: random.Random) -> int:
        """Return one of the best rows at random."""
        number = sum(map(len, self._best))
        place = lot.randrange(number) if number > 1 else 0
        for rows in self._best:
            if place < len(rows):
                return rows[place]
            place -= len(rows)
        raise AssertionError("there is a best row whenever one is feasible")
