"""Cache the cost of preemption on each node for pods with the same signature, because most nodes do not change.

Called by ``preemption.py`` if verdicts depend on resources alone and there is no disruption budget. A result of
``dry_run.py`` is cached by signature and priority until the node or one of its pods changes.
"""

from collections import Counter, OrderedDict
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, NO_ROWS, Reader, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodSignature
from mooring.scheduler.deciding.disruptions import Budgets
from mooring.scheduler.deciding.dry_run import DryRun, dry_run, find_refusals
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation, only_resources_decide
from mooring.scheduler.framework import Mask, Status
from mooring.scheduler.framework.nominations import Expected

_MAX_KEPT = 8
"""The maximum number of pairs of pod signature and priority with cached costs."""
_PARTS = 5
"""The number of values in a preemption `Cost`."""
_MAX_STALE_ADDED = 64
"""When missing node rows are computed, up to this number of stale rows is recomputed with them."""
_NO_BUDGETS = Budgets(())
_Table: TypeAlias = NDArray[np.int64]


class PreemptionCosts:
    """The cached costs of preemption of one profile, by pod signature and priority."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: OrderedDict[tuple[PodSignature, int], NodeCosts] = OrderedDict()

    def of(self, signature: PodSignature, priority: int, expected: Expected | None) -> "NodeCosts":
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
        self._expected: Expected | None = None
        self._expected_at = self._ranks_at = NEVER
        self._reader = Reader(cluster.row_changes)
        self._parts = np.zeros((_PARTS, cluster.capacity), np.int64)
        self._without = np.zeros_like(cluster.resources.used)
        self._reasons: dict[int, Status] = {}
        self._dry_runs: dict[int, tuple[DryRun, int]] = {}

    def refresh(self, expected: Expected | None) -> None:
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

    def compute_missing(self, evaluation: PodEvaluation, rows: NDArray[np.intp]) -> bool:
        """Compute and cache the missing costs of nodes; return False if filters depend on more than resources."""
        expected, valid = self._expected, self._valid
        if not only_resources_decide(evaluation):
            return False
        missing = rows[~valid[rows]]
        if len(missing) and expected is not None and not evaluation.naming:
            self._rule_out(evaluation, expected)
            missing = missing[~valid[missing]]
        if not len(missing):
            return True
        if len(missing) < _MAX_STALE_ADDED and not evaluation.naming:  # others than named rows were not evaluated
            missing = self._with_others(missing)
        found = dry_run(
            evaluation, self._cluster, missing.tolist(), self._priority, budgets=_NO_BUDGETS, expected=expected
        )
        if found is None:
            return False
        self._mark_computed(missing)
        self.fits[missing] = False
        self.fits[missing[found.helpful]] = True
        self._parts[:, missing[found.helpful]] = found.costs
        self._without[:, missing] = found.without
        for index, row in enumerate(missing.tolist()):
            self._dry_runs[row] = found, index
            if index in found.refused:
                self._reasons[row] = found.refused[index]
        return True

    def _rule_out(self, evaluation: PodEvaluation, expected: Expected) -> None:
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

    def _amounts_with_reservations(self, rows: NDArray[np.intp], expected: Expected) -> tuple[_Table, _Table]:
        used = self._without.take(rows, axis=1) + expected.usage.take(rows, axis=1)
        return self._cluster.resources.allocatable.take(rows, axis=1), used

    def _with_others(self, missing: NDArray[np.intp]) -> NDArray[np.intp]:
        stale = self._computed & ~self._valid & (self._cluster.priorities.lowest < self._priority)
        stale[missing] = False
        return np.concatenate((missing, stale.nonzero()[0][:_MAX_STALE_ADDED]))

    def cheapest(self, rows: NDArray[np.intp]) -> int:
        """Return the node row with the lowest cost, the first among equals."""
        parts = self._parts.take(rows, axis=1)
        is_least = np.logical_and.reduce(parts == np.minimum.reduce(parts, axis=1, keepdims=True))
        if is_least.any():  # often one is best in every part
            return int(rows[is_least.argmax()])
        for part in self._parts:
            if len(rows) > 1:
                values = part[rows]
                rows = rows[values == values.min()]
        return int(rows[0])

    def dry_run_of(self, row: int) -> tuple[DryRun, int]:
        """Return the dry run that computed the cost of a node row, and the node's index in it."""
        return self._dry_runs[row]

    def count_refusals(self, evaluation: PodEvaluation, rows: NDArray[np.intp]) -> Counter[Status]:
        """Return the number of nodes for each reason why preemption does not help; all must be cached."""
        unknown = np.array([row for row in rows.tolist() if row not in self._reasons], np.intp)
        if len(unknown) and self._expected is not None:
            fits = np.ones(len(unknown), np.bool_)
            found = find_refusals(evaluation, unknown, *self._amounts_with_reservations(unknown, self._expected), fits)
            self._reasons.update((int(unknown[index]), status) for index, status in found.items())
        return Counter(self._reasons[row] for row in rows.tolist())
