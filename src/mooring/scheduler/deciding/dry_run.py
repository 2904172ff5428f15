"""Dry-run preemption on many nodes at once, where verdicts depend on resources alone, and cache its costs by node.

``preemption.py`` tries one node after the other in a trial and calls all filters. If every filter reads only the node
or its resources, this module computes the victims on all nodes together, in tables with a column for each node and a
layer for each of its pods of lower priority:

    start     used - sum of all layers      fits? otherwise preemption does not help on this node
    layer 0   + layer 0                     fits? the pod stays; otherwise it is a victim and is subtracted again
    layer 1   + layer 1                     ...

If pods are nominated for a node, the pod must also fit beside them. Most nodes do not change between two pods with the
same signature, so costs are cached where there is no disruption budget (`PreemptionCosts`).
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.constraints import disruption_budgets
from mooring.constraints.columns.revisions import NEVER, NO_ROWS, Reader, union
from mooring.scheduler.columns.cluster import Cluster, PlacedPod
from mooring.scheduler.columns.ranked_pods import NOT_YET, RankedPods
from mooring.scheduler.columns.signatures import PodSignature
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation, find_refusals
from mooring.scheduler.framework import Mask, Status, unresolvable
from mooring.scheduler.framework.nominations import NominatedPods

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
OFFSET = 1 << 31
"""The number added to each victim's priority before summing, so that an additional victim always raises the sum."""
Cost: TypeAlias = tuple[int, int, int, int, int]
"""The cost of preemption on a node, for comparison; the lowest is best, as in kube-scheduler.

The parts are the number of PDB violations, the highest priority of a victim, the sum of priorities, the number of
victims, and the negated start time of the earliest of the most important victims.
"""
_COST_PARTS = 5
_MAX_KEPT = 8
"""The maximum number of pairs of pod signature and priority with cached costs."""
_MAX_STALE_ADDED = 64
"""When missing node rows are computed, up to this number of stale rows is recomputed with them."""
_Table: TypeAlias = NDArray[np.int64]


class Budgets:
    """The PodDisruptionBudgets of a cluster. The budgets of pods with the same labels are looked up once."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets = list(budgets)
        self._selectors = [disruption_budgets.selector_of(budget) for budget in self._budgets]
        self._known: dict[Hashable, list[int]] = {}

    def __len__(self) -> int:
        return len(self._budgets)

    def split(self, pods: Sequence[PlacedPod]) -> tuple[list[int], list[int]]:
        """Return the indexes of the pods whose eviction would violate a budget, and of the other pods."""
        left: dict[int, int] = {}
        violating: list[int] = []
        others: list[int] = []
        for index, placed in enumerate(pods):
            exhausted = False
            for number in self._find_protecting_budgets(placed):
                budget = self._budgets[number]
                if placed.pod.metadata.name in budget.status.disrupted_pods:
                    continue
                left[number] = left.get(number, budget.status.disruptions_allowed) - 1
                exhausted = exhausted or left[number] < 0
            (violating if exhausted else others).append(index)
        return violating, others

    def _find_protecting_budgets(self, placed: PlacedPod) -> list[int]:
        found = self._known.get(placed.group)
        if found is None:
            metadata = placed.pod.metadata
            found = self._known[placed.group] = [
                number
                for number, (budget, selector) in enumerate(zip(self._budgets, self._selectors, strict=True))
                if budget.metadata.namespace == metadata.namespace
                and metadata.labels
                and not selector.is_empty()
                and selector.matches(metadata.labels)
            ]
        return found


class DryRun(msgspec.Struct, frozen=True, eq=False):
    """The victims and costs of preemption on a list of nodes, by a node's index in the list."""

    refused: dict[int, Status]
    """By node index, the reason why preemption does not help even if all pods of lower priority are evicted."""
    without: _Table
    """The used amounts on each node without its pods of lower priority."""
    helpful: NDArray[np.intp]
    """The indexes of the nodes where preemption helps."""
    costs: _Table
    """The costs on the nodes of `helpful`: a line for each part of a `Cost`, a column for each node."""
    layers: Mask
    """The victims on the nodes of `helpful`: a line for each layer, a column for each node."""
    orders: dict[int, list[int]]
    """By node index, the order of the pods in the layers where a disruption budget changes it."""

    def outcomes(self) -> list[Cost | Status]:
        """Return for each node the cost of preemption, or the status that says why preemption does not help there."""
        found: list[Cost | Status] = [NO_VICTIMS] * (len(self.refused) + len(self.helpful))
        for index, status in self.refused.items():
            found[index] = status
        for index, cost in zip(self.helpful.tolist(), zip(*self.costs.tolist(), strict=True), strict=True):
            found[index] = cost
        return found

    def victims(self, index: int) -> tuple[list[int], int]:
        """Return the victims on a helpful node, and how many of them violate a disruption budget.

        Victims are indexes into the node's pods of lower priority, which are sorted by importance.
        """
        column = int(np.searchsorted(self.helpful, index))
        gone: list[int] = self.layers[:, column].nonzero()[0].tolist()
        order = self.orders.get(index)
        return gone if order is None else sorted(order[rank] for rank in gone), int(self.costs[0, column])


def dry_run(
    evaluation: PodEvaluation,
    cluster: Cluster,
    tried: Sequence[int],
    least: int,
    *,
    budgets: Budgets,
    expected: NominatedPods | None,
) -> DryRun:
    """Find the victims with a priority below `least` on some node rows; filters must depend on resources alone.

    Pods protected by an exhausted budget are evicted last. `expected` are nominated pods that need room as well.
    """
    rows = np.array(tried, np.intp)
    layers = _Layers(cluster, tried, least, budgets)
    allocatable = cluster.resources.allocatable.take(rows, axis=1)
    used = cluster.resources.used.take(rows, axis=1) - layers.usage.sum(axis=0)
    reserved = None if expected is None or not expected.is_on[rows].any() else expected.usage.take(rows, axis=1)
    fits = layers.numbers > 0
    refused = dict.fromkeys((~fits).nonzero()[0].tolist(), NO_VICTIMS)
    for amounts in (used,) if reserved is None else (used + reserved, used):
        refused |= find_refusals(evaluation, rows, allocatable, amounts, fits)
    left = fits.nonzero()[0]
    layers.keep_nodes(left)
    more = None if reserved is None else reserved.take(left, axis=1)
    there, without = allocatable.take(left, axis=1), used.take(left, axis=1)
    victims = _find_victims(evaluation, rows[left], there, without, layers, reserved=more)
    return DryRun(refused, used, left, layers.costs(victims), victims, layers.orders)


def _find_victims(
    evaluation: PodEvaluation,
    rows: NDArray[np.intp],
    allocatable: _Table,
    used: _Table,
    layers: "_Layers",
    *,
    reserved: _Table | None,
) -> Mask:
    victims = layers.there.copy()
    # Filters that read the node alone have passed it before.
    filters = [slot for slot in evaluation.filters if not slot.reads_only_node and not slot.status.is_skip]
    for layer, usage in enumerate(layers.usage):
        including = used + usage
        refused = np.zeros(len(rows), np.bool_)
        for amounts in (including,) if reserved is None else (including, including + reserved):
            for slot in filters:
                ok = slot.fits_with(rows, allocatable, amounts)
                if ok is not None:
                    refused |= ~ok
        used = np.where(refused, used, including)
        victims[layer] &= refused
    return victims


class _Layers:
    """The pods of lower priority of several nodes, in the order in which preemption tries to keep them running."""

    def __init__(self, cluster: Cluster, rows: Sequence[int], least: int, budgets: Budgets) -> None:
        self.orders: dict[int, list[int]] = {}
        """By node index, the order of the pods on nodes where a disruption budget changes it."""
        violating = [0] * len(rows)
        nodes = [cluster.rank_pods(row) for row in rows]
        tables = RankedPods.tables(nodes, cluster.resources)
        has_budgets = len(budgets) > 0
        for index, ranked in enumerate(nodes):
            first = ranked.first_below(least)
            if first:
                tables[index] = tables[index][:, first:]
            if has_budgets:
                broken, others = budgets.split(ranked.placed[first:])
                if broken:
                    self.orders[index], violating[index] = [*broken, *others], len(broken)
                    tables[index] = tables[index][:, self.orders[index]]
        self._stack_tables(tables, len(cluster.resources.used))
        depths = np.arange(len(self.usage))[:, None]
        self.there: Mask = depths < self.numbers
        self._violating: Mask = depths < np.array(violating, np.int64)

    def _stack_tables(self, tables: list[_Table], lines: int) -> None:
        self.numbers: _Table = np.array([table.shape[1] for table in tables], np.int64)
        node = np.repeat(np.arange(len(tables)), self.numbers)
        layer = np.arange(len(node)) - np.repeat(np.cumsum(self.numbers) - self.numbers, self.numbers)
        stacked = np.zeros((int(self.numbers.max(initial=0)), 2 + lines, len(tables)), np.int64)
        if tables:
            stacked[layer, :, node] = np.concatenate(tables, axis=1).T
        self._priorities, self._started, self.usage = -stacked[:, 0], stacked[:, 1], stacked[:, 2:]

    def keep_nodes(self, columns: NDArray[np.intp]) -> None:
        """Drop all nodes except the given ones."""
        if len(columns) < len(self.numbers):
            self.usage = self.usage[:, :, columns]
            self._priorities, self._started = self._priorities[:, columns], self._started[:, columns]
            self.there, self._violating = self.there[:, columns], self._violating[:, columns]

    def costs(self, victims: Mask) -> _Table:
        violations = np.add.reduce(victims & self._violating, dtype=np.int64)
        priorities = np.where(victims, self._priorities, -OFFSET)
        highest = np.maximum.reduce(priorities, initial=-OFFSET)
        sums = np.add.reduce(priorities + OFFSET)
        numbers = np.add.reduce(victims, dtype=np.int64)
        important = victims & (priorities == highest)
        first = np.minimum.reduce(np.where(important, self._started, NOT_YET), initial=NOT_YET)
        first[numbers == 0] = 0
        return np.array((violations, highest, sums, numbers, -first))


class PreemptionCosts:
    """The cached costs of preemption of one profile, by pod signature and priority."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: OrderedDict[tuple[PodSignature, int], NodeCosts] = OrderedDict()

    def find_costs(self, signature: PodSignature, priority: int, expected: NominatedPods | None) -> "NodeCosts":
        """Return the current costs for pods of a signature. `expected` are nominated pods that need room as well."""
        found = self._kept.pop((signature, priority), None)
        if found is None or found.layout != self._cluster.layout:
            found = NodeCosts(self._cluster, priority)
        self._kept[signature, priority] = found
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        found.refresh(expected)
        return found


class NodeCosts:
    """The costs of preemption on each node for pods with one signature and priority.

    A cached row is valid until its node, the pods there, their importance or the nominated pods change.
    """

    def __init__(self, cluster: Cluster, priority: int) -> None:
        self._cluster = cluster
        self._priority = priority
        self.layout = cluster.layout
        self.fits: Mask = np.zeros(cluster.capacity, np.bool_)
        """By node row, whether preemption helps there; for rows with a cached result."""
        self._valid: Mask = np.zeros(cluster.capacity, np.bool_)
        self._computed: Mask = np.zeros(cluster.capacity, np.bool_)
        """The node rows that have a cached result, valid or stale."""
        self._valid_without_reservations: Mask = np.zeros(cluster.capacity, np.bool_)
        """The node rows whose cached result can only be stale because of nominated pods."""
        self._has_reservations: Mask = np.zeros(cluster.capacity, np.bool_)
        """The node rows for which pods were nominated when the result was cached."""
        self._expected: NominatedPods | None = None
        self._expected_at = self._ranks_at = NEVER
        self._reader = Reader(cluster.row_changes)
        self._parts = np.zeros((_COST_PARTS, cluster.capacity), np.int64)
        self._without = np.zeros_like(cluster.resources.used)
        self._reasons: dict[int, Status] = {}
        self.dry_runs: dict[int, tuple[DryRun, int]] = {}
        """By node row, the dry run that computed its cost, and the node's index in it."""

    def refresh(self, expected: NominatedPods | None) -> None:
        """Invalidate node rows whose node, pods, their importance, or nominated pods have changed."""
        ranks = self._cluster.rank_changes
        changed = union(self._reader.changes(), ranks.since(self._ranks_at))
        self._ranks_at = ranks.changed_at
        reserved = None
        if expected is not None and expected is self._expected:
            reserved = expected.changes.since(self._expected_at)
        if reserved is None:
            self._valid[self._has_reservations] = False
            reserved = NO_ROWS if expected is None else expected.is_on.nonzero()[0]
        self._expected, self._expected_at = expected, NEVER if expected is None else expected.changes.changed_at
        for rows in (changed, reserved):
            self._valid[slice(None) if rows is None else rows] = False
        self._valid_without_reservations[slice(None) if changed is None else changed] = False

    def _mark_computed(self, rows: NDArray[np.intp]) -> None:
        self._valid[rows] = self._computed[rows] = self._valid_without_reservations[rows] = True
        self._has_reservations[rows] = False if self._expected is None else self._expected.is_on[rows]

    def compute_missing(self, evaluation: PodEvaluation, rows: NDArray[np.intp]) -> None:
        """Compute and cache the missing costs of nodes."""
        expected, valid = self._expected, self._valid
        missing = rows[~valid[rows]]
        if len(missing) and expected is not None and not evaluation.naming:
            self._rule_out_reserved(evaluation, expected)
            missing = missing[~valid[missing]]
        if not len(missing):
            return
        if len(missing) < _MAX_STALE_ADDED and not evaluation.naming:  # others than named rows were not evaluated
            stale = self._computed & ~valid & (self._cluster.priorities.lowest < self._priority)
            stale[missing] = False
            missing = np.concatenate((missing, stale.nonzero()[0][:_MAX_STALE_ADDED]))
        tried, budgets = missing.tolist(), Budgets(())
        found = dry_run(evaluation, self._cluster, tried, self._priority, budgets=budgets, expected=expected)
        self._mark_computed(missing)
        self.fits[missing] = False
        self.fits[missing[found.helpful]] = True
        self._parts[:, missing[found.helpful]] = found.costs
        self._without[:, missing] = found.without
        for index, row in enumerate(tried):
            self.dry_runs[row] = found, index
            if index in found.refused:
                self._reasons[row] = found.refused[index]

    def _rule_out_reserved(self, evaluation: PodEvaluation, expected: NominatedPods) -> None:
        rows = (self._valid_without_reservations & ~self._valid & expected.is_on).nonzero()[0]
        if not len(rows):
            return
        allocatable, used = self._amounts_with_reservations(rows, expected)
        for slot in evaluation.filters:
            ok = None if slot.reads_only_node else slot.fits_with(rows, allocatable, used)
            if ok is not None:
                ruled_out = rows[~ok]
                self.fits[ruled_out] = False
                self._mark_computed(ruled_out)
                for row in ruled_out.tolist():
                    self._reasons.pop(row, None)  # the status is computed when it is read

    def _amounts_with_reservations(self, rows: NDArray[np.intp], expected: NominatedPods) -> tuple[_Table, _Table]:
        used = self._without.take(rows, axis=1) + expected.usage.take(rows, axis=1)
        return self._cluster.resources.allocatable.take(rows, axis=1), used

    def find_cheapest_row(self, rows: NDArray[np.intp]) -> int:
        """Return, of some node rows, the one with the lowest preemption cost, the first among equals."""
        parts = self._parts.take(rows, axis=1)
        is_least = np.logical_and.reduce(parts == np.minimum.reduce(parts, axis=1, keepdims=True))
        if is_least.any():  # often one is best in every part
            return int(rows[is_least.argmax()])
        for part in self._parts:
            if len(rows) > 1:
                values = part[rows]
                rows = rows[values == values.min()]
        return int(rows[0])

    def count_refusals(self, evaluation: PodEvaluation, rows: NDArray[np.intp]) -> Counter[Status]:
        """Return the number of nodes for each reason why preemption does not help; all must be cached."""
        unknown = np.array([row for row in rows.tolist() if row not in self._reasons], np.intp)
        if len(unknown) and self._expected is not None:
            fits = np.ones(len(unknown), np.bool_)
            found = find_refusals(evaluation, unknown, *self._amounts_with_reservations(unknown, self._expected), fits)
            self._reasons.update((int(unknown[index]), status) for index, status in found.items())
        return Counter(self._reasons[row] for row in rows.tolist())
