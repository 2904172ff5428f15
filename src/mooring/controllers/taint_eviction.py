"""Evicts pods from nodes whose NoExecute taints they do not tolerate, or no longer.

A pod's time is reckoned anew whenever its node's taints or its tolerations change: from `timeAdded`, the binding and
the first matching toleration of each taint (`mooring.constraints.tolerations.eviction_time`). Read next:
``eviction.py``.
"""

from datetime import datetime

from mooring.api.core_v1 import Node, Pod, Taint
from mooring.client import Informer
from mooring.constraints.tolerations import NO_EXECUTE, eviction_time
from mooring.controllers.controller import Context
from mooring.controllers.eviction import Eviction, bound_at, pods_by_node


class TaintEviction(Eviction):
    """Works on pods, by key."""

    name = "taint-eviction"
    metrics_prefix = "taint_eviction_controller"
    component = "taint-eviction-controller"
    event_reason = "TaintManagerEviction"
    condition_reason = "DeletionByTaintManager"
    condition_message = "Taint manager: deleting due to NoExecute taint"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._by_node = pods_by_node(self.pods)
        self._nodes.add_handler(added=self._node_added, updated=self._node_updated)
        self.pods.add_handler(added=self._pod_changed, updated=lambda _, pod: self._pod_changed(pod))

    def _node_added(self, node: Node) -> None:
        if no_execute_taints(node):
            self._enqueue_pods_of(node)

    def _node_updated(self, old: Node, new: Node) -> None:
        if no_execute_taints(old) != no_execute_taints(new):
            self._enqueue_pods_of(new)

    def _enqueue_pods_of(self, node: Node) -> None:
        for pod in self._by_node.get(node.metadata.name):
            self.enqueue(pod)

    def _pod_changed(self, pod: Pod) -> None:
        node = self._nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is not None and no_execute_taints(node):
            self.enqueue(pod)

    def due(self, pod: Pod) -> datetime | None:
        node = self._nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is None:
            return None
        return eviction_time(no_execute_taints(node), pod.spec.tolerations, bound_at(pod), self.options)


def no_execute_taints(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
