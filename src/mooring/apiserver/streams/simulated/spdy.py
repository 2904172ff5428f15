"""The part of SPDY/3.1 that Kubernetes uses: the client opens streams with headers, and both sides send data on them.

kubectl forwards ports by SPDY, within a WebSocket or directly; client-go runs commands by it. `Spdy` takes received
bytes, returns events and collects bytes to send. Data is passed on in the pieces in which it arrives; only control
frames, which are small, are buffered. There is no push, priority or flow control, as in Kubernetes.
"""

import struct
import zlib
from enum import IntEnum
from typing import Protocol

import msgspec

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(
    [struct.pack(">I", len(word)) + word.encode() for word in (*_WORDS.split(), *_MORE_WORDS)] + [_TEXT.encode()]
)
"""The dictionary for compressed headers in SPDY/3 (section 2.6.10.1 of its draft)."""
_VERSION = 3


class _FrameType(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8


_FIN = 1
_LARGEST_CONTROL, _LARGEST_HEADERS = 16 * 1024, 64 * 1024
_MOST_STREAMS = 256


class SpdyError(Exception):
    """The client broke the SPDY protocol, or exceeded a limit on streams or headers."""


class StreamOpened(msgspec.Struct, frozen=True):
    """An event of an SPDY connection: the client has opened a stream with headers."""

    stream: int
    headers: dict[str, str]


class DataReceived(msgspec.Struct, frozen=True):
    """An event of an SPDY connection: data on a stream; `last` if the client closes its side with it."""

    stream: int
    data: bytes
    last: bool = False


class ByteStream(Protocol):
    """The interface of a byte stream to a client: an upgraded connection, or a WebSocket tunnel."""

    async def read(self) -> bytes: ...
    async def write(self, data: bytes) -> None: ...


class Spdy:
    """The server's side of an SPDY connection: it returns events for received bytes, and collects bytes to send."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: tuple[int, int, bool] | None = None
        """The incomplete data frame: its stream, its missing bytes, and whether it ends the stream."""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._streams: set[int] = set()
        self.outgoing = bytearray()
        """The bytes to send; `flush_to` writes them."""
        self.is_over = False

    def receive(self, data: bytes) -> list[StreamOpened | DataReceived]:
        """Process received bytes; return the events in them. Raise SpdyError if they break the protocol."""
        self._buffer += data
        events: list[StreamOpened | DataReceived] = []
        while not self.is_over:
            event = self._read_data() if self._data else self._read_frame()
            if event is None:
                break
            events.extend(event)
        return events

    def accept_stream(self, stream: int) -> None:
        block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._queue_control_frame(_FrameType.SYN_REPLY, struct.pack(">I", stream) + block)

    def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        self.outgoing += struct.pack(">II", stream, (_FIN if last else 0) << 24 | len(data)) + data
        if last:
            self._streams.discard(stream)

    async def flush_to(self, stream: ByteStream) -> None:
        """Write the bytes to send to a stream; raise ConnectionLostError if the client is gone."""
        if self.outgoing:
            data = bytes(self.outgoing)
            self.outgoing.clear()
            await stream.write(data)

    def _queue_control_frame(self, kind: int, payload: bytes, flags: int = 0) -> None:
        self.outgoing += struct.pack(">HHI", 0x8000 | _VERSION, kind, flags << 24 | len(payload)) + payload

    def _read_frame(self) -> list[StreamOpened | DataReceived] | None:
        """Return the events of the next buffered frame; None if more bytes are needed. Raise SpdyError."""
        if len(self._buffer) < 8:
            return None
        first, second = struct.unpack_from(">II", self._buffer)
        flags, length = second >> 24, second & 0xFFFFFF
        if not first >> 31:
            del self._buffer[:8]
            self._data = (first, length, bool(flags & _FIN))
            return self._read_data() or []
        if length > _LARGEST_CONTROL:
            raise SpdyError(f"a control frame of {length} bytes")
        if first >> 16 & 0x7FFF != _VERSION:
            raise SpdyError(f"version {first >> 16 & 0x7FFF} of SPDY")
        if len(self._buffer) < 8 + length:
            return None
        payload = bytes(self._buffer[8 : 8 + length])
        del self._buffer[: 8 + length]
        return self._handle_control_frame(first & 0xFFFF, flags, payload)

    def _read_data(self) -> list[StreamOpened | DataReceived] | None:
        assert self._data is not None  # noqa: S101 - callers have checked
        stream, left, fin = self._data
        piece = bytes(self._buffer[:left])
        if left and not piece:
            return None
        del self._buffer[: len(piece)]
        left -= len(piece)
        self._data = (stream, left, fin) if left else None
        return [DataReceived(stream, piece, last=fin and not left)] if stream in self._streams else []

    def _handle_control_frame(self, kind: int, flags: int, payload: bytes) -> list[StreamOpened | DataReceived]:
        match kind:
            case _FrameType.SYN_STREAM if len(payload) >= 10:
                stream = int.from_bytes(payload[:4], "big")
                self._streams.add(stream)
                if len(self._streams) > _MOST_STREAMS:
                    raise SpdyError(f"more than {_MOST_STREAMS} streams at once")
                opened = StreamOpened(stream, self._decode_headers(payload[10:]))
                return [opened, DataReceived(stream, b"", last=True)] if flags & _FIN else [opened]
            case _FrameType.RST_STREAM if len(payload) >= 4:
                stream = int.from_bytes(payload[:4], "big")
                known = stream in self._streams
                self._streams.discard(stream)
                return [DataReceived(stream, b"", last=True)] if known else []
            case _FrameType.PING:
                self._queue_control_frame(_FrameType.PING, payload)
            case _FrameType.GOAWAY:
                self.is_over = True
            case _FrameType.HEADERS if len(payload) >= 4:  # ignored, but part of the compressed stream
                self._decode_headers(payload[4:])
        return []

    def _decode_headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block, _LARGEST_HEADERS)
            (count,) = struct.unpack_from(">I", text)
            parts, at = [], 4
            for _ in range(2 * min(count, 256)):
                (length,) = struct.unpack_from(">I", text, at)
                parts.append(text[at + 4 : at + 4 + length].decode("latin-1"))
                at += 4 + length
        except (zlib.error, struct.error) as error:
            raise SpdyError(f"headers that cannot be read: {error}") from None
        if self._inflate.unconsumed_tail:
            raise SpdyError("headers without end")
        return dict(zip(parts[::2], parts[1::2], strict=True))
