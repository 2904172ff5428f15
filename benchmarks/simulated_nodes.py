"""Simulated nodes and eviction: a large cluster that comes up, idles, and is evicted from, all in one process."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Container, Node, Pod, PodSpec
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.in_process import handler
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.client import Client, Informer
from mooring.client.in_process import InProcessTransport
from mooring.controllers.run import Controllers
from mooring.controllers.simulated_nodes.templates import build_numbered_nodes, create_nodes

NODES, PODS, EVICTED = 5_000, 50_000, 10_000
IDLE_SECONDS = 30
_ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
_NAMES = ("simulated-nodes", "simulated-pods", "node-lifecycle", "taint-eviction")


def main() -> None:
    nodes, pods = (int(word) for word in sys.argv[1:3]) if __name__ == "__main__" and sys.argv[2:] else (NODES, PODS)
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(_run(Path(folder), nodes, pods))


class _Watch:
    """Prints how long something took: on the clock, and of the processor."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._began, self._spent = time.perf_counter(), time.process_time()

    def lap(self, what: str) -> None:
        took, spent = time.perf_counter() - self._began, time.process_time() - self._spent
        print(f"{what:44} {took:7.1f} s, {spent:6.1f} s of one core", flush=True)
        self._start()


async def _run(folder: Path, nodes: int, pods: int) -> None:
    async with await ApiServer.open(ServerConfig(data_dir=folder, ephemeral=True)) as server:

        def client() -> Client:
            return Client(InProcessTransport(handler(server.app, _ADMIN)), user_agent="benchmark", scheme=server.scheme)

        controllers = Controllers(client(), names=_NAMES)
        work = asyncio.create_task(controllers.run())
        await controllers.wait_until_ready()
        seen_nodes: Informer[Node] = controllers.context.informers.of(Node)
        seen_pods: Informer[Pod] = controllers.context.informers.of(Pod)
        watch = _Watch()
        await create_nodes(client(), build_numbered_nodes(nodes))
        await _until(lambda: len(seen_nodes) == nodes and not any(node.spec.taints for node in seen_nodes.objects()))
        watch.lap(f"{nodes:,} nodes ready")
        await _create(client(), nodes, pods)
        await _until(lambda: sum(pod.status.phase == "Running" for pod in seen_pods.objects()) == pods)
        watch.lap(f"{pods:,} pods created and running")
        await asyncio.sleep(IDLE_SECONDS)
        watch.lap("idle")
        await _taint(client(), min(nodes, EVICTED * nodes // pods))
        left = max(pods - EVICTED, 0)
        await _until(lambda: len(seen_pods) <= left)
        watch.lap(f"{pods - left:,} pods evicted and gone")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the condition is about others' state
        await asyncio.sleep(0.2)


async def _create(client: Client, nodes: int, pods: int) -> None:
    numbers = iter(range(pods))

    async def some() -> None:
        for number in numbers:
            spec = PodSpec(containers=[Container(name="c", image="app:1")], node_name=f"node-{number % nodes}")
            await client.create(Pod(metadata=ObjectMeta(name=f"pod-{number}", namespace="default"), spec=spec))

    await asyncio.gather(*(some() for _ in range(32)))


async def _taint(client: Client, nodes: int) -> None:
    taint = {"spec": {"taints": [{"key": "sla", "value": "900", "effect": "NoExecute"}]}}
    await asyncio.gather(*(client.patch(Node, f"node-{number}", taint) for number in range(nodes)))


if __name__ == "__main__":
    main()
