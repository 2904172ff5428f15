"""A client that asks a running server to leave HTTP, and then speaks in bytes or in WebSocket messages."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from wsproto.connection import CLIENT, Connection
from wsproto.events import BytesMessage, CloseConnection

from running_server import RunningServer

WEBSOCKET = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
}
_SECONDS = 20


_contexts: dict[Path, ssl.SSLContext] = {}


def _tls(server: RunningServer) -> ssl.SSLContext:
    """Return a context for each server: making one costs more than a handshake."""
    if server.data_dir not in _contexts:
        _contexts[server.data_dir] = server.tls()
    return _contexts[server.data_dir]


class UpgradedClient:
    """One connection. `status`, `headers` and, without an upgrade, `body` are what the server answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._frames = Connection(CLIENT)
        self._messages: list[tuple[int, bytes]] = []

    @classmethod
    async def ask(
        cls,
        server: RunningServer,
        path: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        early: bytes = b"",
    ) -> Self:
        """Send a request, directly followed by bytes, and read the head of the response."""
        host, port = server.address
        reader, writer = await asyncio.open_connection(host, port, ssl=_tls(server), limit=2**16)
        client = cls(reader, writer)
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: {host}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        writer.write("\r\n".join([*lines, "\r\n"]).encode() + early)
        async with asyncio.timeout(_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            client.status = int(head[0].split()[1])
            client.headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            if client.status != 101 and "content-length" in client.headers:
                client.body = await reader.readexactly(int(client.headers["content-length"]))
        return client

    @classmethod
    async def websocket(
        cls, server: RunningServer, path: str, protocol: str = "v5.channel.k8s.io", early: bytes = b""
    ) -> Self:
        headers = WEBSOCKET | ({"sec-websocket-protocol": protocol} if protocol else {})
        return await cls.ask(server, path, headers=headers, early=early)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def read(self, count: int) -> bytes:
        async with asyncio.timeout(_SECONDS):
            return await self.reader.readexactly(count)

    async def rest(self) -> bytes:
        """All until the server hangs up."""
        async with asyncio.timeout(_SECONDS):
            return await self.reader.read(-1)

    async def send(self, channel: int, data: bytes) -> None:
        self.writer.write(self._frames.send(BytesMessage(data=bytes((channel,)) + data)))
        await self.writer.drain()

    async def message(self) -> tuple[int, bytes] | None:
        """Return the next message with something in it: its channel and the rest; None at the end."""
        async with asyncio.timeout(_SECONDS):
            while True:
                for event in self._frames.events():
                    if isinstance(event, BytesMessage):
                        self._messages.append((event.data[0], bytes(event.data[1:])))
                    elif isinstance(event, CloseConnection):
                        self._messages.append((-1, b"closed"))
                while self._messages:
                    channel, data = self._messages.pop(0)
                    if channel < 0:
                        return None
                    if data:
                        return channel, data
                data = await self.reader.read(2**16)
                if not data:
                    return None
                self._frames.receive_data(data)

    async def conversation(self) -> tuple[dict[int, bytes], Any]:
        """Return what came on each channel, and the Status at the end."""
        found: dict[int, bytes] = {}
        while message := await self.message():
            channel, data = message
            found[channel] = found.get(channel, b"") + data
        return found, json.loads(found.pop(3, b"null"))
