"""The harm that pods would do on nodes, kept between pods that look alike: most nodes have not changed since the last.

``preemption.py`` asks here where nothing but resources decides and no budget is to be spared. What trying a node came
to (``dry_run.py``) is kept by shape and priority of the pod, until the node or one of its pods changes.
"""

from collections import Counter, OrderedDict

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, NO_ROWS, Reader, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodShape
from mooring.scheduler.deciding.disruptions import Budgets
from mooring.scheduler.deciding.dry_run import DryRun, dry_run
from mooring.scheduler.deciding.judgement import Judgement, only_resources_decide
from mooring.scheduler.framework import Mask, Status
from mooring.scheduler.framework.nominations import Expected

_KEPT = 8
"""For so many kinds of pods."""
_PARTS = 5
"""That a harm consists of."""
_NO_BUDGETS = Budgets(())


class KnownHarms:
    """The harms of pods by shape and priority, for one profile."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: OrderedDict[tuple[PodShape, int], Harms] = OrderedDict()

    def of(self, shape: PodShape, priority: int, expected: Expected | None) -> "Harms":
        """Up to date: what has changed is not known any more. `expected` are pods that are to have room as well."""
        found = self._kept.pop((shape, priority), None)
        if found is None or found.layout != self._cluster.layout:
            found = Harms(self._cluster, priority)
        self._kept[shape, priority] = found
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        found.refresh(expected)
        return found


class Harms:
    def __init__(self, cluster: Cluster, priority: int) -> None:
        self._cluster = cluster
        self._priority = priority
        self.layout = cluster.layout
        self._reader = Reader(cluster.node_changes, cluster.pod_changes)
        self._ranks_at = NEVER
        self._is_known: Mask = np.zeros(cluster.capacity, np.bool_)
        self.fits: Mask = np.zeros(cluster.capacity, np.bool_)
        """Where displacing others would help, of the rows that are known."""
        self._parts = np.zeros((_PARTS, cluster.capacity), np.int64)
        self._refused: dict[int, Status] = {}
        self._tried: dict[int, tuple[DryRun, int]] = {}
        """By row, with which others it was tried, and its place among them."""
        self._expected: Expected | None = None
        self._expected_at = NEVER
        self._with_promises: Mask = np.zeros(cluster.capacity, np.bool_)
        """Rows that were tried with pods which are expected there."""

    def refresh(self, expected: Expected | None) -> None:
        """Forget what has changed: nodes, their pods, how these are ranked, and who is expected."""
        ranks = self._cluster.rank_changes
        changed = union(self._reader.changes().either, ranks.since(self._ranks_at))
        self._ranks_at = ranks.changed_at
        promises = expected.changes.since(self._expected_at) if expected is not None else None
        if expected is not self._expected or promises is None:
            self._is_known[self._with_promises] = False
            promises = NO_ROWS if expected is None else expected.is_on.nonzero()[0]
        self._expected, self._expected_at = expected, NEVER if expected is None else expected.changes.changed_at
        changed = union(changed, promises)
        if changed is None:
            self._is_known[:] = False
        else:
            self._is_known[changed] = False

    def know(self, judgement: Judgement, rows: NDArray[np.intp]) -> bool:
        """Try those of some rows that are not known; whether that could be done, because resources alone decide."""
        missing = rows[~self._is_known[rows]]
        if not len(missing):
            return only_resources_decide(judgement)
        found = dry_run(
            judgement, self._cluster, missing.tolist(), self._priority, budgets=_NO_BUDGETS, expected=self._expected
        )
        if found is None:
            return False
        self._is_known[missing] = True
        self._with_promises[missing] = False if self._expected is None else self._expected.is_on[missing]
        self.fits[missing] = False
        self.fits[missing[found.places]] = True
        self._parts[:, missing[found.places]] = found.harms
        for place, row in enumerate(missing.tolist()):
            self._tried[row] = found, place
            if place in found.refused:
                self._refused[row] = found.refused[place]
        return True

    def least(self, rows: NDArray[np.intp]) -> int:
        """The row with the least harm, the first among equals."""
        for part in self._parts:
            if len(rows) > 1:
                values = part[rows]
                rows = rows[values == values.min()]
        return int(rows[0])

    def tried(self, row: int) -> tuple[DryRun, int]:
        """With which others a row was tried, and its place among them."""
        return self._tried[row]

    def refusals(self, rows: NDArray[np.intp]) -> Counter[Status]:
        """Why rows would not do."""
        return Counter(self._refused[row] for row in rows.tolist())
