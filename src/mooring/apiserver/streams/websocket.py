"""WebSockets: a plain byte stream (`WebSocketByteStream`), or Kubernetes' channels (`WebSocketChannels`).

The first byte of a message is its channel. wsproto does the framing. Messages of any size are passed on in the pieces
in which they arrive. Protocols with `base64` in their name carry text, for old browsers.
"""

import base64
import binascii
from collections import deque
from collections.abc import Sequence

from wsproto.connection import SERVER
from wsproto.connection import Connection as Frames
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token

from mooring.api import errors
from mooring.apiserver.messages.connection import Connection, ConnectionLostError
from mooring.apiserver.messages.http import Request

CLOSE = 255
"""The channel (protocol v5) on which a client reports that another channel has ended."""
_LONGEST_TEXT = 64 * 1024
_NORMAL_CLOSURE, _PROTOCOL_ERROR = 1000, 1002


def negotiate_websocket(request: Request, protocols: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the WebSocket subprotocol to use, the first of `protocols` offered, and the response's headers.

    Raise BadRequest if none is offered. An empty name in `protocols` stands for a client that offers none.
    """
    if request.upgrade != "websocket":
        raise errors.bad_request(f"WebSocket is spoken here, not {request.headers.get('upgrade', '')}")
    key, version = request.headers.get("sec-websocket-key", ""), request.headers.get("sec-websocket-version", "")
    if not key or version != "13":
        raise errors.bad_request("a WebSocket begins with the headers Sec-WebSocket-Key and Sec-WebSocket-Version: 13")
    offered = [word.strip() for word in request.headers.get("sec-websocket-protocol", "").split(",")]
    chosen = next((each for each in protocols if each in offered), None)
    if chosen is None:
        known = ", ".join(filter(None, protocols))
        raise errors.bad_request(f"unable to upgrade: none of the offered protocols is known here, only {known}")
    try:
        token = generate_accept_token(key.encode("ascii")).decode()
    except UnicodeEncodeError:
        raise errors.bad_request("the header Sec-WebSocket-Key is no base64") from None
    headers = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-accept": token}
    if chosen:
        headers["sec-websocket-protocol"] = chosen
    return chosen, headers


class WebSocketByteStream:
    """A WebSocket used as a byte stream: read and written like a `Connection`, ignoring message boundaries."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._frames = Frames(SERVER)
        self._over = False

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty at the end. Raise ConnectionLostError for a protocol error."""
        while not self._over:
            if data := b"".join([piece for piece, _ in await self._read_pieces()]):
                return data
        return b""

    async def write(self, data: bytes) -> None:
        await self._send_event(BytesMessage(data=data))

    async def write_text(self, text: str) -> None:
        await self._send_event(TextMessage(data=text))

    async def close(self) -> None:
        await self._send_event(CloseConnection(code=_NORMAL_CLOSURE))

    async def _send_event(self, event: BytesMessage | TextMessage | CloseConnection) -> None:
        try:
            data = self._frames.send(event)
        except LocalProtocolError:
            raise ConnectionLostError("the WebSocket was closed") from None
        await self._connection.write(data)

    async def _read_pieces(self) -> list[tuple[bytes, bool]]:
        """Wait for bytes; return the message parts in them, each with whether it ends its message.

        At the end of the connection, return none. Raise ConnectionLostError for a protocol error.
        """
        pieces: list[tuple[bytes, bool]] = []
        data = await self._connection.read()
        self._over = not data
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                match event:
                    case BytesMessage():
                        pieces.append((bytes(event.data), event.message_finished))
                    case TextMessage():
                        pieces.append((event.data.encode(), event.message_finished))
                    case Ping():
                        await self._connection.write(self._frames.send(event.response()))
                    case CloseConnection():
                        self._over = True
                        await self._send_event(
                            event.response() if event.code < 5000 else CloseConnection(code=_PROTOCOL_ERROR)
                        )
                        break
        except (RemoteProtocolError, LocalProtocolError) as error:
            raise ConnectionLostError(f"what came is no WebSocket: {error}") from None
        return pieces


class WebSocketChannels(WebSocketByteStream):
    """A WebSocket with channels, as Kubernetes uses it: each message's first byte is its channel."""

    def __init__(self, connection: Connection, protocol: str = "") -> None:
        super().__init__(connection)
        self._is_text = "base64" in protocol
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._channel: int | None = None
        """The channel of an unfinished message."""
        self._text = b""

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the channel and data of the next message piece; None at the end. Raise ConnectionLostError."""
        while not self._arrived:
            if self._over:
                return None
            for piece, last in await self._read_pieces():
                self._add_piece(piece, last=last)
        return self._arrived.popleft()

    async def send(self, channel: int, data: bytes) -> None:
        """Send data as a message on a channel; raise ConnectionLostError if the connection is closed."""
        if self._is_text:
            message: BytesMessage | TextMessage = TextMessage(data=f"{channel}{base64.b64encode(data).decode()}")
        else:
            message = BytesMessage(data=bytes((channel,)) + data)
        await self._send_event(message)

    def _add_piece(self, data: bytes, *, last: bool) -> None:
        if self._is_text:
            self._add_text_piece(data, last=last)
            return
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        if self._channel is not None and (data or last):
            self._arrived.append((self._channel, data))
        if last:
            self._channel = None

    def _add_text_piece(self, text: bytes, *, last: bool) -> None:
        self._text += text
        if len(self._text) > _LONGEST_TEXT:
            raise ConnectionLostError(f"a message in base64 is at most {_LONGEST_TEXT} long")
        if last:
            message, self._text = self._text, b""
            try:
                self._arrived.append((int(message[:1]), base64.b64decode(message[1:], validate=True)))
            except (ValueError, binascii.Error):
                raise ConnectionLostError("a message is a digit and base64") from None
