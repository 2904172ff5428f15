"""`exec` and `attach` over channels: input on 0, output on 1, errors on 2, how it ended on 3.

channel.k8s.io       says how it ended in words
v4.channel.k8s.io    says it as a Status, with the exit code
v5.channel.k8s.io    and lets the client end its input: [255, 0]

The channels are those of a WebSocket (``websocket.py``), or streams of SPDY (``spdy_channels.py``) with v4's words.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from mooring.api import codec
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Status, StatusCause, StatusDetails
from mooring.apiserver.messages.connection import ConnectionLostError
from mooring.apiserver.streams.questions import CommandOptions
from mooring.apiserver.streams.simulated.terminal import Stdio
from mooring.apiserver.streams.websocket import CLOSE

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
"""Something that reads and writes and has an exit code."""


class Talk(Protocol):
    """Channels to a client. Each method raises ConnectionLostError when it is gone."""

    async def ready(self) -> None: ...
    async def receive(self) -> tuple[int, bytes] | None: ...
    async def send(self, channel: int, data: bytes) -> None: ...
    async def close(self) -> None: ...


async def converse(channels: Talk, protocol: str, options: CommandOptions, process: Process) -> None:
    """Let a process and a client talk until the process ends or the client leaves."""
    await channels.ready()
    stdio = Stdio(_writer(channels, STDOUT, options.stdout), _writer(channels, STDERR, options.stderr), tty=options.tty)
    if not options.stdin:
        await stdio.end()
    listening = asyncio.create_task(_listen(channels, stdio, options))
    first = STDOUT if options.stdout else STDERR if options.stderr else ERROR
    working = asyncio.create_task(_work(channels, protocol, stdio, process, first))
    try:
        await asyncio.wait([listening, working], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, working):
            task.cancel()
        _, ended = await asyncio.gather(listening, working, return_exceptions=True)
    if isinstance(ended, Exception) and not isinstance(ended, ConnectionLostError):
        raise ended  # a mistake of ours, which the server logs


def _writer(channels: Talk, channel: int, wanted: bool) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        if wanted:
            for begin in range(0, len(data), _PIECE):
                await channels.send(channel, data[begin : begin + _PIECE])

    return write


async def _listen(channels: Talk, stdio: Stdio, options: CommandOptions) -> None:
    while found := await channels.receive():
        channel, data = found
        if channel == STDIN and options.stdin:
            await stdio.feed(data)
        elif channel == CLOSE and data[:1] == bytes((STDIN,)) and options.stdin:
            await stdio.end()


async def _work(channels: Talk, protocol: str, stdio: Stdio, process: Process, first: int) -> None:
    try:
        await channels.send(first, b"")  # as kubelets begin: clients of old wait for it
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
