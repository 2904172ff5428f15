"""GpuClustering: pods beside others that ask for the same number of cards; and a ledger of who is where."""

import numpy as np
from numpy.typing import NDArray

from gpu_policies.cards import WHOLE, Demand, demand_of
from gpu_policies.packing import MOST_GPU, CardPolicy
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.framework import MAX_NODE_SCORE, SUCCESS, Handle, PluginArguments, Rows, Scores, Status

_QUARTER = MAX_NODE_SCORE // 4


class GpuClustering(CardPolicy):
    """Nodes that have only pods of this kind first, then those that have some, then empty ones."""

    name = "GpuClustering"

    def __init__(self, arguments: PluginArguments, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self._cluster = handle.cluster
        self._pods: dict[int, NDArray[np.int64]] = {}
        """By kind, how many pods each row has."""
        handle.cluster.observers.append(self)

    def pod_placed(self, placed: PlacedPod, node: NodeInfo) -> None:
        self._count(placed, node.row, 1)

    def pod_left(self, placed: PlacedPod, node: NodeInfo) -> None:
        self._count(placed, node.row, -1)

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> Demand | Status:
        demand = super().pre_score(pod, cluster)
        return demand if isinstance(demand, Status) or demand.total else SUCCESS

    def score(self, state: Demand, rows: Rows) -> Scores:
        self.cards.sync()
        size = self._cluster.capacity
        kinds = sum(((self._of(kind, size)[rows] > 0).astype(np.int64) for kind in list(self._pods)), np.zeros(1))
        own = self._of(_kind(state), size)[rows] > 0
        base = np.where(own, np.where(kinds == 1, 3, 2), np.where(kinds == 0, 1, 0)) * _QUARTER
        fullness: Scores = _QUARTER * (MOST_GPU - self.cards.left[rows].sum(axis=1)) // MOST_GPU
        return (base + fullness).astype(np.int64)

    def _of(self, kind: int, size: int) -> NDArray[np.int64]:
        found = self._pods.get(kind)
        if found is None or len(found) < size:
            found = np.zeros(size, np.int64) if found is None else np.pad(found, (0, size - len(found)))
            self._pods[kind] = found
        return found

    def _count(self, placed: PlacedPod, row: int, number: int) -> None:
        demand = demand_of(placed.signature)
        if demand.total:
            self._of(_kind(demand), self._cluster.capacity)[row] += number


def _kind(demand: Demand) -> int:
    """How many whole cards; 0 for a part of one."""
    return demand.count if demand.part == WHOLE else 0
