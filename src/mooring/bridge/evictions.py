"""Keep the cluster's taint manager from evicting pods whose constraints tolerate the taints of their node.

kube-controller-manager reads nodes and pods from separate caches: it may see a new value of a NoExecute taint before
the toleration that the bridge added for it, however early that was added. `EvictionReviews` therefore decides when the
taint manager marks a pod for deletion, by the node and the annotations as they are stored. The taint manager does not
repeat an eviction that was refused, so `TimedEviction` evicts when `tolerationSeconds` are over.
docs/decisions/bridge-evictions.md has the alternatives.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mooring.api.core_v1 import Node, Pod, Taint, Toleration
from mooring.api.errors import StatusError
from mooring.base import logs
from mooring.bridge import plan
from mooring.bridge.pods import COMPONENT, problems
from mooring.bridge.reviews import Json, allowed, object_in, refused
from mooring.client import Client, ClientError
from mooring.constraints import annotations
from mooring.constraints.expressions import parse_time_added
from mooring.constraints.tolerations import NO_EXECUTE, eviction_time, find_untolerated
from mooring.controllers.eviction import bound_at, latest_moment
from mooring.controllers.taint_eviction import TaintEviction, no_execute_taints

log = logs.get(__name__)


def is_released(pod: Pod) -> bool:
    """Return whether the pod's annotations are valid and those that it was released with."""
    return pod.metadata.annotations.get(plan.RELEASED) == plan.digest(pod) and not problems(pod)


def all_tolerations(pod: Pod) -> list[Toleration]:
    """Return the spec's tolerations and the annotation's, which hold for values that the spec does not name yet."""
    return [*pod.spec.tolerations, *annotations.read(pod.metadata.annotations).tolerations]


class EvictionReviews:
    """Review status updates by which a taint manager marks a pod for deletion."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def review(self, request: Mapping[str, Any]) -> Json:
        pod: Pod = object_in(request, "object", Pod)
        if pod.metadata.deletion_timestamp is not None or not is_released(pod):
            return allowed()
        try:
            node = await self._client.get(Node, pod.spec.node_name)
        except (StatusError, ClientError) as error:
            log.warning("cannot read node %s to review an eviction, which is allowed: %s", pod.spec.node_name, error)
            return allowed()
        now = self._client.clock.now()
        if _is_due(pod, node, now):
            return allowed()
        return refused(403, f"the constraints of the pod tolerate the taints of node {node.metadata.name}")


def _is_due(pod: Pod, node: Node, now: datetime) -> bool:
    def added_at(taint: Taint) -> datetime:
        stamp = parse_time_added(taint)
        return now if stamp is None else latest_moment(stamp, now)  # `TimedEviction` knows when it saw the taint

    bound = latest_moment(bound_at(pod), now)
    due = eviction_time(no_execute_taints(node), all_tolerations(pod), bound, plan.OPTIONS, now=now, added_at=added_at)
    return due is not None and due <= now


class TimedEviction(TaintEviction):
    """Evict released pods whose `tolerationSeconds` are over; untolerated taints are the taint manager's."""

    name = "bridge-eviction"
    metrics_prefix = "mooring_bridge_eviction"
    component = COMPONENT

    def due(self, pod: Pod, now: datetime) -> datetime | None:
        node = self.nodes.get(pod.spec.node_name) if is_released(pod) else None
        if node is None:
            return None
        effects = frozenset({NO_EXECUTE})
        if find_untolerated(node.spec.taints, all_tolerations(pod), plan.OPTIONS, effects) is not None:
            return None
        return super().due(pod, now)

    def tolerations_of(self, pod: Pod) -> list[Toleration]:
        return all_tolerations(pod)
