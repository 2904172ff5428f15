"""`HttpCall`: one HTTP request from the network, as `protocol.py` passes it to an application."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any


class BodyTooLargeError(Exception):
    """A request body exceeds the limit for bodies."""


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


Certificate = Mapping[str, Any]
"""A client certificate that TLS has verified, as `ssl.SSLSocket.getpeercert` returns it."""
Identify = Callable[[Certificate], Any]
"""A function of the application that returns the user whom a certificate names."""


class Client:
    """A connection's client: its address, and the user named by its verified certificate, if it has one."""

    __slots__ = ("address", "certificate_ends", "user")

    def __init__(self, address: str = "", peer: Certificate | None = None, identify: Identify = lambda _: None) -> None:
        self.address = address
        self.user = identify(peer) if peer else None
        self.certificate_ends: float | None = None
        """When the certificate expires, in seconds since 1970."""
        with suppress(KeyError, ValueError):
            self.certificate_ends = float(ssl.cert_time_to_seconds(peer["notAfter"])) if peer else None


class HttpCall:
    """One HTTP request from the network; its body may still be arriving while the application handles it."""

    target = b""
    """The request target (path and query) before percent-decoding."""
    resume_body: Callable[[], None] | None = None
    """Reads more of the body from the network; called when the handler waits for it."""
    has_arrived = False
    """Whether the whole body has been received."""
    disconnected = False
    unread_bytes = 0
    """The number of received bytes of the body that `receive_body` has not counted yet."""
    _arrival: asyncio.Event | None = None

    def __init__(self, method: str, path: str, query: bytes, headers: dict[str, str], client: Client) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        """The headers by lower-case name."""
        self.client = client
        self._parts: list[bytes] = []

    def add_body(self, part: bytes) -> None:
        self._parts.append(part)
        self.unread_bytes += len(part)
        self.wake()

    def end_body(self) -> None:
        self.has_arrived = True
        self.wake()

    def wake(self) -> None:
        """Wake a waiting `receive_body`, because bytes arrived or the connection closed."""
        if self._arrival:
            self._arrival.set()

    async def receive_body(self, most: int, count: Callable[[int], None] = lambda _: None) -> bytes:
        """Return the whole body. Raise BodyTooLargeError above `most` bytes, ClientGoneError if cut off.

        `count` is called with the size of each part that has arrived; it may raise an error to refuse the body.
        """
        size = 0
        while True:
            size += self.unread_bytes
            if size > most:
                raise BodyTooLargeError
            count(self.unread_bytes)
            self.unread_bytes = 0
            if self.has_arrived:
                return b"".join(self._parts)
            if self.disconnected:
                raise ClientGoneError
            self._arrival = asyncio.Event()
            if self.resume_body:
                self.resume_body()
            await self._arrival.wait()
