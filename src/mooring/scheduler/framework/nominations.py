"""Nominated pods: those that were promised room on a node once the pods that they displace have gone.

Until they are placed, pods of the same or lower priority have to leave them that room.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mooring.api.core_v1 import Pod
from mooring.api.states import priority
from mooring.scheduler.columns.cluster import Cluster, PlacedPod, pod_key

Expected: TypeAlias = Mapping[int, Sequence[PlacedPod]]
"""By row, pods that have been promised room there, as they will be placed."""
_NOBODY: Expected = {}


class Nominations:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, PlacedPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def put(self, pod: Pod, node_name: str) -> None:
        self._pods[pod_key(pod)] = self._cluster.as_placed(pod, node_name)

    def remove(self, pod: Pod) -> None:
        if self._pods:
            self._pods.pop(pod_key(pod), None)

    def node_of(self, pod: Pod) -> str | None:
        found = self._pods.get(pod_key(pod))
        return found.node_name if found is not None else None

    def on(self, node_name: str) -> list[Pod]:
        return [promised.pod for promised in self._pods.values() if promised.node_name == node_name]

    def expected(self, pod: Pod) -> Expected:
        """The pods that `pod` has to leave room for."""
        if not self._pods:
            return _NOBODY
        own, least = pod_key(pod), priority(pod)
        found: dict[int, list[PlacedPod]] = {}
        for key, promised in self._pods.items():
            row = self._cluster.row_of.get(promised.node_name)
            if row is not None and key != own and priority(promised.pod) >= least:
                found.setdefault(row, []).append(promised)
        return found
