"""Evict pods from nodes with NoExecute taints that they do not tolerate.

The due time is recomputed when the node's taints or the pod's tolerations change: from `timeAdded`, the binding and the
first matching toleration of each taint (`mooring.constraints.tolerations.eviction_time`). A taint without `timeAdded`
counts from when it was first seen here. Read next: ``eviction.py``.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from mooring.api.core_v1 import Node, Pod, Taint, Toleration
from mooring.client import Informer
from mooring.constraints.expressions import parse_time_added
from mooring.constraints.tolerations import NO_EXECUTE, eviction_time
from mooring.controllers.controller import Context
from mooring.controllers.eviction import Eviction, bound_at, latest_moment, pods_by_node

TaintKey: TypeAlias = tuple[str, str]


class TaintEviction(Eviction):
    """Reconcile pods, by key."""

    name = "taint-eviction"
    metrics_prefix = "taint_eviction_controller"
    component = "taint-eviction-controller"
    event_reason = "TaintManagerEviction"
    condition_reason = "DeletionByTaintManager"
    condition_message = "Taint manager: deleting due to NoExecute taint"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes: Informer[Node] = context.informers.of(Node)
        self._by_node = pods_by_node(self.pods)
        self._seen: dict[str, dict[TaintKey, datetime]] = {}
        """By node, when taints without `timeAdded` were first seen."""
        self.nodes.add_handler(added=self._node_added, updated=self._node_updated, deleted=self._node_deleted)
        self.follow(self.pods, self._pod_changed)

    def _node_added(self, node: Node) -> None:
        self._note(node)
        if no_execute_taints(node):
            self._enqueue_pods_of(node)

    def _node_updated(self, old: Node, new: Node) -> None:
        if no_execute_taints(old) != no_execute_taints(new):
            self._note(new)
            self._enqueue_pods_of(new)

    def _node_deleted(self, node: Node) -> None:
        self._seen.pop(node.metadata.name, None)

    def _note(self, node: Node) -> None:
        known = self._seen.pop(node.metadata.name, {})
        undated = [_key(taint) for taint in no_execute_taints(node) if parse_time_added(taint) is None]
        if undated:
            now = self.clock.now()
            self._seen[node.metadata.name] = {key: known.get(key, now) for key in undated}

    def _enqueue_pods_of(self, node: Node) -> None:
        for pod in self._by_node.get(node.metadata.name):
            self.enqueue(pod)

    def _pod_changed(self, pod: Pod) -> None:
        node = self.nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is not None and no_execute_taints(node):
            self.enqueue(pod)

    def due(self, pod: Pod, now: datetime) -> datetime | None:
        node = self.nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is None:
            return None
        seen = self._seen.get(node.metadata.name, {})

        def added_at(taint: Taint) -> datetime | None:
            stamp = parse_time_added(taint)
            return seen.get(_key(taint)) if stamp is None else latest_moment(stamp, now)

        bound = latest_moment(bound_at(pod), now)
        taints = no_execute_taints(node)
        return eviction_time(taints, self.tolerations_of(pod), bound, self.options, now=now, added_at=added_at)

    def tolerations_of(self, pod: Pod) -> Sequence[Toleration]:
        return pod.spec.tolerations


def no_execute_taints(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]


def _key(taint: Taint) -> TaintKey:
    return taint.key, taint.value
