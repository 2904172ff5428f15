"""`port-forward` for simulated pods: over the channels of a WebSocket, or by SPDY, directly or within a WebSocket.

With channels, each port has one for data and one for errors (0 and 1, 2 and 3, …), and each channel begins with the
port as two bytes in little-endian order. By SPDY, as kubectl does, the client opens two streams for each forwarded
connection, one for errors and one for data; their headers name the port.

Every port answers HTTP with the same body: the pod's annotation, the hostname for containers with the argument
`serve-hostname` (as of Kubernetes' test image), or a line with the pod, node and port. Proxies use the body only.
"""

from collections.abc import Sequence

import httptools

from mooring.api.core_v1 import Pod
from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.streams.simulated.pod_annotations import read_declared_http_body
from mooring.apiserver.streams.simulated.spdy import ByteStream, DataReceived, Spdy, SpdyError, StreamOpened
from mooring.apiserver.streams.websocket import WebSocketChannels

SPDY_NAME = "portforward.k8s.io"
TUNNELLED = f"SPDY/3.1+{SPDY_NAME}"
PROTOCOLS = (TUNNELLED, "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
_UNSENT_BYTES = 256 * 1024
_MOST_CONNECTIONS = 256
_MOST_HEADERS = 64 * 1024
_MOST_ANSWERED = 1024 * 1024
"""The connection is closed after this number of bytes of responses to pipelined requests."""
_BAD = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


async def forward_over_websocket(connection: Connection, protocol: str, pod: Pod, ports: Sequence[int]) -> None:
    """Answer HTTP requests in each port's WebSocket channel, until the client closes the connection."""
    channels = WebSocketChannels(connection, protocol)
    answering = [SimulatedHttpServer(pod, port) for port in ports]
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


async def forward_over_spdy(connection: ByteStream, pod: Pod) -> None:
    """Answer HTTP requests on each SPDY data stream, until the client closes the connection."""
    spdy, forwarding = Spdy(), _SpdyForwarder(pod)
    try:
        while not spdy.is_over and (data := await connection.read()):
            for event in spdy.receive(data):
                if isinstance(event, StreamOpened):
                    forwarding.open_stream(spdy, event)
                else:
                    forwarding.handle_data(spdy, event)
                if len(spdy.outgoing) > _UNSENT_BYTES:
                    await spdy.flush_to(connection)
            await spdy.flush_to(connection)
    except (ConnectionLostError, SpdyError):
        return


class _SpdyForwarder:
    """The streams of an SPDY port-forward: per forwarded connection one for data and one for errors."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._answering: dict[int, SimulatedHttpServer] = {}
        self._errors: dict[str, int] = {}
        """Streams for errors, by the client's number of the forwarded connection."""
        self._requests: dict[int, str] = {}

    def open_stream(self, spdy: Spdy, opened: StreamOpened) -> None:
        headers, stream = opened.headers, opened.stream
        spdy.accept_stream(stream)
        request = headers.get("requestid", "")
        if headers.get("streamtype") == "error":
            self._errors[request] = stream
            if len(self._errors) > _MOST_CONNECTIONS:
                raise SpdyError(f"more than {_MOST_CONNECTIONS} streams for errors")
            return
        port = headers.get("port", "")
        if port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536:
            self._answering[stream] = SimulatedHttpServer(self._pod, int(port))
            self._requests[stream] = request
        else:
            spdy.send(stream, b"", last=True)

    def handle_data(self, spdy: Spdy, received: DataReceived) -> None:
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


# -- the HTTP server of a simulated port


def make_response_body(pod: Pod, port: int | str, method: str, path: str) -> bytes:
    text = read_declared_http_body(pod)
    if text is None and any("serve-hostname" in (*each.command, *each.args) for each in pod.spec.containers):
        text = pod.spec.hostname or pod.metadata.name
    if text is None:
        text = f"pod {pod.metadata.name} on the simulated node {pod.spec.node_name}, port {port}: {method} {path}\n"
    return text.encode()


class SimulatedHttpServer:
    """The HTTP server of a simulated port, which sends one declared body. After `is_over` it ignores bytes."""

    def __init__(self, pod: Pod, port: int) -> None:
        self.is_over = False
        self._pod = pod
        self._port = port
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._unparsed = 0
        self._answers = bytearray()

    def receive(self, data: bytes) -> bytes:
        """Parse received bytes; return the HTTP responses to requests that are now complete."""
        if self.is_over:
            return b""
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reject()
        if self._unparsed > _MOST_HEADERS:
            self._reject()
        answers = bytes(self._answers)
        self._answers.clear()
        return answers

    def _reject(self) -> None:
        if not self.is_over:
            self._answers += _BAD
            self.is_over = True

    # -- called by the parser

    def on_message_begin(self) -> None:
        self._url = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:  # noqa: ARG002 - responses do not depend on it
        self._unparsed = 0

    def on_message_complete(self) -> None:
        self._unparsed = 0
        if self.is_over:
            return
        method = self._parser.get_method().decode("ascii")
        body = make_response_body(self._pod, self._port, method, self._url.decode("latin-1"))
        keeps = self._parser.should_keep_alive() and len(self._answers) < _MOST_ANSWERED
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\n"
        self._answers += (head + ("\r\n" if keeps else "connection: close\r\n\r\n")).encode()
        if method != "HEAD":
            self._answers += body
        self.is_over = not keeps
