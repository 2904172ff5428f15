"""Cache the totals of feasible nodes, and the best of them, for pods with the same score vectors.

Most pods change the total of one row, which is updated:

    sums by row  [7, 9, 9, 5]    feasible  [1, 1, 0, 0]    totals  [7, 9, -1, -1]    the best is row 1

Called by ``score_sum.py``, which adds up the scores.
"""

import random

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import ChangedRows, union
from mooring.scheduler.framework import Mask, Scores

OUT = -1
"""The total score that stands for an infeasible node."""
_PART = 64
"""Totals are updated one by one if at most one node row in this number has changed."""


class Totals:
    """The cached total scores of feasible nodes, for one sum of score vectors."""

    def __init__(self, capacity: int) -> None:
        self._most = capacity // _PART
        self._feasible: Mask = np.zeros(capacity, np.bool_)
        self._best: BestRows | None = None

    def forget(self) -> None:
        """Drop all cached totals, because every sum may have changed."""
        self._best = None

    def best(self, sums: Scores, feasible: Mask, changed: ChangedRows) -> "BestRows":
        """Return the best feasible node rows. `changed` are the rows whose sum changed, None for all."""
        rows, best = changed, self._best
        if feasible is not self._feasible:
            rows = union(rows, (feasible != self._feasible).nonzero()[0])
            self._feasible = feasible
        if best is None or rows is None or len(rows) > self._most:
            best = self._best = BestRows(np.where(feasible, sums, OUT))
        elif len(rows) == 1:
            row = rows.item()
            best.update_one(row, sums.item(row) if feasible[row] else OUT)
        elif len(rows):
            best.update(rows, np.where(feasible[rows], sums[rows], OUT))
        return best


class BestRows:
    """The node rows with the highest total score. A row whose total has fallen is noticed when it is picked."""

    def __init__(self, totals: Scores) -> None:
        self._totals = totals
        self._find()

    def _find(self) -> None:
        self.highest = int(self._totals[self._totals.argmax()])
        self._rows: NDArray[np.intp] = (self._totals == self.highest).nonzero()[0]
        self._left = len(self._rows)

    def update_one(self, row: int, total: int) -> None:
        """Set the total score of a node row."""
        before = self._totals.item(row)
        self._totals[row] = total
        if total > max(before, self.highest):
            self.highest, self._rows, self._left = total, np.array([row], np.intp), 1
        elif total > before and total == self.highest:
            self._find()

    def update(self, rows: NDArray[np.intp], totals: Scores) -> None:
        """Set the total scores of some node rows."""
        has_risen = totals.max() >= self.highest and (totals > self._totals[rows]).any()
        self._totals[rows] = totals
        if has_risen:
            self._find()

    def rows(self) -> NDArray[np.intp]:
        """Return all node rows with the highest total score, in ascending order."""
        rows = self._rows[: self._left]
        found = rows[self._totals[rows] == self.highest]
        if not len(found):
            self._find()
            return self._rows
        return np.sort(found)

    def pick(self, lot: random.Random) -> int:
        """Return a random node row among those with the highest total score; discard rows whose total has fallen."""
        while True:
            place = lot.randrange(self._left) if self._left > 1 else 0
            row = self._rows.item(place)
            if self._totals.item(row) == self.highest:
                return row
            self._left -= 1
            self._rows[place] = self._rows[self._left]
            if not self._left:
                self._find()
