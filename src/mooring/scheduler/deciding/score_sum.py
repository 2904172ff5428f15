"""Add up score vectors by row, normalised and weighted, and find the best feasible rows.

A sum is cached for all pods with the same score vectors. Vectors of zeros are left out, because they do not change the
order of nodes. Called by ``evaluation.py``, which refreshes the vectors first.
"""

from collections.abc import Sequence

import numpy as np

from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.deciding.score_totals import OUT, BestRows, Totals
from mooring.scheduler.deciding.score_vectors import SharedScores
from mooring.scheduler.framework import Mask, Scores


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
    np.copyto(totals, OUT, where=~feasible)
    return BestRows(totals)


def best_of(sums: Scores, own: Sequence[Scores], feasible: Mask) -> BestRows:
    """Return the best node rows for a pod whose score vectors no other pod shares."""
    return BestRows(np.where(feasible, np.add.reduce([sums, *own]), OUT))


def _sum(arrays: Sequence[Scores]) -> Scores:
    """Add up score vectors into a new array, in 32 bits if all scores are."""
    total = arrays[0].astype(np.result_type(*arrays))
    for scores in arrays[1:]:
        total += scores
    return total
