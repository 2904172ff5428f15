"""Cache the devices that the allocator found for a pod's claims on each node, for the next pod with the same requests.

Pods of one workload have claims that differ only in name. A result for a node is valid until one of the node's devices
or its allocation changes; usually one node changes per pod.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api import codec
from mooring.api.resource_v1 import DeviceClass
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.dra.allocated import Allocated
from mooring.scheduler.dra.allocator import OutOfTriesError, Solution, Tries, Wanted, allocate
from mooring.scheduler.dra.inventory import Inventory
from mooring.scheduler.framework import Codes, Rows, Scores

FOUND, CANNOT, GAVE_UP, INVALID_POOL = 0, 1, 2, 3
"""The possible results of a device search on one node."""
_SIZE = 64
_TRIES = 200_000
_TRIES_PER_NODE = 50
_MAX_TRIES_ON_NODE = 20_000


class SearchResults:
    """The results of the device searches for one set of requests, by node row: code, solution and score."""

    def __init__(self) -> None:
        self.codes: Codes = np.empty(0, np.int32)
        self.solutions: dict[int, Solution] = {}
        self.scores: Scores = np.empty(0, np.int64)
        self._evaluated_at: NDArray[np.int64] = np.empty(0, np.int64)

    def find_stale(self, changed_at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for which node rows a search is needed: those never searched, or changed since."""
        if len(self._evaluated_at) != len(changed_at):
            self.codes = np.zeros(len(changed_at), np.int32)
            self.scores = np.zeros(len(changed_at), np.int64)
            self._evaluated_at = np.full(len(changed_at), -1, np.int64)
            self.solutions = {}
        return self._evaluated_at < changed_at

    def record_result(self, row: int, code: int, solution: Solution | None, now: int) -> None:
        self.codes[row] = code
        self._evaluated_at[row] = now
        self.scores[row] = 0 if solution is None else solution.score
        if solution is None:
            self.solutions.pop(row, None)
        else:
            self.solutions[row] = solution


class DeviceSearchCache:
    """The cached results of device searches, by the requests of claims; shared by all profiles of a scheduler."""

    def __init__(self, cluster: Cluster, options: ConstraintOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._inventory = Inventory(cluster, options)
        self.allocated = Allocated(cluster, self._inventory)
        self._known: OrderedDict[bytes, SearchResults] = OrderedDict()

    def results_for(self, wanted: Sequence[Wanted]) -> SearchResults:
        """Return the cached results for claims with the given requests; some are stale until `evaluate` is called."""
        specs = [entry.claim.spec for entry in wanted]
        key = codec.encode((specs, self._cluster.changed_at(DeviceClass)))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = SearchResults()
            if len(self._known) > _SIZE:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return found

    def evaluate(self, results: SearchResults, wanted: Sequence[Wanted], rows: Rows, *, is_limited: bool) -> None:
        """Search devices again on those of the given node rows whose results are stale. Raise AllocationError."""
        self._inventory.refresh()
        self.allocated.refresh()
        stale = results.find_stale(self._inventory.changed_at) & self._cluster.labels.nodes
        chosen = np.zeros(len(stale), np.bool_)
        chosen[rows] = True
        tries = Tries(_TRIES + _TRIES_PER_NODE * len(self._cluster), _MAX_TRIES_ON_NODE) if is_limited else Tries()
        for row in np.flatnonzero(stale & chosen).tolist():
            pools = self._inventory.pools_on(row)
            try:
                solution = allocate(wanted, pools, self.allocated, self._options, tries)
            except OutOfTriesError:
                results.record_result(row, GAVE_UP, None, self._inventory.now)
                continue
            code = FOUND
            if solution is None:
                code = INVALID_POOL if any(entry.pool.is_invalid for entry in pools) else CANNOT
            results.record_result(row, code, solution, self._inventory.now)


def shared_search_cache(cluster: Cluster, options: ConstraintOptions) -> DeviceSearchCache:
    """Return the cache of device searches that all profiles share, so that one sees devices which another reserved."""
    found: DeviceSearchCache | None = cluster.shared.get(DeviceSearchCache)
    if found is None:
        found = cluster.shared[DeviceSearchCache] = DeviceSearchCache(cluster, options)
    return found
