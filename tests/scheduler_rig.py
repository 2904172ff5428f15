"""A whole API server in memory with schedulers around it, in one process and without sockets.

async with rig(tmp_path) as cluster:
    await cluster.add_node("n1", cpu="4")
    cluster.start()
    await cluster.add_pod("web")
    await cluster.until(lambda: cluster.node_of("web"))
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Node, Pod
from mooring.apiserver import in_process
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.component import resolve
from mooring.client import Client, ConnectError, DisconnectedError, Informers
from mooring.client.in_process import InProcessStream, InProcessTransport
from mooring.client.transport import Request, Response
from mooring.scheduler.running.options import SchedulerConfig, for_component
from mooring.scheduler.running.runtime import Scheduler
from scheduler_objects import node, pod

COMPONENT = resolve()
NOTHING: Mapping[str, bool] = {}
_SECONDS = 20.0


_EVERY = 3


class FlakyTransport(InProcessTransport):
    """Loses some requests before they arrive, and some answers after the server has done what was asked.

    Bindings are few, because they go in groups, and what matters most; one in three is lost, beginning with the first.
    """

    def __init__(self, handler: Any, lot: random.Random, share: float) -> None:
        super().__init__(handler)
        self._lot = lot
        self.share = share
        self._bindings = 0
        self.lost_bindings = 0

    def _share(self, request: Request) -> float:
        """Of such requests that are lost."""
        is_batch = request.path == "/writes" and b'"subresource":"binding"' in request.body
        if not self.share or not (is_batch or request.path.endswith("/binding")):
            return self.share
        self._bindings += 1
        is_lost = self._bindings % _EVERY == 1
        self.lost_bindings += is_lost
        return float(is_lost)

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        luck, share = self._lot.random(), self._share(request)
        if luck < share / 2:
            raise ConnectError("the test lost a request")
        response = await super().send(request, timeout)
        if luck < share:
            raise DisconnectedError("the test lost an answer")
        return response

    async def stream(self, request: Request, timeout: float) -> InProcessStream:  # noqa: ASYNC109 - as above
        if self._lot.random() < self.share:
            raise ConnectError("the test lost a request")
        return await super().stream(request, timeout)


@dataclass
class Rig:
    server: ApiServer
    admin: Client
    informers: Informers
    running: list[tuple[Scheduler, asyncio.Task[Any]]] = field(default_factory=list)
    bindings: dict[str, str] = field(default_factory=dict)
    """By uid, the node that each pod was ever seen on."""
    moved: list[str] = field(default_factory=list)
    """Pods that were seen on two nodes, which must never be."""

    def client(
        self, user: str = "system:kube-scheduler", lot: random.Random | None = None, share: float = 0.0
    ) -> Client:
        info = UserInfo(username=user, groups=["system:authenticated"])
        handler = in_process.handler(self.server.app, info)
        transport = FlakyTransport(handler, lot, share) if lot else InProcessTransport(handler)
        return Client(transport, user_agent="mooring-scheduler/v1.37.0")

    # -- schedulers

    def start(
        self,
        config: SchedulerConfig | None = None,
        *,
        client: Client | None = None,
        elected: bool = False,
        gates: str = "",
        emulation: str | None = None,
    ) -> Scheduler:
        options = for_component(resolve(gates=gates, emulation=emulation))
        found = Scheduler(client or self.client(), config or SchedulerConfig(), options)
        task = asyncio.ensure_future(found.run_elected() if elected else found.run())
        self.running.append((found, task))
        return found

    async def stop(self, scheduler: Scheduler) -> None:
        for entry in [entry for entry in self.running if entry[0] is scheduler]:
            self.running.remove(entry)
            entry[1].cancel()
            await asyncio.gather(entry[1], return_exceptions=True)

    # -- objects

    async def add_node(self, name: str, **options: Any) -> None:
        wanted = node(name, **options)
        wanted.metadata.uid = ""
        await self.admin.create(wanted)
        made = await self.admin.get(Node, name)
        made.spec.taints = [taint for taint in made.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
        await self.admin.update(made)

    async def add_pod(self, name: str, **options: Any) -> Pod:
        wanted = pod(name, **options)
        wanted.metadata.uid = ""
        wanted.spec.priority = None
        wanted.spec.termination_grace_period_seconds = 0
        return await self.admin.create(wanted)

    async def remove_pod(self, name: str) -> None:
        await self.admin.delete(Pod, name, "default", grace_period_seconds=0)

    @property
    def pods(self) -> dict[str, Pod]:
        return {found.metadata.name: found for found in self.informers.of(Pod).objects()}

    def node_of(self, name: str) -> str:
        found = self.pods.get(name)
        return "" if found is None else found.spec.node_name

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, as the administrator's informers show it."""
        async with asyncio.timeout(_SECONDS):
            while not condition():  # noqa: ASYNC110 - conditions look at several things, not at one event
                await asyncio.sleep(0.01)

    def follow(self, changes: Any) -> None:
        for _, new in changes:
            if new is None or not new.spec.node_name:
                continue
            before = self.bindings.setdefault(new.metadata.uid, new.spec.node_name)
            if before != new.spec.node_name:
                self.moved.append(new.metadata.name)


@asynccontextmanager
async def rig(folder: Path, emulation: str | None = None, runtime: Mapping[str, bool] = NOTHING) -> AsyncIterator[Rig]:
    """Yield a server, perhaps of an older version than its clients, with what `--runtime-config` says."""
    component = resolve(emulation=emulation) if emulation else COMPONENT
    config = ServerConfig(data_dir=folder, component=component, runtime_config=runtime, ephemeral=True)
    async with await ApiServer.open(config) as server:
        info = UserInfo(username="admin", groups=["system:masters", "system:authenticated"])
        admin = Client(InProcessTransport(in_process.handler(server.app, info)), user_agent="kubectl/v1.37.0")
        async with Informers(admin) as informers:
            found = Rig(server, admin, informers)
            informers.of(Pod).add_batch_handler(found.follow)
            await informers.wait_for_sync()
            try:
                yield found
            finally:
                for scheduler, _ in list(found.running):
                    await found.stop(scheduler)
