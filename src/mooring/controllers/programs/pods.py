"""`ProgramPods`: all pods that run programs. ``simulated_nodes/pods.py`` hands them over when they have a node."""

import asyncio
import ipaddress
import shutil
from collections.abc import Iterable

from mooring.api.core_v1 import Node, Pod
from mooring.api.states import has_ended
from mooring.client import Client, EventRecorder
from mooring.controllers.programs.file import Programs
from mooring.controllers.programs.pod import ProgramPod
from mooring.controllers.programs.volumes import FromServer, remove
from mooring.controllers.programs.world import World


class ProgramPods:
    """Those that live, by uid."""

    def __init__(self, programs: Programs, client: Client, recorder: EventRecorder) -> None:
        self._world = World(programs, client, recorder, FromServer(client))
        self._pods: dict[str, ProgramPod] = {}
        self._addresses = [str(address) for address in ipaddress.ip_network(programs.addresses).hosts()]
        self._taken: dict[str, str] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def concerns(self, pod: Pod) -> bool:
        """Whether programs run for a pod, or have to be ended."""
        if pod.metadata.uid in self._pods:
            return True
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        return not has_ended(pod) and any(self._world.programs.of(each.image) for each in containers)

    def look(self, pod: Pod, node: Node) -> None:
        """A pod is new, or has changed."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            self._pods[uid] = ProgramPod(self._world, pod, node, self._address(pod))
        self._pods[uid].seen(pod)

    def gone(self, pod: Pod) -> None:
        """A pod is not there any more."""
        living = self._pods.pop(pod.metadata.uid, None)
        if living is None:
            return
        self._taken = {address: uid for address, uid in self._taken.items() if uid != pod.metadata.uid}
        task = asyncio.create_task(self._bury(living))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _bury(self, living: ProgramPod) -> None:
        await living.kill()
        self._world.source.forget(living.pod)
        await asyncio.to_thread(remove, self._world.programs.folder, living.pod.metadata.uid)

    def _address(self, pod: Pod) -> str:
        """One of its own while there are enough."""
        if pod.status.pod_ip in self._addresses and self._taken.get(pod.status.pod_ip) is None:
            free = pod.status.pod_ip
        else:
            free = next((each for each in self._addresses if each not in self._taken), self._addresses[0])
        self._taken[free] = pod.metadata.uid
        return free

    def clear_away(self, uids: Iterable[str]) -> None:
        """Remove what pods have left that were deleted while nobody looked."""
        known = set(uids)
        pods = self._world.programs.folder / "pods"
        for place in pods.iterdir() if pods.exists() else ():
            if place.name not in known:
                shutil.rmtree(place, ignore_errors=True)

    async def close(self) -> None:
        """End all programs."""
        await asyncio.gather(*(living.kill() for living in self._pods.values()), *self._leaving)
