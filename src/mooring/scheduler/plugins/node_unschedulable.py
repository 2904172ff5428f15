"""NodeUnschedulable: rejects nodes with `spec.unschedulable`, unless the pod tolerates the taint of that name."""

from collections.abc import Sequence

import numpy as np

from mooring.api.core_v1 import Node, Pod, Taint, Toleration
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import NO_SCHEDULE, any_tolerates
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo

_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
REASON = "node(s) were unschedulable"


class NodeUnschedulable(fwk.FilterPlugin[Cluster]):
    name = "NodeUnschedulable"
    filters = fwk.Declaration(fwk.Part.TOLERATIONS, fwk.Input.NODE_CORDONED, has_pre_point=False)

    def __init__(self, _arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        self._options: ConstraintOptions = handle.features.constraints

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[Cluster] | fwk.Status:
        return fwk.SUCCESS if self._tolerates_cordon(pod.signature.spec.tolerations) else fwk.PreFilterResult(cluster)

    def filter(self, state: Cluster, rows: fwk.Rows) -> fwk.Verdicts:
        return fwk.Verdicts(-state.unschedulable[rows].astype(np.int32), lambda _: (REASON,))

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        return (
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD | fwk.Action.UPDATE_NODE_TAINT, self._after_node_change),
            fwk.wake_on(fwk.Kind.TARGET_POD, fwk.Action.UPDATE_POD_TOLERATION, self._after_own_change),
        )

    def _after_node_change(self, _pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
        was = old is None or old.spec.unschedulable
        return fwk.QueueingHint.of(was and new is not None and not new.spec.unschedulable)

    def _after_own_change(self, _pod: Pod, _old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        return fwk.QueueingHint.of(new is not None and self._tolerates_cordon(new.spec.tolerations))

    def _tolerates_cordon(self, tolerations: Sequence[Toleration]) -> bool:
        return any_tolerates(tolerations, _TAINT, self._options)
