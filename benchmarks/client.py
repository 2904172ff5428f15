"""The client: informers of a large cluster, and requests over HTTPS to a server in another process."""

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import uvloop

from mooring.api import codec
from mooring.api.core_v1 import Container, Node, Pod, PodSpec, ResourceRequirements
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.quantity import parse
from mooring.client import Client, Informers, connect
from mooring.client.in_process import InProcessTransport
from mooring.client.transport import Request, Response

NODES, PODS, CHANGES = 5_000, 50_000, 20_000
REQUESTS = 4_000


def main() -> None:
    uvloop.run(_informers())
    _requests()


# -- informers


class _Stream:
    """What a transport in the same process returns: pages of encoded objects, and one watch full of changes."""

    def __init__(self, status: int, body: bytes | AsyncIterator[bytes]) -> None:
        self.status, self.body = status, body
        self.headers: dict[str, str] = {}
        self.warnings: tuple[str, ...] = ()


class _Cluster:
    """Encoded objects, as the API server keeps them."""

    def __init__(self) -> None:
        self._objects = {
            "nodes": [codec.encode(_node(index)) for index in range(NODES)],
            "pods": [codec.encode(_pod(index)) for index in range(PODS)],
        }
        self.go = asyncio.Event()

    async def answer(self, request: Request) -> _Stream:
        query, plural = dict(request.query), request.path.rpartition("/")[2]
        objects = self._objects[plural]
        if "watch" in query:
            return _Stream(200, self._changes(objects if plural == "pods" else []))
        begin, limit = int(query.get("continue", "0")), int(query["limit"])
        end = begin + limit
        token = b',"continue":"%d"' % end if end < len(objects) else b""
        items = b",".join(objects[begin:end])
        return _Stream(200, b'{"metadata":{"resourceVersion":"1"%b},"items":[%b]}' % (token, items))

    async def _changes(self, objects: list[bytes]) -> AsyncIterator[bytes]:
        await self.go.wait()
        for begin in range(0, min(CHANGES, len(objects)), 100):
            changed = (
                each.replace(b'"resourceVersion":"1"', b'"resourceVersion":"2"')
                for each in objects[begin : begin + 100]
            )
            yield b"".join(b'{"type":"MODIFIED","object":%b}\n' % each for each in changed)
            await asyncio.sleep(0)
        await asyncio.sleep(3600)


def _meta(name: str, namespace: str = "") -> ObjectMeta:
    labels = {"app": f"app-{hash(name) % 50}", "kubernetes.io/hostname": name}
    created = "2026-01-01T00:00:00Z"
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{name}-0000-4000-8000",
        resource_version="1",
        labels=labels,
        creation_timestamp=created,
    )


def _node(index: int) -> Node:
    node = Node(metadata=_meta(f"node-{index}"))
    node.status.allocatable = {"cpu": parse("32"), "memory": parse("128Gi"), "pods": parse("110")}
    return node


def _pod(index: int) -> Pod:
    requests = {"cpu": parse("100m"), "memory": parse("128Mi")}
    container = Container(name="c", image="registry.example/app:1", resources=ResourceRequirements(requests=requests))
    return Pod(
        metadata=_meta(f"pod-{index}", "default"),
        spec=PodSpec(containers=[container], node_name=f"node-{index % NODES}"),
    )


async def _informers() -> None:
    cluster = _Cluster()
    client = Client(InProcessTransport(cluster.answer), user_agent="benchmark")
    informers = Informers(client)
    pods, nodes = informers.of(Pod), informers.of(Node)
    pods.index("node", lambda pod: [pod.spec.node_name])
    seen, done = 0, asyncio.Event()

    def count(changes: object) -> None:
        nonlocal seen
        seen += len(changes)  # type: ignore[arg-type] # a sequence of changes
        if seen >= PODS + CHANGES:
            done.set()

    pods.add_batch_handler(count)
    before, began = _resident(), time.perf_counter()
    async with informers:
        await informers.wait_for_sync()
        synced = time.perf_counter() - began
        print(f"sync of {len(nodes):,} nodes and {len(pods):,} pods   {synced:8.2f} s")
        print(f"memory of both caches                 {_resident() - before:8.0f} MB")
        began = time.perf_counter()
        cluster.go.set()
        await done.wait()
        print(f"watch events taken in                 {CHANGES / (time.perf_counter() - began):8,.0f} /s")


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


# -- requests


def _requests() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mooring", "apiserver", "--port", "0", "--data-dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            server.stdout.readline()  # it says when it is ready
            uvloop.run(_calls(Path(folder) / "admin.kubeconfig"))
        finally:
            server.terminate()
            server.wait()


async def _calls(kubeconfig: Path) -> None:
    async with connect(kubeconfig, user_agent="benchmark") as client:
        names = iter(range(10**9))

        async def create() -> Resource:
            pod = _pod(next(names))
            pod.metadata.resource_version = pod.metadata.uid = ""
            return await client.create(pod)

        async def get() -> Resource:
            return await client.get(Pod, "pod-0", "default")

        async def version() -> Response:
            return await client.raw("GET", "/version")

        for name, call in (("create a pod", create), ("get a pod", get), ("get /version", version)):
            for connections in (1, 32):
                rate, cpu = await _rate(call, connections)
                print(
                    f"{name:14} over {connections:2} connections      {rate:8,.0f} /s, {cpu:5.0f} µs of the client each"
                )


async def _rate(call: Callable[[], Awaitable[object]], connections: int) -> tuple[float, float]:
    async def work() -> None:
        for _ in range(REQUESTS // 2 // connections):
            await call()

    began, spent = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(connections)))
    count = REQUESTS // 2 // connections * connections
    return count / (time.perf_counter() - began), (time.process_time() - spent) / count * 1e6


if __name__ == "__main__":
    main()
