"""Send one HTTP/1.1 request on a new connection, and read a response that may upgrade to another protocol.

`send` returns a `NodeResponse`, which yields the body in pieces, no faster than its reader takes them, or gives the
connection away after 101. HTTP libraries pool connections and buffer bodies, neither of which suits streams.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import httptools
import msgspec

from mooring.apiserver.messages.connection import CHUNK, Connection, ConnectionLostError
from mooring.apiserver.streams.real.tls import open_tls
from mooring.base.http_head import ends_with_connection, header_lines, request_line

CONNECT_SECONDS = 5.0
HEAD_SECONDS = 30.0
_HEAD_BYTES = 64 * 1024


class CallError(Exception):
    """A request to a kubelet or pod got no response; the message has the cause, the caller adds node or pod."""


class Address(msgspec.Struct, frozen=True):
    """The host and port of a server, and its TLS context if it is to be called by TLS."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    resolved: Sequence[str] = ()
    """The IP addresses to try, in order; empty to resolve `host`."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def serialize_request(
    address: Address, method: str, target: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
) -> bytes:
    """Return a request as bytes; raise HeadError if the method, target or a header has a forbidden character."""
    lines = [("host", str(address)), *headers]
    if body or method in {"POST", "PUT", "PATCH"}:
        lines.append(("content-length", str(len(body))))
    return f"{request_line(method, target)}{header_lines(lines)}\r\n".encode("latin-1", "replace") + body


async def send(
    address: Address, method: str, target: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
) -> "NodeResponse":
    """Send a request, whose target is percent-encoded; return its response once the headers are read.

    Raise CallError, or HeadError before sending.
    """
    data = serialize_request(address, method, target, headers, body)
    connection = await _connect_or_explain(address)
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            await connection.write(data)
            response = NodeResponse(connection, is_head=method == "HEAD")
            await response.read_head()
    except BaseException as error:
        connection.abort()
        if isinstance(error, TimeoutError):
            raise CallError(f"{address} gave no answer within {HEAD_SECONDS:g} s") from None
        if isinstance(error, ConnectionLostError):
            raise CallError(f"{address}: {error}") from None
        raise
    return response


async def _connect_or_explain(address: Address) -> Connection:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await _open_connection(address)
    except TimeoutError:
        raise CallError(f"no connection to {address} within {CONNECT_SECONDS:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise CallError(f"the certificate of {address} is not trusted: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise CallError(f"no TLS with {address}: {error.reason or error}") from None
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None) or 0
        why = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or error  # loops have own texts
        raise CallError(f"no connection to {address}: {why}") from None


async def _open_connection(address: Address) -> Connection:
    connected = await _connect_socket(address.resolved or (address.host,), address.port)
    try:
        if address.tls is not None:
            return await open_tls(connected, address.tls, address.host)
        return Connection(*await asyncio.open_connection(sock=connected, limit=CHUNK))
    except BaseException:
        connected.close()
        raise


async def _connect_socket(hosts: Sequence[str], port: int) -> socket.socket:
    """Return a socket connected to the first address that accepts; raise OSError of the last address if none does."""
    loop = asyncio.get_running_loop()
    last_error = OSError("the name has no address")
    for host in hosts:
        for family, kind, protocol, _, place in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            candidate = socket.socket(family, kind, protocol)
            candidate.setblocking(False)
            try:
                await loop.sock_connect(candidate, place)
            except BaseException as error:
                candidate.close()
                if not isinstance(error, OSError):
                    raise
                last_error = error
            else:
                return candidate
    raise last_error


class NodeResponse:
    """A response whose headers were read. Iterating over it yields the body in pieces; it must be closed."""

    def __init__(self, connection: Connection, *, is_head: bool = False) -> None:
        self._connection = connection
        self._is_head = is_head
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._is_complete = False
        self._rest = b""
        self.headers: dict[str, str] = {}
        """The headers by lower-case name; of repeated ones, the first value."""
        self.status = 0
        """The status code; 0 until the headers are complete."""

    # -- called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        code = self._parser.get_status_code()
        if code < 200 and code != 101:  # announces the real response
            self.headers.clear()
        else:
            self.status = code

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = bool(self.status)

    # -- reading

    async def read_head(self) -> None:
        """Read until the headers are complete; raise ConnectionLostError if the bytes are not HTTP."""
        size = 0
        while not self.status:
            data = await self._connection.read()
            size += len(data)
            if not data or size > _HEAD_BYTES + CHUNK:
                raise ConnectionLostError("the connection ended before the answer" if not data else "endless headers")
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            raise ConnectionLostError(f"what came is no HTTP: {error}") from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece of the body; raise ConnectionLostError if it is cut off."""
        piece = await self._next_piece()
        if not piece:
            await self.aclose()
            raise StopAsyncIteration
        return piece

    async def _next_piece(self) -> bytes:
        while not self._parts:
            if self._is_complete or self._is_head:
                return b""
            data = await self._connection.read()
            if data:
                self._parse(data)
            elif ends_with_connection(self.headers):
                return b""
            else:
                await self.aclose()
                raise ConnectionLostError("the node hung up in the middle")
        piece = b"".join(self._parts)
        self._parts.clear()
        return piece

    async def aclose(self) -> None:
        """Close the connection, whether or not the body was read."""
        self._connection.abort()

    async def text(self, most: int = 16 * 1024) -> bytes:
        """Return at most this many bytes of the body, for an error message."""
        found = bytearray()
        with suppress(ConnectionLostError, TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                async for piece in self:
                    found += piece
                    if len(found) >= most:
                        break
        await self.aclose()
        return bytes(found[:most])

    def take_connection(self) -> tuple[Connection, bytes]:
        """Return the connection for use after status 101, and bytes received after the headers."""
        return self._connection, self._rest
