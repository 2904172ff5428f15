"""Try changes of the cluster: move pods, add and remove objects, and undo everything at the end.

    with cluster.trial(put=[a_larger_node]) as trial:
        trial.displace(a_pod)
        ...                       # evaluate; everything is undone when the block ends, also if a plugin raises

Used by preemption, nominated pods and `mooring explain`. Trials can be nested. Pods are moved through the cluster, so
that its change logs and observers see every change and its undoing.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource

if TYPE_CHECKING:  # ``cluster.py`` makes these
    from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod
    from mooring.scheduler.columns.ranked_pods import RankedPods


class Trial:
    """The changes made in a trial, in order to undo them. Put and remove objects before moving pods."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._undo_objects: list[Callable[[], None]] = []
        self._placed: dict[int, PlacedPod] = {}
        self._displaced: dict[int, PlacedPod] = {}
        self._nodes_before: dict[str, tuple[NodeInfo, dict[str, PlacedPod], RankedPods | None]] = {}

    def place(self, placed: "PlacedPod") -> None:
        """Place a pod on its node for the time of the trial."""
        self._save_node(placed)
        self._cluster.place(placed)
        if self._displaced.pop(id(placed), None) is None:
            self._placed[id(placed)] = placed

    def displace(self, placed: "PlacedPod") -> None:
        """Remove a pod from its node for the time of the trial."""
        self._save_node(placed)
        self._cluster.displace(placed)
        if self._placed.pop(id(placed), None) is None:
            self._displaced[id(placed)] = placed

    def change_objects(self, put: Iterable[Resource], remove: Iterable[Resource]) -> None:
        """Put and remove objects for the time of the trial, pods last."""
        pods: list[tuple[Pod, bool]] = []
        for is_there, things in ((False, remove), (True, put)):
            for thing in things:
                if isinstance(thing, Pod):
                    pods.append((thing, is_there))
                else:
                    self._change_object(thing, is_there=is_there)
        for pod, is_there in pods:
            before = self._cluster.placed(pod)
            if before is not None:
                self.displace(before)
            if is_there and pod.spec.node_name in self._cluster.row_of:
                self.place(self._cluster.build_placed_pod(pod, pod.spec.node_name))

    def _change_object(self, thing: Resource, *, is_there: bool) -> None:
        cluster, before = self._cluster, self._cluster.find(thing)
        if before is not None:
            self._undo_objects.append(lambda: cluster.put(before))
        elif is_there:
            self._undo_objects.append(lambda: cluster.remove(thing))
        if is_there:
            cluster.put(thing)
        elif before is not None:
            cluster.remove(before)

    def undo(self) -> None:
        for placed in self._placed.values():
            self._cluster.displace(placed)
        for placed in self._displaced.values():
            self._cluster.place(placed)
        for info, pods, ranked in self._nodes_before.values():
            info.placed, info.ranked = pods, ranked  # in their order, by which equals are ranked
        for undo in reversed(self._undo_objects):
            undo()

    def _save_node(self, placed: "PlacedPod") -> None:
        info = self._cluster.node(placed.node_name)
        if info is not None and info.name not in self._nodes_before:
            self._nodes_before[info.name] = info, info.placed, info.ranked
            info.placed = dict(info.placed)
