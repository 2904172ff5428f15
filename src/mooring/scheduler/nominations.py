"""Nominated pods: those that were promised room on a node once the pods that they displace have gone.

Until they are placed, pods of the same or lower priority have to leave them that room.
"""

from collections.abc import Mapping, Sequence

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import Cluster, pod_key

_NOBODY: Mapping[int, Sequence[Pod]] = {}


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


class Nominations:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, tuple[str, Pod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def put(self, pod: Pod, node_name: str) -> None:
        self._pods[pod_key(pod)] = (node_name, pod)

    def remove(self, pod: Pod) -> None:
        if self._pods:
            self._pods.pop(pod_key(pod), None)

    def node_of(self, pod: Pod) -> str | None:
        found = self._pods.get(pod_key(pod))
        return found[0] if found else None

    def on(self, node_name: str) -> list[Pod]:
        return [pod for name, pod in self._pods.values() if name == node_name]

    def expected(self, pod: Pod) -> Mapping[int, Sequence[Pod]]:
        """By row, the pods that `pod` has to leave room for."""
        if not self._pods:
            return _NOBODY
        found: dict[int, list[Pod]] = {}
        for key, (name, other) in self._pods.items():
            row = self._cluster.row_of.get(name)
            if row is not None and key != pod_key(pod) and priority(other) >= priority(pod):
                found.setdefault(row, []).append(other)
        return found
