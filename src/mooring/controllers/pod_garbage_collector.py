"""Delete orphaned pods (on deleted nodes, or terminating without a node) and old finished pods.

A pod may be seen before its node: so a node must be missing for a while, and also on the server, before its pods are
deleted. All pods are checked periodically.
"""

import asyncio
from contextlib import suppress

from mooring.api import errors, times
from mooring.api.core_v1 import Node, Pod
from mooring.api.states import has_ended, is_ready
from mooring.base import logs
from mooring.client import Informer, key_of
from mooring.controllers.controller import Context, Controller
from mooring.controllers.eviction import pods_by_node

PERIOD_SECONDS = 20.0
QUARANTINE_SECONDS = 40.0
ENDED_PODS_KEPT = 12_500
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
log = logs.get(__name__)


class PodGarbageCollector(Controller):
    """Reconcile pods, by key."""

    name = "pod-garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._by_node = pods_by_node(self._pods)
        self._missing: dict[str, float] = {}
        """Nodes that pods refer to and that do not exist, and since when that is known."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._look_over())

    async def _look_over(self) -> None:
        while True:
            await self.clock.sleep(PERIOD_SECONDS)
            self._look_for_missing_nodes()
            for pod in self._unneeded():
                self.enqueue(pod)

    def _look_for_missing_nodes(self) -> None:
        now = self.clock.monotonic()
        missing = [name for name in self._by_node.values() if self._nodes.get(name) is None]
        self._missing = {name: self._missing.get(name, now) for name in missing}

    def _unneeded(self) -> list[Pod]:
        now = self.clock.monotonic()
        found = [
            pod
            for name, since in self._missing.items()
            if now - since >= QUARANTINE_SECONDS
            for pod in self._by_node.get(name)
        ]
        ended = []
        for pod in self._pods.objects():
            if pod.metadata.deletion_timestamp is not None and self._never_finishes(pod):
                found.append(pod)
            elif has_ended(pod):
                ended.append(pod)
        if len(ended) > ENDED_PODS_KEPT:
            ended.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
            found += ended[: len(ended) - ENDED_PODS_KEPT]
        return found

    def _never_finishes(self, pod: Pod) -> bool:
        if not pod.spec.node_name:
            return True
        node = self._nodes.get(pod.spec.node_name)
        if node is None:
            return False
        ready = is_ready(node)
        return not ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.by_key(key)
        if pod is None:
            return None
        orphaned = pod.spec.node_name in self._missing
        if orphaned and await self._exists(pod.spec.node_name):
            return None
        if not has_ended(pod):
            await self._mark_failed(pod, orphaned=orphaned)
        log.info("collecting pod %s", key_of(pod), extra={"fields": {"orphaned": orphaned}})
        await self.delete(pod, grace_period_seconds=0)
        return None

    async def _exists(self, node: str) -> bool:
        try:
            await self.client.get(Node, node)
        except errors.NotFound:
            return False
        return True

    async def _mark_failed(self, pod: Pod, *, orphaned: bool) -> None:
        """Set the phase Failed, so that owners that count pods do not wait for this one."""
        status: dict[str, object] = {"phase": "Failed"}
        if orphaned:
            status["conditions"] = [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "lastTransitionTime": times.to_seconds(self.clock.now()),
                }
            ]
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        with suppress(errors.NotFound):
            await self.client.patch(Pod, pod.metadata.name, body, pod.metadata.namespace, subresource="status")
