"""What the bridge's webhooks answer. They keep no state and ask the server: every copy of the bridge can serve them.

`PodReviews` adds the gate to new pods with constraints, refuses annotations that are not valid, and refuses to change
them once the pod is released, as the spec's own fields cannot be changed. `NodeReviews` lets the new value of a
NoExecute taint through only after the pods on that node that should tolerate it do; otherwise the taint manager would
be faster than the bridge. Served by ``serving.py``.
"""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

from mooring.api import codec
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.core_v1 import Node, Pod, Taint
from mooring.api.errors import Conflict, NotFound, StatusError
from mooring.api.states import has_ended
from mooring.bridge import plan
from mooring.bridge.pod_patch import patch_pod
from mooring.bridge.pods import problems
from mooring.client import Client, ClientError
from mooring.constraints import annotations

Json = dict[str, Any]
_NO_EXECUTE = "NoExecute"
_ATTEMPTS = 8
_CHANGED = (
    "metadata.annotations: Forbidden: the constraints of a pod cannot be changed once it is released; make a new pod"
)


class ReviewError(ValueError):
    """What was sent is no AdmissionReview."""


class PodReviews:
    """Answers for pods that are created or changed."""

    async def review(self, request: Mapping[str, Any]) -> Json:
        pod = _object(request, "object", Pod)
        old = _object(request, "oldObject", Pod) if request.get("oldObject") else None
        if old is not None:
            return self._change(old, pod)
        if not annotations.are_in(pod.metadata.annotations):
            return _allowed()
        wrong = problems(pod)
        if wrong:
            return _refused(422, "; ".join(wrong))
        return _allowed() if plan.is_gated(pod) else _allowed(_adding_gate(pod))

    def _change(self, old: Pod, new: Pod) -> Json:
        if plan.digest(old) == plan.digest(new):
            return _allowed()
        if not plan.is_gated(old):
            return _refused(403, _CHANGED)
        wrong = problems(new)
        return _refused(422, "; ".join(wrong)) if wrong else _allowed()


class NodeReviews:
    """Answers for nodes that are changed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def review(self, request: Mapping[str, Any]) -> Json:
        if not request.get("oldObject") or not request.get("object"):
            return _allowed()
        old, new = _object(request, "oldObject", Node), _object(request, "object", Node)
        there = {(taint.key, taint.value) for taint in old.spec.taints if taint.effect == _NO_EXECUTE}
        added = [
            taint for taint in new.spec.taints if taint.effect == _NO_EXECUTE and (taint.key, taint.value) not in there
        ]
        if not added or request.get("dryRun"):
            return _allowed()
        try:
            await self._let_tolerate(new.metadata.name, added)
        except (StatusError, ClientError) as error:
            return _refused(503, f"the pods on the node could not be prepared for the taint, try again: {error}")
        return _allowed()

    async def _let_tolerate(self, node: str, taints: list[Taint]) -> None:
        facts = plan.ClusterFacts(taints, {})
        found = await self._client.list(Pod, field_selector=f"spec.nodeName={node}", managed_fields=False)
        await asyncio.gather(*(self._prepare(pod, facts) for pod in found.items))

    async def _prepare(self, pod: Pod, facts: plan.ClusterFacts) -> None:
        """Let one pod tolerate what it should, however often others write to it meanwhile."""
        for left in reversed(range(_ATTEMPTS)):
            operations = _due(pod, facts)
            if not operations:
                return
            try:
                await patch_pod(self._client, pod, operations)
                return
            except Conflict:
                if not left:
                    raise
            try:
                pod = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
            except NotFound:
                return


def _due(pod: Pod, facts: plan.ClusterFacts) -> list[plan.Operation]:
    if has_ended(pod) or pod.metadata.annotations.get(plan.RELEASED) != plan.digest(pod) or problems(pod):
        return []
    try:
        return plan.additions(pod, facts)
    except plan.TooManyTaintsError:
        return []  # the bridge tells it at the pod; the node is not held up for it


def answer(body: bytes) -> tuple[Json, str, str]:
    """The request in an AdmissionReview, its uid and its version. Raises `ReviewError`."""
    try:
        review = json.loads(body)
        request = review["request"]
        return request, str(request["uid"]), str(review["apiVersion"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReviewError("this is no AdmissionReview") from error


def reviewed(response: Json, uid: str, version: str) -> bytes:
    """The AdmissionReview that goes back."""
    return json.dumps({"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": uid, **response}}).encode()


def _object(request: Mapping[str, Any], name: str, cls: Any) -> Any:
    try:
        return codec.decode_tree(request.get(name), cls, FieldValidation.IGNORE).object
    except DecodeError as error:
        raise ReviewError(f"request.{name}: {error}") from error


def _adding_gate(pod: Pod) -> list[Json]:
    gate = {"name": annotations.GATE}
    if pod.spec.scheduling_gates:
        return [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]
    return [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]


def _allowed(patch: list[Json] | None = None) -> Json:
    if not patch:
        return {"allowed": True}
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}


def _refused(code: int, message: str) -> Json:
    return {"allowed": False, "status": {"code": code, "message": message}}
