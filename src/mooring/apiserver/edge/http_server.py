"""The HTTP/1.1 server of API server, dashboard, webhooks and health pages: an asyncio protocol on httptools.

- `Protocol` is one connection. It closes those of clients that send headers too slowly or too many, or do not read.
- A request whose body has arrived, as nearly all have, goes to a `WholeApplication` without ASGI (`FastExchange`).
- Other requests are ASGI (`Cycle`). The head of a response is sent with the first piece of its body, because each TLS
  record costs more than the rest of HTTP.
- To upgrade, the application calls a function in the scope, which responds 101 and returns a `Connection`.
- ``tls_transport.py`` accepts and encrypts connections; health pages and the dashboard run without TLS.
"""

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast
from typing import Protocol as Interface
from urllib.parse import unquote

import httptools

from mooring.apiserver.edge.exchanges import JOINED_BYTES, OLD, STATUS_LINE, Cycle, FastExchange
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.edge.pushing import Flow, Push
from mooring.apiserver.edge.sending import (
    CLIENT,
    TAKE_OVER,
    Client,
    Receive,
    Scope,
    Send,
    Stream,
    date,
    head_of,
    headers_of,
    known_lines,
    lines_of,
)
from mooring.apiserver.edge.tls_transport import TlsListener
from mooring.apiserver.messages.connection import CHUNK, Connection
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Request, Response, headers_by_name
from mooring.base import logs

log = logs.get(__name__)

_TOO_LARGE = "431 Request Header Fields Too Large"
_KEEP_ALIVE_SECONDS = 60
_BACKLOG = 2048
_HANG_UP_SECONDS = 0.1
_IDLE_LOOK_SECONDS = 1.0
_STOP_LOOK_SECONDS = 0.01
_UNREAD_BYTES = 64 * 1024
"""Reading pauses while the application has not consumed this number of body bytes."""
_DISCARDED_BYTES = 256 * 1024
"""At most this number of body bytes is discarded after an early response, before the connection is closed."""
_LISTEN_ERRORS: dict[int | None, str] = {
    errno.EADDRINUSE: "another program listens there already; stop it, or choose another --port",
    errno.EACCES: "this user may not use the port; choose one above 1023 with --port",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose another --bind-address",
}


class ListenError(Exception):
    """The server cannot listen on an address; the message has the cause and the remedy."""


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket; raise ListenError."""
    is_ipv6 = ":" in address
    where = f"[{address}]:{port}" if is_ipv6 else f"{address}:{port}"
    try:
        listening = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((address, port))
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        why = _LISTEN_ERRORS.get(error.errno) or error.strerror or str(error)
        raise ListenError(f"cannot listen on {where}: {why}") from error
    except OverflowError:
        raise ListenError(f"cannot listen on {where}: ports go from 0 to 65535") from None
    listening.setblocking(False)
    return listening


def tls_context(certificate: Path, key: Path, client_authority: bytes) -> ssl.SSLContext:
    """Return a server's context for TLS 1.2 or newer, with optional client certificates of `client_authority`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client_authority.decode())
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    return context


AsgiApplication = Callable[[Scope, Receive, Send], Awaitable[None]]


class WholeApplication(Interface):
    """Interface of applications that handle a request whose body is complete by a call instead of ASGI messages."""

    async def answer(self, request: Request, query: bytes, client: Client) -> tuple[Exchange, Response]:
        """Handle a request whose body is complete; return an error as a response instead of raising it."""
        ...

    def count(self, exchange: Exchange, response: Response) -> None: ...

    async def send(self, exchange: Exchange, response: Response, receive: Receive, send: Send) -> None: ...


class Protocol(asyncio.Protocol):
    """The server side of one client connection. `HttpServer` subclasses it for attributes that all share."""

    __slots__ = (
        "_awaited",
        "_body",
        "_client",
        "_discarded_bytes",
        "_early",
        "_header_bytes",
        "_header_timer",
        "_idle_since",
        "_idle_timer",
        "_in_headers",
        "_in_message",
        "_is_whole",
        "_keeps_alive",
        "_method",
        "_pushing",
        "_stall_timer",
        "_too_large",
        "_version",
        "cycle",
        "expect_100_continue",
        "flow",
        "headers",
        "parser",
        "pipeline",
        "transport",
        "url",
    )
    application: AsgiApplication
    whole: WholeApplication
    takes_whole: bool
    """Whether the application is a `WholeApplication`, so that complete requests bypass ASGI."""
    connections: "set[Protocol]"
    tasks: set[asyncio.Task[None]]
    loop: asyncio.AbstractEventLoop
    limits = Limits()
    draining = False
    """Whether every response closes its connection, because the server is about to stop."""
    stopping = False
    """Whether the server is stopping: new connections are closed at once."""

    def __init__(self) -> None:
        self.cycle: Cycle | FastExchange | None = None
        self.parser: Any = None
        """None during a watch, to save its memory: hardly any client sends another request on that connection."""
        self.headers: list[tuple[bytes, bytes]] = []
        self.url = b""
        self.pipeline: deque[Cycle] | None = None
        self.expect_100_continue = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._awaited = self._is_whole = self._keeps_alive = False
        self._method, self._version, self._body = "", "", b""
        self._header_bytes = self._discarded_bytes = 0
        self._in_headers = self._in_message = True
        self._too_large = False
        self._early: bytearray | None = None
        self._pushing: Push | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connections.add(self)
        self.transport = cast("asyncio.Transport", transport)
        self.flow = Flow(self.transport)
        connected = transport.get_extra_info("socket")
        self._client = Client(_address(connected), transport.get_extra_info("peercert"))
        self._expect_headers()
        _keep_alive(connected)
        if self.stopping:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio sets the signature
        _cancel_timer(self._stall_timer)
        _cancel_timer(self._header_timer)
        _cancel_timer(self._idle_timer)
        self._idle_timer = None
        self.connections.discard(self)
        if self.cycle is not None:
            if not self.cycle.response_complete:
                self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_writing()
        self.parser = None
        if self._pushing:
            self._pushing.lost()
            self._pushing = None

    def data_received(self, data: bytes) -> None:
        if self._early is not None:  # after a request to change the protocol, which has no response yet
            self._early += data
            if len(self._early) > CHUNK:
                self.flow.pause_reading()
            return
        if self.parser is None:
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # a request after the last one
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._early = bytearray(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return
        if self._awaited:
            try:
                self._begin()
            except (httptools.HttpParserError, UnicodeDecodeError):
                self.send_400_response("Invalid target of the request.")
                return
        if self._in_message and not self.transport.is_closing():
            if self._in_headers and self._header_timer is None:
                self._expect_headers()
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse_head()

    # -- called by the parser

    def on_message_begin(self) -> None:
        if self._awaited:
            self._begin()
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._header_bytes = self._discarded_bytes = 0
        self._in_headers = self._in_message = True

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_headers:
            return  # a trailer: proxies that check headers do not see it
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_headers = False
        _cancel_timer(self._header_timer)
        self._header_timer = None
        if len(self.url) + sum(map(len, chain.from_iterable(self.headers))) > self.limits.header_bytes:
            self._too_large = True
            raise ValueError(_TOO_LARGE)  # httptools stops, and `data_received` calls `send_400_response`
        parser = self.parser
        upgrades = parser.should_upgrade()  # after such a request the parser stops
        self._version = parser.get_http_version()
        self._keeps_alive = not upgrades and not self.draining and parser.should_keep_alive() and self._version != OLD
        self._method = parser.get_method().decode("ascii")
        self._body, self._is_whole, self._awaited = b"", False, True
        if upgrades or self.expect_100_continue:
            self._begin()

    def on_body(self, body: bytes) -> None:
        self._header_bytes = 0  # trailers and the sizes of chunks count as headers
        if self._awaited:
            self._body += body
        elif isinstance(self.cycle, Cycle) and not self.cycle.response_complete:
            self.cycle.body += body
            if len(self.cycle.body) > _UNREAD_BYTES:
                self.flow.pause_reading()
            self.cycle.message_event.set()
        else:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > _DISCARDED_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        self._in_message = False
        if self._awaited:
            self._is_whole = True
        elif isinstance(self.cycle, Cycle) and not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    # -- requests

    def _begin(self) -> None:
        """Start handling a request whose headers are complete."""
        self._awaited = False
        is_next = self.cycle is None or self.cycle.response_complete
        path, query = self._address()
        if self.takes_whole and is_next and self._is_whole and len(self._body) <= self.limits.body_bytes:
            headers = headers_by_name(self.headers)
            request = Request(method=self._method, path=path, headers=headers, body=self._body)
            self.cycle = whole = FastExchange(self._version, keep_alive=self._keeps_alive)
            whole.task = self.loop.create_task(self._answer(request, query, whole))
            self.tasks.add(whole.task)
            return
        scope: dict[str, Any] = {"type": "http", "method": self._method, "path": path, "query_string": query}
        scope |= {"headers": self.headers, "http_version": self._version, CLIENT: self._client, "raw_path": self.url}
        if self.parser.should_upgrade():
            scope[TAKE_OVER] = self._take_over
        self.cycle = cycle = self._new_cycle(scope, keep_alive=self._keeps_alive)
        cycle.body += self._body
        cycle.more_body = not self._is_whole
        if self._body or self._is_whole:
            cycle.message_event.set()
        if is_next:
            self._start(cycle)
        else:  # the client pipelines requests
            self.flow.pause_reading()
            self.pipeline = self.pipeline or deque()
            self.pipeline.append(cycle)

    def _start(self, cycle: Cycle) -> None:
        task = self.loop.create_task(cycle.run(self.application))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _address(self) -> tuple[str, bytes]:
        """Return path and query of the request target; raise HttpParserError or UnicodeDecodeError if it is no URL."""
        url = self.url
        if url.startswith(b"/") and not url.startswith(b"//") and b"#" not in url:
            raw, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            raw, query = parsed.path or b"/", parsed.query or b""
        path = raw.decode("ascii")
        return (unquote(path) if "%" in path else path), query

    def _new_cycle(self, scope: dict[str, Any], *, keep_alive: bool) -> Cycle:
        expects, done = self.expect_100_continue, self.on_response_complete
        return Cycle(scope, self.transport, self.flow, done, expect_100_continue=expects, keep_alive=keep_alive)

    # -- requests without ASGI

    async def _answer(self, request: Request, query: bytes, whole: FastExchange) -> None:
        try:
            exchange, response = await self.whole.answer(request, query, self._client)
            body = response.body
            if isinstance(body, bytes) and len(body) <= JOINED_BYTES:
                self.whole.count(exchange, response)
                if self.flow.write_paused and not whole.disconnected:
                    await self.flow.drain()
                if not whole.disconnected:
                    self._send(exchange, response, body, whole)
            elif isinstance(body, Stream) and (pushed := body.pushed) and exchange.request.method == "GET":
                in_chunks = whole.http_version != OLD
                push = Push(
                    self.transport, self.flow, body, pushed, partial(self._end_push, whole), in_chunks=in_chunks
                )
                await self._push(exchange, response, push, whole)
            else:
                await self._send_in_pieces(exchange, response, whole)
        except BaseException as error:
            log.error("A response was not sent", exc_info=error)
            self.transport.abort()
            raise
        finally:
            self.tasks.discard(whole.task)
            del whole.task

    def _send(self, exchange: Exchange, response: Response, body: bytes, whole: FastExchange) -> None:
        end = b"\r\n" if whole.keep_alive else b"connection: close\r\n\r\n"
        shown = b"" if exchange.request.method == "HEAD" else body
        head = head_of(exchange, response, len(body))
        self.transport.write(b"".join((STATUS_LINE[response.status], known_lines((date(),)), head, end, shown)))
        self._finish(whole)

    def _finish(self, whole: FastExchange) -> None:
        whole.response_complete = True
        if whole.keep_alive:
            self.on_response_complete()
        else:
            self.transport.close()

    async def _push(self, exchange: Exchange, response: Response, push: Push, whole: FastExchange) -> None:
        """Send the head and first events of a watch; later events are pushed by the watch, without a task."""
        self.whole.count(exchange, response)
        if self.transport.is_closing():
            push.lost()
            return
        self._pushing = push
        head = STATUS_LINE[response.status] + lines_of([date(), *headers_of(exchange, response)])
        chunked = b"transfer-encoding: chunked\r\n" if push.in_chunks else b""
        end = b"\r\n" if whole.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(head + chunked + end)
        if self.cycle is whole and not self._in_headers:  # no pipelined request
            self.parser = None
            self.headers, self.url = [], b""
        await push.run()

    def _end_push(self, whole: FastExchange) -> None:
        self._pushing = None
        self._finish(whole)

    async def _send_in_pieces(self, exchange: Exchange, response: Response, whole: FastExchange) -> None:
        """Send a body that is too long for one write, or an iterator."""
        scope = {"method": exchange.request.method, "http_version": whole.http_version}
        cycle = self._new_cycle(scope, keep_alive=whole.keep_alive)
        cycle.disconnected, cycle.more_body, cycle.waiting_for_100_continue = whole.disconnected, False, False
        if self.cycle is whole:
            self.cycle = cycle

        async def send(_: Any, receive: Any, send: Any) -> None:
            await self.whole.send(exchange, response, receive, send)

        await cycle.run(send)

    # -- connections without requests

    def on_response_complete(self) -> None:
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(self.pipeline.popleft())
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.limits.idle_seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close the connection if it was idle for long enough, else check again later: one timer for many requests."""
        self._idle_timer = None
        if self.cycle is None or not self.cycle.response_complete or self.transport.is_closing():
            return  # the end of the request starts the timer again
        rest = self._idle_since + self.limits.idle_seconds - self.loop.time()
        if self._header_timer is None and rest <= 0:
            self.transport.close()
        else:
            self._idle_timer = self.loop.call_later(max(rest, _IDLE_LOOK_SECONDS), self._close_if_idle)

    # -- closing and upgrading

    def _take_over(self, headers: list[tuple[bytes, bytes]]) -> Connection | None:
        """Respond 101 and return the connection; None when the client has closed it."""
        cycle = cast("Cycle", self.cycle)
        if cycle.disconnected or self._early is None:
            return None
        cycle.response_started = cycle.response_complete = True
        _cancel_timer(self._stall_timer)
        _cancel_timer(self._idle_timer)
        self.connections.discard(self)  # the server waits for its task instead
        self.transport.write(cycle.head(101, [*cycle.default_headers, *headers]))
        self.flow.resume_reading()
        return Connection.over(self.transport, bytes(self._early), self.limits.stalled_seconds)

    def _refuse_head(self) -> None:
        """Refuse a request with too long headers or trailers with 431; after a response, only close the connection."""
        if self._in_headers or (self.cycle is not None and not self.cycle.response_complete):
            self._too_large = True
            self.send_400_response(_TOO_LARGE)
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request before it reaches the application, and close the connection."""
        status, text = (_TOO_LARGE, _TOO_LARGE) if self._too_large else ("400 Bad Request", msg)
        headers = f"content-type: text/plain\r\ncontent-length: {len(text.encode())}\r\nconnection: close"
        self.transport.write(f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n{text}".encode())
        self.transport.close()

    def shutdown(self) -> None:
        """Close the connection when its request is done, without waiting until the client closes TLS."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.cycle.keep_alive = False
        self._hang_up()

    def _hang_up(self) -> None:
        if self.transport.is_closing() and not _is_unsent(self.transport):
            self.transport.abort()
        else:
            self.loop.call_later(_HANG_UP_SECONDS, self._hang_up)

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        self._stall_timer = self.loop.call_later(self.limits.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        _cancel_timer(self._stall_timer)
        self._stall_timer = None
        if self._pushing:
            self._pushing.body.tell()

    def _expect_headers(self) -> None:
        # `close` would wait another half minute until a client that is that slow closes TLS
        self._header_timer = self.loop.call_later(self.limits.header_seconds, self.transport.abort)


def _is_unsent(transport: asyncio.Transport) -> bool:
    """Return whether a connection that is being closed has unsent bytes."""
    try:
        return transport.get_write_buffer_size() > 0
    except AttributeError:  # asyncio's own transports drop their socket when they are closed a second time
        return False


def _cancel_timer(timer: asyncio.TimerHandle | None) -> None:
    if timer:
        timer.cancel()


def _address(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return ""


def _keep_alive(connection: Any) -> None:
    with suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_SECONDS)


class HttpServer:
    """Serve an application on a bound socket, with TLS if there is a context."""

    def __init__(
        self,
        app: AsgiApplication,
        listening: socket.socket,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        *,
        before_stop: Callable[[], None] = lambda: None,
        grace_seconds: float = 30.0,
    ) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._tls = tls
        self._before_stop = before_stop
        self._grace_seconds = grace_seconds
        self._is_hurried = False
        self._listener: TlsListener | asyncio.Server | None = None
        self.connections: set[Protocol] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        shared = {"application": app, "whole": app, "takes_whole": hasattr(app, "answer"), "limits": limits or Limits()}
        shared |= {"connections": self.connections, "tasks": self._tasks}
        self._protocol: type[Protocol] = type("Protocol", (Protocol,), shared)

    async def start(self) -> None:
        loop = self._protocol.loop = asyncio.get_running_loop()
        if self._tls is not None:
            self._listener = TlsListener(self._socket, self._tls, self._protocol)
        else:
            self._listener = await loop.create_server(self._protocol, sock=self._socket, backlog=_BACKLOG)

    def drain(self) -> None:
        """Close every connection after its response from now on, so that few are cut when the server stops."""
        self._protocol.draining = True

    async def stop(self) -> None:
        """Accept no more connections, end watches and wait for other requests, up to the grace period."""
        self._protocol.stopping = True
        if self._listener:
            self._before_stop()
            self._listener.close()
        self._socket.close()
        for connection in list(self.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self._grace_seconds):
                while (self.connections or self._tasks) and not self._is_hurried:  # noqa: ASYNC110 - at the end only
                    await asyncio.sleep(_STOP_LOOK_SECONDS)
        except TimeoutError:
            log.warning("Requests cancelled after the grace period", extra={"fields": {"count": len(self._tasks)}})
            for task in self._tasks:
                task.cancel()

    def stop_at_once(self) -> None:
        self._is_hurried = True
