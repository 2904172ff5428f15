"""A request and its response as uvicorn knows them: one that comes or goes in pieces, and one that has come whole.

``http_server.py`` makes them; what a `Cycle` is given to send comes from ``app.py``.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from mooring.apiserver.app import BROKEN
from mooring.apiserver.sending import lines_of

OLD = "1.0"
"""A version of HTTP without chunks and without a second request: a body of unknown length ends with the connection."""
JOINED_BYTES = 64 * 1024
"""Up to this size, copying the head and the body of a response into one piece is cheaper than two writes."""


class Cycle(RequestResponseCycle):
    """One request and its response, which is given as `Application` does: a head, then at least one piece of body."""

    _head = b""

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == BROKEN:
            if not self.response_complete:
                self.response_complete = True
                self.transport.abort()  # without its last chunk, no client takes the body for whole
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
        elif self.chunked_encoding:
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
        self.chunked_encoding = not has_length and self.scope["http_version"] != OLD
        if self.chunked_encoding and self.scope["method"] != "HEAD":
            headers.append((b"transfer-encoding", b"chunked"))
        return self.head(status, headers)

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Exactly these headers, checked."""
        return b"%b%b\r\n" % (STATUS_LINE[status], lines_of(headers))

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _chunk(body: bytes, *, last: bool) -> bytes:
    """A piece of a body whose length is not known beforehand."""
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return chunk + b"0\r\n\r\n" if last else chunk


class _NoEvent:
    """In place of an event that nobody waits for."""

    def set(self) -> None: ...


class Whole:
    """A request that has come whole, as far as uvicorn wants to know of it."""

    __slots__ = ("disconnected", "http_version", "keep_alive", "response_complete", "task")
    message_event = _NoEvent()
    task: asyncio.Task[None]
    """What works on it."""

    def __init__(self, http_version: str, *, keep_alive: bool) -> None:
        self.http_version = http_version
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
