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
from mooring.scheduler.deciding.dry_run import DryRun, dry_run, refusals
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation, only_resources_decide
from mooring.scheduler.framework import Mask, Status
from mooring.scheduler.framework.nominations import Expected

_MAX_KEPT = 8
"""The maximum number of pairs of pod signature and priority with cached costs."""
_PARTS = 5
"""The number of values in a preemption `Cost`."""
_MORE = 64
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


class _RowCache:
    """The node rows whose cached cost is valid, stale or missing."""

    def __init__(self, cluster: Cluster) -> None:
        self._ranks = cluster.rank_changes
        self._ranks_at = NEVER
        self._reader = Reader(cluster.row_changes)
        self.known: Mask = np.zeros(cluster.capacity, np.bool_)
        """The node rows whose cached result is valid."""
        self.learnt: Mask = np.zeros(cluster.capacity, np.bool_)
        """The node rows that have a cached result, valid or stale."""
        self.lasting: Mask = np.zeros(cluster.capacity, np.bool_)
        """The node rows whose cached result can only be stale because of nominated pods."""
        self.expected: Expected | None = None
        """The nominated pods that need room as well."""
        self._expected_at = NEVER
        self._with_promises: Mask = np.zeros(cluster.capacity, np.bool_)

    def refresh(self, expected: Expected | None) -> None:
        """Invalidate node rows whose node, pods, their importance, or nominated pods have changed."""
        changed = union(self._reader.changes(), self._ranks.since(self._ranks_at))
        self._ranks_at = self._ranks.changed_at
        promises = None
        if expected is not None and expected is self.expected:
            promises = expected.changes.since(self._expected_at)
        if promises is None:
            self.known[self._with_promises] = False
            promises = NO_ROWS if expected is None else expected.is_on.nonzero()[0]
        self.expected, self._expected_at = expected, NEVER if expected is None else expected.changes.changed_at
        for rows in (changed, promises):
            self.known[slice(None) if rows is None else rows] = False
        self.lasting[slice(None) if changed is None else changed] = False

    def learn(self, rows: NDArray[np.intp]) -> None:
        self.known[rows] = self.learnt[rows] = self.lasting[rows] = True
        self._with_promises[rows] = False if self.expected is None else self.expected.is_on[rows]


class NodeCosts:
    def __init__(self, cluster: Cluster, priority: int) -> None:
        self._cluster = cluster
        self._priority = priority
        self.layout = cluster.layout
        self._rows = _RowCache(cluster)
        self.refresh = self._rows.refresh
        self.fits: Mask = np.zeros(cluster.capacity, np.bool_)
        """By node row, whether preemption helps there; for rows with a cached result."""
        self._parts = np.zeros((_PARTS, cluster.capacity), np.int64)
        self._without = np.zeros_like(cluster.resources.used)
        self._refused: dict[int, Status] = {}
        self._tried: dict[int, tuple[DryRun, int]] = {}

    def know(self, evaluation: PodEvaluation, rows: NDArray[np.intp]) -> bool:
        """Compute and cache the missing costs of nodes; return False if filters depend on more than resources."""
        expected, known = self._rows.expected, self._rows.known
        if not only_resources_decide(evaluation):
            return False
        missing = rows[~known[rows]]
        if len(missing) and expected is not None and not evaluation.naming:
            self._rule_out(evaluation, expected)
            missing = missing[~known[missing]]
        if not len(missing):
            return True
        if len(missing) < _MORE and not evaluation.naming:  # others than named rows were not evaluated
            missing = self._with_others(missing)
        found = dry_run(
            evaluation, self._cluster, missing.tolist(), self._priority, budgets=_NO_BUDGETS, expected=expected
        )
        if found is None:
            return False
        self._rows.learn(missing)
        self.fits[missing] = False
        self.fits[missing[found.places]] = True
        self._parts[:, missing[found.places]] = found.harms
        self._without[:, missing] = found.without
        for place, row in enumerate(missing.tolist()):
            self._tried[row] = found, place
            if place in found.refused:
                self._refused[row] = found.refused[place]
        return True

    def _rule_out(self, evaluation: PodEvaluation, expected: Expected) -> None:
        rows = (self._rows.lasting & ~self._rows.known & expected.is_on).nonzero()[0]
        if not len(rows):
            return
        allocatable, used = self._with_promises(rows, expected)
        for slot in evaluation.filters:
            ok = None if slot.reads_only_node else slot.fits_with(rows, allocatable, used)
            if ok is not None:
                ruled_out = rows[~ok]
                self.fits[ruled_out] = False
                self._rows.learn(ruled_out)
                for row in ruled_out.tolist():
                    self._refused.pop(row, None)  # the status is computed when it is read

    def _with_promises(self, rows: NDArray[np.intp], expected: Expected) -> tuple[_Table, _Table]:
        used = self._without.take(rows, axis=1) + expected.usage.take(rows, axis=1)
        return self._cluster.resources.allocatable.take(rows, axis=1), used

    def _with_others(self, missing: NDArray[np.intp]) -> NDArray[np.intp]:
        forgotten = self._rows.learnt & ~self._rows.known & (self._cluster.priorities.lowest < self._priority)
        forgotten[missing] = False
        return np.concatenate((missing, forgotten.nonzero()[0][:_MORE]))

    def least(self, rows: NDArray[np.intp]) -> int:
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

    def find_dry_run(self, row: int) -> tuple[DryRun, int]:
        """Return the dry run that computed the cost of a node row, and the node's index in it."""
        return self._tried[row]

    def refusals(self, evaluation: PodEvaluation, rows: NDArray[np.intp]) -> Counter[Status]:
        """Return the number of nodes for each reason why preemption does not help; all must be cached."""
        untold = np.array([row for row in rows.tolist() if row not in self._refused], np.intp)
        if len(untold) and self._rows.expected is not None:
            fits = np.ones(len(untold), np.bool_)
            found = refusals(evaluation, untold, *self._with_promises(untold, self._rows.expected), fits)
            self._refused.update((int(untold[place]), status) for place, status in found.items())
        return Counter(self._refused[row] for row in rows.tolist())
