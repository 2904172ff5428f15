"""Review pods, node updates and evictions for the bridge. Stateless, so that every replica can serve.

`PodReviews` adds the gate to new pods with constraints, refuses invalid annotations, and refuses to change them after
the release. `NodeReviews` admits a new value of a NoExecute taint after the pods on that node have tolerations for it.

kube-controller-manager reads nodes and pods from separate caches: it may see the new value before the toleration,
however early that was added. `EvictionReviews` therefore decides when its taint manager marks a pod for deletion, by
the node and the annotations as they are stored. The taint manager does not repeat an eviction that was refused, so
`TimedEviction` evicts when `tolerationSeconds` are over. docs/decisions/bridge-evictions.md has the alternatives.
"""

import asyncio
import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mooring.api import codec
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.core_v1 import Node, Pod, Taint, Toleration
from mooring.api.errors import Conflict, StatusError
from mooring.api.states import has_ended
from mooring.base import logs
from mooring.bridge import plan
from mooring.bridge.pods import COMPONENT, find_problems, patch_pod
from mooring.client import Client, ClientError
from mooring.constraints import annotations
from mooring.constraints.tolerations import NO_EXECUTE, eviction_time, find_untolerated
from mooring.controllers.taint_eviction import (
    TaintEviction,
    binding_time,
    latest_time_of_addition,
    latest_unrounded_time,
    no_execute_taints,
)

Json = dict[str, Any]


class ReviewError(ValueError):
    """The body of a webhook request is no AdmissionReview."""


def parse_review(body: bytes) -> tuple[Json, str, str]:
    """Return the request in an AdmissionReview, its uid and its version. Raise ReviewError."""
    try:
        review = json.loads(body)
        request = review["request"]
        return request, str(request["uid"]), str(review["apiVersion"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReviewError("this is no AdmissionReview") from error


def encode_review(response: Json, uid: str, version: str) -> bytes:
    """Return the JSON of an AdmissionReview with a response to the request `uid`."""
    return json.dumps({"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": uid, **response}}).encode()


def decode_object(request: Mapping[str, Any], name: str, cls: Any) -> Any:
    try:
        return codec.decode_tree(request.get(name), cls, FieldValidation.IGNORE).object
    except DecodeError as error:
        raise ReviewError(f"request.{name}: {error}") from error


def allow_response(patch: list[Json] | None = None) -> Json:
    if not patch:
        return {"allowed": True}
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}


def rejection_response(code: int, message: str) -> Json:
    return {"allowed": False, "status": {"code": code, "message": message}}


_ATTEMPTS = 8
_CHANGED = (
    "metadata.annotations: Forbidden: the constraints of a pod cannot be changed once it is released; make a new pod"
)


class PodReviews:
    """The webhook on created and updated pods: adds the gate, and refuses invalid or late constraints."""

    async def review(self, request: Mapping[str, Any]) -> Json:
        pod = decode_object(request, "object", Pod)
        old = decode_object(request, "oldObject", Pod) if request.get("oldObject") else None
        if old is not None:
            return self._review_update(old, pod)
        if not annotations.has_constraints(pod.metadata.annotations):
            return allow_response()
        wrong = find_problems(pod)
        if wrong:
            return rejection_response(422, "; ".join(wrong))
        if plan.is_gated(pod):
            return allow_response()
        gate, place = {"name": annotations.GATE}, "/spec/schedulingGates"
        if pod.spec.scheduling_gates:
            return allow_response([{"op": "add", "path": f"{place}/-", "value": gate}])
        return allow_response([{"op": "add", "path": place, "value": [gate]}])

    def _review_update(self, old: Pod, new: Pod) -> Json:
        if plan.digest(old) == plan.digest(new):
            return allow_response()
        if not plan.is_gated(old):
            return rejection_response(403, _CHANGED)
        wrong = find_problems(new)
        return rejection_response(422, "; ".join(wrong)) if wrong else allow_response()


class NodeReviews:
    """The webhook on node updates: adds tolerations to the node's pods before a new NoExecute taint is stored."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def review(self, request: Mapping[str, Any]) -> Json:
        if not request.get("oldObject") or not request.get("object"):
            return allow_response()
        old, new = decode_object(request, "oldObject", Node), decode_object(request, "object", Node)
        there = {(taint.key, taint.value) for taint in old.spec.taints if taint.effect == NO_EXECUTE}
        added = [
            taint for taint in new.spec.taints if taint.effect == NO_EXECUTE and (taint.key, taint.value) not in there
        ]
        if not added or request.get("dryRun"):
            return allow_response()
        try:
            await self._add_tolerations(new.metadata.name, added)
        except (StatusError, ClientError) as error:
            return rejection_response(
                503, f"the pods on the node could not be prepared for the taint, try again: {error}"
            )
        return allow_response()

    async def _add_tolerations(self, node: str, taints: list[Taint]) -> None:
        facts = plan.ClusterFacts(taints, {})
        found = await self._client.list(Pod, field_selector=f"spec.nodeName={node}", managed_fields=False)
        await asyncio.gather(*(self._add_tolerations_to(pod, facts) for pod in found.items))

    async def _add_tolerations_to(self, pod: Pod | None, facts: plan.ClusterFacts) -> None:
        for left in reversed(range(_ATTEMPTS)):
            operations = _toleration_patch(pod, facts) if pod is not None else []
            if pod is None or not operations:
                return
            try:
                await patch_pod(self._client, pod, operations)
                return
            except Conflict:
                if not left:
                    raise
            pod = await self._client.find(Pod, pod.metadata.name, pod.metadata.namespace)


def _toleration_patch(pod: Pod, facts: plan.ClusterFacts) -> list[plan.Operation]:
    if has_ended(pod) or not is_released(pod):
        return []
    try:
        return plan.additions(pod, facts)
    except plan.TooManyTaintsError:
        return []  # the controller records an event; the node update is not refused


log = logs.get(__name__)


def is_released(pod: Pod) -> bool:
    """Return whether the pod's annotations are valid and those that it was released with."""
    return pod.metadata.annotations.get(plan.RELEASED) == plan.digest(pod) and not find_problems(pod)


def all_tolerations(pod: Pod) -> list[Toleration]:
    """Return the tolerations of a pod's spec, and those of its annotation, which may be wider."""
    return [*pod.spec.tolerations, *annotations.read(pod.metadata.annotations).tolerations]


class EvictionReviews:
    """The webhook on pods that a taint manager marks for eviction: refuses it while constraints tolerate the taints."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def review(self, request: Mapping[str, Any]) -> Json:
        pod: Pod = decode_object(request, "object", Pod)
        if pod.metadata.deletion_timestamp is not None or not is_released(pod):
            return allow_response()
        try:
            node = await self._client.get(Node, pod.spec.node_name)
        except (StatusError, ClientError) as error:
            log.warning("cannot read node %s to review an eviction, which is allowed: %s", pod.spec.node_name, error)
            return allow_response()
        now = self._client.clock.now()
        if _is_eviction_due(pod, node, now):
            return allow_response()
        return rejection_response(403, f"the constraints of the pod tolerate the taints of node {node.metadata.name}")


def _is_eviction_due(pod: Pod, node: Node, now: datetime) -> bool:
    due = eviction_time(
        no_execute_taints(node),
        all_tolerations(pod),
        latest_unrounded_time(binding_time(pod), now),
        plan.OPTIONS,
        now=now,
        added_at=lambda taint: (
            latest_time_of_addition(taint, now) or now
        ),  # `TimedEviction` knows when it saw the taint
    )
    return due is not None and due <= now


class TimedEviction(TaintEviction):
    """Evict released pods whose `tolerationSeconds` are over; untolerated taints are the taint manager's."""

    name = "bridge-eviction"
    metrics_prefix = "mooring_bridge_eviction"
    component = COMPONENT
    condition_reason = "DeletionByMooringBridge"
    """Not the taint manager's: `EvictionReviews` does not know when a taint without `timeAdded` was added."""
    condition_message = "Mooring bridge: deleting because tolerationSeconds of a NoExecute taint are over"

    def compute_eviction_time(self, pod: Pod, now: datetime) -> datetime | None:
        node = self.nodes.get(pod.spec.node_name) if is_released(pod) else None
        if node is None:
            return None
        effects = frozenset({NO_EXECUTE})
        if find_untolerated(node.spec.taints, all_tolerations(pod), plan.OPTIONS, effects) is not None:
            return None
        return super().compute_eviction_time(pod, now)

    def tolerations_of(self, pod: Pod) -> list[Toleration]:
        return all_tolerations(pod)
