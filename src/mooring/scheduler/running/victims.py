"""Delete the victims of preemption, so that the preemptor finds room on its nominated node.

Called by ``cycle.py`` with the result of a PostFilter plugin. While victims are being deleted, the pod is held back
until the last one is seen terminating; if it were tried before, it would look for victims elsewhere. The deletion of
the last victim wakes it, like any pod that leaves a node.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mooring.api import times
from mooring.api.core_v1 import Pod
from mooring.api.errors import Conflict, NotFound, StatusError
from mooring.base import logs
from mooring.client import Client, ClientError
from mooring.scheduler.columns.cluster import pod_key
from mooring.scheduler.framework.waiting import WaitingPods
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.running.reports import Reports

log = logs.get(__name__)


@dataclass
class Victims:
    """Deletes the victims of preemptions in the background, and holds the preemptors in the queue meanwhile."""

    _client: Client
    _queue: SchedulingQueue
    _reports: Reports
    _waiting: WaitingPods
    _get_latest_pod: Callable[[Pod], Pod | None]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def preempt(self, pod: Pod, node: str, victims: Sequence[Pod], plugin: str) -> None:
        """Hold the preemptor `pod` out of the active pool, and start a task that deletes its victims."""
        self._queue.hold(pod_key(pod), plugin)
        task = asyncio.create_task(self._delete_all(pod, node, victims, plugin), name="preemption")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_deletions(self) -> None:
        """Wait until the delete requests for all victims are answered."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self.wait_for_deletions()

    async def _delete_all(self, pod: Pod, node: str, victims: Sequence[Pod], plugin: str) -> None:
        key = pod_key(pod)
        *others, last = victims
        asked: list[bool | None] = []
        if others:
            asked = await asyncio.gather(*(self._delete(victim, pod, node, plugin) for victim in others))
        if None not in asked:
            self._queue.hold_until(key, pod_key(last))
            asked.append(await self._delete(last, pod, node, plugin))
        if not asked[-1] or None in asked:
            self._queue.release(key, wake=True)  # no event will: something went wrong, or the last one is gone already
        elif self._is_terminating(last):
            self._queue.release(key)  # nor will one say so, if it was before anybody waited for it

    def _is_terminating(self, victim: Pod) -> bool:
        found = self._get_latest_pod(victim)
        return found is None or found.metadata.deletion_timestamp is not None

    async def _delete(self, victim: Pod, pod: Pod, node: str, plugin: str) -> bool | None:
        key = pod_key(victim)
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._queue.note_victim_terminating(key)
            waiting.reject(plugin, "preempted")
            return True
        try:
            await self._write_disruption_condition(victim, pod)
            meta = victim.metadata
            await self._client.delete_unread(Pod, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return False
        except (StatusError, ClientError) as error:
            log.warning("cannot delete the victim %s of a preemption: %s", victim.metadata.name, error)
            return None
        self._reports.report_preempted(victim, pod, node)
        return True

    async def _write_disruption_condition(self, victim: Pod, pod: Pod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{pod.spec.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
            "lastTransitionTime": times.to_seconds(self._client.clock.now()),
        }
        meta = victim.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        await self._client.patch_unread(Pod, meta.name, patch, meta.namespace, subresource="status")
