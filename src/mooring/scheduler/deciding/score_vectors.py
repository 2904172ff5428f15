"""Evaluate Score plugins over all rows: a vector of scores for each plugin and each value of the pod part it reads.

Vectors are shared and refreshed like those of filters (``filter_vectors.py``). Scores that depend on the feasible nodes
are normalised in ``score_sum.py``, where vectors are summed.
"""

from typing import Any

import numpy as np

from mooring.api.core_v1 import Pod
from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows, Derived, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.inputs import Input, Revision
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.deciding.filter_vectors import Cached
from mooring.scheduler.deciding.profile_plan import NodeScoreUse, ScoreUse
from mooring.scheduler.framework import ALL_ROWS, MAX_NODE_SCORE, CycleState, Mask, Scores, Status

_NO_SCORES: Scores = np.empty(0, np.int64)
_MAX_SMALL_WEIGHT = 1000
"""The maximum weight with which scores, and sums of them, fit into 32 bits."""


class ScoreVector(Cached):
    """The scores of a Score plugin on all rows."""

    def __init__(self, use: ScoreUse | NodeScoreUse) -> None:
        super().__init__(use.name)
        self.weight = use.weight
        self.has_pre_point = use.has_pre_point
        """Whether metrics count a call of the plugin's `pre_score`."""
        self.is_active = True
        """Whether the plugin scores the pod (`pre_score` did not return SKIP)."""
        self.is_zero = True
        """Whether every score is 0 before normalisation."""
        self.scores: Scores = _NO_SCORES
        """The scores by row: weighted, or raw if they are normalised later."""
        self.changes = Derived()
        """Log of the rows whose score changed."""

    def all_zero(self, capacity: int) -> Scores:
        """Return the normalised and weighted scores of a vector of zeros."""
        return np.zeros(capacity, np.int64)


class SharedScores(ScoreVector):
    def __init__(self, use: ScoreUse, pod: PodInfo, cluster: Cluster) -> None:
        super().__init__(use)
        self.use = use
        self.state: Any = use.plugin.pre_score(pod, cluster)
        self.depends_on_feasible = use.declared.depends_on_feasible
        self.is_normalized = use.declared.is_normalized
        self._cluster = cluster
        self._has_state = not isinstance(self.state, Status)
        self.is_active = self._has_state or self.state.is_success
        self._position = NEVER
        self._revision = NEVER
        self._verified_at = NEVER
        self._idle: Revision = use.revision
        self._idle_at = NEVER
        self._dirty: ChangedRows = None
        self._feasible: Mask | None = None

    @property
    def never_applies(self) -> bool:
        """Return whether the plugin scores no pod with the same value of the part that it reads."""
        return not self._has_state and not self.is_active

    def refresh(self, feasible: Mask) -> None:
        """Evaluate the rows whose inputs changed."""
        if not self._has_state or self._idle.value == self._idle_at:
            return
        use = self.use
        position = use.log.changed_at
        if position != self._position:
            self._dirty = union(self._dirty, use.log.since(self._position))
            self._position = position
        if use.has_refresh and not self._refresh_plugin(feasible):
            return
        if self.depends_on_feasible:
            self.is_zero = False
        else:
            self.update_rows()

    def _refresh_plugin(self, feasible: Mask) -> bool:
        revision = self.use.revision.value
        if revision == self._revision and (not self.depends_on_feasible or feasible is self._feasible):
            return self.is_active
        self._revision = NEVER  # until the plugin has returned
        derived = self.use.plugin.refresh_score(self.state, feasible)
        if isinstance(derived, Input):
            self._leave_out(derived)
            return False
        self._revision, self._feasible, self._idle_at = revision, feasible, NEVER
        if derived.changed_at > self._verified_at:
            self._dirty = union(self._dirty, derived.since(self._verified_at))
        self._verified_at, self.is_active = derived.changed_at, True
        return True

    def _leave_out(self, until: Input) -> None:
        self._idle = self._cluster.inputs.revision(until)
        self._idle_at = self._idle.value
        if self.is_active:
            self.changes.change()
            self.is_active, self._dirty = False, None
            self._take_all(_NO_SCORES)

    def update_rows(self) -> None:
        """Evaluate the given rows and record the changed ones."""
        rows = self._dirty
        if rows is not None and not len(rows):
            return
        self._dirty = None  # until the plugin has returned
        scores = self.use.plugin.score(self.state, ALL_ROWS if rows is None else rows)
        if self.weight != 1 and not self.is_normalized:
            scores = scores * self.weight
        if rows is None:
            self._take_all(scores)
        elif self.is_zero:
            if scores.any():
                found = np.zeros(self._cluster.capacity, np.int64)
                found[rows] = scores
                self._take_all(found)
        elif len(rows) == 1:
            self.scores[rows.item()] = scores.item()
        else:
            self.scores[rows] = scores
        self._dirty = NO_ROWS
        self.changes.change(rows)

    def _take_all(self, scores: Scores) -> None:
        self.is_zero = not scores.any() and not (self.depends_on_feasible and len(scores))
        if not self.is_zero and not self.is_normalized and self.weight <= _MAX_SMALL_WEIGHT:
            scores = scores.astype(np.int32, copy=False)  # fresh memory for every pod costs more than the arithmetic
        self.scores = _NO_SCORES if self.is_zero else scores
        self.charge(self.scores.nbytes)

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
        plugin, scores = use.plugin, _NO_SCORES
        if not isinstance(state, Status):
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
