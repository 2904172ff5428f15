"""`exec` and `attach` over channels: standard input is 0, output 1, errors 2, the result of the process 3.

channel.k8s.io       the result is text
v4.channel.k8s.io    the result is a Status with the exit code
v5.channel.k8s.io    as v4; the client can end its input by the message [255, 0]

Channels are those of a WebSocket (``websocket.py``), or SPDY streams with v4's results (`SpdyChannels`).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, Self

from mooring.api import codec
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Status, StatusCause, StatusDetails
from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.streams.query_options import CommandOptions
from mooring.apiserver.streams.simulated.spdy import DataReceived, Spdy, SpdyError, StreamOpened
from mooring.apiserver.streams.simulated.terminal import Stdio
from mooring.apiserver.streams.websocket import CLOSE
from mooring.base.tasks import run_until_one_ends

PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
STDIN, STDOUT, STDERR, ERROR = range(4)
_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": 4}
"""The channels by the type of an SPDY stream."""
_CREATION_SECONDS = 30.0
_PIECE = 32 * 1024
SPDY_PROTOCOL = "v4.channel.k8s.io"
Process = Callable[[Stdio], Awaitable[int]]
"""Runs on standard input and output; returns the exit code."""


class CommandChannels(Protocol):
    """The interface to a client's channels for input, output, errors and result of a command."""

    async def receive(self) -> tuple[int, bytes] | None: ...
    async def send(self, channel: int, data: bytes) -> None: ...
    async def close(self) -> None: ...


async def connect_process(channels: CommandChannels, protocol: str, options: CommandOptions, process: Process) -> None:
    """Run a process whose input and output are a client's channels, until it ends or the client disconnects."""
    stdio = Stdio(
        _make_channel_writer(channels, STDOUT, options.stdout),
        _make_channel_writer(channels, STDERR, options.stderr),
        tty=options.tty,
    )
    if not options.stdin:
        await stdio.end()
    first = STDOUT if options.stdout else STDERR if options.stderr else ERROR
    reading, running = _read_input(channels, stdio, options), _run_process(channels, protocol, stdio, process, first)
    _, ended = await run_until_one_ends(reading, running)
    if isinstance(ended, Exception) and not isinstance(ended, ConnectionLostError):
        raise ended  # a defect, which the server logs


def _make_channel_writer(channels: CommandChannels, channel: int, wanted: bool) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        if wanted:
            for begin in range(0, len(data), _PIECE):
                await channels.send(channel, data[begin : begin + _PIECE])

    return write


async def _read_input(channels: CommandChannels, stdio: Stdio, options: CommandOptions) -> None:
    while found := await channels.receive():
        channel, data = found
        if channel == STDIN and options.stdin:
            await stdio.feed(data)
        elif channel == CLOSE and data[:1] == bytes((STDIN,)) and options.stdin:
            await stdio.end()


async def _run_process(channels: CommandChannels, protocol: str, stdio: Stdio, process: Process, first: int) -> None:
    try:
        await channels.send(first, b"")  # old clients wait for it
        status = _make_exit_status(await process(stdio))
    except StatusError as error:
        status = error.status
    except ConnectionLostError:
        return
    if protocol.startswith("v"):
        await channels.send(ERROR, codec.encode(status))
    elif status.status != "Success":
        await channels.send(ERROR, status.message.encode())
    await channels.close()


def _make_exit_status(code: int) -> Status:
    if code == 0:
        return Status(status="Success")
    return Status(
        status="Failure",
        reason="NonZeroExitCode",
        message=f"command terminated with non-zero exit code: exit status {code}",
        details=StatusDetails(causes=[StatusCause(reason="ExitCode", message=str(code))]),
    )


class SpdyChannels:
    """The channels of a command over SPDY, for which the client opens one stream each."""

    def __init__(self, connection: Connection, options: CommandOptions) -> None:
        self._connection = connection
        self._spdy = Spdy()
        wanted = {"stdin": options.stdin, "stdout": options.stdout, "stderr": options.stderr, "error": True}
        self._missing = {_CHANNELS[name] for name, is_wanted in wanted.items() if is_wanted}
        self._streams: dict[int, int] = {}
        self._channels: dict[int, int] = {}
        self._arrived: deque[tuple[int, bytes]] = deque()

    @classmethod
    async def open(cls, connection: Connection, options: CommandOptions) -> Self:
        """Wait until the client has opened all streams it requested; raise ConnectionLostError if it fails to."""
        channels = cls(connection, options)
        try:
            async with asyncio.timeout(_CREATION_SECONDS):
                while channels._missing:
                    if not await channels._process_received():
                        raise ConnectionLostError("the client left before it had opened its streams")
        except TimeoutError:
            raise ConnectionLostError("the client did not open its streams") from None
        return channels

    async def receive(self) -> tuple[int, bytes] | None:
        while not self._arrived:
            if not await self._process_received():
                return None
        return self._arrived.popleft()

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None and data:
            self._spdy.send(stream, data)
            await self._spdy.flush_to(self._connection)

    async def close(self) -> None:
        for stream in self._streams.values():
            self._spdy.send(stream, b"", last=True)
        await self._spdy.flush_to(self._connection)

    async def _process_received(self) -> bool:
        """Read and process bytes of the connection once; return False at its end. Raise ConnectionLostError."""
        if self._spdy.is_over:
            return False
        data = await self._connection.read()
        try:
            for event in self._spdy.receive(data):
                self._handle_event(event)
        except SpdyError as error:
            raise ConnectionLostError(f"what came is no SPDY: {error}") from None
        await self._spdy.flush_to(self._connection)
        return bool(data)

    def _handle_event(self, event: StreamOpened | DataReceived) -> None:
        if isinstance(event, StreamOpened):
            self._spdy.accept_stream(event.stream)
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
