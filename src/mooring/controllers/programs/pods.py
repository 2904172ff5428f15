"""All pods that run programs; ``simulated_nodes/pods.py`` passes them on when they are bound."""

import asyncio
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress

from mooring.api.core_v1 import Node, Pod
from mooring.api.states import has_ended
from mooring.client import Client, EventRecorder
from mooring.controllers.programs.file import Programs
from mooring.controllers.programs.network import NetworkError, Networks
from mooring.controllers.programs.pod import ProgramPod, SharedState
from mooring.controllers.programs.volumes import FromServer, remove


class ProgramPods:
    """Running pods, by uid."""

    def __init__(self, programs: Programs, client: Client, recorder: EventRecorder) -> None:
        self._networks = Networks(programs.address, programs.folder, own=programs.own_networks)
        self._shared = SharedState(programs, client, recorder, FromServer(client), self._networks)
        self._pods: dict[str, ProgramPod] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def concerns(self, pod: Pod) -> bool:
        """Return whether programs run for a pod, or must be stopped."""
        if pod.metadata.uid in self._pods:
            return True
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        return not has_ended(pod) and any(self._shared.programs.of(each.image) for each in containers)

    def look(self, pod: Pod, node: Node, allocate: Callable[[], str | None]) -> bool:
        """Handle a new or updated pod; return False if its node has no address left."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            address: str | None = self._networks.address
            if self._networks.is_own(pod):
                address = pod.status.pod_ip or allocate()
            if address is None:
                return False
            self._pods[uid] = ProgramPod(self._shared, pod, node, address)
        self._pods[uid].seen(pod)
        return True

    def gone(self, pod: Pod) -> None:
        """Handle a deleted pod."""
        living = self._pods.pop(pod.metadata.uid, None)
        if living is None:
            return
        task = asyncio.create_task(self._bury(living))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _bury(self, living: ProgramPod) -> None:
        await living.kill()
        self._shared.source.forget(living.pod)
        with suppress(NetworkError):
            await self._networks.remove(living.pod)
        await asyncio.to_thread(remove, self._shared.programs.folder, living.pod.metadata.uid)

    async def remove_leftovers(self, uids: Iterable[str]) -> None:
        """Remove leftovers of pods that were deleted while the controller was down."""
        await self._networks.remove_leftovers()
        known = set(uids)
        pods = self._shared.programs.folder / "pods"
        for place in pods.iterdir() if pods.exists() else ():
            if place.name not in known:
                shutil.rmtree(place, ignore_errors=True)

    async def close(self) -> None:
        """Stop all programs."""
        await asyncio.gather(*(living.kill() for living in self._pods.values()), *self._leaving)
        await self._networks.remove_leftovers()
