"""The server side of one HTTP/1.1 connection, as an asyncio protocol on httptools.

- It closes connections of clients that send headers too slowly or too many, or do not read.
- Each request becomes an `HttpCall`, for which the application returns a `Response`. A short body is sent with its head
  in one write, because each TLS record costs more than the rest of HTTP.
- A body that its producer can push (a watch) needs no task: of a change for 500 watchers, waking tasks took 9 of 23 ms.
- A response with `take_over` upgrades the connection: it is answered with 101 and leaves HTTP.
"""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, cast
from urllib.parse import unquote

import httptools

from mooring.apiserver.edge.calls import Client, HttpCall, Identify
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.edge.responses import JOINED_BYTES, Stream, encode_chunk, encode_head, pieces_of, status_line
from mooring.apiserver.messages.connection import CHUNK, Connection, ConnectionLostError
from mooring.apiserver.messages.http import Pushed, Response, join_header
from mooring.base import logs

log = logs.get(__name__)

Application = Callable[[HttpCall], Awaitable[Response]]
"""Handles a request from the network; reports errors of requests as responses instead of raising them."""

_OLD = "1.0"
"""The version HTTP/1.0, without chunks and keep-alive: a body of unknown length ends with the connection."""
_TOO_LARGE = "431 Request Header Fields Too Large"
_KEEP_ALIVE_SECONDS = 60
_HANG_UP_SECONDS = 0.1
_IDLE_LOOK_SECONDS = 1.0
_UNREAD_BYTES = 64 * 1024
"""Reading pauses while the application has not consumed this number of body bytes."""
_DISCARDED_BYTES = 256 * 1024
"""At most this number of body bytes is discarded after an early response, before the connection is closed."""


class ServedCall(HttpCall):
    """A request on a connection, the task that handles it, and how much of the response was sent."""

    task: asyncio.Task[None]
    keep_alive = True
    expects_continue = False
    """Whether the client waits for the status 100 before it sends the body."""
    in_chunks = True
    """Whether a response body of unknown length is sent in chunks."""
    response_started = response_complete = False
    is_streaming = False
    """Whether pieces of a response body are being sent, which ends when the client disconnects."""
    ends_with_server = is_interrupted = False

    def disconnect(self) -> None:
        """Mark the client as gone; wake a waiting handler, or cancel it if it is sending a stream."""
        if self.disconnected or self.response_complete:
            return
        self.disconnected = True
        self.wake()
        if self.is_streaming:
            self.interrupt()

    def interrupt(self) -> None:
        """Cancel the task that handles the request, without logging that as an error."""
        self.is_interrupted = True
        self.task.cancel()


class HttpProtocol(asyncio.Protocol):
    """The HTTP/1.1 server side of one connection. `HttpServer` subclasses it with what its connections share."""

    application: Application
    identify: Identify
    connections: "set[HttpProtocol]"
    calls: set[ServedCall]
    """The requests of all connections that the application handles."""
    loop: asyncio.AbstractEventLoop
    limits = Limits()
    draining = False
    """Whether every response closes its connection, because the server is about to stop."""
    stopping = False
    """Whether the server is stopping: new connections are closed at once."""

    def __init__(self) -> None:
        self._call: ServedCall | None = None
        """The newest request; it may wait in the pipeline."""
        self._running: ServedCall | None = None
        """The request that the application handles."""
        self._pipeline: deque[ServedCall] | None = None
        self._parser: Any = None
        """None during a watch, to save its memory: hardly any client sends another request on that connection."""
        self._headers: dict[str, str] = {}
        """The headers of the request that arrives, by lower-case name."""
        self._url = b""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._refusal = ""
        """Why the head of the request is refused."""
        self._received_bytes = self._header_bytes = self._discarded_bytes = 0
        self._in_headers = self._in_message = True
        self._early: bytearray | None = None
        self._stream: Stream | None = None
        self._pushed: Pushed | None = None
        """The body of `_stream`, while its producer pushes it into this connection."""
        self._read_paused = False
        self._writable: asyncio.Event | None = None
        """Set when the client reads again; None while bytes can be written."""
        self._stall_timer: asyncio.TimerHandle | None = None
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connections.add(self)
        self._transport = cast("asyncio.Transport", transport)
        connected = transport.get_extra_info("socket")
        self._client = Client(_peer_address(connected), transport.get_extra_info("peercert"), self.identify)
        self._start_header_timer()
        _enable_tcp_keepalive(connected)
        if self.stopping:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio sets the signature
        _cancel_timer(self._header_timer)
        _cancel_timer(self._idle_timer)
        self._idle_timer = None
        self.connections.discard(self)
        for served in (self._call, self._running):
            if served:
                served.disconnect()
        self._allow_writing()
        self._parser = None
        self._end_push()

    def data_received(self, data: bytes) -> None:
        if self._early is not None:  # after a request to change the protocol, which has no response yet
            self._early += data
            if len(self._early) > CHUNK:
                self._pause_reading()
            return
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
            self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # a request after the last one
        self._received_bytes = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._early = bytearray(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(self._refusal or "Invalid HTTP request received.")
            return
        if self._in_message and not self._transport.is_closing():
            if self._in_headers and self._header_timer is None:
                self._start_header_timer()
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse_head()

    # -- called by the parser

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}
        self._header_bytes = self._discarded_bytes = 0
        self._in_headers = self._in_message = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header of the request; values of repeated ones are joined (see `join_header`)."""
        if not self._in_headers:
            return  # a trailer: proxies that check headers do not see it
        headers, key, text = self._headers, name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = join_header(key, headers[key], text) if key in headers else text

    def on_headers_complete(self) -> None:
        self._in_headers = False
        _cancel_timer(self._header_timer)
        self._header_timer = None
        most = self.limits.header_bytes
        if self._header_bytes + self._received_bytes > most and self._head_size() > most:
            self._refusal = _TOO_LARGE
            raise ValueError(_TOO_LARGE)  # httptools stops, and `data_received` refuses the request
        self._begin_request()

    def _head_size(self) -> int:
        """Return the size of the request's target and headers in bytes."""
        return len(self._url) + sum(len(name) + len(value) for name, value in self._headers.items())

    def on_body(self, body: bytes) -> None:
        self._header_bytes = 0  # trailers and the sizes of chunks count as headers
        served = self._call
        if served is not None and not served.response_started:
            served.add_body(body)
            if served.unread_bytes > _UNREAD_BYTES:
                self._pause_reading()
        else:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > _DISCARDED_BYTES:
                self._transport.close()

    def on_message_complete(self) -> None:
        self._in_message = False
        if self._call is not None:
            self._call.end_body()

    # -- requests

    def _begin_request(self) -> None:
        """Queue a request whose headers are complete; start handling it unless an earlier one is being handled."""
        parser, headers = self._parser, self._headers
        try:
            path, query = self._split_target()
        except (httptools.HttpParserError, UnicodeDecodeError):
            self._refusal = "Invalid target of the request."
            raise
        served = ServedCall(parser.get_method().decode("ascii"), path, query, headers, self._client)
        keep_alive = parser.should_keep_alive()
        if not keep_alive or "connection" in headers:  # HTTP/1.0 keeps a connection only if this header asks for it
            served.in_chunks = parser.get_http_version() != _OLD
        served.keep_alive = keep_alive and served.in_chunks and not (parser.should_upgrade() or self.draining)
        served.expects_continue = "expect" in headers and "100-continue" in headers["expect"].lower()
        served.target = self._url
        served.resume_body = self.resume_body
        self._call = served
        if self._running is None:
            self._start_handling(served)
        else:
            self._pause_reading()
            self._pipeline = self._pipeline or deque()
            self._pipeline.append(served)

    def _start_handling(self, served: ServedCall) -> None:
        self._running = served
        self.calls.add(served)
        served.task = self.loop.create_task(self._respond(served))

    def _split_target(self) -> tuple[str, bytes]:
        """Return path and query of the request; raise HttpParserError or UnicodeDecodeError for a bad URL."""
        url = self._url
        if url.startswith(b"/") and not url.startswith(b"//") and b"#" not in url:
            raw, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            raw, query = parsed.path or b"/", parsed.query or b""
        path = raw.decode("ascii")
        return (unquote(path) if "%" in path else path), query

    def resume_body(self) -> None:
        """Read more of a request's body; first send 100 Continue if the client waits for it."""
        served = self._running
        if served is not None and served.expects_continue and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            served.expects_continue = False
        self._resume_reading()

    # -- responses

    async def _respond(self, served: ServedCall) -> None:
        try:
            response = await self.application(served)
            body = response.body
            if isinstance(body, bytes) and len(body) <= JOINED_BYTES:
                if self._writable:
                    await self._writable.wait()
                if not served.disconnected:
                    head = self._encode_head(served, response)
                    self._transport.write(head if served.method == "HEAD" else head + body)
                    self._finish_response(served)
            else:
                await self._send_long(served, response)
        except BaseException as error:
            if isinstance(error, ConnectionLostError):
                log.info("A stream broke off", extra={"fields": {"path": served.path, "why": str(error)}})
            elif not served.is_interrupted:
                log.error("A response was not sent", exc_info=error)
            if served.response_complete:
                pass  # the connection was upgraded, and is closed already
            elif served.response_started or served.disconnected:
                self._transport.abort()  # without a last chunk, clients see that the body is incomplete
            else:
                failure = f"{status_line(500)}content-length: 0\r\nconnection: close\r\n\r\n"
                self._transport.write(failure.encode())
                self._transport.close()
        finally:
            self.calls.discard(served)
            served.resume_body = None
            del served.task

    async def _send_long(self, served: ServedCall, response: Response) -> None:
        """Send a response whose body is long or a stream, or hand the connection over (upgrade)."""
        body = response.body
        stream = pieces_of(body) if isinstance(body, bytes) else body
        is_pushed = False
        try:
            if self._writable:
                await self._writable.wait()
            if served.disconnected:
                pass
            elif response.take_over:
                await self._upgrade(served, response)
            elif isinstance(stream, Stream) and (pushed := stream.pushed) and served.method == "GET":
                is_pushed = True
                await self._push(served, response, stream, pushed)
            else:
                await self._send_in_pieces(served, response, stream)
        finally:
            close = getattr(stream, "aclose", None)
            if close and not is_pushed:
                await close()

    def _encode_head(self, served: ServedCall, response: Response) -> bytes:
        """Return the bytes of a response's status line and headers; discard the unread body of its request."""
        served.response_started = True
        if not served.has_arrived and _declared_length(served) > _DISCARDED_BYTES:
            served.keep_alive = False  # the client would use a connection that is about to be closed
        framing = "" if served.keep_alive else "connection: close\r\n"
        if isinstance(response.body, bytes):
            served.in_chunks = False
            return encode_head(response, f"content-length: {len(response.body)}\r\n{framing}")
        served.in_chunks = served.in_chunks and served.method != "HEAD" and "content-length" not in response.headers
        return encode_head(response, f"{framing}transfer-encoding: chunked\r\n" if served.in_chunks else framing)

    async def _send_in_pieces(self, served: ServedCall, response: Response, pieces: AsyncIterator[bytes]) -> None:
        """Send each piece of a body that is an iterator, until it ends or the client disconnects."""
        self._transport.write(self._encode_head(served, response))  # before the first piece, which may take long
        if not self._pipeline:
            self._resume_reading()
        if served.method != "HEAD":
            served.ends_with_server = response.ends_with_server
            served.is_streaming = True
            try:
                async for piece in pieces:
                    if self._writable:
                        await self._writable.wait()
                    if piece:
                        self._transport.write(encode_chunk(piece) if served.in_chunks else piece)
            except asyncio.CancelledError:
                if served.disconnected or not (served.is_interrupted and self.stopping):
                    raise
                served.keep_alive = False  # the server stops, and ends the stream properly
            finally:
                served.is_streaming = served.ends_with_server = False
            if served.in_chunks:
                self._transport.write(encode_chunk(b""))
        self._finish_response(served)

    def _finish_response(self, served: ServedCall) -> None:
        """After a response, close the connection, start the next pipelined request, or wait for one."""
        served.response_complete = True
        self._running = None
        if self._call is served:
            self._call = None  # and with it the body of the request
        if not served.keep_alive:
            self._transport.close()
        if self._transport.is_closing():
            return
        self._resume_reading()
        if self._pipeline:
            self._start_handling(self._pipeline.popleft())
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.limits.idle_seconds, self._close_if_idle)

    async def _upgrade(self, served: ServedCall, response: Response) -> None:
        """Send status 101, then run the response's `take_over` on the connection until it returns."""
        if self._early is None or response.take_over is None:
            raise RuntimeError("a response upgrades a connection whose client did not ask for it")
        served.response_started = served.response_complete = True
        _cancel_timer(self._stall_timer)
        _cancel_timer(self._idle_timer)
        self.connections.discard(self)  # the server waits for the request instead
        self._transport.write(encode_head(response))
        self._resume_reading()
        connection = Connection.from_transport(self._transport, bytes(self._early), self.limits.stalled_seconds)
        served.ends_with_server = True
        try:
            await response.take_over(connection)
        except ConnectionLostError:
            pass  # as good an end as any
        finally:
            connection.close()

    # -- pushed bodies: this connection is the `Sink`

    async def _push(self, served: ServedCall, response: Response, stream: Stream, pushed: Pushed) -> None:
        """Send the head and first events of a watch; its producer then writes later events to the connection."""
        if self._transport.is_closing():
            pushed.close()
            stream.end()
            return
        self._stream, self._pushed = stream, pushed
        self._transport.write(self._encode_head(served, response))
        if self._call is served and not self._in_headers:  # no pipelined request
            self._parser = None
            self._headers, self._url = {}, b""
        async for piece in pushed.beginning():
            if self._writable:
                await self._writable.wait()
            if self._transport.is_closing():
                return
            self.write(piece)
        if not self._transport.is_closing():
            pushed.follow(self)

    @property
    def is_ready(self) -> bool:
        return self._writable is None

    def write(self, chunk: bytes) -> None:
        stream, served = cast("Stream", self._stream), cast("ServedCall", self._running)
        stream.count_bytes(len(chunk))
        self._transport.write(encode_chunk(chunk) if served.in_chunks else chunk)

    def end(self) -> None:
        stream, served = cast("Stream", self._stream), cast("ServedCall", self._running)
        self._stream = self._pushed = None
        stream.end()
        if served.in_chunks:
            self._transport.write(encode_chunk(b""))
        self._finish_response(served)

    def break_off(self) -> None:
        """Close the connection without the last chunk, so that the client notices that the body is incomplete."""
        cast("Stream", self._stream).end()
        self._transport.abort()

    def _end_push(self) -> None:
        """Stop the producer that writes a watch's events, because the connection is closed."""
        if self._pushed and self._stream:
            self._pushed.close()
            self._stream.end()
            self._stream = self._pushed = None

    # -- connections without requests

    def _close_if_idle(self) -> None:
        """Close the connection if it has had no request for the idle timeout, otherwise check again later."""
        self._idle_timer = None
        if self._running is not None or self._transport.is_closing():
            return  # the end of the request starts the timer again
        rest = self._idle_since + self.limits.idle_seconds - self.loop.time()
        if self._header_timer is None and rest <= 0:
            self._transport.close()
        else:
            self._idle_timer = self.loop.call_later(max(rest, _IDLE_LOOK_SECONDS), self._close_if_idle)

    # -- closing

    def _refuse_head(self) -> None:
        """Respond 431 to too long headers; if a response has begun, only close the connection."""
        if self._in_headers or self._running is not None:
            self._refuse(_TOO_LARGE)
        else:
            self._transport.close()

    def _refuse(self, message: str) -> None:
        """Send an error response to a request that cannot be parsed, and close the connection."""
        status = _TOO_LARGE if message == _TOO_LARGE else "400 Bad Request"
        headers = f"content-type: text/plain\r\ncontent-length: {len(message)}\r\nconnection: close"
        self._transport.write(f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n{message}".encode())
        self._transport.close()

    def shutdown(self) -> None:
        """Close the connection after its current response, without waiting for the client's TLS close."""
        if self._call is None or self._call.response_complete:
            self._transport.close()
        else:
            self._call.keep_alive = False
        self._abort_when_sent()

    def _abort_when_sent(self) -> None:
        if self._transport.is_closing() and not _is_unsent(self._transport):
            self._transport.abort()
        else:
            self.loop.call_later(_HANG_UP_SECONDS, self._abort_when_sent)

    def _start_header_timer(self) -> None:
        # `close` would wait another half minute until a client that is that slow closes TLS
        self._header_timer = self.loop.call_later(self.limits.header_seconds, self._transport.abort)

    # -- flow control

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._writable = self._writable or asyncio.Event()
        self._stall_timer = self.loop.call_later(self.limits.stalled_seconds, self._transport.abort)

    def resume_writing(self) -> None:
        self._allow_writing()
        if self._pushed:
            self._pushed.push()

    def _allow_writing(self) -> None:
        """Wake the task that waits to send, because the client reads again; stop the slow client's timer."""
        _cancel_timer(self._stall_timer)
        self._stall_timer = None
        if self._writable:
            self._writable.set()
            self._writable = None


def _is_unsent(transport: asyncio.Transport) -> bool:
    """Return whether a closing connection still has bytes to send."""
    try:
        return transport.get_write_buffer_size() > 0
    except AttributeError:  # asyncio's own transports drop their socket when they are closed a second time
        return False


def _cancel_timer(timer: asyncio.TimerHandle | None) -> None:
    if timer:
        timer.cancel()


def _declared_length(served: ServedCall) -> int:
    """Return the length of a request's body as its headers state it; 0 if they do not."""
    length = served.headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0  # which the parser has checked


def _peer_address(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return ""


def _enable_tcp_keepalive(connection: Any) -> None:
    with suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_SECONDS)
