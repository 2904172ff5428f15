"""One request and its response: `Cycle` by ASGI messages, `FastExchange` for a request whose body has arrived.

``http_server.py`` makes them; ``requests/app.py`` sends messages through a `Cycle`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http.client import responses
from typing import Any

from mooring.apiserver.edge.pushing import Flow
from mooring.apiserver.edge.sending import BROKEN, date, lines_of
from mooring.base import logs


class _StatusLines(dict[int, bytes]):
    """Status lines by code, with unknown codes of proxied servers (600 to 999)."""

    def __missing__(self, code: int) -> bytes:
        return b"HTTP/1.1 %d \r\n" % code if 600 <= code <= 999 else self[500]


STATUS_LINE = _StatusLines(
    {code: f"HTTP/1.1 {code} {responses.get(code, '')}\r\n".encode() for code in range(100, 600)}
)
log = logs.get(__name__)

OLD = "1.0"
"""The version HTTP/1.0, without chunks and keep-alive: a body of unknown length ends with the connection."""
JOINED_BYTES = 64 * 1024
"""Responses of up to this number of bytes are sent in one write, head and body together."""


class Cycle:
    """A request and its response by ASGI: a head, then at least one piece of body."""

    def __init__(
        self,
        scope: dict[str, Any],
        transport: asyncio.Transport,
        flow: Flow,
        on_response: Callable[[], None],
        *,
        expect_100_continue: bool,
        keep_alive: bool,
    ) -> None:
        self.scope = scope
        self.transport = transport
        self.flow = flow
        self.default_headers = [date()]
        self.message_event = asyncio.Event()
        self.disconnected = False
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expect_100_continue
        self.body = bytearray()
        self.more_body = True
        self.response_started = False
        self.response_complete = False
        self._on_response = on_response
        self._in_chunks = False
        self._head = b""

    async def run(self, app: Callable[..., Awaitable[None]]) -> None:
        try:
            await app(self.scope, self.receive, self.send)
            if not self.response_complete and not self.disconnected:
                raise RuntimeError("the answer has no end")
        except BaseException as error:
            log.error("A response was not sent", exc_info=error)
            if not self.response_started and not self.disconnected:
                self.transport.write(STATUS_LINE[500] + b"content-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
        finally:
            del self._on_response  # a reference cycle with the connection

    async def receive(self) -> dict[str, Any]:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            self.flow.resume_reading()
            await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == BROKEN:
            if not self.response_complete:
                self.response_complete = True
                self.transport.abort()  # without a last chunk, clients see that the body is incomplete
            return
        if message["type"] == "http.response.start":
            self.response_started = True
            self.waiting_for_100_continue = False
            self._head = self._head_of(message["status"], message["headers"])
            return
        head, self._head = self._head, b""
        body, more = message["body"], message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._in_chunks:
            body = _chunk(body, last=not more)
        if head and len(body) <= JOINED_BYTES:
            self.transport.write(head + body)
        else:
            if head:
                self.transport.write(head)
            self.transport.write(body)
        if not more:
            self._complete()

    def _head_of(self, status: int, given: list[tuple[bytes, bytes]]) -> bytes:
        headers = [*self.default_headers, *given]
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        has_length = any(name == b"content-length" for name, _ in given)
        self._in_chunks = not has_length and self.scope["http_version"] != OLD
        if self._in_chunks and self.scope["method"] != "HEAD":
            headers.append((b"transfer-encoding", b"chunked"))
        return self.head(status, headers)

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        return b"%b%b\r\n" % (STATUS_LINE[status], lines_of(headers))

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self._on_response()


def _chunk(body: bytes, *, last: bool) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return chunk + b"0\r\n\r\n" if last else chunk


class _NoEvent:
    def set(self) -> None: ...


class FastExchange:
    """A request whose body has arrived, and its response, handled by a direct call instead of ASGI."""

    __slots__ = ("disconnected", "http_version", "keep_alive", "response_complete", "task")
    message_event = _NoEvent()
    task: asyncio.Task[None]

    def __init__(self, http_version: str, *, keep_alive: bool) -> None:
        self.http_version = http_version
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
