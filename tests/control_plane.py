"""A server and controllers in this process, on a clock that the test drives.

async with control_plane("taint-eviction", "simulated-nodes") as plane:
    await plane.client.create(...)
    await plane.run(30)
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Node, Pod
from mooring.api.events_v1 import Event
from mooring.api.meta_v1 import Resource
from mooring.apiserver.in_process import handler
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.client import Client, PatchType
from mooring.client.in_process import InProcessTransport
from mooring.controllers.options import ControllerOptions
from mooring.controllers.run import Controllers
from mooring.store.memory import MemoryStore
from mooring.testing.builders import made, node, pod
from mooring.testing.clock import MockClock, settle

ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
CONTROLLERS = UserInfo(username="system:kube-controller-manager", groups=["system:authenticated"])
T = TypeVar("T", bound=Resource)


class ControlPlane:
    """What runs, and how to look at it."""

    def __init__(self, server: ApiServer, clock: MockClock, names: tuple[str, ...], options: ControllerOptions) -> None:
        self.server = server
        self.clock = clock
        self.client = self._client(ADMIN)
        self._names = names
        self.options = options
        self.registry = CollectorRegistry()
        self._work: asyncio.Task[None] | None = None

    def _client(self, user: UserInfo) -> Client:
        transport = InProcessTransport(handler(self.server.app, user))
        authority = self.server.authority
        return Client(
            transport,
            user_agent="test",
            scheme=self.server.scheme,
            clock=self.clock,
            certificate_authority=authority,
        )

    async def start(self) -> None:
        """Start new controllers."""
        self.registry = CollectorRegistry()
        controllers = Controllers(self._client(CONTROLLERS), self.options, names=self._names, registry=self.registry)
        self._work = asyncio.create_task(controllers.run())
        async with asyncio.timeout(10):
            await controllers.wait_until_ready()
        await settle()

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
            self._work = None

    async def run(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.run(seconds)
        await settle(200)

    async def until(self, condition: Callable[[], Any], seconds: float = 20) -> None:
        """Wait, without letting time pass, until something asynchronous is true."""
        async with asyncio.timeout(seconds):
            while not await condition():
                await settle()

    async def node(self, name: str, **fields: Any) -> Node:
        """Return a node that is ready and has the taints given."""
        wanted = node(name, **fields)
        created = await self.client.create(wanted)
        taints = [taint for taint in created.spec.taints if taint.key != "node.kubernetes.io/not-ready"]
        body = {"spec": {"taints": taints}, "metadata": {"annotations": fields.get("annotations", {})}}
        return await self.client.patch(Node, name, body, type=PatchType.MERGE)

    async def taint(self, name: str, *taints: dict[str, str]) -> Node:
        """Give a node exactly these taints."""
        return await self.client.patch(Node, name, {"spec": {"taints": list(taints)}}, type=PatchType.MERGE)

    async def pod(self, name: str, **fields: Any) -> Pod:
        """Return a pod, bound if `on` says where."""
        wanted = pod(name, **fields)
        wanted.metadata.uid = ""
        return await self.client.create(wanted)

    async def create(self, kind: type[T], **tree: Any) -> T:
        return await self.client.create(made(kind, tree))

    async def find(self, kind: type[T], name: str, namespace: str = "default") -> T | None:
        try:
            return await self.client.get(kind, name, namespace)
        except errors.NotFound:
            return None

    async def names(self, kind: type[T], namespace: str = "") -> list[str]:
        return sorted(found.metadata.name for found in (await self.client.list(kind, namespace)).items)

    async def alive(self, name: str) -> bool:
        """Return whether a pod exists and is not terminating."""
        found = await self.find(Pod, name)
        return found is not None and found.metadata.deletion_timestamp is None

    async def events(self, reason: str) -> list[Event]:
        return [event for event in (await self.client.list(Event)).items if event.reason == reason]


@asynccontextmanager
async def control_plane(
    *names: str, options: ControllerOptions | None = None, kubelets: KubeletOptions | None = None
) -> AsyncIterator[ControlPlane]:
    """Yield a server with these controllers."""
    clock = MockClock()
    with tempfile.TemporaryDirectory() as folder:
        config = ServerConfig(data_dir=Path(folder), ephemeral=True, kubelets=kubelets or KubeletOptions())
        server = await ApiServer.open(config, clock=clock, store=await MemoryStore.open(clock=clock))
        plane = ControlPlane(server, clock, names, options or ControllerOptions())
        try:
            await plane.start()
            yield plane
        finally:
            await plane.stop()
            await server.close()
