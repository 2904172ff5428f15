"""Score plugins in their slots: the points of each for every row, normalised and weighted, and their sum.

Called by ``evaluation.py``, which says what has changed since the last pod of the shape and who is feasible.
"""

import random
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod
from mooring.constraints.columns.revisions import NEVER, NO_ROWS, ChangedRows, Changes, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodInfo, Sight
from mooring.scheduler.framework import (
    ALL_ROWS,
    MAX_NODE_SCORE,
    CycleState,
    GroupedScore,
    Mask,
    NodeScoreNormalizer,
    NodeScorePlugin,
    Normalizer,
    Reads,
    RefreshedScore,
    Scores,
    Status,
)
from mooring.scheduler.framework import ScorePlugin as VectorPlugin

_ONE_FEASIBLE: Mask = np.ones(1, np.bool_)
_NO_POINTS: Scores = np.zeros(1, np.int64)
_ALL_ZERO: Scores = np.broadcast_to(_NO_POINTS, (1 << 31,))
"""A zero for any number of rows, which takes the room of one."""


class ScoreSlot:
    """A Score plugin with its points for a pod."""

    def __init__(self, plugin: VectorPlugin[Any] | NodeScorePlugin, weight: int) -> None:
        self.name = plugin.name
        self.weight = weight
        self.counts_pre_score = hasattr(plugin, "pre_score") and bool(getattr(plugin, "counts_pre_score", True))
        """Whether asking its `pre_score` is counted."""
        self.is_active = True
        """Whether it scores the pod at all; where it begins or ends to, the points of all rows are different."""
        self.points: Scores = np.empty(0, np.int64)
        """By row, normalised and weighted."""


class ShapeScorer(msgspec.Struct, frozen=True):
    """A Score plugin whose points pods of a shape share, and what else it can do."""

    plugin: VectorPlugin[Any]
    sight: Sight
    weight: int
    refreshed: RefreshedScore[Any] | None
    normalizer: Normalizer | None
    grouped: GroupedScore[Any] | None


class ShapeScore(ScoreSlot):
    """A plugin whose points all pods of a shape share."""

    def __init__(self, scorer: "ShapeScorer", pod: PodInfo, cluster: Cluster) -> None:
        plugin = scorer.plugin
        super().__init__(plugin, scorer.weight)
        self._plugin = plugin
        self._refreshed = scorer.refreshed
        self._normalizer = scorer.normalizer
        self._grouped = scorer.grouped
        self._reads_pods = Reads.PODS in plugin.score_reads
        self._state: Any = plugin.pre_score(pod.seen_by(scorer.sight), cluster)
        self._has_state = not isinstance(self._state, Status)
        self.is_refreshed = self._refreshed is not None and self._has_state
        """Whether its points may change on all rows at any time."""
        self.is_grouped = self.is_refreshed and scorer.grouped is not None
        """Whether it can give them to groups of rows."""
        self.is_active = self._has_state or self._state.is_success
        if not self._has_state:
            self.points = np.zeros(cluster.capacity, np.int64)
        self._verified_at = NEVER
        self._is_fresh = False
        self._raw: Scores = np.empty(0, np.int64)
        self._is_zero = True
        self._span: tuple[int, ...] = ()
        self._competing: Mask | None = None
        """Who was feasible when the span was found."""

    def update(self, changes: Changes, feasible: Mask) -> ChangedRows:
        """Score what has changed; the rows whose points are different now."""
        if not self._has_state:
            return NO_ROWS
        rows = changes.either if self._reads_pods else changes.nodes
        if self._refreshed is not None:
            derived = self._refreshed.refresh_score(self._state, feasible)
            if derived is None:
                return self.leave_out()
            if derived.changed_at > self._verified_at:
                rows = union(rows, derived.since(self._verified_at))
            self._verified_at, self.is_active = derived.changed_at, True
        if not self._is_fresh:
            rows = None
        if self._normalizer is None:
            return self._update_plain(rows)
        return self._update_normalized(self._normalizer, rows, feasible)

    def leave_out(self) -> ChangedRows:
        """The plugin does not score at all now; the rows whose points are different by that."""
        changed = None if self.is_active else NO_ROWS
        self.is_active = self._is_fresh = False
        return changed

    def update_groups(self, feasible: Mask) -> tuple[Scores, NDArray[np.intp]] | None:
        """Points by group, weighted, and the group of each row; None when the plugin does not score at all now.

        Points by row are not kept up to date: the next `update` makes them anew.
        """
        self._is_fresh = False
        if self._refreshed is None or self._grouped is None:
            return None
        if self._refreshed.refresh_score(self._state, feasible) is None:
            return None
        points, codes = self._grouped.score_groups(self._state)
        self.is_active = True
        return points * self.weight, codes

    def _update_plain(self, rows: ChangedRows) -> ChangedRows:
        if rows is None:
            self.points = self._plugin.score(self._state, ALL_ROWS) * self.weight
            self._is_fresh = True
        elif len(rows) == 1:  # the one where the last pod went
            self.points[rows.item()] = self._plugin.score(self._state, rows).item() * self.weight
        elif len(rows):
            self.points[rows] = self._plugin.score(self._state, rows) * self.weight
        return rows

    def _update_normalized(self, normalizer: Normalizer, rows: ChangedRows, feasible: Mask) -> ChangedRows:
        if self._is_fresh and rows is not None and not len(rows) and (self._is_zero or feasible is self._competing):
            return rows
        self._competing = feasible
        if rows is None:
            self._raw = self._plugin.score(self._state, ALL_ROWS)
            self._is_zero = not self._raw.any()
        elif len(rows):
            self._raw[rows] = self._plugin.score(self._state, rows)
            self._is_zero = self._is_zero and not self._raw[rows].any()
        # When nobody has points, it does not matter who is feasible.
        span = normalizer.span(_NO_POINTS, _ONE_FEASIBLE) if self._is_zero else normalizer.span(self._raw, feasible)
        if span != self._span or not self._is_fresh or rows is None:
            self.points = normalizer.normalized(self._raw, span) * self.weight
            self._span, self._is_fresh = span, True
            return None
        if len(rows):
            self.points[rows] = normalizer.normalized(self._raw[rows], span) * self.weight
        return rows


class PodScore(ScoreSlot):
    """A plugin that scores each pod anew, with what its `pre_score` said."""

    def __init__(self, plugin: VectorPlugin[Any], weight: int, state: Any, feasible: Mask) -> None:
        super().__init__(plugin, weight)
        raw = plugin.score(state, ALL_ROWS)
        if isinstance(plugin, Normalizer):
            raw = plugin.normalized(raw, plugin.span(raw, feasible))
        self.points = raw * weight


class ZeroScore(ScoreSlot):
    """A plugin that gives every node 0 points."""

    def __init__(self, plugin: VectorPlugin[Any] | NodeScorePlugin, weight: int) -> None:
        super().__init__(plugin, weight)
        self.points = _ALL_ZERO


class NodeScore(ScoreSlot):
    """A plugin that scores one node at a time, and only feasible ones."""

    def __init__(
        self, plugin: NodeScorePlugin, weight: int, pod: Pod, *, cluster: Cluster, cycle: CycleState, feasible: Mask
    ) -> None:
        super().__init__(plugin, weight)
        nodes = [info for row in np.flatnonzero(feasible).tolist() if (info := cluster.nodes[row]) is not None]
        scores = {info.name: plugin.score_node(cycle, pod, info) for info in nodes}
        if isinstance(plugin, NodeScoreNormalizer):
            scores = plugin.normalize_scores(pod, scores)
        self.points = np.zeros(len(feasible), np.int64)
        for info in nodes:
            score = scores[info.name]
            if not 0 <= score <= MAX_NODE_SCORE:
                raise ValueError(f"plugin {self.name} gave node {info.name} {score} points, not 0 to {MAX_NODE_SCORE}")
            self.points[info.row] = score * weight


class BestRows:
    """The rows with the highest total. Others may fall after they were found; one that rises has to be told."""

    def __init__(self, totals: Scores) -> None:
        self._totals = totals
        self._find()

    def _find(self) -> None:
        self.highest = int(self._totals[self._totals.argmax()])
        self._rows: NDArray[np.intp] = (self._totals == self.highest).nonzero()[0]
        self._left = len(self._rows)

    def rise(self, row: int, total: int) -> None:
        """A row has a higher total than before."""
        if total > self.highest:
            self.highest, self._rows, self._left = total, np.array([row], np.intp), 1
        elif total == self.highest:
            self._find()

    def rows(self) -> NDArray[np.intp]:
        """All of them, in ascending order."""
        rows = self._rows[: self._left]
        found = rows[self._totals[rows] == self.highest]
        if not len(found):
            self._find()
            return self._rows
        return np.sort(found)

    def pick(self, lot: random.Random) -> int:
        """One of them by lot. Those that have fallen behind are noticed when the lot falls on them."""
        while True:
            place = lot.randrange(self._left) if self._left > 1 else 0
            row = self._rows.item(place)
            if self._totals.item(row) == self.highest:
                return row
            self._left -= 1
            self._rows[place] = self._rows[self._left]
            if not self._left:
                self._find()
