"""Find the best rows of a large cluster when one score is the same for all rows of a group.

Every pod that PodTopologySpread counts changes the scores of nearly all rows, but by the same amount within a group, so
the order of rows inside a group stays. Therefore a few hundred rows with the highest base, which is the sum of the
other scores, are kept for each group, and placing a pod moves one row. For example:

    base by row           [7, 9, 9, 5]
    group of each row     [0, 0, 1, 1]
    kept rows by group    [{9: [1], 7: [0]}, {9: [2]}]
    score by group        [20, 10]          the best is row 1 of group 0, with 29

Used by ``score_sum.py``; in small clusters the scores of all rows are added up instead.
"""

import random

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.framework import Mask, Scores

_NO_ROWS = -(1 << 40)
"""The highest base of a group that has no feasible rows."""
_NO_GROUP = -1
_GOOD = 256
"""The number of rows with the highest bases kept for each group; rows that tie with the last one are kept too."""


class GroupedRows:
    """The rows with the highest base of each group.

    The caller may change `base` and `codes` in place, then calls `update`.
    """

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
        """Find the best rows, given the score of each group."""
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
        """Return all rows with the highest total, in ascending order."""
        return np.sort(np.concatenate([np.array(rows, np.intp) for rows in self._best]))

    def pick(self, lot: random.Random) -> int:
        """Return one of the rows with the highest total, at random."""
        number = sum(map(len, self._best))
        place = lot.randrange(number) if number > 1 else 0
        for rows in self._best:
            if place < len(rows):
                return rows[place]
            place -= len(rows)
        raise AssertionError("there is a best row whenever one is feasible")
