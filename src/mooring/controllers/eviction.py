"""The base of controllers that evict pods by taints: a due time for each pod, a countdown, the eviction.

`TaintEviction` and `DeviceTaintEviction` compute when a pod is due. All state is in the API, so a countdown survives a
restart, and is cancelled as soon as the pod tolerates the taint again.
"""

from abc import abstractmethod
from datetime import datetime

from prometheus_client import Counter, Histogram

from mooring.api import errors, times
from mooring.api.core_v1 import Pod
from mooring.api.times import add_seconds
from mooring.base import logs
from mooring.client import Index, Informer, key_of
from mooring.controllers.controller import Context, Controller

_LONGEST_WAIT = 86400.0
"""Pods with longer countdowns are reconciled once a day."""
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
log = logs.get(__name__)


class Eviction(Controller):
    """Reconcile pods, by key. Subclasses compute when a pod is due."""

    metrics_prefix: str
    component: str
    event_reason: str
    condition_reason: str
    condition_message: str

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = context.options.constraints
        self.pods: Informer[Pod] = context.informers.of(Pod)
        self._recorder = context.recorder(self.component)
        self._counting_down: set[str] = set()
        """Pods for which a cancelled eviction is recorded as an event."""
        self._deletions = Counter(
            f"{self.metrics_prefix}_pod_deletions",
            f"Total number of Pods deleted by {type(self).__name__}Controller since its start.",
            registry=context.registry,
        )
        self._latency = Histogram(
            f"{self.metrics_prefix}_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion "
            f"via {type(self).__name__}Controller.",
            buckets=_BUCKETS,
            registry=context.registry,
        )

    @abstractmethod
    def due(self, pod: Pod, now: datetime) -> datetime | None:
        """Return when to evict the pod; None for never."""

    async def reconcile(self, key: str) -> float | None:
        pod = self.pods.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            self._counting_down.discard(key)
            return None
        now = self.clock.now()
        due = self.due(pod, now)
        if due is None:
            self._stays(key, pod)
            return None
        wait = (due - now).total_seconds()
        if wait > 0:
            self._counting_down.add(key)
            return min(wait, _LONGEST_WAIT)
        await self._evict(pod)
        self._counting_down.discard(key)
        self._latency.observe(-wait)
        return None

    def _stays(self, key: str, pod: Pod) -> None:
        if key in self._counting_down:
            self._counting_down.discard(key)
            self._recorder.event(pod, "Normal", self.event_reason, f"Cancelling deletion of Pod {key}")

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        self._recorder.event(pod, "Normal", self.event_reason, f"Marking for deletion Pod {key_of(pod)}")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": self.condition_reason,
            "message": self.condition_message,
            "lastTransitionTime": times.to_seconds(self.clock.now()),
        }
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self.client.patch(Pod, meta.name, body, meta.namespace, subresource="status")
            await self.client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        except errors.NotFound:  # already deleted
            return
        self._deletions.inc()
        log.info("evicted pod %s from node %s", key_of(pod), pod.spec.node_name, extra={"fields": {"by": self.name}})


def pods_by_node(pods: Informer[Pod]) -> Index[Pod]:
    """Index pods by the node that they are bound to."""
    return pods.index("node", lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])


def latest_moment(stamp: datetime, now: datetime) -> datetime:
    """Return the latest moment, up to `now`, that a timestamp of whole seconds may stand for.

    Countdowns start there: counted from the stamp itself, `tolerationSeconds` would end up to a second early.
    """
    return max(stamp, min(now, add_seconds(stamp, 1)))


def bound_at(pod: Pod) -> datetime:
    """Return when a pod was bound; if unknown, when it started or was created."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return times.parse(condition.last_transition_time)
    return times.parse(pod.status.start_time or pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
