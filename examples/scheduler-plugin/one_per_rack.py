"""OnePerRack: at most one pod of a team on each rack, evaluated for all nodes at once.

A pod names its team with the label `team`; a node names its rack with the label `racks.example.com/rack`.
"""

from collections.abc import Sequence

import numpy as np

from mooring.api import label_selector
from mooring.constraints.columns.revisions import Derived
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.pod_sets import PodChoice
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.framework import (
    SKIP,
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
    Rows,
    Status,
    Verdicts,
)

RACK = "racks.example.com/rack"
REASON = "node(s) are in a rack that has a pod of the team"


class _Team:
    """The placed pods of a team, by rack."""

    def __init__(self, cluster: Cluster, namespace: str, team: str) -> None:
        choice = PodChoice(label_selector.from_labels({"team": team}), frozenset({namespace}))
        self.pods = cluster.pod_sets.pod_set(choice)
        self.racks = self.pods.by_domain(cluster.topologies.of(RACK))
        self.derived = Derived()
        self.verified_at = -1


class OnePerRack(FilterPlugin[_Team]):
    name = "OnePerRack"
    filters = Declaration(Part.LABELS, rows=Input.NODE_LABELS, cluster=Input.PODS | Input.NODE_LABELS)

    def __init__(self, _arguments: PluginArguments, _handle: Handle) -> None:
        pass

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[_Team] | Status:
        team = pod.signature.labels.get("team")
        return PreFilterResult(_Team(cluster, pod.signature.namespace, team)) if team else SKIP

    def refresh(self, state: _Team) -> Derived:
        if state.racks.changed_at > state.verified_at:
            state.verified_at = state.racks.changed_at
            state.derived.change()
        return state.derived

    def filter(self, state: _Team, rows: Rows) -> Verdicts:
        is_taken = state.racks.table() > 0
        return Verdicts(is_taken[state.racks.topology.codes[rows]].astype(np.int32), lambda _: (REASON,))

    def events_to_register(self) -> Sequence[EventWithHint]:
        pods = ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_LABEL)
        return (
            EventWithHint(pods),
            EventWithHint(ClusterEvent(Kind.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventWithHint(ClusterEvent(Kind.TARGET_POD, Action.UPDATE_POD_LABEL)),
        )
