"""`port-forward` for simulated pods: over the channels of a WebSocket, or by SPDY, directly or within a WebSocket.

With channels, each port has one for data and one for errors (0 and 1, 2 and 3, …), and each channel begins with the
port as two bytes in little-endian order. By SPDY, as kubectl does, the client opens two streams for each forwarded
connection, one for errors and one for data; their headers name the port.
"""

from collections.abc import Sequence
from typing import Protocol

from mooring.api.core_v1 import Pod
from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.streams.simulated.canned_http import CannedHttp
from mooring.apiserver.streams.simulated.spdy import Opened, Received, Spdy, SpdyError
from mooring.apiserver.streams.websocket import Channels

SPDY_NAME = "portforward.k8s.io"
TUNNELLED = f"SPDY/3.1+{SPDY_NAME}"
PROTOCOLS = (TUNNELLED, "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
_UNSENT_BYTES = 256 * 1024
_MOST_CONNECTIONS = 256


class Bytes(Protocol):
    """A byte stream: a connection or a tunnel."""

    async def read(self) -> bytes: ...
    async def write(self, data: bytes) -> None: ...


async def forward(connection: Connection, protocol: str, pod: Pod, ports: Sequence[int]) -> None:
    """Answer HTTP requests on the channels of every port until the client closes the connection."""
    channels = Channels(connection, protocol)
    answering = [CannedHttp(pod, port) for port in ports]
    try:
        for index, port in enumerate(ports):
            number = port.to_bytes(2, "little")
            await channels.send(2 * index, number)
            await channels.send(2 * index + 1, number)
        while found := await channels.receive():
            channel, data = found
            index, is_error = divmod(channel, 2)
            if is_error or index >= len(answering):
                continue
            if answer := answering[index].receive(data):
                await channels.send(channel, answer)
            if all(each.is_over for each in answering):
                await channels.close()
                return
    except ConnectionLostError:
        return


async def forward_spdy(connection: Bytes, pod: Pod) -> None:
    """Answer HTTP requests on every SPDY stream until the client closes the connection."""
    spdy, forwarding = Spdy(), _Forwarding(pod)
    try:
        while not spdy.is_over and (data := await connection.read()):
            for event in spdy.receive(data):
                if isinstance(event, Opened):
                    forwarding.open(spdy, event)
                else:
                    forwarding.take(spdy, event)
                if len(spdy.outgoing) > _UNSENT_BYTES:
                    await _flush(connection, spdy)
            await _flush(connection, spdy)
    except (ConnectionLostError, SpdyError):
        return


async def _flush(connection: Bytes, spdy: Spdy) -> None:
    if spdy.outgoing:
        data = bytes(spdy.outgoing)
        spdy.outgoing.clear()
        await connection.write(data)


class _Forwarding:
    """The forwarded connections of an SPDY connection, each with a stream for data and one for errors."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._answering: dict[int, CannedHttp] = {}
        self._errors: dict[str, int] = {}
        """Streams for errors, by the client's number of the forwarded connection."""
        self._requests: dict[int, str] = {}

    def open(self, spdy: Spdy, opened: Opened) -> None:
        headers, stream = opened.headers, opened.stream
        spdy.reply(stream)
        request = headers.get("requestid", "")
        if headers.get("streamtype") == "error":
            self._errors[request] = stream
            if len(self._errors) > _MOST_CONNECTIONS:
                raise SpdyError(f"more than {_MOST_CONNECTIONS} streams for errors")
            return
        port = headers.get("port", "")
        if port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536:
            self._answering[stream] = CannedHttp(self._pod, int(port))
            self._requests[stream] = request
        else:
            spdy.send(stream, b"", last=True)

    def take(self, spdy: Spdy, received: Received) -> None:
        stream = received.stream
        answering = self._answering.get(stream)
        if answering is None:
            return
        if answer := answering.receive(received.data):
            spdy.send(stream, answer)
        if received.last or answering.is_over:
            del self._answering[stream]
            spdy.send(stream, b"", last=True)
            errors = self._errors.pop(self._requests.pop(stream), None)
            if errors is not None:
                spdy.send(errors, b"", last=True)  # there were none
