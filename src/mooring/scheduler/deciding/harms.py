"""The harm that pods would do on nodes, kept between pods that look alike: most nodes have not changed since the last.

``preemption.py`` asks here where nothing but resources decides and no budget is to be spared. What trying a node came
to (``dry_run.py``) is kept by shape and priority of the pod, until the node or one of its pods changes.
"""

from collections import Counter, OrderedDict

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodShape
from mooring.scheduler.deciding.disruptions import Budgets
from mooring.scheduler.deciding.dry_run import DryRun, dry_run
from mooring.scheduler.deciding.judgement import Judgement, only_resources_decide
from mooring.scheduler.deciding.known_rows import KnownRows
from mooring.scheduler.framework import Mask, Status
from mooring.scheduler.framework.nominations import Expected

_KEPT = 8
"""For so many kinds of pods."""
_PARTS = 5
"""That a harm consists of."""
_MORE = 64
"""So many rows are tried beside those that are asked for."""
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
        self._rows = KnownRows(cluster)
        self.refresh = self._rows.refresh
        self.fits: Mask = np.zeros(cluster.capacity, np.bool_)
        """Where displacing others would help, of the rows that are known."""
        self._parts = np.zeros((_PARTS, cluster.capacity), np.int64)
        self._refused: dict[int, Status] = {}
        self._tried: dict[int, tuple[DryRun, int]] = {}
        """By row, with which others it was tried, and its place among them."""

    def know(self, judgement: Judgement, rows: NDArray[np.intp]) -> bool:
        """Try those of some rows that are not known; whether that could be done, because resources alone decide."""
        missing = rows[~self._rows.known[rows]]
        if not len(missing):
            return only_resources_decide(judgement)
        if len(missing) < _MORE and not judgement.naming:  # others than named rows were not judged
            missing = self._with_others(missing)
        expected = self._rows.expected
        found = dry_run(
            judgement, self._cluster, missing.tolist(), self._priority, budgets=_NO_BUDGETS, expected=expected
        )
        if found is None:
            return False
        self._rows.learn(missing)
        self.fits[missing] = False
        self.fits[missing[found.places]] = True
        self._parts[:, missing[found.places]] = found.harms
        for place, row in enumerate(missing.tolist()):
            self._tried[row] = found, place
            if place in found.refused:
                self._refused[row] = found.refused[place]
        return True

    def _with_others(self, missing: NDArray[np.intp]) -> NDArray[np.intp]:
        """And with rows that have been tried and have changed since: together they cost little more than a few do."""
        forgotten = self._rows.learnt & ~self._rows.known & (self._cluster.priorities.lowest < self._priority)
        forgotten[missing] = False
        return np.concatenate((missing, forgotten.nonzero()[0][:_MORE]))

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
