"""Evicts pods from nodes whose NoExecute taints they do not tolerate, or no longer.

A pod's time is reckoned anew whenever its node's taints or its tolerations change: from `timeAdded`, the binding and
the first matching toleration of each taint (`mooring.constraints.tolerations.eviction_time`). Nothing is remembered
that the API does not hold, so a countdown goes on over a restart, and ends as soon as the pod is tolerated again.
"""

from datetime import datetime

from prometheus_client import Counter, Histogram

from mooring.api import errors, times
from mooring.api.core_v1 import Node, Pod, Taint
from mooring.base import logs
from mooring.client import Index, Informer, key_of
from mooring.constraints.tolerations import NO_EXECUTE, eviction_time
from mooring.controllers.controller import Context, Controller

_LONGEST_WAIT = 86400.0
"""Who has longer to stay is looked at once a day."""
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
_REASON = "TaintManagerEviction"
log = logs.get(__name__)


class TaintEviction(Controller):
    """Works on pods, by key."""

    name = "taint-eviction"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options.constraints
        self._recorder = context.recorder("taint-eviction-controller")
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._by_node = pods_by_node(self._pods)
        self._nodes.add_handler(added=self._node_added, updated=self._node_updated)
        self._pods.add_handler(added=self._pod_changed, updated=lambda _, pod: self._pod_changed(pod))
        self._counting_down: set[str] = set()
        """Pods that people may be told of when they stay after all."""
        self._deletions = Counter(
            "taint_eviction_controller_pod_deletions",
            "Total number of Pods deleted by TaintEvictionController since its start.",
            registry=context.registry,
        )
        self._latency = Histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion "
            "via TaintEvictionController.",
            buckets=_BUCKETS,
            registry=context.registry,
        )

    def _node_added(self, node: Node) -> None:
        if no_execute_taints(node):
            self._enqueue_pods_of(node)

    def _node_updated(self, old: Node, new: Node) -> None:
        if old.spec.taints is not new.spec.taints and no_execute_taints(old) != no_execute_taints(new):
            self._enqueue_pods_of(new)

    def _enqueue_pods_of(self, node: Node) -> None:
        for pod in self._by_node.get(node.metadata.name):
            self.enqueue(pod)

    def _pod_changed(self, pod: Pod) -> None:
        node = self._nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is not None and no_execute_taints(node):
            self.enqueue(pod)

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            self._counting_down.discard(key)
            return None
        due = self._due(pod)
        if due is None:
            self._stays(key, pod)
            return None
        wait = (due - self.clock.now()).total_seconds()
        if wait > 0:
            self._counting_down.add(key)
            return min(wait, _LONGEST_WAIT)
        await self._evict(pod)
        self._counting_down.discard(key)
        self._latency.observe(-wait)
        return None

    def _due(self, pod: Pod) -> datetime | None:
        """When the pod has to go; None for never."""
        node = self._nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is None:
            return None
        return eviction_time(no_execute_taints(node), pod.spec.tolerations, bound_at(pod), self._options)

    def _stays(self, key: str, pod: Pod) -> None:
        if key in self._counting_down:
            self._counting_down.discard(key)
            self._recorder.event(pod, "Normal", _REASON, f"Cancelling deletion of Pod {key}")

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        self._recorder.event(pod, "Normal", _REASON, f"Marking for deletion Pod {key_of(pod)}")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": times.to_seconds(self.clock.now()),
        }
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self.client.patch(Pod, meta.name, body, meta.namespace, subresource="status")
            await self.client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        except errors.NotFound:  # somebody else was faster
            return
        self._deletions.inc()
        log.info("evicted pod %s from node %s", key_of(pod), pod.spec.node_name)


def pods_by_node(pods: Informer[Pod]) -> Index[Pod]:
    """Pods by the node that they are bound to."""
    return pods.index("node", lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])


def no_execute_taints(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]


def bound_at(pod: Pod) -> datetime:
    """When a pod got its node; where nobody wrote that down, when it started or was created."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return times.parse(condition.last_transition_time)
    return times.parse(pod.status.start_time or pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
