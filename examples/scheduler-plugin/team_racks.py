"""TeamRacks: a rack that belongs to a team takes only that team's pods, and the fewer of them the better.

Nodes say whose they are with the label `racks.example.com/team`, pods with the label `team`. The plugin filters and
scores one node at a time, in plain Python, and says which events may help a pod that it has refused.
"""

from collections.abc import Sequence

from mooring.api.core_v1 import Node, Pod
from mooring.scheduler.columns.cluster import NodeInfo
from mooring.scheduler.framework import (
    MAX_NODE_SCORE,
    SUCCESS,
    Action,
    ClusterEvent,
    CycleState,
    EventWithHint,
    Handle,
    Kind,
    PluginArguments,
    QueueingHint,
    Status,
    unresolvable,
)


class TeamRacks:
    name = "TeamRacks"

    def __init__(self, arguments: PluginArguments, _handle: Handle) -> None:
        self._label = str(arguments.get("label", "racks.example.com/team"))

    def filter_node(self, _cycle: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if self._is_allowed(pod, node.node) else unresolvable("node(s) belong to another team")

    def score_node(self, _cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        team = pod.metadata.labels.get("team")
        same = sum(1 for other in node.pods if other.metadata.labels.get("team") == team)
        return MAX_NODE_SCORE // (1 + same)

    def events_to_register(self) -> Sequence[EventWithHint]:
        nodes = ClusterEvent(Kind.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventWithHint(nodes, self._after_node_change),)

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        was_allowed = old is not None and self._is_allowed(pod, old)
        return QueueingHint.of(new is not None and not was_allowed and self._is_allowed(pod, new))

    def _is_allowed(self, pod: Pod, node: Node) -> bool:
        owner = node.metadata.labels.get(self._label)
        return owner is None or owner == pod.metadata.labels.get("team")
