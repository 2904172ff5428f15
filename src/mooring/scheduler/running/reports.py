"""Report the outcome of scheduling pods: events, the PodScheduled condition, and the nominated node.

Nothing here waits: events and statuses are written in the background. Only the last report on a pod is written, and
only if its status differs.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api import times
from mooring.api.core_v1 import Pod
from mooring.api.errors import NotFound, StatusError
from mooring.base import logs
from mooring.client import Backoff, Client, ClientError, EventRecorder, WorkQueue
from mooring.scheduler.columns.cluster import pod_key

log = logs.get(__name__)

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
_WRITERS = 32
"""The number of concurrent status writers; their requests become one batch if the server supports batches."""
_ATTEMPTS = 5
_RETRY = Backoff(initial=0.5, maximum=10.0, jitter=0.5)


class NotScheduled(msgspec.Struct, frozen=True):
    """A report on an unscheduled pod: its reason (empty: unchanged), message and nominated node (None: unchanged)."""

    reason: str
    message: str
    nominated: str | None = None


class Reports:
    """Writes the events, PodScheduled conditions and nominated nodes of pods, with an event recorder by profile."""

    def __init__(
        self, client: Client, recorders: dict[str, EventRecorder], latest: Callable[[Pod], Pod | None]
    ) -> None:
        self._client = client
        self._recorders = recorders
        self._get_latest_pod = latest
        self._queue: WorkQueue[str] = WorkQueue(client.clock, _RETRY)
        self._open: dict[str, tuple[Pod, NotScheduled]] = {}
        self._writers: list[asyncio.Task[None]] = []

    def report_scheduled(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        self._open.pop(pod_key(pod), None)
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {node}"
        self._recorder_of(pod).event(pod, "Normal", "Scheduled", note, action="Binding")

    def not_scheduled(self, pod: Pod, report: NotScheduled) -> None:
        key = pod_key(pod)
        self._recorder_of(pod).event(pod, "Warning", "FailedScheduling", report.message, action="Scheduling")
        self._open[key] = (pod, report)
        self._queue.add(key)

    def clear_nomination(self, pod: Pod) -> None:
        """Clear the nominated node in the status of a pod, because a more important pod was nominated there."""
        key = pod_key(pod)
        said = self._open.get(key)
        report = said[1] if said is not None else NotScheduled("", "")
        self._open[key] = (pod, replace(report, nominated=""))
        self._queue.add(key)

    def report_preempted(self, victim: Pod, by: Pod, node: str) -> None:
        note = f"Preempted by pod {by.metadata.uid} on node {node}"
        recorder = self._recorder_of(by)
        recorder.event(victim, "Normal", "Preempted", note, action="Preempting", related=recorder.reference(by))

    def forget(self, pod: Pod) -> None:
        """Drop the report on a deleted pod that is not written yet."""
        self._open.pop(pod_key(pod), None)

    def _recorder_of(self, pod: Pod) -> EventRecorder:
        return self._recorders[pod.spec.scheduler_name]

    def start(self) -> None:
        for recorder in self._recorders.values():
            recorder.start()
        self._writers = [asyncio.create_task(self._write_all()) for _ in range(_WRITERS)]

    async def stop(self) -> None:
        self._queue.shut_down()
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)
        await asyncio.gather(*(recorder.stop() for recorder in self._recorders.values()))

    async def _write_all(self) -> None:
        while (key := await self._queue.get()) is not None:
            try:
                await self._write(key)
            finally:
                self._queue.done(key)

    async def _write(self, key: str) -> None:
        found = self._open.get(key)
        pod = None if found is None else self._get_latest_pod(found[0])
        if found is None or pod is None or pod.spec.node_name:
            self._open.pop(key, None)
            return
        change = status_change(pod, found[1], times.to_seconds(self._client.clock.now()))
        try:
            if change:
                meta = pod.metadata
                patch = {"metadata": {"uid": meta.uid}, "status": change}
                await self._client.patch_unread(Pod, meta.name, patch, meta.namespace, subresource="status")
        except NotFound:
            pass
        except (StatusError, ClientError) as error:
            if self._queue.failures(key) + 1 < _ATTEMPTS:
                self._queue.add_rate_limited(key)
                return
            log.warning("cannot write why pod %s is not scheduled: %s", pod.metadata.name, error)
        self._queue.forget(key)
        if self._open.get(key) is found:
            del self._open[key]


def status_change(pod: Pod, report: NotScheduled, now: str) -> dict[str, Any]:
    """Return the patch of a pod's status with the report's condition and nominated node; empty if nothing differs."""
    change: dict[str, Any] = {}
    current = next((entry for entry in pod.status.conditions if entry.type == "PodScheduled"), None)
    said = None if current is None else (current.status, current.reason, current.message)
    if report.reason and said != ("False", report.reason, report.message):
        since = current.last_transition_time if current is not None and current.status == "False" else now
        change["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": report.reason,
                "message": report.message,
                "lastProbeTime": None,
                "lastTransitionTime": since,
            }
        ]
    if report.nominated is not None and report.nominated != pod.status.nominated_node_name:
        change["nominatedNodeName"] = report.nominated or None
    return change
