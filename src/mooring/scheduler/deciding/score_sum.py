"""Add up score vectors by row, normalised and weighted, and find the best feasible rows.

A sum is cached for all pods with the same score vectors. Vectors of zeros are left out, because they do not change the
order of nodes. Most pods change the total of one row, which is updated:

    sums by row  [7, 9, 9, 5]    feasible  [1, 1, 0, 0]    totals  [7, 9, -1, -1]    the best is row 1

Called by ``evaluation.py``, which refreshes the vectors first.
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.deciding.score_vectors import SharedScores
from mooring.scheduler.framework import Mask, Scores

_OUT = -1
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
            best = self._best = BestRows(np.where(feasible, sums, _OUT))
        elif len(rows) == 1:
            row = rows.item()
            best.update_one(row, sums.item(row) if feasible[row] else _OUT)
        elif len(rows):
            best.update(rows, np.where(feasible[rows], sums[rows], _OUT))
        return best


class BestRows:
    """The feasible node rows with the highest total score; rows whose total has fallen are skipped when picking."""

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


class _Part:
    """One score vector that contributes to a sum, with its weight."""

    def __init__(self, vector: SharedScores) -> None:
        self.vector = vector
        self.scores: Scores = vector.scores
        self._verified_at = NEVER
        self._span: tuple[int, ...] | None = None
        self._feasible: Mask | None = None

    def update(self, feasible: Mask) -> ChangedRows:
        """Add the changes of the score vector to the sum; return the node rows whose sum changed."""
        vector = self.vector
        if vector.depends_on_feasible:
            vector.update_rows()
        changed_at = vector.changed_at
        rows = NO_ROWS if changed_at == self._verified_at else vector.since(self._verified_at)
        self._verified_at = changed_at
        if not vector.is_normalized:
            self.scores = vector.scores
            return rows
        if rows is not None and not len(rows) and feasible is self._feasible:
            return rows
        self._feasible = feasible
        plugin, raw = vector.use.plugin, vector.scores
        span = plugin.span(raw, feasible)
        if span != self._span or rows is None:
            self.scores, self._span = plugin.normalized(raw, span) * vector.weight, span
            return None
        if len(rows):
            self.scores[rows] = plugin.normalized(raw[rows], span) * vector.weight
        return rows


class ScoreSum:
    """The cached sum of several plugins' score vectors, updated only for changed node rows."""

    def __init__(self, vectors: Sequence[SharedScores], cluster: Cluster) -> None:
        self.vectors = vectors
        self._parts = [_Part(vector) for vector in vectors]
        self._sums: Scores = np.zeros(cluster.capacity, np.int64)
        self._is_new = True
        self._totals = Totals(cluster.capacity)

    def best(self, feasible: Mask) -> BestRows:
        """Return the feasible node rows with the highest sum. The caller must not change `feasible` later."""
        changed = self._update(feasible)
        return self._totals.best(self._sums, feasible, changed)

    def sums(self, feasible: Mask) -> Scores:
        """Return the summed scores of all node rows."""
        self._update(feasible)
        self._totals.forget()
        return self._sums

    def scores_of(self, vector: SharedScores) -> Scores:
        """Return one plugin's normalised and weighted scores; call `sums` before."""
        return next(part.scores for part in self._parts if part.vector is vector)

    def _update(self, feasible: Mask) -> ChangedRows:
        rows: ChangedRows = None if self._is_new else NO_ROWS
        for part in self._parts:
            changed = part.update(feasible)
            if changed is not NO_ROWS:
                rows = union(rows, changed)
        scores = [part.scores for part in self._parts]
        if not scores:
            pass
        elif rows is None:
            self._sums = _sum(scores)
        elif len(rows) == 1:
            row = rows.item()
            self._sums[row] = sum([each.item(row) for each in scores])
        elif len(rows):
            self._sums[rows] = _sum([each[rows] for each in scores])
        self._is_new = False
        return rows


def best_once(vectors: Sequence[SharedScores], feasible: Mask) -> BestRows:
    """Return the node rows with the highest sum of scores, computed without a cache."""
    scores = []
    for vector in vectors:
        if vector.depends_on_feasible:
            vector.update_rows()
        scores.append(vector.normalized(feasible) if vector.is_normalized else vector.scores)
    totals = _sum(scores)
    np.copyto(totals, _OUT, where=~feasible)
    return BestRows(totals)


def best_of(sums: Scores, own: Sequence[Scores], feasible: Mask) -> BestRows:
    """Return the best node rows by a cached sum of scores plus `own`, score vectors that hold for one pod only."""
    return BestRows(np.where(feasible, np.add.reduce([sums, *own]), _OUT))


def _sum(arrays: Sequence[Scores]) -> Scores:
    """Add up score vectors into a new array of the largest integer type among them."""
    total = arrays[0].astype(np.result_type(*arrays))
    for scores in arrays[1:]:
        total += scores
    return total
