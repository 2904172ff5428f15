"""Add up score vectors by row, normalised and weighted, and find the best feasible rows.

A sum is cached for all pods with the same score vectors. Vectors of zeros are left out, because they do not change the
order of nodes. In large clusters, scores that are equal within groups of rows are ranked by group
(``grouped_rows.py``). Called by ``evaluation.py``, which refreshes the vectors first.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows, Reader, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.deciding.grouped_rows import GroupedRows
from mooring.scheduler.deciding.score_totals import OUT, BestRows, Totals
from mooring.scheduler.deciding.score_vectors import SharedScores
from mooring.scheduler.framework import Mask, Scores

_LARGE = 4096
"""The number of rows from which on group scores are ranked by group."""
_CALM = 3
"""The number of consecutive pods with few changed rows after which rows are updated one by one."""
_PART = 64
"""Rows are updated one by one if at most one row in this number has changed."""


class _Part:
    """One score vector of a sum, with its weight."""

    def __init__(self, vector: SharedScores) -> None:
        self.vector = vector
        self.scores: Scores = vector.scores
        self._verified_at = NEVER
        self._span: tuple[int, ...] | None = None
        self._feasible: Mask | None = None

    def update(self, feasible: Mask) -> ChangedRows:
        """Add the vector's changes to the sum; return the rows whose score changed."""
        vector = self.vector
        if vector.depends_on_feasible:
            vector.update_rows()
        changed_at = vector.changes.changed_at
        rows = NO_ROWS if changed_at == self._verified_at else vector.changes.since(self._verified_at)
        self._verified_at = changed_at
        if not vector.is_normalized:
            self.scores = vector.scores
            return rows
        if rows is not None and not len(rows) and feasible is self._feasible:
            return rows
        return self._normalize(rows, feasible)

    def _normalize(self, rows: ChangedRows, feasible: Mask) -> ChangedRows:
        plugin, raw = self.vector.use.plugin, self.vector.scores
        self._feasible = feasible
        span = plugin.span(raw, feasible)
        if span != self._span or rows is None:
            self.scores, self._span = plugin.normalized(raw, span) * self.vector.weight, span
            return None
        if len(rows):
            self.scores[rows] = plugin.normalized(raw[rows], span) * self.vector.weight
        return rows


class ScoreSum:
    def __init__(self, vectors: Sequence[SharedScores], cluster: Cluster) -> None:
        self.vectors = vectors
        self._cluster = cluster
        self._parts = [_Part(vector) for vector in vectors]
        self._plain = [part for part in self._parts if not part.vector.use.has_refresh]
        self._others = [part for part in self._parts if part.vector.use.has_refresh]
        grouped = [part for part in self._others if part.vector.use.declared.is_grouped]
        self._by_group = grouped[0] if len(grouped) == 1 and cluster.capacity >= _LARGE else None
        self._ungrouped = [part for part in self._others if part is not self._by_group]
        self._base: Scores = np.empty(0, np.int64)
        self._sums: Scores = self._base
        self._totals = Totals(cluster.capacity)
        self._grouped: GroupedRows | None = None
        self._reader = Reader(cluster.node_changes, cluster.pod_changes)
        self._calm = 0

    @property
    def nbytes(self) -> int:
        return 8 * self._cluster.capacity * 4

    def best(self, feasible: Mask) -> BestRows | GroupedRows:
        """Return the best rows among the feasible ones. The mask `feasible` must never be modified."""
        by_row = _update(self._plain, feasible)
        if self._by_group is not None:
            changed = union(self._reader.changes().either, by_row)
            found = self._rank_groups(feasible, by_row, changed) if self._calm >= _CALM else None
            self._calm = self._calm + 1 if self._are_few(changed) else 0
            if found is not None:
                return found
            self._grouped = None
        others = _update(self._others, feasible)
        self._add_up(by_row, others)
        return self._totals.best(self._sums, feasible, union(by_row, others))

    def sums(self, feasible: Mask) -> Scores:
        """Return the summed scores of all rows."""
        self._grouped = None
        rows = _update(self._plain, feasible), _update(self._others, feasible)
        self._add_up(*rows)
        self._totals.forget()
        return self._sums

    def scores_of(self, vector: SharedScores) -> Scores:
        """Return the normalised and weighted scores of one vector; call `sums` first."""
        return next(part.scores for part in self._parts if part.vector is vector)

    def _are_few(self, rows: ChangedRows) -> bool:
        return rows is not None and _PART * len(rows) < self._cluster.capacity

    def _rank_groups(self, feasible: Mask, by_row: ChangedRows, changed: ChangedRows) -> GroupedRows | None:
        if self._by_group is None or not self._are_few(changed):
            self._grouped = None
            return None
        vector, others = self._by_group.vector, _update(self._ungrouped, feasible)
        points, codes = vector.use.plugin.score_groups(vector.state)
        self._add_base(by_row)
        rescored, rows = union(by_row, others), self._grouped
        changed = union(changed, others)
        if rows is not None and feasible is not rows.feasible:
            changed = union(changed, (feasible != rows.feasible).nonzero()[0])
        parts = [part.scores for part in self._ungrouped]
        if rows is None or rescored is None or changed is None or rows.codes is not codes or not self._are_few(changed):
            base = _sum([self._base.astype(np.int64), *parts])
            rows = self._grouped = GroupedRows(base, codes, feasible)
        else:
            if len(rescored):
                rows.base[rescored] = _sum([self._base[rescored], *(scores[rescored] for scores in parts)])
            rows.update(changed, feasible)
        rows.rank(points * vector.weight)
        self._totals.forget()
        self._sums = np.empty(0, np.int64)  # not kept up to date meanwhile
        return rows

    def _add_up(self, by_row: ChangedRows, others: ChangedRows) -> None:
        self._add_base(by_row)
        rows = union(by_row, others)
        scores = [part.scores for part in self._others]
        if not scores:
            self._sums = self._base
        elif rows is None or not len(self._sums):
            self._sums = _sum([self._base, *scores])
        elif len(rows) == 1:
            row = rows.item()
            self._sums[row] = self._base.item(row) + sum(each.item(row) for each in scores)
        elif len(rows):
            self._sums[rows] = _sum([self._base[rows], *(each[rows] for each in scores)])

    def _add_base(self, by_row: ChangedRows) -> None:
        scores = [part.scores for part in self._plain]
        if by_row is None or not len(self._base):
            few = [np.zeros(self._cluster.capacity, np.int64)] if len(scores) < 2 else []
            self._base = _sum([*few, *scores])
        elif len(by_row) == 1:
            row = by_row.item()
            self._base[row] = sum([each.item(row) for each in scores])
        elif len(by_row):
            self._base[by_row] = _sum([each[by_row] for each in scores])


def _update(parts: Iterable[_Part], feasible: Mask) -> ChangedRows:
    found: ChangedRows = NO_ROWS
    for part in parts:
        rows = part.update(feasible)
        if rows is not found:
            found = union(found, rows)
    return found


def best_once(vectors: Sequence[SharedScores], feasible: Mask) -> BestRows:
    """Return the best rows by a sum that is not cached."""
    parts = [_Part(vector) for vector in vectors]
    for part in parts:
        part.update(feasible)
    totals = _sum([part.scores for part in parts])
    if len(parts) == 1:
        totals = totals.copy()
    np.copyto(totals, OUT, where=~feasible)
    return BestRows(totals)


def best_of(sums: Scores, own: Sequence[Scores], feasible: Mask) -> BestRows:
    """Return the best rows for a pod with score vectors that no other pod shares."""
    return BestRows(np.where(feasible, np.add.reduce([sums, *own]), OUT))


def _sum(arrays: list[Scores]) -> Scores:
    total = arrays[0] if len(arrays) == 1 else arrays[0] + arrays[1]
    for scores in arrays[2:]:
        total += scores
    return total
