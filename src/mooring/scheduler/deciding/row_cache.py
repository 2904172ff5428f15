"""Track which cached results of rows are valid; a result depends on the node, its pods, and its nominated pods.

Used by ``preemption_cost.py`` and ``nominated_reservations.py``.
"""

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, NO_ROWS, Reader, union
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import Mask
from mooring.scheduler.framework.nominations import Expected


class RowCache:
    """The sets of rows with valid, stale and missing results, for one layout of the columns."""

    def __init__(self, cluster: Cluster) -> None:
        self._ranks = cluster.rank_changes
        self._ranks_at = NEVER
        self._reader = Reader(cluster.node_changes, cluster.pod_changes)
        self.known: Mask = np.zeros(cluster.capacity, np.bool_)
        """The rows whose cached result is valid."""
        self.learnt: Mask = np.zeros(cluster.capacity, np.bool_)
        """The rows that have a cached result, valid or stale."""
        self.lasting: Mask = np.zeros(cluster.capacity, np.bool_)
        """The rows whose cached result can only be stale because of nominated pods."""
        self.expected: Expected | None = None
        """The nominated pods that need room as well."""
        self._expected_at = NEVER
        self._with_promises: Mask = np.zeros(cluster.capacity, np.bool_)

    def refresh(self, expected: Expected | None) -> None:
        """Invalidate rows whose node, pods, their importance, or nominated pods have changed."""
        changed = union(self._reader.changes().either, self._ranks.since(self._ranks_at))
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
