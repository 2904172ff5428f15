"""All filters and scores of a profile for one shape, kept between pods that look alike.

Each plugin has a slot with its verdicts or points for every row. When the next pod of the shape comes, a slot judges
only the rows that have changed since (usually the one where the last pod went), or all rows when something that the
plugin looks at beyond a row has changed. Plugins that look at the pod itself are asked every time.

    cluster.node_changes ─┐                             ┌─► feasible ──► span of points
    cluster.pod_changes  ─┼─► filter slots: ok by row ──┘                     │
    plugin.refresh       ─┘   score slots: points by row ─────────────► total by row ──► best row

Called by ``engine.py``; the outcome for one pod is a `Judgement`. Read next: ``plan.py``, ``filtering.py``,
``scoring.py``.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import PodSpec
from mooring.constraints.columns.revisions import (
    EVERYTHING,
    NEVER,
    NO_ROWS,
    NOTHING,
    ChangedRows,
    Changes,
    Reader,
    both,
    next_revision,
    union,
)
from mooring.scheduler.columns.cluster import Cluster, PlacedPod
from mooring.scheduler.columns.shapes import PodInfo, pinned_node
from mooring.scheduler.deciding.filtering import (
    FilterSlot,
    Funnel,
    NodeFilter,
    PassingFilter,
    PodFilter,
    ShapeFilter,
    ShapeFilterer,
)
from mooring.scheduler.deciding.grouped_rows import GroupedRows
from mooring.scheduler.deciding.judgement import Judgement, status_on, status_with
from mooring.scheduler.deciding.plan import Plan, PodFilterer, PodScorer
from mooring.scheduler.deciding.promised_room import PromisedRoom, leave_room
from mooring.scheduler.deciding.scoring import (
    BestRows,
    NodeScore,
    PodScore,
    ScoreSlot,
    ShapeScore,
    ShapeScorer,
    ZeroScore,
)
from mooring.scheduler.deciding.totals import OUT, Totals
from mooring.scheduler.framework import (
    SKIP,
    SUCCESS,
    Mask,
    NodeFilterPlugin,
    PreFilterResult,
    Scores,
    Status,
    unresolvable,
)
from mooring.scheduler.framework.nominations import Expected

_FEW = 64
"""So many named nodes are judged one by one instead of with all others."""
_LARGE = 4096
"""From so many rows on, points that groups of rows share are added up by group."""
_CALM = 3
"""After so many pods that have changed little."""
_PART = 64
"""Working on some rows costs less than on all when they are at most one in so many."""


class Evaluation:
    """The plugins of a plan for one shape."""

    def __init__(self, plan: Plan, pod: PodInfo, cluster: Cluster) -> None:
        self._plan = plan
        self._cluster = cluster
        self.changed_at = 0
        """When a verdict of the shape's may last have changed."""
        self._begin(pod)

    def _begin(self, pod: PodInfo) -> None:
        """Start from nothing: for a new shape, or when the columns have got another form."""
        cluster = self._cluster
        self._layout = NEVER
        self._reader = Reader(cluster.node_changes, cluster.pod_changes)
        self._not_scored = EVERYTHING
        """What has changed since points were last given."""
        self._filters: list[ShapeFilter | PodFilterer | NodeFilterPlugin] = []
        for entry in self._plan.filters:
            slot = ShapeFilter(entry, pod, cluster) if isinstance(entry, ShapeFilterer) else entry
            if not (isinstance(slot, ShapeFilter) and slot.status.is_skip):
                self._filters.append(slot)
        self._spec: PodSpec | None = None
        self._filters_of_spec: list[ShapeFilter | PassingFilter | PodFilterer | NodeFilterPlugin] = []
        self._settled_filters: list[FilterSlot] | None = None
        """The same, where no plugin has to look at the next pod with the specification."""
        self._scores: list[ShapeScore | PodScorer] = []
        for scorer in self._plan.scores:
            found = ShapeScore(scorer, pod, cluster) if isinstance(scorer, ShapeScorer) else scorer
            if not (isinstance(found, ShapeScore) and not found.is_active):
                self._scores.append(found)
        self._scores_of_spec: list[ShapeScore | ZeroScore | PodScorer] = []
        self._settled_scores: list[ScoreSlot] | None = None
        shared = [slot for slot in self._scores if isinstance(slot, ShapeScore)]
        self._by_row = [slot for slot in shared if not slot.is_refreshed]
        self._refreshed = [slot for slot in shared if slot.is_refreshed]
        grouped = [slot for slot in shared if slot.is_grouped]
        self._by_group = grouped[0] if len(grouped) == 1 else None
        """The only plugin whose points concern the cluster as a whole, by group of rows; and the others."""
        self._ungrouped = [slot for slot in self._refreshed if slot is not self._by_group]
        self._base: Scores = np.zeros(cluster.capacity, np.int64)
        """The points of plugins that give them row by row."""
        self._others: list[ShapeScore] = []
        """Those that give points for the cluster as a whole and score the pods at all."""
        self._sums: Scores = self._base
        """The points of all SHAPE plugins ..."""
        self._totals = Totals(cluster.capacity)
        """... and of the feasible rows."""
        self._funnel: Funnel | None = None
        self._grouped: GroupedRows | None = None
        self._promised: PromisedRoom | None = None
        self._calm = 0
        """How many pods in a row have changed little."""
        self._layout = cluster.layout

    @property
    def is_worth_keeping(self) -> bool:
        """Whether another pod of the shape may come: not where the shape says which nodes they are made for."""
        return all(slot.node_names is None for slot in self._filters if isinstance(slot, ShapeFilter))

    def judge(self, pod: PodInfo, expected: Expected | None, *, needs_points: bool) -> Judgement:
        """Filter and score all nodes for a pod of this shape.

        `expected` are pods that have been promised room on some rows and that this one must leave it to. A single
        feasible node is taken without scoring it, unless somebody `needs_points`.
        """
        if self._layout != self._cluster.resources.layout:
            self._begin(pod)
        self._look_at(pod)
        judgement = Judgement(pod)
        try:
            self._pre_filter(judgement)
            if judgement.refusal is None:
                self._filter(judgement)
            if judgement.refusal is None and expected is not None:
                self._promised = self._promised or PromisedRoom(self._cluster)
                leave_room(judgement, self._cluster, expected, self._promised)
            if judgement.refusal is None and judgement.number_feasible > (0 if needs_points else 1):
                self._score(judgement, needs_points=needs_points)
        except BaseException:
            self._layout = NEVER  # some slots have missed the changes: start again
            raise
        return judgement

    def judge_on(self, pod: PodInfo, row: int, expected: Sequence[PlacedPod]) -> Judgement:
        """As `judge`, for one row alone: where the pod has been promised room."""
        if self._layout != self._cluster.resources.layout:
            self._begin(pod)
        self._look_at(pod)
        judgement = Judgement(pod)
        judgement.is_alike = False
        self._pre_filter(judgement)
        if judgement.refusal is not None or not judgement.considered[row]:
            return judgement
        status = status_on(judgement, row, only_pods_moved=self._lets_pass(judgement, row))
        if status.is_success and status_with(judgement, self._cluster, row, expected).is_success:
            judgement.asked = [(slot.name, 1, 0, 0) for slot in judgement.filters if not slot.status.is_skip]
            judgement.feasible = np.zeros_like(judgement.considered)
            judgement.feasible[row] = True
            judgement.number_feasible = 1
        return judgement

    def _lets_pass(self, judgement: Judgement, row: int) -> bool:
        """Whether it is known that all filters that look at nothing but the node let a row pass."""
        by_node = (slot for slot in judgement.filters if slot.sees_only_node)
        return self._reader.knows_nodes and all(slot.lets_pass(row) for slot in by_node)

    def _look_at(self, pod: PodInfo) -> None:
        """Ask once for all pods with a specification those plugins that need to know no more of a pod."""
        spec = pod.pod.spec
        if spec is self._spec or spec == self._spec:
            return
        filters = [entry.kept(spec) if isinstance(entry, PodFilterer) else entry for entry in self._filters]
        self._filters_of_spec = [entry for entry in filters if entry is not None]
        slots: list[FilterSlot] = [entry for entry in self._filters_of_spec if isinstance(entry, FilterSlot)]
        is_settled = len(slots) == len(self._filters_of_spec) and all(slot.is_settled for slot in slots)
        self._settled_filters = slots if is_settled else None
        scores = [entry.kept(pod, self._cluster) if isinstance(entry, PodScorer) else entry for entry in self._scores]
        self._scores_of_spec = [entry for entry in scores if entry is not None]
        known: list[ScoreSlot] = [entry for entry in self._scores_of_spec if isinstance(entry, ScoreSlot)]
        self._settled_scores = known if len(known) == len(self._scores_of_spec) else None
        self._spec = spec

    # -- filtering

    def _pre_filter(self, judgement: Judgement) -> None:
        """Find the filters that apply to the pod, until one rules out all nodes."""
        pod, cycle, cluster = judgement.pod, judgement.cycle, self._cluster
        if self._settled_filters is not None:
            judgement.filters, judgement.considered = self._settled_filters, cluster.labels.nodes
            return
        naming: list[FilterSlot] = []
        for entry in self._filters_of_spec:
            slot: FilterSlot
            if isinstance(entry, ShapeFilter):
                slot = entry
                if entry.is_pinned:
                    entry.node_names = frozenset({pinned_node(pod.pod.spec)})
            elif isinstance(entry, PassingFilter):
                slot = entry
            elif isinstance(entry, PodFilterer):
                found = entry.plugin.pre_filter(pod, cluster)
                if found is SKIP:
                    continue
                judgement.is_alike = judgement.is_alike and found is SUCCESS
                slot = entry.passes if found is SUCCESS else PodFilter(entry.plugin, pod, cluster, found)
                if isinstance(found, PreFilterResult):
                    cycle.pre_filter[slot.name] = found.state
            else:
                slot = NodeFilter(entry, pod, cluster, cycle)
                if slot.status.is_skip:
                    continue
                judgement.is_alike = False
            if slot.node_names is not None:
                naming.append(slot)
            status = slot.status
            if status is not SUCCESS and not (status.is_success or status.is_skip):
                judgement.refusal = status
                return
            judgement.filters.append(slot)
        judgement.considered = cluster.labels.nodes
        if naming:
            self._consider(judgement, naming)

    def _consider(self, judgement: Judgement, naming: list[FilterSlot]) -> None:
        """Look only at the nodes that all of `naming` name."""
        judgement.naming = tuple(sorted(slot.name for slot in naming))
        names = frozenset.intersection(*(slot.node_names for slot in naming if slot.node_names is not None))
        if not names:
            both = f"plugin(s) [{' '.join(judgement.naming)}] simultaneously"
            one = f"plugin {judgement.naming[0]}"
            judgement.refusal = unresolvable(f"node(s) didn't satisfy {one if len(naming) == 1 else both}")
        rows = [row for name in names if (row := self._cluster.row_of.get(name)) is not None]
        judgement.considered = np.zeros_like(judgement.considered)
        judgement.considered[rows] = True

    def _filter(self, judgement: Judgement) -> None:
        judgement.reached = "Filter"
        named = np.flatnonzero(judgement.considered) if judgement.naming else None
        if named is not None and len(named) > _FEW:
            named = None
        changes = self._reader.changes() if named is None else NOTHING
        if named is not None:
            self._not_scored = EVERYTHING  # nobody has looked what has changed
        else:
            self._not_scored = changes if self._not_scored is NOTHING else both(self._not_scored, changes)
        has_new_nodes = changes.nodes is None or len(changes.nodes) > 0
        if has_new_nodes:
            self.changed_at = next_revision()
        if judgement.is_shared and not judgement.naming:
            self._filter_alike(judgement, changes, has_new_nodes=has_new_nodes)
        else:
            self._filter_alone(judgement, changes, named)

    def _filter_alike(self, judgement: Judgement, changes: Changes, *, has_new_nodes: bool) -> None:
        """For pods that the shape says everything about: as for the last one, up to the first new verdict."""
        funnel = self._funnel
        slots: Iterable[tuple[int, FilterSlot]]
        if has_new_nodes or funnel is None or funnel.filters != judgement.filters:
            funnel = self._funnel = Funnel(judgement.considered, judgement.filters)
            slots = enumerate(judgement.filters)
        else:
            slots = funnel.moving
        unchanged = len(judgement.filters)
        for place, slot in slots:
            if slot.update(changes, judgement.considered):
                unchanged = min(unchanged, place)
                self.changed_at = next_revision()
                if not (slot.status.is_success or slot.status.is_skip):
                    self._give_up(judgement, slot.status)
                    return
        funnel.drain(unchanged)
        judgement.feasible, judgement.number_feasible, judgement.asked = funnel.outcome()

    def _filter_alone(self, judgement: Judgement, changes: Changes, named: NDArray[np.intp] | None) -> None:
        self._funnel = None
        funnel = Funnel(judgement.considered, judgement.filters)
        for slot in judgement.filters:
            if named is not None and isinstance(slot, ShapeFilter):
                slot.judge_rows(named)
            elif slot.update(changes, funnel.feasible):
                self.changed_at = next_revision()
            if not (slot.status.is_success or slot.status.is_skip):
                self._give_up(judgement, slot.status)
                return
            funnel.take(slot)
        judgement.feasible, judgement.number_feasible, judgement.asked = funnel.outcome()

    def _give_up(self, judgement: Judgement, status: Status) -> None:
        judgement.refusal = status
        self._layout = NEVER  # the slots after this one have missed the changes: start again

    # -- scoring

    def _score(self, judgement: Judgement, *, needs_points: bool) -> None:
        judgement.reached = "Score"
        slots = self._settled_scores
        own: list[Scores] = []
        if slots is None:
            slots = self._slots_for(judgement)
            own = [slot.points for slot in slots if isinstance(slot, PodScore | NodeScore)]
        feasible = judgement.feasible
        changes, self._not_scored = self._not_scored, NOTHING
        grouped = None if needs_points or own else self._slot_by_group(judgement, changes)
        by_row = _update(self._by_row, changes, feasible)
        refreshed = _update(self._refreshed if grouped is None else self._ungrouped, changes, feasible)
        if grouped is None or not self._rank_groups(judgement, grouped, changes, by_row, refreshed):
            refreshed = refreshed if grouped is None else union(refreshed, grouped.leave_out())
            self._calm = self._calm + 1 if self._are_few(union(changes.either, by_row)) else 0
            self._rank(judgement, by_row, refreshed, own)
        judgement.scores = [slot for slot in slots if slot.is_active]

    def _slots_for(self, judgement: Judgement) -> list[ScoreSlot]:
        """The scores of a pod that plugins have to look at; some of them may not be active."""
        slots: list[ScoreSlot] = []
        for entry in self._scores_of_spec:
            if isinstance(entry, ScoreSlot):
                slots.append(entry)
            elif (found := entry.score(judgement.pod, judgement.cycle, self._cluster, judgement.feasible)) is not None:
                slots.append(found)
        return slots

    def _slot_by_group(self, judgement: Judgement, changes: Changes) -> ShapeScore | None:
        """The plugin to ask by group, if there is one and it is worth while."""
        if (
            self._calm < _CALM
            or self._cluster.capacity < _LARGE
            or judgement.naming
            or not judgement.is_shared
            or not self._are_few(changes.either)
        ):
            return None
        return self._by_group

    def _are_few(self, rows: ChangedRows) -> bool:
        return rows is not None and _PART * len(rows) < self._cluster.capacity

    def _rank_groups(
        self, judgement: Judgement, slot: ShapeScore, changes: Changes, by_row: ChangedRows, refreshed: ChangedRows
    ) -> bool:
        """Find the best rows with points by group in addition to all others; False when the plugin gives none now."""
        feasible = judgement.feasible
        found = slot.update_groups(feasible)
        if found is None:
            return False
        points, codes = found
        self._add_base(by_row)
        others = [other.points for other in self._ungrouped if other.is_active]
        rescored = union(by_row, refreshed)
        rows, changed = self._grouped, union(changes.either, rescored)
        if rows is not None and feasible is not rows.feasible:
            changed = union(changed, (feasible != rows.feasible).nonzero()[0])
        if rows is None or rescored is None or changed is None or rows.codes is not codes or not self._are_few(changed):
            rows = self._grouped = GroupedRows(_sum([self._base, *others]), codes, feasible)
        else:
            if len(rescored):
                rows.base[rescored] = _sum([self._base[rescored], *(each[rescored] for each in others)])
            rows.update(changed, feasible)
        rows.rank(points)
        judgement.best = rows
        return True

    def _rank(self, judgement: Judgement, by_row: ChangedRows, refreshed: ChangedRows, own: list[Scores]) -> None:
        """Find the best rows by the points of all plugins, with those that the pod has of its `own`."""
        self._grouped = None
        rows = self._add_up(by_row, refreshed)
        if own or judgement.naming or not judgement.is_shared:
            judgement.best = BestRows(np.where(judgement.feasible, np.add.reduce([self._sums, *own]), OUT))
            self._totals.forget()
        else:
            judgement.best = self._totals.best(self._sums, judgement.feasible, rows)

    def _add_up(self, by_row: ChangedRows, refreshed: ChangedRows) -> ChangedRows:
        """Sum up where points have changed, those given by row or those for the cluster as a whole; and say where."""
        self._add_base(by_row)
        rows = union(by_row, refreshed)
        if rows is None:
            self._others = [slot for slot in self._refreshed if slot.is_active]
            self._sums = _sum([self._base, *(slot.points for slot in self._others)])
        elif len(rows) == 1 and self._others:
            row = rows.item()
            self._sums[row] = self._base.item(row) + _points_at(row, self._others)
        elif len(rows) and self._others:
            self._sums[rows] = _sum([self._base[rows], *(slot.points[rows] for slot in self._others)])
        return rows

    def _add_base(self, by_row: ChangedRows) -> None:
        plain = self._by_row
        if by_row is None:
            self._base = _sum([slot.points for slot in plain]) if plain else np.zeros(self._cluster.capacity, np.int64)
        elif len(by_row) == 1:
            row = by_row.item()
            self._base[row] = _points_at(row, plain)
        elif len(by_row):
            self._base[by_row] = _sum([slot.points[by_row] for slot in plain])


def _update(slots: Iterable[ShapeScore], changes: Changes, feasible: Mask) -> ChangedRows:
    """Let plugins score what has changed; the rows whose points are different now."""
    found: ChangedRows = NO_ROWS
    for slot in slots:
        rows = slot.update(changes, feasible)
        if rows is not found:
            found = union(found, rows)
    return found


def _points_at(row: int, slots: Iterable[ShapeScore]) -> int:
    total = 0
    for slot in slots:
        total += slot.points.item(row)
    return total


def _sum(arrays: list[Scores]) -> Scores:
    total = arrays[0] if len(arrays) == 1 else arrays[0] + arrays[1]
    for points in arrays[2:]:
        total += points
    return total
