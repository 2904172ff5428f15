"""A load balancer in front of several API servers, as small as it can be: TCP, round robin over the ready ones.

with Balancer() as balancer:
    balancer.add(server.address)
    config = balancer.kubeconfig(server.kubeconfig, tmp_path / "admin.kubeconfig")

It asks every server for /readyz again and again. One that says no gets no new connections, and can finish what it has
begun on the others. One that is gone, or that did not answer three times, loses them all, as with haproxy's `fall 3
on-marked-down shutdown-sessions`. It runs in a thread of its own, so that tests may block.
"""

import asyncio
import re
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

Address = tuple[str, int]
_ASK_SECONDS = 0.1
_ANSWER_SECONDS = 1.0
_FALL = 3
_CHUNK = 64 * 1024


@dataclass
class _Server:
    address: Address
    ready: bool = False
    connections: set[asyncio.Task[None]] = field(default_factory=set)


class Balancer:
    """Listens on a free port while it is entered."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer")
        self._servers: list[_Server] = []
        self._turn = 0
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, address: Address) -> None:
        """Send clients to another server as soon as it is ready."""
        asyncio.run_coroutine_threadsafe(self._add(address), self._loop).result()

    def ready(self) -> int:
        """How many servers it sends clients to."""
        return sum(server.ready for server in self._servers)

    def kubeconfig(self, original: Path, path: Path) -> Path:
        """Write a copy of a server's kubeconfig that leads here."""
        path.write_text(re.sub(r"https://127\.0\.0\.1:\d+", f"https://127.0.0.1:{self.port}", original.read_text()))
        path.chmod(0o600)
        return path

    async def _start(self) -> None:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        self._probes: list[asyncio.Task[None]] = []

    async def _stop(self) -> None:
        self._listening.close()
        tasks = [*self._probes, *(task for server in self._servers for task in server.connections)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _add(self, address: Address) -> None:
        server = _Server(address)
        self._servers.append(server)
        self._probes.append(asyncio.create_task(self._probe(server)))

    async def _probe(self, server: _Server) -> None:
        silent = 0
        while True:
            try:
                server.ready = await self._ask(server.address) == 200
                silent = 0
            except TimeoutError:
                silent += 1
            except (OSError, IndexError, ValueError):
                silent = _FALL
            if silent >= _FALL:
                server.ready = False
                cut, server.connections = server.connections, set()
                for task in cut:
                    task.cancel()
            await asyncio.sleep(_ASK_SECONDS)

    async def _ask(self, address: Address) -> int:
        """Return the status of /readyz."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection(*address, ssl=self._tls)
                writer.write(b"GET /readyz HTTP/1.1\r\nhost: balancer\r\nconnection: close\r\n\r\n")
                return int((await reader.readline()).split()[1])
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        try:
            ready = [server for server in self._servers if server.ready]
            if ready:
                self._turn += 1
                server = ready[self._turn % len(ready)]
                server.connections.add(task)
                try:
                    await self._connect(server, reader, writer)
                finally:
                    server.connections.discard(task)
        except asyncio.CancelledError:
            task.uncancel()  # the connection was cut, which is nothing to tell asyncio about
        finally:
            writer.transport.abort()

    async def _connect(self, server: _Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*server.address)
            for each in (writer, far_writer):
                each.transport.set_write_buffer_limits(0)
            ways = [asyncio.create_task(_copy(reader, far_writer)), asyncio.create_task(_copy(far_reader, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                far_writer.transport.abort()
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes in one direction until there are no more."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()  # until all has gone out: a connection that ends is cut
