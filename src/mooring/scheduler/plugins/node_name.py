"""NodeName: rejects all nodes except the one in `spec.nodeName`; rejects none if that is unset."""

from collections.abc import Sequence

import numpy as np

from mooring.api.core_v1 import Node, Pod, PodSpec
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo

REASON = "node(s) didn't match the requested node name"


class NodeName(fwk.FilterPlugin[tuple[Cluster, str]]):
    name = "NodeName"
    filters = fwk.Declaration(fwk.Part.POD, has_pre_point=False)

    def __init__(self, _arguments: fwk.PluginArguments, _handle: fwk.Handle) -> None:
        pass

    def applies_to(self, spec: PodSpec) -> fwk.Status | None:
        return None if spec.node_name else fwk.SUCCESS

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[tuple[Cluster, str]] | fwk.Status:
        wanted = pod.pod.spec.node_name
        return fwk.PreFilterResult((cluster, wanted)) if wanted else fwk.SUCCESS

    def filter(self, state: tuple[Cluster, str], rows: fwk.Rows) -> fwk.Verdicts:
        cluster, wanted = state
        codes = np.full(cluster.capacity, -1, np.int32)
        row = cluster.row_of.get(wanted)
        if row is not None:
            codes[row] = 0
        return fwk.Verdicts(codes[rows], lambda _: (REASON,))

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        return (fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD, _after_node_change),)


def _after_node_change(pod: Pod, _old: Node | None, new: Node | None) -> fwk.QueueingHint:
    return fwk.QueueingHint.of(new is not None and new.metadata.name == pod.spec.node_name)
