"""A connection under TLS from which nothing is lost that came before its end.

uvloop's own TLS takes from the socket while the reader rests, and throws away what is not decrypted yet when the other
side closes just then: the end of a long answer to a slow reader is gone. Here the socket is a plain connection with a
plain connection's back-pressure, and it is read only when all that came before is decrypted and taken; its end comes
last. ``http_call.py`` opens one for each request; docs/decisions/streams.md has the reasons.
"""

import asyncio
import ssl
from contextlib import suppress

from mooring.apiserver.messages.connection import CHUNK, Connection, ConnectionLostError


class TlsConnection(Connection):
    """The client's side. At most one piece is decrypted ahead of its reader, and two wait before it encrypted."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext, host: str
    ) -> None:
        super().__init__(reader, writer)
        self._arrived = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname=host)

    async def shake_hands(self) -> None:
        """To be done first. Raises ssl.SSLError when the two do not agree, and ConnectionLostError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._take_in()
            else:
                return await self._flush()

    async def read(self) -> bytes:
        """Return received bytes as soon as there are any; nothing at the end, however it ended."""
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._take_in()
            except ssl.SSLError:  # it ended without a farewell, or with garbage
                return b""

    async def write(self, data: bytes) -> None:
        """Send; returns when the other side has taken enough of it. Raises ConnectionLostError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            raise ConnectionLostError(f"the connection broke: {error.reason or error}") from None
        await self._flush()

    def close(self) -> None:
        """Close it once all has been sent, or after a while."""
        with suppress(ssl.SSLError):  # the peer has not closed TLS yet
            self._tls.unwrap()
        if not self._writer.is_closing():
            self._writer.write(self._leaving.read())
        super().close()

    async def _take_in(self) -> None:
        """Wait for more from the socket. Only now: what it holds before is the back-pressure."""
        if data := await super().read():
            self._arrived.write(data)
        else:
            self._arrived.write_eof()

    async def _flush(self) -> None:
        if data := self._leaving.read():
            await super().write(data)
