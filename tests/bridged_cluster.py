"""A server in this process that knows none of the new words, and bridges beside it.

async with stock_cluster() as cluster:
    await cluster.node("a", {"kernel": "6.1.0"}, ["sla=960:NoExecute"])
    async with cluster.bridged():
        await cluster.pod("web", tolerations=[...])
        await cluster.until_released("web")
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mooring.api import codec
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Node, Pod
from mooring.api.events_v1 import Event
from mooring.apiserver.in_process import handler
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.component import resolve
from mooring.bridge import plan
from mooring.bridge.run import Bridge
from mooring.client import Client, PatchType
from mooring.client.in_process import HandlerResponse, InProcessTransport
from mooring.client.transport import Request
from mooring.constraints import annotations
from mooring.constraints.lowering.terms import LABEL_PREFIX
from mooring.testing.builders import made, node, taint

ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
GATES = ("TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators", "TaintTolerationNodeAffinityCEL")
STOCK = ",".join(f"{gate}=false" for gate in GATES)
Before = Callable[[Request], Awaitable[None]]


def gated(
    name: str,
    tolerations: Sequence[Mapping[str, Any]] | str = (),
    required: Sequence[Mapping[str, Any]] = (),
    **spec: Any,
) -> Pod:
    """Return a pod with constraints and the gate; text goes into the annotation as it is."""
    given = {}
    if tolerations:
        given[annotations.TOLERATIONS] = tolerations if isinstance(tolerations, str) else json.dumps(tolerations)
    if required:
        terms = {"nodeSelectorTerms": list(required)}
        given[annotations.NODE_AFFINITY] = json.dumps({"requiredDuringSchedulingIgnoredDuringExecution": terms})
    tree = {
        "metadata": {"name": name, "namespace": "default", "annotations": given},
        "spec": {
            "schedulingGates": [{"name": annotations.GATE}],
            "containers": [{"name": "c", "image": "registry.example/app:1"}],
            **spec,
        },
    }
    return made(Pod, tree)


def newer_than(version: str, key: str = "kernel") -> dict[str, Any]:
    """Return a term of node affinity."""
    return {"matchExpressions": [{"key": key, "operator": "SemverGt", "values": [version]}]}


class StockCluster:
    """The server, and how to look at it."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.client = self.client_of(ADMIN)
        self.requests: list[tuple[str, str]] = []
        """Method and path of what bridges have sent."""

    def client_of(self, user: UserInfo, before: Before | None = None) -> Client:
        """Return a client; `before` is called ahead of each request."""
        send = handler(self.server.app, user)

        async def asked(request: Request) -> HandlerResponse:
            if before is not None:
                await before(request)
            return await send(request)

        return Client(InProcessTransport(asked), user_agent="test", scheme=self.server.scheme)

    @asynccontextmanager
    async def bridged(self, user: UserInfo = ADMIN, before: Before | None = None) -> AsyncIterator[Bridge]:
        """Yield a bridge that is ready; killed at the end."""

        async def seen(request: Request) -> None:
            self.requests.append((request.method, request.path))
            if before is not None:
                await before(request)

        bridge = Bridge(self.client_of(user, seen), namespace="default")
        work = asyncio.create_task(bridge.run())
        try:
            async with asyncio.timeout(20):
                await bridge.wait_until_ready()
            yield bridge
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    # -- what tests say most

    async def node(self, name: str, labels: Mapping[str, str] | None = None, taints: Sequence[str] = ()) -> Node:
        wanted = await self.client.create(node(name, labels=dict(labels or {})))
        assert wanted.metadata.name == name
        return await self.taint(name, *taints)

    async def taint(self, name: str, *taints: str) -> Node:
        """Give a node exactly these taints."""
        body = {"spec": {"taints": [taint(each) for each in taints]}}
        return await self.client.patch(Node, name, body, type=PatchType.MERGE)

    async def label(self, name: str, **labels: str | None) -> Node:
        return await self.client.patch(Node, name, {"metadata": {"labels": labels}}, type=PatchType.MERGE)

    async def create(self, pod: Pod) -> Pod:
        return await self.client.create(pod)

    async def find(self, name: str) -> Pod:
        return await self.client.get(Pod, name, "default")

    async def annotate(self, name: str, given: Mapping[str, str | None]) -> Pod:
        body = {"metadata": {"annotations": dict(given)}}
        return await self.client.patch(Pod, name, body, "default", type=PatchType.MERGE)

    async def until(self, holds: Callable[[], Awaitable[object]], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not await holds():  # noqa: ASYNC110 - the condition is about others
                await asyncio.sleep(0.02)

    async def until_released(self, name: str) -> Pod:
        async def is_released() -> bool:
            return not plan.is_gated(await self.find(name))

        await self.until(is_released)
        return await self.find(name)

    async def bridge_labels(self, name: str) -> set[str]:
        found = (await self.client.get(Node, name)).metadata.labels
        return {key for key in found if key.startswith(LABEL_PREFIX)}

    async def until_labelled(self, name: str, count: int) -> None:
        async def has() -> bool:
            return len(await self.bridge_labels(name)) == count

        await self.until(has)

    async def events(self, reason: str) -> list[str]:
        return [each.note for each in (await self.client.list(Event)).items if each.reason == reason]

    async def until_reported(self, reason: str) -> str:
        async def is_reported() -> bool:
            return bool(await self.events(reason))

        await self.until(is_reported)
        return (await self.events(reason))[0]


def tolerated(pod: Pod, key: str) -> set[str]:
    """Return the values of a taint that a pod's `Equal` tolerations name."""
    return {each.value for each in pod.spec.tolerations if each.key == key and each.operator == "Equal"}


def tree_of(obj: Pod | Node) -> dict[str, Any]:
    found: dict[str, Any] = codec.to_tree(obj)
    return found


@asynccontextmanager
async def stock_cluster(emulation: str | None = None, gates: str = STOCK) -> AsyncIterator[StockCluster]:
    """Yield a server whose gates are all off; older releases do not have them."""
    with tempfile.TemporaryDirectory() as folder:
        component = resolve(gates=gates, emulation=emulation)
        server = await ApiServer.open(ServerConfig(data_dir=Path(folder), ephemeral=True, component=component))
        try:
            yield StockCluster(server)
        finally:
            await server.close()
