"""Cache the total scores of feasible nodes, and the best nodes, for pods with the same score vectors.

Most pods change one row. Where a filter alternately rejects and admits whole zones, the same few sets of feasible nodes
recur, so the totals for several sets are kept, each with the rows that changed since:

    sums by row   [7, 9, 9, 5]
    feasible      [1, 1, 0, 0]     totals [7, 9, -1, -1]     the best is row 1

Called by ``score_sum.py``, which adds up the scores.
"""

import random

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NO_ROWS, ChangedRows
from mooring.scheduler.framework import Mask, Scores

OUT = -1
"""The total of a row that is not feasible."""
_MAX_FEASIBLE_SETS = 8
_PART = 64
"""Rows are updated one by one if at most one row in this number has changed."""


class Totals:
    """The cached totals of one sum of scores, for several sets of feasible nodes."""

    def __init__(self, capacity: int) -> None:
        self._most = capacity // _PART
        self._kept: list[_Totals] = []

    def forget(self) -> None:
        """Drop all totals, because every sum may have changed."""
        self._kept.clear()

    def best(self, sums: Scores, feasible: Mask, changed: ChangedRows) -> "BestRows":
        """Return the best of the feasible rows. `changed` are the rows whose sum changed, None for all."""
        if changed is None:
            self._kept.clear()
        elif len(changed):
            for totals in self._kept.copy():
                if totals.miss(changed) >= self._most:
                    self._kept.remove(totals)
        found = self._for(feasible)
        if found is None:
            found = _Totals(sums, feasible)
            self._kept.append(found)
            del self._kept[:-_MAX_FEASIBLE_SETS]
        return found.best(sums)

    def _for(self, feasible: Mask) -> "_Totals | None":
        if not self._kept:
            return None
        last = self._kept[-1]
        if last.feasible is feasible:
            return last
        for place, totals in enumerate(self._kept):
            if totals.feasible is feasible:
                self._kept.append(self._kept.pop(place))
                return totals
        differing = feasible != last.feasible
        if np.count_nonzero(differing) >= self._most:
            return None
        last.feasible = feasible
        last.miss(differing.nonzero()[0])
        return last


class _Totals:
    """The totals for one set of feasible nodes."""

    __slots__ = ("_best", "_missed", "_missing", "_totals", "feasible")

    def __init__(self, sums: Scores, feasible: Mask) -> None:
        self.feasible = feasible
        self._totals: Scores = np.where(feasible, sums, OUT)
        self._best: BestRows | None = None
        self._missing: list[NDArray[np.intp]] = []
        self._missed = 0

    def miss(self, rows: NDArray[np.intp]) -> int:
        """Mark rows as stale whose sum or feasibility changed; return the number of stale rows.

        A row that is stale for both reasons may be counted twice.
        """
        last = self._missing[-1] if self._missing else NO_ROWS
        if len(rows) and not (len(rows) == 1 == len(last) and rows.item() == last.item()):
            self._missing.append(rows)
            self._missed += len(rows)
        return self._missed

    def best(self, sums: Scores) -> "BestRows":
        if self._missed == 1:
            row = self._missing[0].item()
            before, after = self._totals.item(row), sums.item(row) if self.feasible[row] else OUT
            self._totals[row] = after
            if after > before and self._best is not None:
                self._best.rise(row, after)
        elif self._missed:
            rows = np.concatenate(self._missing)
            totals = np.where(self.feasible[rows], sums[rows], OUT)
            if self._best is not None and totals.max() >= self._best.highest and (totals > self._totals[rows]).any():
                self._best = None  # to be found again
            self._totals[rows] = totals
        if self._missing:
            self._missing, self._missed = [], 0
        if self._best is None:
            self._best = BestRows(self._totals)
        return self._best


class BestRows:
    """The rows with the highest total. Totals may fall without notice; the caller reports one that rises by `rise`."""

    def __init__(self, totals: Scores) -> None:
        self._totals = totals
        self._find()

    def _find(self) -> None:
        self.highest = int(self._totals[self._totals.argmax()])
        self._rows: NDArray[np.intp] = (self._totals == self.highest).nonzero()[0]
        self._left = len(self._rows)

    def rise(self, row: int, total: int) -> None:
        """Record that the total of a row rose."""
        if total > self.highest:
            self.highest, self._rows, self._left = total, np.array([row], np.intp), 1
        elif total == self.highest:
            self._find()

    def rows(self) -> NDArray[np.intp]:
        """Return all rows with the highest total, in ascending order."""
        rows = self._rows[: self._left]
        found = rows[self._totals[rows] == self.highest]
        if not len(found):
            self._find()
            return self._rows
        return np.sort(found)

    def pick(self, lot: random.Random) -> int:
        """Return one of the rows with the highest total, at random.

        A row whose total has fallen is discarded when picked.
        """
        while True:
            place = lot.randrange(self._left) if self._left > 1 else 0
            row = self._rows.item(place)
            if self._totals.item(row) == self.highest:
                return row
            self._left -= 1
            self._rows[place] = self._rows[self._left]
            if not self._left:
                self._find()
