"""NodeUnschedulable: keeps pods off nodes marked `unschedulable`, unless they tolerate the taint of that name."""

from collections.abc import Sequence

import numpy as np

from mooring.api.core_v1 import Node, Pod, Taint, Toleration
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import NO_SCHEDULE, any_tolerates
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.framework import (
    SUCCESS,
    Action,
    ClusterEvent,
    Declaration,
    EventWithHint,
    FilterPlugin,
    Handle,
    Input,
    Kind,
    Part,
    PluginArguments,
    PreFilterResult,
    QueueingHint,
    Rows,
    Status,
    Verdicts,
)

_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
REASON = "node(s) were unschedulable"


class NodeUnschedulable(FilterPlugin[Cluster]):
    name = "NodeUnschedulable"
    filters = Declaration(Part.TOLERATIONS, Input.NODE_CORDONED, has_pre_point=False)

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._options: ConstraintOptions = handle.features.constraints

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[Cluster] | Status:
        if self._tolerates(pod.signature.spec.tolerations):
            return SUCCESS
        return PreFilterResult(cluster)

    def filter(self, state: Cluster, rows: Rows) -> Verdicts:
        return Verdicts(-state.unschedulable[rows].astype(np.int32), lambda _: (REASON,))

    def events_to_register(self) -> Sequence[EventWithHint]:
        return (
            EventWithHint(ClusterEvent(Kind.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._after_node_change),
            EventWithHint(ClusterEvent(Kind.TARGET_POD, Action.UPDATE_POD_TOLERATION), self._after_own_change),
        )

    def _after_node_change(self, _pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        was = old is None or old.spec.unschedulable
        return QueueingHint.of(was and new is not None and not new.spec.unschedulable)

    def _after_own_change(self, _pod: Pod, _old: Pod | None, new: Pod | None) -> QueueingHint:
        return QueueingHint.of(new is not None and self._tolerates(new.spec.tolerations))

    def _tolerates(self, tolerations: Sequence[Toleration]) -> bool:
        return any_tolerates(tolerations, _TAINT, self._options)
