"""Bind assumed pods to their nodes.

Pods that were assumed in one round of the cycle are bound in one call of the Bind plugin. If the server does not
respond, the pod is read until it is known whether it was bound. Called by ``cycle.py`` with a callback for the outcome
of each pod.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter

from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.api.errors import StatusError
from mooring.base import logs
from mooring.client import Backoff, Client, ClientError
from mooring.scheduler.deciding.attempt import AssumedPod
from mooring.scheduler.framework import GroupBindPlugin

log = logs.get(__name__)

_READ_RETRIES = Backoff(initial=0.2, maximum=5.0, jitter=0.5)

Settle = Callable[[AssumedPod, Exception | None], None]
"""A callback for the end of binding a pod: its argument is the error, or None if the pod was bound."""


class Binder:
    """Collects assumed pods and binds them in batches."""

    def __init__(self, client: Client, settle: Settle) -> None:
        self._client = client
        self._settle = settle
        self._waiting: list[AssumedPod] = []
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Return whether a submitted pod is not bound yet."""
        return bool(self._waiting or self._tasks)

    def submit(self, assumed: AssumedPod, plugin: GroupBindPlugin) -> None:
        assumed.binder, assumed.submitted = plugin, perf_counter()
        self._waiting.append(assumed)
        self._ready.set()

    async def run(self) -> None:
        """Bind the submitted pods in batches, until cancelled."""
        try:
            while True:
                await self._ready.wait()
                self._ready.clear()
                group, self._waiting = self._waiting, []
                task = asyncio.create_task(self._bind(group))
                self._tasks.add(task)
                task.add_done_callback(self._handle_task_end)
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _handle_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("binding a group of pods failed", exc_info=error)

    async def _bind(self, group: Sequence[AssumedPod]) -> None:
        outcomes: list[tuple[AssumedPod, Exception | None]] = []
        for plugin in {id(assumed.binder): assumed.binder for assumed in group}.values():
            if plugin is not None:
                part = [assumed for assumed in group if assumed.binder is plugin]
                results = await plugin.bind_all([(assumed.pod, assumed.node) for assumed in part])
                outcomes += zip(part, results, strict=True)
        unknown: list[AssumedPod] = []
        for assumed, outcome in outcomes:
            is_rejected = isinstance(outcome, StatusError) and outcome.status.code < 500
            if outcome is None or is_rejected:
                self._settle(assumed, outcome)
            else:
                unknown.append(assumed)
        for assumed in unknown:
            await self._read_outcome(assumed)

    async def _read_outcome(self, assumed: AssumedPod) -> None:
        meta, failures = assumed.pod.metadata, 0
        while True:
            try:
                pod = await self._client.get(Pod, meta.name, meta.namespace)
            except errors.NotFound as error:
                self._settle(assumed, error)
                return
            except (StatusError, ClientError) as error:
                failures += 1
                if failures == 1:
                    log.warning("the server did not say whether pods were bound, looking them up: %s", error)
                await self._client.clock.sleep(_READ_RETRIES.delay(failures))
                continue
            if pod.metadata.uid != meta.uid:
                self._settle(assumed, errors.not_found("pods", meta.name))
            elif pod.spec.node_name == assumed.node:
                self._settle(assumed, None)
            elif pod.spec.node_name:
                self._settle(assumed, errors.conflict("pods", meta.name, f"it is on node {pod.spec.node_name}"))
            else:
                self._settle(assumed, errors.service_unavailable("the server did not answer, and the pod is not bound"))
            return
