"""How fast the API server is over HTTPS: creating pods durably, listing them, watching them, binding them.

Run as `python benchmarks/apiserver.py`. The server runs in a process of its own, on SQLite; the client is bare, so that
what is measured is the server.
"""

import asyncio
import base64
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import uvloop
import yaml

from benchmarks.bare_client import answered, connected, request

_START = "from mooring.cli.commands.apiserver import apiserver; apiserver()"
_PODS = "/api/v1/namespaces/default/pods"
_JSON = "application/json"
_WATCHERS = 500
_MAPS = "/api/v1/namespaces/default/configmaps"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = _Server(Path(directory))
        try:
            uvloop.run(_run(server))
        finally:
            server.stop()


async def _run(server: "_Server") -> None:
    for connections, pods in ((1, 1000), (32, 8000)):
        rate = _creates(server, connections, pods)
        _report(f"pod create, durable, admitted, {connections} connections", f"{rate:,.0f}/s")
    await _fill(server, 5000)
    async with await _Connection.open(server) as connection:
        _report("pods there", f"{await connection.count(_PODS):,}")
        _report("list of 5,000 pods", f"{await _timed(connection, f'{_PODS}?limit=5000'):.1f} ms")
        unmatched = f"{_PODS}?labelSelector=app%3Dnone"
        _report("list of all pods by a label that none has", f"{await _timed(connection, unmatched):.1f} ms")
    _report("bound pods in groups of 100", f"{await _binds(server):,.0f}/s")
    slowest, median = await _fan_out(server, _WATCHERS)
    _report(f"one change to {_WATCHERS} watchers, until the last has it", f"{slowest:.1f} ms (median {median:.1f})")


class _Server:
    """`mooring apiserver` on a directory."""

    def __init__(self, directory: Path, *flags: str) -> None:
        command = [sys.executable, "-c", _START, "--data-dir", str(directory), "--port", "0"]
        self._process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        line = self._process.stdout.readline()
        address = urlsplit(line.partition("ready at ")[2].partition(";")[0])
        self.host, self.port = address.hostname or "", address.port or 0
        self.tls, self.trust = _tls(directory)
        """With the administrator's certificate, and without one."""

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def _tls(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    config = yaml.safe_load((directory / "admin.kubeconfig").read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    known, unknown = (ssl.create_default_context(cadata=authority) for _ in range(2))
    pair = directory / "benchmark.pem"
    pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    known.load_cert_chain(pair)
    return known, unknown


class _Connection:
    """One connection that does no more than it must."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, server: _Server) -> Self:
        pair = await asyncio.open_connection(server.host, server.port, ssl=server.tls, limit=2**26)
        return cls(*pair)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    async def send(self, method: str, path: str, body: bytes = b"", media: str = _JSON) -> tuple[bytes, bytes]:
        self.write(method, path, body, media)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head:
            return head, b"".join([chunk async for chunk in self._chunks()])
        size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head, await self._reader.readexactly(size)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)

    def write(self, method: str, path: str, body: bytes = b"", media: str = _JSON) -> None:
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {media}\r\ncontent-length: {len(body)}"
        self._writer.write(head.encode() + b"\r\n\r\n" + body)

    async def event(self) -> None:
        """Wait until something comes."""
        await self._reader.readuntil(b"\r\n\r\n")

    async def line(self) -> None:
        await self._reader.readuntil(b"\n\r\n")

    async def count(self, path: str) -> int:
        _, body = await self.send("GET", f"{path}?limit=1")
        listed: dict[str, Any] = json.loads(body)
        return 1 + int(listed["metadata"].get("remainingItemCount", 0))


def _pod(name: str) -> bytes:
    """Return a pod of about 1.5 KB, defaults included."""
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    container = {
        "name": "c",
        "image": "registry.example/app:1.2.3",
        "ports": [{"containerPort": 8080}],
        "env": [{"name": f"SETTING_{number}", "value": f"value {number}"} for number in range(4)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": probe,
    }
    spec = {"containers": [container], "tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}]}
    metadata = {"name": name, "labels": {"app": "web", "tier": "front"}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def _creates(server: _Server, connections: int, pods: int) -> float:
    """Pods a second, of requests that are made beforehand."""
    opened = [connected(server) for _ in range(connections)]
    asked = [request("POST", _PODS, _pod(f"c{connections}-{number}")) for number in range(pods)]
    taken = answered(opened, asked)
    for connection in opened:
        connection.close()
    return pods / taken


async def _fill(server: _Server, least: int) -> None:
    async with await _Connection.open(server) as connection:
        missing = max(0, least - await connection.count(_PODS))

    async def create(numbers: range) -> None:
        async with await _Connection.open(server) as connection:
            for number in numbers:
                await connection.send("POST", _PODS, _pod(f"fill-{number}"))

    await asyncio.gather(*(create(range(start, missing, 32)) for start in range(32)))


async def _timed(connection: _Connection, path: str, times: int = 5) -> float:
    """Return the fastest of some requests, in milliseconds."""
    best = float("inf")
    for _ in range(times):
        begun = time.perf_counter()
        await connection.send("GET", path)
        best = min(best, time.perf_counter() - begun)
    return best * 1000


async def _binds(server: _Server, size: int = 100, groups: int = 20) -> float:
    async with await _Connection.open(server) as connection:
        _, body = await connection.send("GET", f"{_PODS}?limit={size * groups}&fieldSelector=spec.nodeName%3D")
        names = [item["metadata"]["name"] for item in json.loads(body)["items"]]
        parts = [names[start : start + size] for start in range(0, len(names), size)]
        _, probe = await connection.send("POST", "/writes", _bindings(["none"]))
        is_old = b'"code":404' not in probe  # a commit that binds by a list of its own
        begun = time.perf_counter()
        for part in parts:
            path, body = ("/api/v1/bindings", _binding_list(part)) if is_old else ("/writes", _bindings(part))
            head, answer = await connection.send("POST", path, body)
            assert head.startswith(b"HTTP/1.1 20"), answer
            assert b"Failure" not in answer, answer
        return len(names) / (time.perf_counter() - begun)


def _bindings(names: Sequence[str]) -> bytes:
    body = {"metadata": {"name": "<row>"}, "target": {"kind": "Node", "name": "node-1"}}
    write = {"method": "POST", "path": _PODS, "subresource": "binding", "body": body}
    return json.dumps({"items": [{**write, "rows": [{"name": name} for name in names]}]}).encode()


def _binding_list(names: Sequence[str]) -> bytes:
    items = [
        {"metadata": {"name": name, "namespace": "default"}, "target": {"kind": "Node", "name": "node-1"}}
        for name in names
    ]
    return json.dumps({"kind": "BindingList", "apiVersion": "v1", "items": items}).encode()


async def _fan_out(server: _Server, watchers: int, changes: int = 5) -> tuple[float, float]:
    """Milliseconds from sending a change until the last, and until the middle, watcher has it: the best of some."""
    gate = asyncio.Semaphore(16)

    async def open_watch() -> _Connection:
        async with gate:
            connection = await _Connection.open(server)
            connection.write("GET", f"{_MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
            await connection.event()  # the head of the response
            return connection

    connections = await asyncio.gather(*(open_watch() for _ in range(watchers)))
    results = []
    async with await _Connection.open(server) as writer:
        for number in range(changes):

            async def arrival(connection: _Connection) -> float:
                await connection.line()
                return time.perf_counter()

            waiting = [asyncio.create_task(arrival(connection)) for connection in connections]
            await asyncio.sleep(0.3)
            begun = time.perf_counter()
            await writer.send("POST", _MAPS, json.dumps({"metadata": {"name": f"change-{number}"}}).encode())
            arrived = sorted(await asyncio.gather(*waiting))
            results.append(((arrived[-1] - begun) * 1000, (statistics.median(arrived) - begun) * 1000))
    for connection in connections:
        await connection.__aexit__()
    return min(results)


def _report(what: str, result: str) -> None:
    print(f"{what:<58} {result:>24}")


if __name__ == "__main__":
    main()
