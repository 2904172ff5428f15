"""Cache the totals of feasible nodes, and the best of them, for pods with the same scores.

Most pods change one row. Where a filter refuses whole zones and lets them pass again with the next pod, the same few
sets of feasible nodes take turns, so the totals of some are kept, each with the rows that have changed since:

    sums by row  [7, 9, 9, 5]    feasible  [1, 1, 0, 0]    totals  [7, 9, -1, -1]    the best is row 1

Called by ``score_sum.py``, which adds up the scores.
"""

import random

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NO_ROWS, ChangedRows
from mooring.scheduler.framework import Mask, Scores

OUT = -1
"""Instead of a total: the node is not feasible."""
_MAX_FEASIBLE_SETS = 8
_PART = 64
"""Updating some rows costs less than all when they are at most one in so many."""


class Totals:
    """The totals of one sum of scores."""

    def __init__(self, capacity: int) -> None:
        self._most = capacity // _PART
        self._kept: list[_Totals] = []

    def forget(self) -> None:
        """Drop everything: all sums may have changed."""
        self._kept.clear()

    def best(self, sums: Scores, feasible: Mask, changed: ChangedRows) -> "BestRows":
        """Return the best of the feasible rows; `changed` are those with other sums than before, None for all."""
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
    """For one set of feasible nodes."""

    __slots__ = ("_best", "_missed", "_missing", "_totals", "feasible")

    def __init__(self, sums: Scores, feasible: Mask) -> None:
        self.feasible = feasible
        self._totals: Scores = np.where(feasible, sums, OUT)
        self._best: BestRows | None = None
        self._missing: list[NDArray[np.intp]] = []
        self._missed = 0

    def miss(self, rows: NDArray[np.intp]) -> int:
        """Note rows that have other sums, or are feasible now or no longer; return how many are not up to date.

        Some may be counted twice, but often it is a single one for both reasons.
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
    """The rows with the highest total. Totals may fall after they were found; `rise` reports one that rises."""

    def __init__(self, totals: Scores) -> None:
        self._totals = totals
        self._find()

    def _find(self) -> None:
        self.highest = int(self._totals[self._totals.argmax()])
        self._rows: NDArray[np.intp] = (self._totals == self.highest).nonzero()[0]
        self._left = len(self._rows)

    def rise(self, row: int, total: int) -> None:
        """Take note of a row with a higher total than before."""
        if total > self.highest:
            self.highest, self._rows, self._left = total, np.array([row], np.intp), 1
        elif total == self.highest:
            self._find()

    def rows(self) -> NDArray[np.intp]:
        """Return all of them, in ascending order."""
        rows = self._rows[: self._left]
        found = rows[self._totals[rows] == self.highest]
        if not len(found):
            self._find()
            return self._rows
        return np.sort(found)

    def pick(self, lot: random.Random) -> int:
        """Return one of them at random. Rows whose total has fallen are noticed when they are picked."""
        while True:
            place = lot.randrange(self._left) if self._left > 1 else 0
            row = self._rows.item(place)
            if self._totals.item(row) == self.highest:
                return row
            self._left -= 1
            self._rows[place] = self._rows[self._left]
            if not self._left:
                self._find()
