"""How responses go to the network: their heads, bodies that come in pieces, and large ones, which go in pieces.

Called by ``app.py``; ``http_server.py`` has what a message of ASGI becomes on a socket.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from mooring.api.answer_limits import limited_warnings
from mooring.apiserver.edge.callback_stack import CallbackStack
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Pushed, Response, warning_header

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]
CLIENT = "mooring.client"
"""Where the server puts what it knows of the client, a `Client`, into the scope."""
TAKE_OVER = "mooring.take_over"
"""Where the server puts the function that answers 101 with some headers, and gives the connection away."""
BROKEN = "mooring.broken"
"""The message that a body ends here without being whole."""
_CHUNK = 64 * 1024
"""TLS asks the system for memory for every larger piece, which costs more than enciphering it."""


def head_of(exchange: Exchange, response: Response, length: int) -> bytes:
    """The lines of `headers_of` for a body of a length."""
    if response.headers or response.warnings:
        return lines_of(headers_of(exchange, response))
    return b"content-type: %b\r\naudit-id: %b\r\ncache-control: no-cache, private\r\ncontent-length: %d\r\n%b" % (
        _encoded(response.content_type),
        exchange.request.request_id.encode(),
        length,
        known_lines(exchange.classified),
    )


def lines_of(headers: Iterable[Header]) -> bytes:
    """Headers on lines; raises ValueError for one that would be several."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    joined = b"".join(lines)
    if joined.count(b"\n") != len(lines):
        raise ValueError("a header of a response has a line break in it")
    return joined


def date() -> Header:
    """The header that says when it is."""
    return _date_at(int(time.time()))


@lru_cache(maxsize=4)
def _date_at(second: int) -> Header:
    return b"date", formatdate(second, usegmt=True).encode()


_encoded = lru_cache(maxsize=64)(str.encode)
known_lines = lru_cache(maxsize=256)(lines_of)
"""The same for headers that are the same for many requests."""


class Stream:
    """A body in pieces that keeps its place among the requests until it ends, however it ends."""

    __slots__ = ("_body", "_exchange", "at_end")

    def __init__(self, body: AsyncIterator[bytes], exchange: Exchange, at_end: CallbackStack) -> None:
        self.at_end = at_end
        self._body = body
        self._exchange = exchange

    @property
    def pushed(self) -> Pushed | None:
        """The body, if it can be sent by whoever makes it."""
        return self._body if isinstance(self._body, Pushed) and self._body.can_follow else None

    def sent(self, size: int) -> None:
        """So many bytes of it went without being asked for here."""
        self._exchange.bytes_sent += size

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await anext(self._body)
        except BaseException:  # its end, a mistake, or that nobody wants it any longer
            self.at_end.close()
            raise
        self._exchange.bytes_sent += len(chunk)
        return chunk

    async def aclose(self) -> None:
        with self.at_end:
            close = getattr(self._body, "aclose", None)
            if close:
                await close()


async def nothing() -> AsyncIterator[bytes]:
    return
    yield  # what makes it an iterator


async def send_whole(body: bytes, send: Send) -> None:
    """Send a body, a large one in pieces, so that nobody else has to wait for it."""
    if len(body) <= _CHUNK:
        await send({"type": "http.response.body", "body": body, "more_body": False})
        return
    whole = memoryview(body)  # whose slices are no copies
    for begin in range(0, len(body), _CHUNK):
        more = begin + _CHUNK < len(body)
        await send({"type": "http.response.body", "body": whole[begin : begin + _CHUNK], "more_body": more})
        await asyncio.sleep(0)


async def send_stream(body: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send pieces as they come, until there are no more or the client hangs up."""
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
        await send({"type": "http.response.body", "body": b"", "more_body": True})  # the head, before there is news
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
    headers += exchange.classified
    headers += ((name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items())
    headers += ((b"warning", warning_header(text).encode("utf-8")) for text in limited_warnings(response.warnings))
    return headers
