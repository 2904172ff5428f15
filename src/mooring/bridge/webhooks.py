"""Review pods and node updates for the bridge. Stateless, so that every replica can serve.

`PodReviews` adds the gate to new pods with constraints, refuses invalid annotations, and refuses to change them after
the release. `NodeReviews` admits a new value of a NoExecute taint after the pods on that node have tolerations for it.
Served by ``serving.py``.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from mooring.api.core_v1 import Node, Pod, Taint
from mooring.api.errors import Conflict, NotFound, StatusError
from mooring.api.states import has_ended
from mooring.bridge import plan
from mooring.bridge.pods import patch_pod, problems
from mooring.bridge.reviews import Json, allowed, object_in, refused
from mooring.client import Client, ClientError
from mooring.constraints import annotations

_NO_EXECUTE = "NoExecute"
_ATTEMPTS = 8
_CHANGED = (
    "metadata.annotations: Forbidden: the constraints of a pod cannot be changed once it is released; make a new pod"
)


class PodReviews:
    """Review pods that are created or updated."""

    async def review(self, request: Mapping[str, Any]) -> Json:
        pod = object_in(request, "object", Pod)
        old = object_in(request, "oldObject", Pod) if request.get("oldObject") else None
        if old is not None:
            return self._change(old, pod)
        if not annotations.has_constraints(pod.metadata.annotations):
            return allowed()
        wrong = problems(pod)
        if wrong:
            return refused(422, "; ".join(wrong))
        return allowed() if plan.is_gated(pod) else allowed(_add_gate_patch(pod))

    def _change(self, old: Pod, new: Pod) -> Json:
        if plan.digest(old) == plan.digest(new):
            return allowed()
        if not plan.is_gated(old):
            return refused(403, _CHANGED)
        wrong = problems(new)
        return refused(422, "; ".join(wrong)) if wrong else allowed()


class NodeReviews:
    """Review node updates."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def review(self, request: Mapping[str, Any]) -> Json:
        if not request.get("oldObject") or not request.get("object"):
            return allowed()
        old, new = object_in(request, "oldObject", Node), object_in(request, "object", Node)
        there = {(taint.key, taint.value) for taint in old.spec.taints if taint.effect == _NO_EXECUTE}
        added = [
            taint for taint in new.spec.taints if taint.effect == _NO_EXECUTE and (taint.key, taint.value) not in there
        ]
        if not added or request.get("dryRun"):
            return allowed()
        try:
            await self._add_tolerations(new.metadata.name, added)
        except (StatusError, ClientError) as error:
            return refused(503, f"the pods on the node could not be prepared for the taint, try again: {error}")
        return allowed()

    async def _add_tolerations(self, node: str, taints: list[Taint]) -> None:
        facts = plan.ClusterFacts(taints, {})
        found = await self._client.list(Pod, field_selector=f"spec.nodeName={node}", managed_fields=False)
        await asyncio.gather(*(self._prepare(pod, facts) for pod in found.items))

    async def _prepare(self, pod: Pod, facts: plan.ClusterFacts) -> None:
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
        return []  # the controller records an event; the node update is not refused


def _add_gate_patch(pod: Pod) -> list[Json]:
    gate = {"name": annotations.GATE}
    if pod.spec.scheduling_gates:
        return [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]
    return [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]
