"""Track nominated pods: preemptors with a nominated node, which will have room once their victims are deleted.

Until a nominated pod is placed, pods of the same or lower priority must leave it this room. There can be thousands of
nominated pods and every attempt reads them, so the amounts that they reserve are kept as columns, for each priority of
the pods that must leave them room.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod
from mooring.api.states import priority
from mooring.constraints.columns.revisions import RowLog
from mooring.scheduler.columns.cluster import Cluster, PlacedPod, pod_key
from mooring.scheduler.columns.signatures import PodSignature

_MAX_PRIORITIES = 8
_Combination: TypeAlias = tuple[tuple[PodSignature, Hashable], ...]


class NominatedPods:
    """The nominated pods for which a pod must leave room, by node row. Valid until a node is added or removed."""

    def __init__(self, cluster: Cluster, nominated: Iterable[PlacedPod] = ()) -> None:
        self._cluster = cluster
        self._pods: dict[int, list[PlacedPod]] = {}
        self._by_combination: dict[_Combination, dict[int, None]] = {}
        self.node_revision = _node_revision(cluster)
        self.is_on: NDArray[np.bool_] = np.zeros(cluster.capacity, np.bool_)
        """For each node row, whether pods are nominated for its node."""
        self.usage: NDArray[np.int64] = np.zeros_like(cluster.resources.used)
        """The amounts that the nominated pods will use: a line for each resource, as in the resource columns."""
        self.changes = RowLog(cluster.capacity)
        """Log of the node rows whose nominated pods changed."""
        for placed in nominated:
            self.add(placed)

    def __len__(self) -> int:
        """Return the number of node rows with nominated pods."""
        return len(self._pods)

    def pods_on(self, row: int) -> Sequence[PlacedPod]:
        return self._pods.get(row, ())

    def signatures(self) -> Iterator[PodSignature]:
        """Yield the pod signatures of all nominated pods, possibly repeated."""
        for combination in self._by_combination:
            yield from (signature for signature, _ in combination)

    def distinct_combinations(self) -> Iterator[tuple[int, Sequence[PlacedPod]]]:
        """Yield one of the node rows with equal nominated pods (same signatures and domains), and the pods there."""
        for combination, rows in self._by_combination.items():
            if any(signature.terms.keys for signature, _ in combination):
                by_domains = {_domains_of(self._cluster, row, self.pods_on(row)): row for row in rows}
                yield from ((row, self.pods_on(row)) for row in by_domains.values())
            else:
                row = next(iter(rows))
                yield row, self.pods_on(row)

    def add(self, placed: PlacedPod) -> None:
        row = self._cluster.row_of.get(placed.node_name)
        if row is not None:
            self._set_pods(row, [*self.pods_on(row), placed])
            self.usage[:, row] += self._cluster.resources.usage_of(placed.signature)

    def discard(self, placed: PlacedPod) -> None:
        row = self._cluster.row_of.get(placed.node_name)
        pods = self.pods_on(row) if row is not None else ()
        if row is not None and any(other is placed for other in pods):
            self._set_pods(row, [other for other in pods if other is not placed])
            self.usage[:, row] -= self._cluster.resources.usage_of(placed.signature)

    def _set_pods(self, row: int, pods: list[PlacedPod]) -> None:
        before = self._pods.pop(row, None)
        if before is not None:
            combination = _combination_of(before)
            del self._by_combination[combination][row]
            if not self._by_combination[combination]:
                del self._by_combination[combination]
        if pods:
            self._pods[row] = pods
            self._by_combination.setdefault(_combination_of(pods), {})[row] = None
        self.is_on[row] = bool(pods)
        self.changes.note(row)


class Nominations:
    """All nominated pods of a scheduler, by pod and by nominated node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: dict[str, PlacedPod] = {}
        self._on_node: dict[str, dict[str, PlacedPod]] = {}
        self._expected: dict[int, NominatedPods] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def put(self, pod: Pod, node_name: str) -> None:
        """Nominate a node for a pod, in place of its earlier nominated node."""
        self.remove(pod)
        key, placed = pod_key(pod), self._cluster.build_placed_pod(pod, node_name)
        self._pods[key] = placed
        self._on_node.setdefault(node_name, {})[key] = placed
        for least, expected in self._current_by_priority().items():
            if priority(pod) >= least:
                expected.add(placed)

    def remove(self, pod: Pod) -> None:
        key = pod_key(pod)
        placed = self._pods.pop(key, None)
        if placed is None:
            return
        others = self._on_node[placed.node_name]
        del others[key]
        if not others:
            del self._on_node[placed.node_name]
        for expected in self._current_by_priority().values():
            expected.discard(placed)

    def node_of(self, pod: Pod) -> str | None:
        """Return the name of a pod's nominated node; None if it has none."""
        found = self._pods.get(pod_key(pod))
        return found.node_name if found is not None else None

    def pods_on(self, node_name: str) -> list[Pod]:
        return [nominated.pod for nominated in self._on_node.get(node_name, {}).values()]

    def find_nominated_on(self, node_name: str, pod: Pod) -> list[PlacedPod]:
        """Return the other pods nominated for a node, of the priority of `pod` or higher: it must leave them room."""
        own, least = pod_key(pod), priority(pod)
        nominated = self._on_node.get(node_name, {}).items()
        return [placed for key, placed in nominated if key != own and priority(placed.pod) >= least]

    def find_nominated(self, pod: Pod) -> NominatedPods | None:
        """Return the nominated pods on all nodes for which `pod` must leave room; None if there are none."""
        if not self._pods:
            return None
        own, least = self._pods.get(pod_key(pod)), priority(pod)
        if own is not None:
            return self._build_for_priority(least, without=own)
        kept = self._current_by_priority()
        found = kept.get(least)
        if found is None:
            found = self._expected[least] = self._build_for_priority(least)
            if len(self._expected) > _MAX_PRIORITIES:
                del self._expected[next(iter(self._expected))]
        return found if len(found) else None

    def _current_by_priority(self) -> Mapping[int, NominatedPods]:
        if self._expected:
            node_revision = _node_revision(self._cluster)
            if any(expected.node_revision != node_revision for expected in self._expected.values()):
                self._expected.clear()
        return self._expected

    def _build_for_priority(self, least: int, without: PlacedPod | None = None) -> NominatedPods:
        others = (placed for placed in self._pods.values() if placed is not without)
        return NominatedPods(self._cluster, (placed for placed in others if priority(placed.pod) >= least))


def _domains_of(cluster: Cluster, row: int, pods: Iterable[PlacedPod]) -> Hashable:
    """Return a key that says for each affinity term of the pods whether a node has the term's topology label."""
    info = cluster.nodes[row]
    labels = {} if info is None else info.node.metadata.labels
    return tuple(key.term.topology_key in labels for placed in pods for key in placed.signature.terms.keys)


def _combination_of(pods: Iterable[PlacedPod]) -> _Combination:
    return tuple((placed.signature, placed.group) for placed in pods)


def _node_revision(cluster: Cluster) -> tuple[int, int]:
    return cluster.nodes_changed_at, cluster.layout
