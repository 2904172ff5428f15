"""Call the API server without a socket, as a given user."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from mooring.apiserver.edge.calls import Client, HttpCall
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.edge.responses import Stream as EdgeStream
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Response, warning_header
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.requests.app import Application
from mooring.apiserver.server import ApiServer
from mooring.base import component
from mooring.base.clock import Clock


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
    """A response in pieces: the lines received so far."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.ended_cleanly = False
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        body = self.response.body
        async for piece in pieces(self.response) if isinstance(body, bytes) else body:
            for line in piece.splitlines():
                self.lines.put_nowait(line)
        self.ended_cleanly = True

    async def next(self) -> Any:
        return msgspec.json.decode(await asyncio.wait_for(self.lines.get(), 20))


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
        return await answer_of(await self.app.serve(self.call(method, path, raw, content_type, headers)))

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[Stream]:
        """Yield a GET whose answer comes in pieces; hang up at the end."""
        stream = Stream(await asyncio.wait_for(self.app.serve(self.call("GET", path)), 20))
        try:
            yield stream
        finally:
            stream.task.cancel()
            await asyncio.gather(stream.task, return_exceptions=True)
            await close(stream.response)

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        has_arrived: bool = True,
    ) -> HttpCall:
        """Return a request from the network."""
        path, _, query = path.partition("?")
        raw = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        if content_type:
            raw["content-type"] = content_type
        client = Client("192.0.2.7", self.peer, users.user_of_certificate)
        encoded = quote(query, safe="&=,%").encode()
        call = HttpCall(method, path, encoded, raw, client)
        call.add_body(body)
        if has_arrived:
            call.end_body()
        return call


async def pieces(response: Response) -> AsyncIterator[bytes]:
    """Yield the body of a response."""
    if isinstance(response.body, bytes):
        yield response.body
        return
    async for piece in response.body:
        yield piece


async def close(response: Response) -> None:
    """Hang up."""
    if isinstance(response.body, EdgeStream):
        await response.body.aclose()


async def answer_of(response: Response) -> Answer:
    """Return a response with its whole body, as a client receives it."""
    body = b"".join([piece async for piece in pieces(response)])
    own = {"content-type": response.content_type, "content-length": str(len(body)), "audit-id": response.request_id}
    headers = {**own, "cache-control": "no-cache, private", **response.headers}
    return Answer(response.status, headers, body, [warning_header(text) for text in response.warnings])


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
