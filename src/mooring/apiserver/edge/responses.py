"""Serialise the heads of HTTP responses, and send bodies in pieces. ``protocol.py`` uses it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from functools import lru_cache
from http.client import responses

from mooring.api.response_limits import limited_warnings
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Pushed, Response, warning_header

JOINED_BYTES = 64 * 1024
"""Responses of up to this number of bytes are sent in one write, head and body together.

It is also the maximum size of a write: for larger ones OpenSSL allocates memory, which costs more than encryption.
"""


@lru_cache(maxsize=64)
def status_line(code: int) -> str:
    """Return the HTTP status line of a code; also of those from 600 to 999, which proxied servers send."""
    code = code if 100 <= code <= 999 else 500
    return f"HTTP/1.1 {code} {responses.get(code, '')}\r\n"


def encode_head(response: Response, framing: str = "") -> bytes:
    """Return status line and headers as bytes, with the header lines in `framing`, which say where the body ends.

    Raise ValueError for a line break or NUL in a header.
    """
    headers = response.headers
    text, count = f"content-type: {response.content_type}\r\n", 1
    if response.request_id:
        text, count = f"{text}audit-id: {response.request_id}\r\n", 2
        if "cache-control" not in headers:
            text, count = f"{text}cache-control: no-cache, private\r\n", 3
    if headers:
        text += "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        count += len(headers)
    if not text.count("\n") == text.count("\r") == count or "\0" in text:
        raise ValueError("a header of a response has a line break in it")
    head = f"{status_line(response.status)}{_date_header(int(time.time()))}{text}{framing}".encode("latin-1")
    if response.warnings:
        for warning in limited_warnings(response.warnings):
            head += b"warning: %b\r\n" % warning_header(warning).encode()
    return head + b"\r\n"


@lru_cache(maxsize=4)
def _date_header(second: int) -> str:
    return f"date: {formatdate(second, usegmt=True)}\r\n"


def encode_chunk(data: bytes) -> bytes:
    """Return bytes as one HTTP chunk; for empty bytes, the last chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def pieces_of(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body in pieces, with a pause after each in which other tasks of the event loop run."""
    for begin in range(0, len(body), JOINED_BYTES):
        yield body[begin : begin + JOINED_BYTES]
        await asyncio.sleep(0)


class Stream:
    """A response body in pieces that holds resources; at its end, they are released and `on_end` is called."""

    __slots__ = ("_body", "_exchange", "_release", "on_end")

    def __init__(
        self, body: AsyncIterator[bytes], exchange: Exchange, release: Callable[[], None] | None = None
    ) -> None:
        self.on_end: Callable[[Exchange], None] | None = None
        self._body = body
        self._exchange = exchange
        self._release = release

    @property
    def pushed(self) -> Pushed | None:
        """Return the body if it can write itself to the connection (`Pushed`); None if it must be iterated over."""
        return self._body if isinstance(self._body, Pushed) and self._body.can_follow else None

    def count_bytes(self, size: int) -> None:
        """Add to the count of sent bytes, for what was sent without iterating over this body."""
        self._exchange.bytes_sent += size

    def end(self) -> None:
        """Release what the response holds and call `on_end`; later calls do nothing."""
        release, call = self._release, self.on_end
        self._release = self.on_end = None
        if release is not None:
            release()
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
