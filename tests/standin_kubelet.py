"""A server that stands in for a kubelet: TLS, one request a connection, and an answer that the test writes itself."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.apiserver.access.pki import KeyPair, Pki
from mooring.base.clock import SystemClock


@dataclass
class Asked:
    """What came in."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    user: str

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


Answer = Callable[[Asked, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def text(body: str, status: str = "200 OK") -> Answer:
    """Return an answer with a body."""

    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())

    return answer


async def echo_upgraded(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Change to the protocol that was asked for, and repeat whatever comes, after a word of its own."""
    head = [
        "HTTP/1.1 101 Switching Protocols",
        "connection: Upgrade",
        f"upgrade: {asked.values('upgrade')[0]}",
        *(f"sec-websocket-protocol: {value}" for value in asked.values("sec-websocket-protocol")),
    ]
    writer.write("\r\n".join([*head, "\r\n"]).encode() + b"first;")
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@dataclass
class StandInKubelet:
    """Where it listens, what it was asked, and what it answers."""

    identity: KeyPair
    authority: Path
    port: int = 0
    answer: Answer = field(default_factory=lambda: text("hello"))
    asked: list[Asked] = field(default_factory=list)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            pairs = [line.split(": ", 1) for line in head[1:] if line]
            asked = Asked(method, target, [(name, value) for name, value in pairs], _user(writer))
            self.asked.append(asked)
            await self.answer(asked, reader, writer)
            await writer.drain()
            writer.close()

    def die(self) -> None:
        """Cut all connections."""
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def standin_kubelet(folder: Path, client_authority: Path) -> AsyncIterator[StandInKubelet]:
    pki = Pki(folder / "kubelet", SystemClock())
    kubelet = StandInKubelet(pki.server(), pki.authority.certificate_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kubelet.identity.certificate_file, kubelet.identity.key_file)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(client_authority)
    server = await asyncio.start_server(kubelet.serve, "127.0.0.1", 0, ssl=context)
    kubelet.port = server.sockets[0].getsockname()[1]
    try:
        yield kubelet
    finally:
        kubelet.die()
        server.close()


def _user(writer: asyncio.StreamWriter) -> str:
    certificate: Any = writer.get_extra_info("peercert") or {}
    return next((value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"), "")
