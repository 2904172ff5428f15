"""Send responses and receive bodies as ASGI messages: headers, streams, and large bodies in pieces.

``requests/app.py`` calls these functions; ``exchanges.py`` writes the messages to a socket.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from mooring.api.response_limits import limited_warnings
from mooring.apiserver.edge.limits import Place
from mooring.apiserver.messages import users
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Pushed, Response, warning_header

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]
CLIENT = "mooring.client"
"""The key of the ASGI scope that holds the `Client`."""
TAKE_OVER = "mooring.take_over"
"""The key of the ASGI scope that holds the function which responds 101 and returns the connection."""
BROKEN = "mooring.broken"
"""The ASGI message type that aborts a body, so that the client sees it as incomplete."""
_CHUNK = 64 * 1024
"""The maximum size of a write: for larger ones OpenSSL allocates memory, which costs more than encryption."""


def head_of(exchange: Exchange, response: Response, length: int) -> bytes:
    """Serialise the headers of a response whose body has `length` bytes."""
    if response.headers or response.warnings:
        return lines_of(headers_of(exchange, response))
    return b"content-type: %b\r\naudit-id: %b\r\ncache-control: no-cache, private\r\ncontent-length: %d\r\n" % (
        _encoded(response.content_type),
        exchange.request.request_id.encode(),
        length,
    )


def lines_of(headers: Iterable[Header]) -> bytes:
    """Serialise headers as lines; raise ValueError if one contains a line break or a NUL."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    joined = b"".join(lines)
    if not joined.count(b"\n") == joined.count(b"\r") == len(lines) or b"\0" in joined:
        raise ValueError("a header of a response has a line break in it")
    return joined


def date() -> Header:
    return _date_at(int(time.time()))


@lru_cache(maxsize=4)
def _date_at(second: int) -> Header:
    return b"date", formatdate(second, usegmt=True).encode()


_encoded = lru_cache(maxsize=64)(str.encode)
known_lines = lru_cache(maxsize=256)(lines_of)
"""`lines_of` with a cache, for headers that many responses share."""


class Stream:
    """A response body in pieces, which releases its request slot when it ends or is aborted."""

    __slots__ = ("_body", "_exchange", "_place", "on_end")

    def __init__(self, body: AsyncIterator[bytes], exchange: Exchange, place: Place | None = None) -> None:
        self.on_end: Callable[[Exchange], None] | None = None
        self._body = body
        self._exchange = exchange
        self._place = place

    @property
    def pushed(self) -> Pushed | None:
        """Return the body if its producer can push it; None if it has to be iterated."""
        return self._body if isinstance(self._body, Pushed) and self._body.can_follow else None

    def sent(self, size: int) -> None:
        """Count bytes that were pushed."""
        self._exchange.bytes_sent += size

    def end(self) -> None:
        """Release the request slot and call `on_end`, once."""
        place, call = self._place, self.on_end
        self._place = self.on_end = None
        if place is not None:
            place.release()
        if call is not None:
            call(self._exchange)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await anext(self._body)
        except BaseException:  # the end, an error or a cancellation
            self.end()
            raise
        self._exchange.bytes_sent += len(chunk)
        return chunk

    async def aclose(self) -> None:
        try:
            close = getattr(self._body, "aclose", None)
            if close:
                await close()
        finally:
            self.end()


class BodyTooLargeError(Exception):
    """The body of a request is larger than the limit."""


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


async def receive_body(receive: Receive, most: int, count: Callable[[int], None] = lambda _: None) -> bytes:
    """Receive the body of a request and `count` the size of each part; raise BodyTooLargeError and ClientGoneError."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise BodyTooLargeError
        count(len(part))
        parts.append(part)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def respond(send: Send, status: int, body: bytes, content_type: str, headers: Iterable[Header] = ()) -> None:
    start = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send_whole(body, send)


async def nothing() -> AsyncIterator[bytes]:
    return
    yield  # makes this an iterator


async def send_whole(body: bytes, send: Send) -> None:
    """Send a body; a large one in pieces, between which other tasks of the event loop run."""
    if len(body) <= _CHUNK:
        await send({"type": "http.response.body", "body": body, "more_body": False})
        return
    async for piece in pieces_of(body):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def pieces_of(body: bytes) -> AsyncIterator[bytes]:
    """Yield a large body in pieces, and let other tasks of the event loop run between them."""
    for begin in range(0, len(body), _CHUNK):
        yield body[begin : begin + _CHUNK]
        await asyncio.sleep(0)


async def send_stream(body: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send pieces as the body yields them, until it ends or the client closes the connection."""
    sender = asyncio.current_task()
    gone = False

    async def wait_for_hangup() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        if sender:
            sender.cancel()

    listener = asyncio.create_task(wait_for_hangup(), name="waiting for a client to hang up")
    try:
        await send(
            {"type": "http.response.body", "body": b"", "more_body": True}
        )  # sends the head before the first event
        async for chunk in body:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except asyncio.CancelledError:
        if not gone:
            raise
        if sender:
            sender.uncancel()
    finally:
        listener.cancel()
        if isinstance(body, Stream):
            await body.aclose()
    if not gone:
        await send({"type": "http.response.body", "body": b""})


def headers_of(exchange: Exchange, response: Response) -> list[Header]:
    headers = [
        (b"content-type", response.content_type.encode("latin-1")),
        (b"audit-id", exchange.request.request_id.encode()),
        (b"cache-control", b"no-cache, private"),
    ]
    if isinstance(response.body, bytes):
        headers.append((b"content-length", str(len(response.body)).encode()))
    headers += ((name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items())
    headers += ((b"warning", warning_header(text).encode("utf-8")) for text in limited_warnings(response.warnings))
    return headers


class Client:
    """The address of a client, and the user of its verified certificate."""

    __slots__ = ("address", "certificate_ends", "user")

    def __init__(self, address: str = "", peer: Mapping[str, Any] | None = None) -> None:
        self.address = address
        self.user = users.of_certificate(peer) if peer else None
        self.certificate_ends: float | None = None
        """When the certificate expires, in seconds since 1970."""
        with suppress(KeyError, ValueError):
            self.certificate_ends = float(ssl.cert_time_to_seconds(peer["notAfter"])) if peer else None
