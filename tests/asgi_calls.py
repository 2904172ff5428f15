"""Call an ASGI application without a socket, as a given user."""

import asyncio
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.edge.sending import CLIENT, Client
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.requests.app import Application
from mooring.apiserver.server import ApiServer
from mooring.base import component
from mooring.base.clock import Clock

Message = MutableMapping[str, Any]


def certificate(user: str, *groups: str) -> dict[str, Any]:
    """Return a verified client certificate, as `ssl` shows it."""
    subject = [(("commonName", user),), *((("organizationName", group),) for group in groups)]
    return {"subject": tuple(subject)}


ADMIN = certificate("admin", "system:masters")


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes
    warnings: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))


class Stream:
    """A response that goes on: what came so far, and a way to hang up."""

    def __init__(self) -> None:
        self.start: Message = {}
        self.started = asyncio.Event()
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended_cleanly = False
        self.hang_up = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def next(self) -> Any:
        return msgspec.json.decode(await asyncio.wait_for(self.lines.get(), 5))


class Caller:
    """A client of an application."""

    def __init__(self, app: Application, peer: Mapping[str, Any] | None = None) -> None:
        self.app = app
        self.peer = peer

    def as_user(self, user: str, *groups: str) -> "Caller":
        return Caller(self.app, certificate(user, *groups))

    def as_anonymous(self) -> "Caller":
        return Caller(self.app, None)

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answer:
        raw = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        messages = [{"type": "http.request", "body": raw, "more_body": False}]
        sent: list[Message] = []

        async def receive() -> Message:
            if messages:
                return messages.pop(0)
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(self._scope(method, path, content_type, headers), receive, send)
        return _answer(sent)

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[Stream]:
        """Yield a GET whose answer comes in pieces."""
        stream = Stream()

        async def receive() -> Message:
            await stream.hang_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                stream.start = message
                stream.started.set()
            elif message.get("body"):
                for line in message["body"].splitlines():
                    stream.lines.put_nowait(line)
            elif not message.get("more_body"):
                stream.ended_cleanly = True

        stream.task = asyncio.create_task(self.app(self._scope("GET", path, "", {}), receive, send))
        await asyncio.wait_for(stream.started.wait(), 5)
        try:
            yield stream
        finally:
            stream.hang_up.set()
            await asyncio.wait_for(stream.task, 5)

    def _scope(self, method: str, path: str, content_type: str, headers: Mapping[str, str]) -> dict[str, Any]:
        path, _, query = path.partition("?")
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        if content_type:
            raw.append((b"content-type", content_type.encode()))
        return {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": quote(query, safe="&=,%").encode(),
            "headers": raw,
            CLIENT: Client("192.0.2.7", self.peer),
        }


def _answer(sent: list[Message]) -> Answer:
    start, *rest = sent
    pairs = [(name.decode(), value.decode()) for name, value in start["headers"]]
    warnings = [value for name, value in pairs if name == "warning"]
    return Answer(start["status"], dict(pairs), b"".join(part.get("body", b"") for part in rest), warnings)


@asynccontextmanager
async def running(
    directory: Path,
    *,
    gates: str = "",
    emulation: str | None = None,
    min_compatibility: str | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
    **config: Any,
) -> AsyncIterator[ApiServer]:
    """Yield a server on a store in memory that does not listen."""
    settings = ServerConfig(
        data_dir=directory,
        ephemeral=True,
        port=0,
        component=component.resolve(gates=gates, emulation=emulation, min_compatibility=min_compatibility),
        limits=limits or Limits(),
        **config,
    )
    async with await ApiServer.open(settings, clock=clock) as server:
        yield server
