"""`exec` and `attach` over channels: standard input is 0, output 1, errors 2, the result of the process 3.

channel.k8s.io       the result is text
v4.channel.k8s.io    the result is a Status with the exit code
v5.channel.k8s.io    as v4; the client can end its input by the message [255, 0]

Channels are those of a WebSocket (``websocket.py``), or SPDY streams with v4's results (``spdy_channels.py``).
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from mooring.api import codec
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Status, StatusCause, StatusDetails
from mooring.apiserver.messages.connection import ConnectionLostError
from mooring.apiserver.streams.query_options import CommandOptions
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
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_PIECE = 32 * 1024
SPDY_PROTOCOL = "v4.channel.k8s.io"
Process = Callable[[Stdio], Awaitable[int]]
"""Runs on standard input and output; returns the exit code."""


class CommandChannels(Protocol):
    """The channels to a client. Each method raises ConnectionLostError when the connection is closed."""

    async def ready(self) -> None: ...
    async def receive(self) -> tuple[int, bytes] | None: ...
    async def send(self, channel: int, data: bytes) -> None: ...
    async def close(self) -> None: ...


async def connect_process(channels: CommandChannels, protocol: str, options: CommandOptions, process: Process) -> None:
    """Run a process with a client's channels as its input and output, until it ends or the client closes them."""
    await channels.ready()
    stdio = Stdio(_writer(channels, STDOUT, options.stdout), _writer(channels, STDERR, options.stderr), tty=options.tty)
    if not options.stdin:
        await stdio.end()
    first = STDOUT if options.stdout else STDERR if options.stderr else ERROR
    reading, running = _read_input(channels, stdio, options), _run_process(channels, protocol, stdio, process, first)
    _, ended = await run_until_one_ends(reading, running)
    if isinstance(ended, Exception) and not isinstance(ended, ConnectionLostError):
        raise ended  # a defect, which the server logs


def _writer(channels: CommandChannels, channel: int, wanted: bool) -> Callable[[bytes], Awaitable[None]]:
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
        status = _status(await process(stdio))
    except StatusError as error:
        status = error.status
    except ConnectionLostError:
        return
    if protocol.startswith("v"):
        await channels.send(ERROR, codec.encode(status))
    elif status.status != "Success":
        await channels.send(ERROR, status.message.encode())
    await channels.close()


def _status(code: int) -> Status:
    if code == 0:
        return Status(status="Success")
    return Status(
        status="Failure",
        reason="NonZeroExitCode",
        message=f"command terminated with non-zero exit code: exit status {code}",
        details=StatusDetails(causes=[StatusCause(reason="ExitCode", message=str(code))]),
    )
