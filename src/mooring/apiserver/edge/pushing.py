"""Response bodies that their producer pushes into a connection, so that an idle watch needs no task.

``http_server.py`` makes a `Push` for such a body, and notifies it when the client reads again or is gone.
"""

import asyncio
from collections.abc import Callable

from mooring.apiserver.edge.sending import Stream
from mooring.apiserver.messages.http import Pushed

_KEPT_BYTES = 64 * 1024
_END = b"0\r\n\r\n"


class Flow:
    """Flow control of a connection; the event is made only when a writer has to wait."""

    __slots__ = ("_is_writable", "_transport", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = self.write_paused = False

    async def drain(self) -> None:
        if self.write_paused:
            await self._is_writable.wait()

    def pause_reading(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        if not self.write_paused:
            self.write_paused = True
            self._is_writable = asyncio.Event()

    def resume_writing(self) -> None:
        if self.write_paused:
            self.write_paused = False
            self._is_writable.set()


class Push:
    __slots__ = ("_done", "_flow", "_stream", "_transport", "body", "in_chunks")

    def __init__(
        self,
        transport: asyncio.Transport,
        flow: Flow,
        stream: Stream,
        body: Pushed,
        done: Callable[[], None],
        *,
        in_chunks: bool,
    ) -> None:
        self.body = body
        self.in_chunks = in_chunks
        self._transport = transport
        self._flow = flow
        self._stream = stream
        self._done = done

    async def run(self) -> None:
        """Send the first pieces of the body, then let its producer push the others."""
        async for chunk in self.body.beginning():
            await self._flow.drain()
            if self._transport.is_closing():
                return
            self.write(chunk)
        if not self._transport.is_closing():
            self.body.follow(self)

    @property
    def is_ready(self) -> bool:
        return not self._flow.write_paused

    def write(self, chunk: bytes) -> None:
        self._stream.sent(len(chunk))
        self._transport.write(_frame_chunk(chunk) if self.in_chunks else chunk)

    def end(self) -> None:
        self._stream.end()
        if self.in_chunks:
            self._transport.write(_END)
        self._done()

    def break_off(self) -> None:
        """Close the connection without a last chunk, so that the client sees an incomplete body."""
        self._stream.end()
        self._transport.abort()

    def lost(self) -> None:
        self.body.close()
        self._stream.end()


_last = (b"", b"")


def _frame_chunk(chunk: bytes) -> bytes:
    """Return a chunk in HTTP's chunked encoding. The last one is cached: many watchers get the same event."""
    global _last  # noqa: PLW0603 - all connections of a process share it
    if chunk is _last[0]:
        return _last[1]
    framed = b"%x\r\n%b\r\n" % (len(chunk), chunk)
    if len(chunk) <= _KEPT_BYTES:
        _last = (chunk, framed)
    return framed
