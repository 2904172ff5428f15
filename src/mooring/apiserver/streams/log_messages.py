"""Logs over WebSocket, for browsers: messages with what was logged, in one direction.

Called by ``streams.py`` for a request for a log that wants an upgrade. The protocols are Kubernetes' `binary.k8s.io`
and `base64.binary.k8s.io`; a first message without content says that it begins.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Self

import msgspec

from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.streams.websocket import Tunnel, handshake

_TEXT = "base64.binary.k8s.io"


class LogMessages(msgspec.Struct, frozen=True):
    """The negotiated protocol of a log over a WebSocket."""

    is_text: bool
    headers: dict[str, str]

    @classmethod
    def agree(cls, request: Request) -> Self:
        """Raise BadRequest for other protocols."""
        protocol, headers = handshake(request, ("binary.k8s.io", _TEXT, ""))
        return cls(protocol == _TEXT, headers)

    def answer(self, log: Response) -> Response:
        """Return the response that streams a log."""

        async def take_over(client: Connection) -> None:
            socket = Tunnel(client)
            telling = asyncio.create_task(_tell(socket, log.body, is_text=self.is_text))
            ways = [telling, asyncio.create_task(_until_gone(socket))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                client.close()

        return Response(101, log.body, headers=self.headers, take_over=take_over)


async def _tell(socket: Tunnel, log: bytes | AsyncIterator[bytes], *, is_text: bool) -> None:
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


async def _until_gone(socket: Tunnel) -> None:
    with suppress(ConnectionLostError):
        while await socket.read():
            pass
