"""Send logs over WebSocket, for browsers: the server sends messages, the client none.

``streams.py`` calls this for a log request with an upgrade. The protocols are Kubernetes' `binary.k8s.io` and
`base64.binary.k8s.io`; the first message is empty.
"""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from mooring.apiserver.edge.responses import pieces_of
from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.streams.websocket import WebSocketByteStream, negotiate_websocket
from mooring.base.tasks import run_until_one_ends

_TEXT = "base64.binary.k8s.io"


def negotiate_log_messages(request: Request) -> Callable[[Response], Response]:
    """Return a function that sends a log's response as WebSocket messages.

    Raise BadRequest if the client offers no known protocol; this is checked before the log is read.
    """
    protocol, headers = negotiate_websocket(request, ("binary.k8s.io", _TEXT, ""))

    def respond_with_messages(log: Response) -> Response:
        async def take_over(client: Connection) -> None:
            socket = WebSocketByteStream(client)
            try:
                await run_until_one_ends(
                    _send_log(socket, log.body, is_text=protocol == _TEXT), _wait_for_close(socket)
                )
            finally:
                client.close()

        return Response(101, log.body, headers=headers, take_over=take_over)

    return respond_with_messages


async def _send_log(socket: WebSocketByteStream, log: bytes | AsyncIterator[bytes], *, is_text: bool) -> None:
    await socket.write(b"")
    async for piece in pieces_of(log) if isinstance(log, bytes) else log:
        if is_text:
            await socket.write_text(base64.b64encode(piece).decode())
        else:
            await socket.write(piece)
    await socket.close()


async def _wait_for_close(socket: WebSocketByteStream) -> None:
    with suppress(ConnectionLostError):
        while await socket.read():
            pass
