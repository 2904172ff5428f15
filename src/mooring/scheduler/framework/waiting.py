"""Pods whose binding Permit plugins delay until all of them allow the pod, one rejects it, or the time is over."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from mooring.api.core_v1 import Pod
from mooring.base.clock import Clock
from mooring.scheduler.columns.cluster import pod_key
from mooring.scheduler.framework import SUCCESS, Status, unschedulable


class WaitingPod:
    """A waiting pod, with the plugins that have not allowed it yet."""

    def __init__(self, pod: Pod, timeouts: Mapping[str, float]) -> None:
        self.pod = pod
        self._missing = set(timeouts)
        self._timeouts = dict(timeouts)
        self._decided: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    def allow(self, plugin: str) -> None:
        self._missing.discard(plugin)
        if not self._missing:
            self._decide(SUCCESS)

    def reject(self, plugin: str, reason: str) -> None:
        self._decide(unschedulable(reason).by(plugin))

    async def wait_for_decision(self, clock: Clock) -> Status:
        """Wait until every plugin has allowed the pod or one rejects it; return success or the rejection.

        The shortest timeout of a plugin rejects the pod when it expires.
        """
        plugin, seconds = min(self._timeouts.items(), key=lambda entry: entry[1])
        timer: asyncio.Future[None] = asyncio.ensure_future(clock.sleep(seconds))
        either: set[asyncio.Future[Any]] = {timer, self._decided}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        self.reject(plugin, f"rejected due to timeout after waiting {seconds:g}s at plugin {plugin}")
        return self._decided.result()

    def _decide(self, status: Status) -> None:
        if not self._decided.done():
            self._decided.set_result(status)


class WaitingPods:
    """The waiting pods by key. Permit plugins get it in their `Handle`, to allow or reject pods."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def get(self, key: str) -> WaitingPod | None:
        """Return the waiting pod with this uid; None if there is none."""
        return self._pods.get(key)

    def add(self, pod: Pod, timeouts: Mapping[str, float]) -> WaitingPod:
        """Make a pod wait for Permit plugins, each with a timeout in seconds; `wait_for_decision` must follow."""
        waiting = self._pods[pod_key(pod)] = WaitingPod(pod, timeouts)
        return waiting

    async def wait_for_decision(self, waiting: WaitingPod, clock: Clock) -> Status:
        """Return the decision about a pod, as `WaitingPod.wait_for_decision` does, and remove the pod."""
        try:
            return await waiting.wait_for_decision(clock)
        finally:
            del self._pods[pod_key(waiting.pod)]
