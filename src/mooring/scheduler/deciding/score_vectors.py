"""Evaluate Score plugins over all rows: a vector of scores for each plugin and each value of the pod part it reads.

Vectors are shared and refreshed like those of filters (``filter_vectors.py``). A `ScoreSum` adds them up by row,
normalised and weighted, and is cached for all pods with the same vectors. Vectors of zeros are left out, because they
do not change the order of nodes. Most pods change the total of one row, which is updated:

    sums by row  [7, 9, 9, 5]    feasible  [1, 1, 0, 0]    totals  [7, 9, -1, -1]    the best is row 1

Called by ``evaluation.py``, which refreshes the vectors first.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod
from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.deciding.vectors import PlannedPlugin, Vector
from mooring.scheduler.framework import ALL_ROWS, MAX_NODE_SCORE, CycleState, Mask, Scores, Status

_NO_SCORES: Scores = np.empty(0, np.int64)
_OUT = -1
"""The total score that stands for an infeasible node."""
_PART = 64
"""Totals are updated one by one if at most one node row in this number has changed."""
_MAX_SMALL_WEIGHT = 1000
"""The maximum weight with which scores, and sums of them, fit into 32 bits."""


class ScoreVector(Vector):
    """The scores of a Score plugin on all node rows, for all pods with the same value of the part it reads or, if it
    reads the pod itself, for one pod.
    """

    is_active = True
    """Whether the plugin scores the pod (`pre_score` did not return SKIP)."""
    is_zero = True
    """Whether every score is 0 before normalisation."""
    scores: Scores = _NO_SCORES
    """The scores by node row: weighted, or raw if they are normalised later."""
    was_summed = False
    """Whether a sum that includes this vector was computed before."""
    _feasible: Mask | None = None

    def __init__(self, use: PlannedPlugin, state: Any, cluster: Cluster) -> None:
        """Create the vector; `state` is the result of the plugin's `pre_score`."""
        super().__init__(use, None if isinstance(state, Status) else state, cluster)

    def refresh(self, feasible: Mask) -> None:
        """Evaluate the node rows whose inputs changed; leave it to `update_rows` if scores depend on other nodes."""
        if self.state is None or self._idle.value == self._idle_at:
            return
        depends_on_feasible = self.use.declared.depends_on_feasible
        if depends_on_feasible and feasible is not self._feasible:
            self._feasible, self._revision = feasible, NEVER
        if not self._collect_changes(feasible):
            self._set_inactive()
            return
        self.is_active = True
        if depends_on_feasible:
            self.is_zero = False
        else:
            self.update_rows()

    def _set_inactive(self) -> None:
        if not self.is_zero:
            self.change()
            self._store_all(_NO_SCORES)
        self.dirty = None
        self.is_active = not self.use.has_pre_point  # a plugin without PreScore scores every pod

    def update_rows(self) -> None:
        """Evaluate the node rows that have changed."""
        rows = self.dirty
        if rows is not None and not len(rows):
            return
        use = self.use
        self.dirty = None  # until the plugin has returned
        scores = use.plugin.score(self.state, ALL_ROWS if rows is None else rows)
        if use.weight != 1 and not use.declared.is_normalized:
            scores = scores.astype(np.int64) * use.weight
        if rows is None:
            self._store_all(scores)
        elif not self.is_zero:
            self.scores[rows] = scores
        elif scores.any():
            found = np.zeros(self._cluster.capacity, np.int64)
            found[rows] = scores
            self._store_all(found)
        self.dirty = NO_ROWS
        self.change(rows)

    def _store_all(self, scores: Scores) -> None:
        declared = self.use.declared
        self.is_zero = not (len(scores) and (declared.depends_on_feasible or scores.item(0) or scores.any()))
        if self.is_zero:
            scores = _NO_SCORES
        elif not declared.is_normalized and scores.itemsize > 4 and self.use.weight <= _MAX_SMALL_WEIGHT:
            scores = scores.astype(np.int32)  # fresh memory for every pod costs more than the arithmetic
        self.scores = scores
        self.charge(scores.nbytes)

    def weigh(self, feasible: Mask) -> Scores:
        """Return the scores of all node rows, weighted, and normalised by those of feasible nodes."""
        declared, plugin = self.use.declared, self.use.plugin
        if declared.depends_on_feasible:
            self.update_rows()
        scores: Scores = np.zeros(len(feasible), np.int64) if self.is_zero else self.scores
        if declared.is_normalized:
            scores = plugin.normalized(scores, plugin.span(scores, feasible)) * self.use.weight
        return scores


class NodeScoreVector(ScoreVector):
    """The scores of a plugin that evaluates one node at a time, for one pod and its feasible nodes."""

    def __init__(self, use: PlannedPlugin, pod: Pod, *, cluster: Cluster, cycle: CycleState, feasible: Mask) -> None:
        super().__init__(use, None, cluster)
        nodes = [info for row in np.flatnonzero(feasible).tolist() if (info := cluster.nodes[row]) is not None]
        scores = {info.name: use.plugin.score_node(cycle, pod, info) for info in nodes}
        if hasattr(use.plugin, "normalize_scores"):
            scores = use.plugin.normalize_scores(pod, scores)
        self.is_zero, self.scores = False, np.zeros(len(feasible), np.int64)
        for info in nodes:
            score = scores[info.name]
            if not 0 <= score <= MAX_NODE_SCORE:
                raise ValueError(f"plugin {self.name} gave node {info.name} {score} points, not 0 to {MAX_NODE_SCORE}")
            self.scores[info.row] = score * use.weight


class Totals:
    """The cached total scores of feasible nodes, for one sum of score vectors."""

    def __init__(self, capacity: int) -> None:
        self._most = capacity // _PART
        self._feasible: Mask = np.zeros(capacity, np.bool_)
        self._best: BestRows | None = None

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
        self._find_best_rows()

    def _find_best_rows(self) -> None:
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
            self._find_best_rows()

    def update(self, rows: NDArray[np.intp], totals: Scores) -> None:
        """Set the total scores of some node rows."""
        has_risen = totals.max() >= self.highest and (totals > self._totals[rows]).any()
        self._totals[rows] = totals
        if has_risen:
            self._find_best_rows()

    def rows(self) -> NDArray[np.intp]:
        """Return all node rows with the highest total score, in ascending order."""
        rows = self._rows[: self._left]
        found = rows[self._totals[rows] == self.highest]
        if not len(found):
            self._find_best_rows()
            return self._rows
        return np.sort(found)

    def pick(self, generator: random.Random) -> int:
        """Return a random node row among those with the highest total score; discard rows whose total has fallen."""
        while True:
            place = generator.randrange(self._left) if self._left > 1 else 0
            row = self._rows.item(place)
            if self._totals.item(row) == self.highest:
                return row
            self._left -= 1
            self._rows[place] = self._rows[self._left]
            if not self._left:
                self._find_best_rows()


class _Summand:
    """One score vector in a sum, with its scores normalised and weighted."""

    def __init__(self, vector: ScoreVector) -> None:
        self.vector = vector
        self.scores: Scores = vector.scores
        self._verified_at = NEVER
        self._span: tuple[int, ...] | None = None
        self._feasible: Mask | None = None

    def update(self, feasible: Mask) -> ChangedRows:
        """Update the scores; return the node rows whose score changed."""
        vector, use = self.vector, self.vector.use
        if use.declared.depends_on_feasible:
            vector.update_rows()
        changed_at = vector.changed_at
        rows = NO_ROWS if changed_at == self._verified_at else vector.since(self._verified_at)
        self._verified_at = changed_at
        if not use.declared.is_normalized:
            self.scores = vector.scores
            return rows
        if rows is not None and not len(rows) and feasible is self._feasible:
            return rows
        self._feasible = feasible
        plugin, raw = use.plugin, vector.scores
        span = plugin.span(raw, feasible)
        if span != self._span or rows is None:
            self.scores, self._span = plugin.normalized(raw, span) * use.weight, span
            return None
        if len(rows):
            self.scores[rows] = plugin.normalized(raw[rows], span) * use.weight
        return rows


class ScoreSum:
    """The cached sum of several plugins' score vectors, updated only for changed node rows."""

    def __init__(self, vectors: Sequence[ScoreVector], cluster: Cluster) -> None:
        self.vectors = vectors
        self._summands = [_Summand(vector) for vector in vectors]
        self._sums: Scores | None = None
        self._totals = Totals(cluster.capacity)

    def best(self, feasible: Mask) -> BestRows:
        """Return the feasible node rows with the highest sum. The caller must not change `feasible` later."""
        rows: ChangedRows = NO_ROWS
        for summand in self._summands:
            changed = summand.update(feasible)
            if changed is not NO_ROWS:
                rows = union(rows, changed)
        scores, sums = [summand.scores for summand in self._summands], self._sums
        if sums is None or rows is None:
            rows, sums = None, _sum(scores, len(feasible))
            self._sums = sums
        elif len(rows) == 1:
            row = rows.item()
            sums[row] = sum([each.item(row) for each in scores])
        elif len(rows):
            sums[rows] = _sum([each[rows] for each in scores], len(rows))
        return self._totals.best(sums, feasible, rows)


def best_once(vectors: Sequence[ScoreVector], feasible: Mask) -> BestRows:
    """Return the node rows with the highest sum of scores, computed without a cache."""
    totals = _sum([vector.weigh(feasible) for vector in vectors], len(feasible))
    np.putmask(totals, ~feasible, _OUT)
    return BestRows(totals)


def _sum(arrays: Sequence[Scores], size: int) -> Scores:
    """Add up score vectors into a new array of the largest integer type among them, of at least 16 bits."""
    if not arrays:
        return np.zeros(size, np.int16)
    total = arrays[0].astype(np.result_type(np.int16, *arrays))
    for scores in arrays[1:]:
        total += scores
    return total
