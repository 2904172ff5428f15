"""An upgraded connection: bytes in both directions, with back-pressure; it buffers a few hundred KB at most.

``edge/http_server.py`` creates one for a response with status 101 and passes it to the response's `take_over`;
``streams/`` opens another one to the kubelet and connects the two by `relay`.
"""

import asyncio
from typing import Self

from mooring.base.tasks import run_until_one_ends

CHUNK = 64 * 1024
_FAREWELL_SECONDS = 30.0


class ConnectionLostError(Exception):
    """The client or server at the other end has closed the connection, or stopped reading; the message says which."""


class Connection:
    """A connection after an upgrade (status 101), read and written as bytes, with bounded buffers."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stalled_seconds: float = 60.0
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._stalled_seconds = stalled_seconds
        self.received = 0
        self.sent = 0

    @classmethod
    def from_transport(cls, transport: asyncio.Transport, early: bytes, stalled_seconds: float) -> Self:
        """Create a connection from a transport, replacing its protocol; `early` are bytes received already."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=CHUNK, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        protocol.connection_made(transport)
        if early:
            reader.feed_data(early)
        transport.set_protocol(protocol)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), stalled_seconds)

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty bytes at the end of the connection, also if it broke."""
        try:
            data = await self._reader.read(CHUNK)
        except OSError:
            return b""
        self.received += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes; wait while too many are unsent. Raise ConnectionLostError if the peer is gone or stalled."""
        if self._writer.is_closing():  # uvloop would raise RuntimeError
            raise ConnectionLostError("the connection is closed")
        self.sent += len(data)
        try:
            self._writer.write(data)
            async with asyncio.timeout(self._stalled_seconds):
                await self._writer.drain()
        except TimeoutError:
            self.abort()
            raise ConnectionLostError(f"nothing was taken for {self._stalled_seconds:g} s") from None
        except OSError as error:
            raise ConnectionLostError(f"the connection broke: {error}") from None

    def close(self) -> None:
        """Send the remaining bytes and close the connection; give up after a timeout if the peer does not read."""
        self._writer.close()
        transport = self._writer.transport
        asyncio.get_running_loop().call_later(_FAREWELL_SECONDS, transport.abort)

    def abort(self) -> None:
        """Close the connection at once, dropping unsent bytes."""
        self._writer.transport.abort()


async def relay(one: Connection, other: Connection) -> None:
    """Copy bytes between two connections in both directions until either ends, then close both."""
    try:
        await run_until_one_ends(_copy_until_end(one, other), _copy_until_end(other, one))
    finally:
        one.close()
        other.close()


async def _copy_until_end(source: Connection, target: Connection) -> None:
    while data := await source.read():
        await target.write(data)
