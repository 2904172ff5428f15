"""A server and workload controllers in the process of the test, and a node of sorts that runs every pod.

async with cluster(tmp_path, ["deployment", "replicaset"]) as c:
    await c.create("Deployment", "web", {"replicas": 3, ...})
    await c.until(lambda: c.ready("web") == 3)
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mooring.api import codec, errors, times
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource
from mooring.apiserver.in_process import handler
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.clock import Clock, SystemClock
from mooring.client import Client, Informer, Informers
from mooring.client.in_process import InProcessTransport
from mooring.client.transport import Request, Response
from mooring.controllers.options import ControllerOptions
from mooring.controllers.run import Controllers
from mooring.testing.clock import MockClock

T = TypeVar("T", bound=Resource)
ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
Tree = dict[str, Any]
Runs = Callable[[Pod], str]
"""What becomes of a pod on the node: a phase, or "" to leave it pending."""


class CountingTransport(InProcessTransport):
    """Counts requests by method and the last part of their path that is no name."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(handler(server.app, ADMIN))
        self.requests: Counter[str] = Counter()

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        self.requests[f"{request.method} {kind_of(request.path)}"] += 1
        return await super().send(request, timeout)


def kind_of(path: str) -> str:
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    rest = rest[2:] if rest[:1] == ["namespaces"] and len(rest) > 2 else rest
    return "/".join([rest[0], *rest[2:]])


@dataclass
class Cluster:
    """What a test works with. Objects come from informers of its own."""

    server: ApiServer
    client: Client
    clock: Clock
    transport: CountingTransport
    names: Sequence[str]
    options: ControllerOptions = field(default_factory=ControllerOptions)
    runs: Runs = lambda _: "Running"
    controllers: Controllers | None = None
    informers: Informers = field(init=False)
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.informers = Informers(Client(InProcessTransport(handler(self.server.app, ADMIN)), user_agent="test"))

    async def start(self) -> None:
        self.controllers = Controllers(self.client, self.options, names=self.names)
        self._task = asyncio.create_task(self.controllers.run())
        await self.controllers.wait_until_ready()

    async def stop(self) -> None:
        """End the controllers in the midst of whatever they do."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def create(self, cls: type[T], name: str, spec: Tree, namespace: str = "default", **metadata: Any) -> T:
        kind = self.client.kind(cls)
        tree = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": spec,
        }
        return await self.client.create(codec.decode(msgspec.json.encode(tree), cls).object)

    async def get(self, cls: type[T], name: str) -> T:
        return await self.client.get(cls, name, "default")

    async def patch(self, cls: type[T], name: str, spec: Tree) -> T:
        return await self.client.patch(cls, name, {"spec": spec}, "default")

    async def all(self, cls: type[T]) -> list[T]:
        return (await self.client.list(cls, "default")).items

    async def pods(self) -> list[Pod]:
        return sorted(await self.all(Pod), key=lambda pod: pod.metadata.name)

    async def until(self, condition: Callable[[], Any], seconds: float = 20) -> Any:
        """Wait until an async condition holds; returns what it returned. On a driven clock time passes meanwhile."""
        found: Any = None
        async with asyncio.timeout(seconds):
            while not (found := await condition()):
                await self.settle()
        return found

    async def settle(self, turns: int = 30) -> None:
        """Let everybody do what they can do without time passing."""
        if isinstance(self.clock, MockClock):
            for _ in range(turns):
                await asyncio.sleep(0)
        await asyncio.sleep(0.005)

    async def rest(self, seconds: float = 0.25) -> None:
        """Wait until nothing is sent any more."""
        quiet, before = 0, -1
        async with asyncio.timeout(20):
            while quiet < 3:
                await self.settle()
                await asyncio.sleep(seconds / 5)
                count = self.transport.requests.total()
                quiet = quiet + 1 if count == before else 0
                before = count

    async def _run_pods(self) -> None:
        """Give pods the phase that `runs` says."""
        pods: Informer[Pod] = self.informers.of(Pod)
        queue: asyncio.Queue[Pod] = asyncio.Queue()
        pods.add_handler(added=queue.put_nowait, updated=lambda _, new: queue.put_nowait(new))
        async with self.informers:
            while True:
                pod = await queue.get()
                phase = self.runs(pod)
                if not phase or pod.status.phase != "Pending" or pod.metadata.deletion_timestamp:
                    continue
                with suppress(errors.NotFound, errors.Conflict):
                    await self.set_phase(pod, phase)

    async def set_phase(self, pod: Pod, phase: str, exit_code: int | None = None) -> None:
        now = times.to_seconds(self.clock.now())
        ready = "True" if phase == "Running" else "False"
        status: Tree = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now}],
        }
        if exit_code is not None:
            ended = {"terminated": {"exitCode": exit_code, "finishedAt": now}}
            status["containerStatuses"] = [
                {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
            ]
        patch = {"status": status}
        await self.client.patch(Pod, pod.metadata.name, patch, pod.metadata.namespace, subresource="status")


@asynccontextmanager
async def cluster(
    folder: Path,
    names: Sequence[str],
    *,
    clock: Clock | None = None,
    options: ControllerOptions | None = None,
    runs: Runs = lambda _: "Running",
    config: ServerConfig | None = None,
) -> AsyncIterator[Cluster]:
    clock = clock or SystemClock()
    server = await ApiServer.open(config or ServerConfig(data_dir=folder, ephemeral=True), clock=clock)
    transport = CountingTransport(server)
    client = Client(transport, user_agent="test", scheme=server.scheme, clock=clock)
    made = Cluster(server, client, clock, transport, names, options or ControllerOptions(), runs)
    node = asyncio.create_task(made._run_pods())
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
        node.cancel()
        with suppress(asyncio.CancelledError):
            await node
        await server.close()


def template(app: str = "web", image: str = "nginx:1", **spec: Any) -> Tree:
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def workload(app: str = "web", replicas: int = 3, image: str = "nginx:1", **spec: Any) -> Tree:
    """Return the spec of a ReplicaSet, Deployment or StatefulSet."""
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": app}},
        "template": template(app, image),
        **spec,
    }
