"""Send logs over WebSocket, for browsers: the server sends messages, the client none.

``streams.py`` calls this for a log request with an upgrade. The protocols are Kubernetes' `binary.k8s.io` and
`base64.binary.k8s.io`; the first message is empty.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Self

import msgspec

from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.streams.websocket import Tunnel, handshake
from mooring.base.tasks import run_until_one_ends

_TEXT = "base64.binary.k8s.io"


class LogMessages(msgspec.Struct, frozen=True):
    """The negotiated protocol of a log over a WebSocket."""

    is_text: bool
    headers: dict[str, str]

    @classmethod
    def agree(cls, request: Request) -> Self:
        """Return the protocol that the client offers; raise BadRequest if it offers other ones only."""
        protocol, headers = handshake(request, ("binary.k8s.io", _TEXT, ""))
        return cls(protocol == _TEXT, headers)

    def answer(self, log: Response) -> Response:
        """Return the response that streams a log."""

        async def take_over(client: Connection) -> None:
            socket = Tunnel(client)
            try:
                await run_until_one_ends(_send(socket, log.body, is_text=self.is_text), _wait_for_close(socket))
            finally:
                client.close()

        return Response(101, log.body, headers=self.headers, take_over=take_over)


async def _send(socket: Tunnel, log: bytes | AsyncIterator[bytes], *, is_text: bool) -> None:
    await socket.write(b"")
    async for piece in _pieces(log):
        if is_text:
            await socket.write_text(base64.b64encode(piece).decode())
        else:
            await socket.write(piece)
    await socket.close()


async def _pieces(log: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(log, bytes):
        yield log
        return
    async for piece in log:
        yield piece


async def _wait_for_close(socket: Tunnel) -> None:
    with suppress(ConnectionLostError):
        while await socket.read():
            pass
