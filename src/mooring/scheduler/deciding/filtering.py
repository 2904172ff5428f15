"""Filter plugins in their slots: the verdicts of each on every row, brought up to date instead of made anew.

Called by ``evaluation.py``, which says what has changed since the last pod of the shape.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, ChangedRows, Changes, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodInfo, PodShape, Sight
from mooring.scheduler.framework import (
    ALL_ROWS,
    SKIP,
    SUCCESS,
    Code,
    Codes,
    CycleState,
    FilterPlugin,
    LikeRows,
    Mask,
    NodeFilterPlugin,
    NodePreFilterPlugin,
    PreFilterResult,
    QuietFilter,
    Reads,
    ReasonSets,
    RefreshedFilter,
    ResourceFilter,
    Rows,
    Status,
    Verdicts,
)
from mooring.scheduler.framework.verdicts import counted, status_of

_SHARED = 8
_Amounts: TypeAlias = NDArray[np.int64]
"""As in the resource columns: a line for each resource, here with a column for each row that is asked about."""


class FilterSlot:
    """A Filter plugin with what it says about a pod. Rows without a node are always `ok`; others mask them out."""

    def __init__(self, name: str, *, counts_pre_filter: bool) -> None:
        self.name = name
        self.counts_pre_filter = counts_pre_filter
        """Whether asking its `pre_filter` is counted."""
        self.status: Status = SUCCESS
        """`SKIP` when the plugin has nothing to say; a refusal of all nodes; or an error."""
        self.node_names: frozenset[str] | None = None
        """The only nodes that need to be looked at, when `pre_filter` named some."""
        self.sees_only_node = False
        """Whether pods that come and go make no difference to it."""
        self.asks = False
        """Whether it refuses some node; otherwise all pass, and `codes` and `ok` may not be there."""
        self.codes: Codes = np.empty(0, np.int32)
        self.ok: Mask = np.empty(0, np.bool_)
        self.reasons: Callable[[int], tuple[str, ...]] = lambda _: ()
        self._statuses: dict[int, Status] = {}
        """By code, for the same reasons."""
        self._shared: deque[tuple[Codes, Mask]] = deque(maxlen=_SHARED)
        """Codes for all rows that the plugin may show again, and who passes by them."""

    def update(self, _changes: Changes, _accepted: Mask) -> bool:
        """Judge what has changed; whether a verdict has. `accepted` are the rows that everybody before accepted."""
        return False

    def lets_pass(self, _row: int) -> bool:
        """Whether a row is known to pass, as of the last `update`."""
        return False

    def verdicts(self, _rows: Rows) -> Verdicts | Status | None:
        """What the plugin says now about some rows, past everything that is kept; None when all pass."""
        return None

    def woken_by(self, _shapes: Iterable[PodShape]) -> bool:
        """Whether it may have something to say if pods of some shapes came, though it has nothing to say now."""
        return True

    def likeness(self, _row: int) -> Hashable | None:
        """Equal for rows that have the same verdict, also after the same pods are moved; None when nobody knows."""
        return None

    @property
    def is_settled(self) -> bool:
        """Whether the next pod of the shape need not be looked at: the plugin neither names nodes nor refuses all."""
        return self.node_names is None and (self.status.is_success or self.status.is_skip)

    @property
    def sees_more_than_row(self) -> bool:
        """Whether its verdict on a row may change with something else than the node and its pods."""
        return True

    @property
    def waits_for_node(self) -> bool:
        """Whether its verdicts stay what they are as long as no node changes."""
        return False

    @property
    def sees_only_resources(self) -> bool:
        """Whether nothing else on a node makes a difference to it, besides the node itself: it knows `fits_with`."""
        return False

    def fits_with(self, _rows: NDArray[np.intp], _allocatable: _Amounts, _used: _Amounts) -> Mask | None:
        """Which of some rows would pass if other amounts were used there; None when all would."""
        return None

    def status_of(self, code: int) -> Status:
        """What a code among `codes` stands for."""
        found = self._statuses.get(code)
        if found is None:
            found = self._statuses[code] = status_of(code, self.reasons, self.name)
        return found

    def refusals_with(
        self, rows: NDArray[np.intp], allocatable: _Amounts, used: _Amounts
    ) -> list[tuple[Status, NDArray[np.intp]]]:
        """Why some rows would not pass then, each with its places among them."""
        codes, reasons = self._verdicts_with(rows, allocatable, used)
        told = self.status_of if reasons == self.reasons else lambda code: status_of(code, reasons, self.name)
        return [(told(code), (codes == code).nonzero()[0]) for code, _ in counted(codes)]

    def _verdicts_with(self, rows: NDArray[np.intp], _allocatable: _Amounts, _used: _Amounts) -> Verdicts:
        return Verdicts(self.codes[rows], self.reasons)

    def _take(self, verdicts: Verdicts, nodes: Mask, rows: ChangedRows) -> bool:
        """Keep verdicts; whether they are others than before."""
        codes, changed = verdicts.codes, verdicts.reasons != self.reasons
        if changed:
            self.reasons, self._statuses = verdicts.reasons, {}
        if rows is None:
            self._take_all(codes, nodes)
            return True
        if not self.codes.flags.writeable:
            self.codes, self.ok = self.codes.copy(), self.ok.copy()
        if len(rows) == 1:
            changed = self._take_one(codes.item(), rows.item(), nodes) or changed
        else:
            changed = changed or not np.array_equal(self.codes[rows], codes)
            self.codes[rows] = codes
            self.ok[rows] = (codes == 0) | ~nodes[rows]
            self.asks = not self.ok.all()
        return changed

    def _take_all(self, codes: Codes, nodes: Mask) -> None:
        """As `_take` for all rows. Of codes that cannot be written the plugin may show the same again."""
        self.codes = codes
        for known, ok in self._shared:
            if known is codes:
                self.ok, self.asks = ok, True
                return
        self.ok = (codes == 0) | ~nodes
        self.asks = not self.ok.all()
        if self.asks and not codes.flags.writeable:
            self.ok.flags.writeable = False
            self._shared.append((codes, self.ok))

    def _take_one(self, code: int, row: int, nodes: Mask) -> bool:
        """As `_take` for one row, the one where the last pod went, without the cost of working on arrays."""
        changed = code != self.codes.item(row)
        ok = code == 0 or not nodes[row]
        if changed:
            self.codes[row] = code
        if ok != self.ok.item(row):
            self.ok[row] = ok
            self.asks = not ok or not self.ok.all()
        return changed


class ShapeFilterer(msgspec.Struct, frozen=True):
    """A Filter plugin whose verdicts pods of a shape share, and what else it can do."""

    plugin: FilterPlugin[Any]
    sight: Sight
    refreshed: RefreshedFilter[Any] | None
    quiet: QuietFilter | None
    likeness: LikeRows[Any] | None
    resources: ResourceFilter[Any] | None
    counts_pre_filter: bool


class ShapeFilter(FilterSlot):
    """A plugin whose verdicts all pods of a shape share."""

    def __init__(self, filterer: ShapeFilterer, pod: PodInfo, cluster: Cluster) -> None:
        plugin = filterer.plugin
        super().__init__(plugin.name, counts_pre_filter=filterer.counts_pre_filter)
        self._plugin = plugin
        self._cluster = cluster
        self._refreshed = filterer.refreshed
        self._quiet = filterer.quiet
        self._likeness = filterer.likeness
        self._resources = filterer.resources
        self._verified_at = NEVER
        self._is_fresh = False
        self._reads_pods = Reads.PODS in plugin.reads
        self.sees_only_node = self._refreshed is None and not self._reads_pods
        self._state: Any = None
        self.is_pinned = False
        """Whether each pod names the node that it is made for."""
        found = plugin.pre_filter(pod.seen_by(filterer.sight), cluster)
        if isinstance(found, Status):
            self.status = found.by(plugin.name)
        else:
            self._state, self.node_names, self.is_pinned = found.state, found.node_names, found.is_pinned

    def update(self, changes: Changes, _accepted: Mask) -> bool:
        if self._state is None:
            return False
        rows = changes.either if self._reads_pods else changes.nodes
        if self._refreshed is not None:
            derived = self._refreshed.refresh(self._state)
            if derived is None:
                changed = self.status is not SKIP
                self.status, self.asks, self._is_fresh = SKIP, False, False
                return changed
            if derived.changed_at > self._verified_at:
                rows = union(rows, derived.since(self._verified_at))
            self.status, self._verified_at = SUCCESS, derived.changed_at
        if not self._is_fresh:
            rows = None
        if rows is not None and not len(rows):
            return False
        verdicts = self._plugin.filter(self._state, ALL_ROWS if rows is None else rows)
        if isinstance(verdicts, Status):
            self.status, self._is_fresh = verdicts.by(self.name), False
            return True
        self._is_fresh = True
        return self._take(verdicts, self._cluster.labels.nodes, rows)

    @property
    def is_settled(self) -> bool:
        return super().is_settled and not self.is_pinned

    @property
    def waits_for_node(self) -> bool:
        return self.sees_only_node or self._state is None

    def lets_pass(self, row: int) -> bool:
        return self._is_fresh and (not self.asks or bool(self.ok[row]))

    def judge_rows(self, rows: NDArray[np.intp]) -> None:
        """Judge a few rows and let the others pass, which nobody looks at; nothing is kept for the next pod."""
        self._is_fresh = self.asks = False
        if self._state is None:
            return
        verdicts = self.verdicts(rows)
        if verdicts is None:
            self.status = SKIP
        elif isinstance(verdicts, Status):
            self.status = verdicts.by(self.name)
        else:
            self.status = SUCCESS
            if verdicts.codes.any():
                codes = np.zeros(self._cluster.capacity, np.int32)
                codes[rows] = verdicts.codes
                self._take(Verdicts(codes, verdicts.reasons), self._cluster.labels.nodes, None)

    def verdicts(self, rows: Rows) -> Verdicts | Status | None:
        if self._state is None or (self._refreshed is not None and self._refreshed.refresh(self._state) is None):
            return None
        return self._plugin.filter(self._state, rows)

    def woken_by(self, shapes: Iterable[PodShape]) -> bool:
        return self._quiet is None or any(self._quiet.woken_by(shape) for shape in shapes)

    def likeness(self, row: int) -> Hashable | None:
        if self._state is None or self.status.is_skip:
            return True
        if self.sees_only_node:
            return not self.asks or bool(self.ok[row])
        return None if self._likeness is None else self._likeness.likeness(self._state, row)

    @property
    def sees_more_than_row(self) -> bool:
        return self._refreshed is not None

    @property
    def sees_only_resources(self) -> bool:
        return self.sees_only_node or self._resources is not None or self._state is None or self.status.is_skip

    def fits_with(self, rows: NDArray[np.intp], allocatable: _Amounts, used: _Amounts) -> Mask | None:
        if self._state is None or self.status.is_skip or (self.sees_only_node and not self.asks):
            return None
        if self.sees_only_node:
            return self.ok[rows]
        return None if self._resources is None else self._resources.fits_resources(self._state, allocatable, used)

    def _verdicts_with(self, rows: NDArray[np.intp], allocatable: _Amounts, used: _Amounts) -> Verdicts:
        if self.sees_only_node or self._resources is None:
            return super()._verdicts_with(rows, allocatable, used)
        return self._resources.filter_resources(self._state, allocatable, used)


class PassingFilter(FilterSlot):
    """A plugin that lets a pod go anywhere."""

    @property
    def waits_for_node(self) -> bool:
        return True

    def likeness(self, _row: int) -> Hashable:
        return True

    @property
    def sees_more_than_row(self) -> bool:
        return False

    @property
    def sees_only_resources(self) -> bool:
        return True


class PodFilter(FilterSlot):
    """A plugin that judges each pod anew, with what its `pre_filter` said."""

    def __init__(
        self, plugin: FilterPlugin[Any], pod: PodInfo, cluster: Cluster, found: PreFilterResult[Any] | Status
    ) -> None:
        super().__init__(plugin.name, counts_pre_filter=counts_pre_filter(plugin))
        self._plugin = plugin
        self._pod = pod
        self._cluster = cluster
        self._state: Any = None
        if isinstance(found, Status):
            self.status = found.by(plugin.name)
        else:
            self._state, self.node_names = found.state, found.node_names

    def update(self, _changes: Changes, _accepted: Mask) -> bool:
        if self._state is None:
            return False
        verdicts = self._plugin.filter(self._state, ALL_ROWS)
        if isinstance(verdicts, Status):
            self.status = verdicts.by(self.name)
        else:
            self._take(verdicts, self._cluster.labels.nodes, None)
        return True

    def verdicts(self, rows: Rows) -> Verdicts | Status | None:
        """Asks `pre_filter` again: this is for "what if", when pods have been moved."""
        found = self._plugin.pre_filter(self._pod, self._cluster)
        if isinstance(found, PreFilterResult):
            return self._plugin.filter(found.state, rows)
        return None if found.is_success or found.is_skip else found


class NodeFilter(FilterSlot):
    """A plugin that judges one node at a time, and only nodes that everybody before it accepted."""

    def __init__(self, plugin: NodeFilterPlugin, pod: PodInfo, cluster: Cluster, cycle: CycleState) -> None:
        super().__init__(plugin.name, counts_pre_filter=isinstance(plugin, NodePreFilterPlugin))
        self._plugin = plugin
        self._pod = pod
        self._cluster = cluster
        self._cycle = cycle
        self._sets: ReasonSets[tuple[str, ...]] = ReasonSets(tuple)
        if isinstance(plugin, NodePreFilterPlugin):
            self.status = plugin.pre_filter_pod(cycle, pod.pod, cluster).by(plugin.name)

    def update(self, _changes: Changes, accepted: Mask) -> bool:
        verdicts = self.verdicts(np.flatnonzero(accepted))
        if isinstance(verdicts, Status):
            self.status = verdicts
            return True
        codes = np.zeros(len(accepted), np.int32)
        codes[accepted] = verdicts.codes
        self._take(Verdicts(codes, verdicts.reasons), self._cluster.labels.nodes, None)
        return True

    def verdicts(self, rows: Rows) -> Verdicts | Status:
        wanted = range(self._cluster.capacity) if isinstance(rows, slice) else rows.tolist()
        codes = np.zeros(len(wanted), np.int32)
        for index, row in enumerate(wanted):
            info = self._cluster.nodes[row]
            status = SUCCESS if info is None else self._plugin.filter_node(self._cycle, self._pod.pod, info)
            if status.is_success:
                continue
            if not status.is_rejected:
                return status.by(self.name)
            code = self._sets.code(status.reasons)
            codes[index] = -code if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else code
        return Verdicts(codes, self._sets.reasons)


class _Passed(NamedTuple):
    """Who passes a filter: of those that were left before, by whom it lets pass."""

    before: Mask
    ok: Mask
    feasible: Mask
    number: int
    for_good: int
    """How many of the others it refuses for good."""


class Funnel:
    """The nodes that are left after each filter, and how many. Kept for the next pod of the shape."""

    def __init__(self, considered: Mask, filters: list[FilterSlot]) -> None:
        self.filters = filters
        self.moving = [(place, slot) for place, slot in enumerate(filters) if not slot.waits_for_node]
        """Those whose verdicts may change though no node does, and their places."""
        self.feasible = considered.copy()
        self._number = int(np.count_nonzero(considered))
        self._stages: list[tuple[Mask, int, tuple[str, int, int, int] | None]] = []
        """Before each filter, who is left and how many; and what to say about the filter, unless it does not apply."""
        self._known: deque[_Passed] = deque(maxlen=_SHARED)
        """For filters that show the same masks again."""
        self._said: list[tuple[str, int, int, int]] | None = None

    def take(self, slot: FilterSlot) -> None:
        self._said = None
        before, feasible = self._number, self.feasible
        if slot.status.is_skip:
            self._stages.append((feasible, before, None))
            return
        for_good = 0
        if slot.asks:
            passed = self._passed(slot)
            self._number = passed.number
            if self._number < before:
                for_good = passed.for_good
                self.feasible = passed.feasible
        said = slot.name, before, before - self._number - for_good, for_good
        self._stages.append((feasible, before, said))

    def _passed(self, slot: FilterSlot) -> "_Passed":
        """Who passes a filter of those that are left; the same as before where neither can have changed."""
        before = self.feasible
        for known in self._known:
            if known.before is before and known.ok is slot.ok:
                return known
        feasible = before & slot.ok
        number = int(np.count_nonzero(feasible))
        for_good = int(np.count_nonzero(before & (slot.codes < 0))) if number < np.count_nonzero(before) else 0
        passed = _Passed(before, slot.ok, feasible, number, for_good)
        if not slot.ok.flags.writeable:
            self._known.append(passed)
        return passed

    def drain(self, unchanged: int) -> None:
        """Go through the filters again, except for the first ones that are `unchanged`."""
        if unchanged < len(self._stages):
            self.feasible, self._number, _ = self._stages[unchanged]
            del self._stages[unchanged:]
        for slot in self.filters[len(self._stages) :]:
            self.take(slot)

    def outcome(self) -> tuple[Mask, int, list[tuple[str, int, int, int]]]:
        if self._said is None:
            self._said = [said for _, _, said in self._stages if said is not None]
        return self.feasible, self._number, self._said


def counts_pre_filter(plugin: object) -> bool:
    """Plugins that are known to have no PreFilter of their own say so; theirs is a detail of how they are written."""
    return bool(getattr(plugin, "counts_pre_filter", True))
