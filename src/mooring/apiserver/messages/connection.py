"""A connection that has left HTTP: bytes in both directions, never faster than the slower side.

``edge/http_server.py`` makes one of a request that was answered with 101 and hands it to the `take_over` of the
response; ``streams/`` makes another to the kubelet and joins the two with `relay`. At most a few hundred kilobytes wait
in a connection, whatever its two ends do.
"""

import asyncio
from typing import Self

CHUNK = 64 * 1024
_FAREWELL_SECONDS = 30.0


class ConnectionLostError(Exception):
    """The other side has gone, or takes nothing any more. The message says which of the two."""


class Connection:
    """A reader and a writer with limits."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stalled_seconds: float = 60.0
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._stalled_seconds = stalled_seconds
        self.received = 0
        self.sent = 0

    @classmethod
    def over(cls, transport: asyncio.Transport, early: bytes, stalled_seconds: float) -> Self:
        """Take a transport away from its protocol; `early` is what has come already behind the last request."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=CHUNK, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        protocol.connection_made(transport)
        if early:
            reader.feed_data(early)
        transport.set_protocol(protocol)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), stalled_seconds)

    async def read(self) -> bytes:
        """What has come, as soon as there is something; nothing at the end, however it ended."""
        try:
            data = await self._reader.read(CHUNK)
        except OSError:
            return b""
        self.received += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """Send; returns when the other side has taken enough of it. Raises ConnectionLostError."""
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
        """End it once all has been sent; whoever does not take the rest soon loses it."""
        self._writer.close()
        transport = self._writer.transport
        asyncio.get_running_loop().call_later(_FAREWELL_SECONDS, transport.abort)

    def abort(self) -> None:
        """End it at once."""
        self._writer.transport.abort()


async def relay(one: Connection, other: Connection) -> None:
    """Pass on bytes both ways until either side ends; then both are ended."""
    ways = [asyncio.create_task(_copy(one, other)), asyncio.create_task(_copy(other, one))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        one.close()
        other.close()


async def _copy(source: Connection, target: Connection) -> None:
    while data := await source.read():
        await target.write(data)
