"""Pods created in a namespace with a ResourceQuota, beside those in one without.

Run as `python -m benchmarks quotas`. A server on disk is called through its edge (who is it, may they, limits, logs),
but without sockets and TLS, which would only make the difference smaller. One client after the other, and 64 at once;
both namespaces in turns, by the clock and by the processor, the best of several rounds. Target: a quota costs at most
1.15 times.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

_PODS, _ROUNDS, _AT_ONCE = 640, 12, 64
_HARD = {"pods": "1000000", "requests.cpu": "1000000", "requests.memory": "1000000Gi", "limits.memory": "1000000Gi"}
_ASKED = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}}
_ADMIN = UserInfo(username="admin", groups=["system:masters", "system:authenticated"])


class _Client:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def post(self, path: str, tree: dict[str, Any]) -> None:
        headers = {"content-type": "application/json", "user-agent": "bench/1"}
        body = json.dumps(tree).encode()
        request = Request(method="POST", path=path, headers=headers, body=body, user=_ADMIN)
        response = await self._server.app.respond(request)
        if response.status != 201:
            raise RuntimeError(response.body)

    async def pod(self, namespace: str, name: str) -> None:
        spec = {"containers": [{"name": "c", "image": "registry/web:1", "resources": _ASKED}]}
        await self.post(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec})


async def _one_by_one(client: _Client, namespace: str, mark: str) -> None:
    for number in range(_PODS // 4):
        await client.pod(namespace, f"{mark}-{number}")


async def _at_once(client: _Client, namespace: str, mark: str) -> None:
    async def write(first: int) -> None:
        for number in range(first, _PODS, _AT_ONCE):
            await client.pod(namespace, f"{mark}-{number}")

    await asyncio.gather(*map(write, range(_AT_ONCE)))


async def _compare(client: _Client, how: str, work: Callable[[_Client, str, str], Awaitable[None]]) -> None:
    clock: dict[str, list[float]] = {"without": [], "with": []}
    processor: dict[str, list[float]] = {"without": [], "with": []}
    for turn in range(_ROUNDS):
        for namespace in ("without", "with"):
            began, used = time.perf_counter(), time.process_time()
            await work(client, namespace, f"{how[:1]}{turn}")
            clock[namespace].append(time.perf_counter() - began)
            processor[namespace].append(time.process_time() - used)
    for what, seconds in (("clock", clock), ("processor", processor)):
        pods = _PODS if work is _at_once else _PODS // 4
        without, with_quota = (min(seconds[name]) / pods * 1e6 for name in ("without", "with"))
        ratio = with_quota / without
        print(f"{how}, {what}: {without:.0f} µs without, {with_quota:.0f} µs with a quota: {ratio:.2f} times")


async def _run(directory: Path) -> None:
    async with await ApiServer.open(ServerConfig(data_dir=directory, port=0)) as server:
        client = _Client(server)
        for name in ("without", "with"):
            await client.post("/api/v1/namespaces", {"metadata": {"name": name}})
            await client.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        body = {"metadata": {"name": "quota"}, "spec": {"hard": _HARD}}
        await client.post("/api/v1/namespaces/with/resourcequotas", body)
        await asyncio.sleep(0.5)
        await _compare(client, "one after the other", _one_by_one)
        await _compare(client, f"{_AT_ONCE} at once", _at_once)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_run(Path(directory)))
