"""Evaluate Score plugins over all rows: a vector of scores for each plugin and each value of the pod part it reads.

Vectors are shared and refreshed like those of filters (``filter_vectors.py``). Scores that depend on the feasible nodes
are normalised in ``score_sum.py``, where vectors are summed.
"""

from typing import Any

import numpy as np

from mooring.api.core_v1 import Pod
from mooring.constraints.columns.revisions import NEVER, NO_ROWS
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.deciding.profile_plan import NodeScoreUse, ScoreUse
from mooring.scheduler.deciding.vectors import PluginVector, Vector
from mooring.scheduler.framework import ALL_ROWS, MAX_NODE_SCORE, CycleState, Mask, Scores, Status

_NO_SCORES: Scores = np.empty(0, np.int64)
_MAX_SMALL_WEIGHT = 1000
"""The maximum weight with which scores, and sums of them, fit into 32 bits."""


class ScoreVector(Vector):
    """The scores of a Score plugin on all node rows."""

    is_active = True
    """Whether the plugin scores the pod (`pre_score` did not return SKIP)."""
    is_zero = True
    """Whether every score is 0 before normalisation."""
    scores: Scores = _NO_SCORES
    """The scores by node row: weighted, or raw if they are normalised later."""

    def __init__(self, use: ScoreUse | NodeScoreUse) -> None:
        super().__init__(use.name, use.index)
        self.weight = use.weight
        self.has_pre_point = use.has_pre_point
        """Whether metrics count a call of the plugin's `pre_score`."""

    def refresh(self, feasible: Mask) -> None:
        """Evaluate the node rows whose inputs changed."""

    def all_zero(self, capacity: int) -> Scores:
        """Return the normalised and weighted scores of a vector of zeros."""
        return np.zeros(capacity, np.int64)

    def add_to(self, _shared: "list[SharedScores]", own: "list[ScoreVector]") -> None:
        """Append the vector to the list of shared vectors, or to that of vectors for this pod only."""
        own.append(self)


class SharedScores(PluginVector, ScoreVector):
    """The scores of a vectorised plugin, for all pods with the same value of the part it reads."""

    use: ScoreUse
    was_summed = False
    """Whether a sum that includes this vector was computed before."""
    _feasible: Mask | None = None

    def __init__(self, use: ScoreUse, state: Any, cluster: Cluster) -> None:
        """Create the vector; `state` is the result of the plugin's `pre_score`."""
        PluginVector.__init__(self, use, state, cluster.inputs)
        self.weight = use.weight
        self.has_pre_point = use.has_pre_point
        self.depends_on_feasible = use.declared.depends_on_feasible
        self.is_normalized = use.declared.is_normalized
        self._capacity = cluster.capacity
        self._has_state = not isinstance(state, Status)

    def add_to(self, shared: "list[SharedScores]", _own: list[ScoreVector]) -> None:
        shared.append(self)

    def refresh(self, feasible: Mask) -> None:
        if not self._has_state or self._idle.value == self._idle_at:
            return
        if self.depends_on_feasible and feasible is not self._feasible:
            self._feasible, self._revision = feasible, NEVER
        if not self._collect_changes(feasible):
            self._leave_out()
            return
        self.is_active = True
        if self.depends_on_feasible:
            self.is_zero = False
        else:
            self.update_rows()

    def _leave_out(self) -> None:
        if not self.is_zero:
            self.change()
            self._take_all(_NO_SCORES)
        self.dirty = None
        self.is_active = not self.has_pre_point  # a plugin without PreScore scores every pod

    def update_rows(self) -> None:
        """Evaluate the node rows that have changed."""
        rows = self.dirty
        if rows is not None and not len(rows):
            return
        self.dirty = None  # until the plugin has returned
        scores = self.use.plugin.score(self.state, ALL_ROWS if rows is None else rows)
        if self.weight != 1 and not self.is_normalized:
            scores = scores.astype(np.int64) * self.weight
        if rows is None:
            self._take_all(scores)
        elif self.is_zero:
            if scores.any():
                found = np.zeros(self._capacity, np.int64)
                found[rows] = scores
                self._take_all(found)
        elif len(rows) == 1:
            self.scores[rows.item()] = scores.item()
        else:
            self.scores[rows] = scores
        self.dirty = NO_ROWS
        self.change(rows)

    def _take_all(self, scores: Scores) -> None:
        self.is_zero = not (len(scores) and (self.depends_on_feasible or scores.item(0) or scores.any()))
        if not self.is_zero and not self.is_normalized and scores.itemsize > 4 and self.weight <= _MAX_SMALL_WEIGHT:
            scores = scores.astype(np.int32)  # fresh memory for every pod costs more than the arithmetic
        self.scores = _NO_SCORES if self.is_zero else scores
        self.charge(self.scores.nbytes)

    def normalized(self, feasible: Mask) -> Scores:
        """Return the scores of all node rows, normalised by those of feasible nodes and weighted."""
        plugin = self.use.plugin
        return plugin.normalized(self.scores, plugin.span(self.scores, feasible)) * self.weight

    def all_zero(self, capacity: int) -> Scores:
        found = super().all_zero(capacity)
        if not self.is_normalized:
            return found
        plugin = self.use.plugin
        return plugin.normalized(found, plugin.span(found[:1], np.ones(1, np.bool_))) * self.weight


class PodScores(ScoreVector):
    """The scores of a plugin that reads the pod itself, for one pod."""

    def __init__(self, use: ScoreUse, state: Any, feasible: Mask) -> None:
        super().__init__(use)
        plugin = use.plugin
        scores = plugin.score(state, ALL_ROWS)
        if use.declared.is_normalized:
            scores = plugin.normalized(scores, plugin.span(scores, feasible))
        self.is_zero, self.scores = False, scores * use.weight


class NodeScores(ScoreVector):
    """The scores of a per-node plugin, for feasible nodes."""

    def __init__(self, use: NodeScoreUse, pod: Pod, *, cluster: Cluster, cycle: CycleState, feasible: Mask) -> None:
        super().__init__(use)
        nodes = [info for row in np.flatnonzero(feasible).tolist() if (info := cluster.nodes[row]) is not None]
        scores = {info.name: use.plugin.score_node(cycle, pod, info) for info in nodes}
        if use.normalize is not None:
            scores = use.normalize(pod, scores)
        self.is_zero, self.scores = False, np.zeros(len(feasible), np.int64)
        for info in nodes:
            score = scores[info.name]
            if not 0 <= score <= MAX_NODE_SCORE:
                raise ValueError(f"plugin {self.name} gave node {info.name} {score} points, not 0 to {MAX_NODE_SCORE}")
            self.scores[info.row] = score * use.weight
