"""Present the SPDY streams of a command as channels for ``remote_command.py``."""

import asyncio
from collections import deque

from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.streams.query_options import CommandOptions
from mooring.apiserver.streams.simulated.spdy import Opened, Received, Spdy, SpdyError
from mooring.apiserver.streams.websocket import CLOSE

_CHANNELS = {"stdin": 0, "stdout": 1, "stderr": 2, "error": 3, "resize": 4}
_CREATION_SECONDS = 30.0


class SpdyChannels:
    """An SPDY connection, on which the client opens a stream for each channel."""

    def __init__(self, connection: Connection, options: CommandOptions) -> None:
        self._connection = connection
        self._spdy = Spdy()
        wanted = {"stdin": options.stdin, "stdout": options.stdout, "stderr": options.stderr, "error": True}
        self._missing = {_CHANNELS[name] for name, is_wanted in wanted.items() if is_wanted}
        self._streams: dict[int, int] = {}
        self._channels: dict[int, int] = {}
        self._arrived: deque[tuple[int, bytes]] = deque()

    async def ready(self) -> None:
        """Wait until the client has opened the streams of its request; raise ConnectionLostError if it does not."""
        try:
            async with asyncio.timeout(_CREATION_SECONDS):
                while self._missing:
                    if not await self._more():
                        raise ConnectionLostError("the client left before it had opened its streams")
        except TimeoutError:
            raise ConnectionLostError("the client did not open its streams") from None

    async def receive(self) -> tuple[int, bytes] | None:
        while not self._arrived:
            if not await self._more():
                return None
        return self._arrived.popleft()

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None and data:
            self._spdy.send(stream, data)
            await self._flush()

    async def close(self) -> None:
        for stream in self._streams.values():
            self._spdy.send(stream, b"", last=True)
        await self._flush()

    async def _more(self) -> bool:
        """Receive and process bytes; return False at the end of the connection."""
        if self._spdy.is_over:
            return False
        data = await self._connection.read()
        try:
            for event in self._spdy.receive(data):
                self._take(event)
        except SpdyError as error:
            raise ConnectionLostError(f"what came is no SPDY: {error}") from None
        await self._flush()
        return bool(data)

    def _take(self, event: Opened | Received) -> None:
        if isinstance(event, Opened):
            self._spdy.reply(event.stream)
            channel = _CHANNELS.get(event.headers.get("streamtype", ""))
            if channel is not None:
                self._streams[channel] = event.stream
                self._channels[event.stream] = channel
                self._missing.discard(channel)
            return
        channel = self._channels.get(event.stream)
        if channel is None:
            return
        if event.data:
            self._arrived.append((channel, event.data))
        if event.last:
            self._arrived.append((CLOSE, bytes((channel,))))

    async def _flush(self) -> None:
        if self._spdy.outgoing:
            data = bytes(self._spdy.outgoing)
            self._spdy.outgoing.clear()
            await self._connection.write(data)
