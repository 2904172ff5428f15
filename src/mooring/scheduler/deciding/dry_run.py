"""Dry-run preemption on many nodes at once, where the verdicts depend on resources alone.

``preemption.py`` tries one node after the other in a trial and calls all filters. If every filter reads only the node
or its resources, this module computes the victims on all nodes together, in tables with a column for each node and a
layer for each of its pods of lower priority:

    start     used - sum of all layers      fits? otherwise preemption does not help on this node
    layer 0   + layer 0                     fits? the pod stays; otherwise it is a victim and is subtracted again
    layer 1   + layer 1                     ...

If pods are nominated for a node, the pod must also fit beside them.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.ranked_pods import NOT_YET, RankedPods
from mooring.scheduler.deciding.disruptions import Budgets
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation, only_resources_decide
from mooring.scheduler.framework import Mask, Status, unresolvable
from mooring.scheduler.framework.nominations import Expected

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
OFFSET = 1 << 31
"""The number added to each victim's priority before summing, so that an additional victim always raises the sum."""
Cost: TypeAlias = tuple[int, int, int, int, int]
"""The cost of preemption on a node, for comparison; the lowest is best, as in kube-scheduler.

The parts are the number of PDB violations, the highest priority of a victim, the sum of priorities, the number of
victims, and the negated start time of the earliest of the most important victims.
"""
_Table: TypeAlias = NDArray[np.int64]


class DryRun:
    """The victims and costs of preemption on several nodes, by a node's index in the list of these nodes."""

    def __init__(
        self,
        refused: dict[int, Status],
        helpful: NDArray[np.intp],
        victims: Mask,
        layers: "_Layers",
        *,
        without: _Table,
    ) -> None:
        self.refused = refused
        """By node index, the reason why preemption does not help even if all pods of lower priority are evicted."""
        self.without = without
        """The used amounts on each node without its pods of lower priority."""
        self.helpful = helpful
        """The indexes of the nodes where preemption helps."""
        self.costs = layers.costs(victims)
        """The costs on the nodes of `helpful`: a line for each part of a `Cost`, a column for each node."""
        self._victims = victims
        self._orders = layers.orders

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
        gone: list[int] = self._victims[:, column].nonzero()[0].tolist()
        order = self._orders.get(index)
        return gone if order is None else sorted(order[rank] for rank in gone), int(self.costs[0, column])


def dry_run(
    evaluation: PodEvaluation,
    cluster: Cluster,
    tried: Sequence[int],
    least: int,
    *,
    budgets: Budgets,
    expected: Expected | None,
) -> DryRun | None:
    """Find the victims with a priority below `least` on some rows; None if filters depend on more than resources.

    Pods protected by an exhausted budget are evicted last. `expected` are nominated pods that need room as well.
    """
    if not only_resources_decide(evaluation):
        return None
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
    layers.keep(left)
    more = None if reserved is None else reserved.take(left, axis=1)
    there, without = allocatable.take(left, axis=1), used.take(left, axis=1)
    victims = _spare(evaluation, rows[left], there, without, layers, reserved=more)
    return DryRun(refused, left, victims, layers, without=used)


def find_refusals(
    evaluation: PodEvaluation, rows: NDArray[np.intp], allocatable: _Table, used: _Table, fits: Mask
) -> dict[int, Status]:
    """Return, by node index, why the pod would not fit with the given used amounts; clear these nodes in `fits`."""
    found: dict[int, Status] = {}
    for slot in evaluation.filters:
        ok = slot.fits_with(rows, allocatable, used)
        if ok is not None and len(lacking := (fits & ~ok).nonzero()[0]):
            for status, indexes in slot.refusals_with(rows[lacking], allocatable[:, lacking], used[:, lacking]):
                found |= dict.fromkeys(lacking[indexes].tolist(), status)
            fits &= ok
    return found


def _spare(
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
        self._stack(tables, len(cluster.resources.used))
        depths = np.arange(len(self.usage))[:, None]
        self.there: Mask = depths < self.numbers
        self._violating: Mask = depths < np.array(violating, np.int64)

    def _stack(self, tables: list[_Table], lines: int) -> None:
        self.numbers: _Table = np.array([table.shape[1] for table in tables], np.int64)
        node = np.repeat(np.arange(len(tables)), self.numbers)
        layer = np.arange(len(node)) - np.repeat(np.cumsum(self.numbers) - self.numbers, self.numbers)
        stacked = np.zeros((int(self.numbers.max(initial=0)), 2 + lines, len(tables)), np.int64)
        if tables:
            stacked[layer, :, node] = np.concatenate(tables, axis=1).T
        self._priorities, self._started, self.usage = -stacked[:, 0], stacked[:, 1], stacked[:, 2:]

    def keep(self, columns: NDArray[np.intp]) -> None:
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
