"""NodeName: a pod that names its node goes there and nowhere else."""

from collections.abc import Sequence

import numpy as np

from mooring.api.core_v1 import Node, Pod, PodSpec
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
    Kind,
    Part,
    PluginArguments,
    PreFilterResult,
    QueueingHint,
    Rows,
    Status,
    Verdicts,
)

REASON = "node(s) didn't match the requested node name"


class NodeName(FilterPlugin[tuple[Cluster, str]]):
    name = "NodeName"
    filters = Declaration(Part.POD, has_pre_point=False)

    def __init__(self, _arguments: PluginArguments, _handle: Handle) -> None:
        pass

    def applies_to(self, spec: PodSpec) -> Status | None:
        return None if spec.node_name else SUCCESS

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[tuple[Cluster, str]] | Status:
        wanted = pod.pod.spec.node_name
        return PreFilterResult((cluster, wanted)) if wanted else SUCCESS

    def filter(self, state: tuple[Cluster, str], rows: Rows) -> Verdicts:
        cluster, wanted = state
        codes = np.full(cluster.capacity, -1, np.int32)
        row = cluster.row_of.get(wanted)
        if row is not None:
            codes[row] = 0
        return Verdicts(codes[rows], lambda _: (REASON,))

    def events_to_register(self) -> Sequence[EventWithHint]:
        return (EventWithHint(ClusterEvent(Kind.NODE, Action.ADD), _after_node_change),)


def _after_node_change(pod: Pod, _old: Node | None, new: Node | None) -> QueueingHint:
    return QueueingHint.of(new is not None and new.metadata.name == pod.spec.node_name)
