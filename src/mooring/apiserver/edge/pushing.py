"""Bodies that are pushed into a connection by whoever makes them: a watch with nothing to tell has no task that waits.

``http_server.py`` makes a `Push` for such a response, tells it when the client takes bytes again, and when it has gone.
"""

import asyncio
from collections.abc import Callable

from mooring.apiserver.edge.sending import Stream
from mooring.apiserver.messages.http import Pushed

_KEPT_BYTES = 64 * 1024
_END = b"0\r\n\r\n"


class Flow:
    """Whether a connection is read from and can be written to, with an event only where somebody has to wait."""

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
    """The `Sink` of one response."""

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
        """Send what can be told at once; the rest comes by itself."""
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
        self._transport.write(_framed(chunk) if self.in_chunks else chunk)

    def end(self) -> None:
        self._stream.at_end.close()
        if self.in_chunks:
            self._transport.write(_END)
        self._done()

    def break_off(self) -> None:
        """Without its last chunk, no client takes the body for whole."""
        self._stream.at_end.close()
        self._transport.abort()

    def lost(self) -> None:
        """The client has gone."""
        self.body.close()
        self._stream.at_end.close()


_last = (b"", b"")


def _framed(chunk: bytes) -> bytes:
    """A chunk of HTTP; the last one is kept, for a thousand watchers are sent the same."""
    global _last  # noqa: PLW0603 - all connections of a process share it
    if chunk is _last[0]:
        return _last[1]
    framed = b"%x\r\n%b\r\n" % (len(chunk), chunk)
    if len(chunk) <= _KEPT_BYTES:
        _last = (chunk, framed)
    return framed
