"""The transport over HTTP/1.1 and TLS: a pool of open connections, of which a watch takes one for itself.

A connection is an asyncio protocol around httptools' parser; docs/decisions/client.md says why it is no library.
Requests are sent whole, and whole responses arrive through one future; streams yield all bytes since the last time. The
transport repeats a request only where that is safe: a read, on a connection that the server had closed while it was
idle. Since new connections may lead to another server of a balancer, all idle connections are closed after a request
without a response.
"""

import asyncio
import re
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httptools

from mooring.base.http_head import HeadError, ends_with_connection, header_lines, request_line
from mooring.client.credentials import Credential
from mooring.client.errors import ConfigError, ConnectError, DeadlineError, DisconnectedError, TooLongError
from mooring.client.kubeconfig import Connection
from mooring.client.transport import Request, Response

_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 60.0
_SILENT_SECONDS = 1.0
"""The seconds without a byte after which cancelling a request closes all idle connections."""
_MAX_BUFFERED_BYTES = 4 * 1024 * 1024
_MAX_HEAD_BYTES = 1024 * 1024
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class HttpsTransport:
    """A `Transport` over TCP and TLS to the server of a `Connection`, for one event loop."""

    def __init__(self, connection: Connection, *, max_connections: int = 128) -> None:
        url = urlsplit(connection.server)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ConfigError(f"the server {connection.server!r} is no URL with http or https")
        self._connection = connection
        self._base = url.path.rstrip("/")
        self._host = url.hostname
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._secure = url.scheme == "https"
        self._netloc = url.netloc.rpartition("@")[2]
        self._slots = asyncio.Semaphore(max_connections)
        self._idle: list[_PooledConnection] = []
        self._session: ssl.SSLSession | None = None
        """The TLS session of the last connection, to be resumed by the next one."""
        self._open: set[_PooledConnection] = set()
        self._identity: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None
        self._closed = False

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        reply = await self._exchange_in_time(request, timeout, self._slots)
        return Response(reply.status, reply.headers, b"".join(reply.parts), _parse_warnings(reply.lines))

    async def stream(self, request: Request, timeout: float) -> "HttpsStream":  # noqa: ASYNC109 - as above
        return await self._exchange_in_time(request, timeout, nullcontext(), in_pieces=True)

    def retire(self) -> None:
        """Open no more connections, and close busy ones when their requests are done."""
        self._closed = True
        self._close_idle_connections()

    async def close(self) -> None:
        self._closed = True
        self._idle.clear()
        for channel in list(self._open):
            channel.abort()
        await asyncio.sleep(0)  # lets the loop tell the connections that they are gone

    async def _exchange_in_time(
        self, request: Request, seconds: float, slot: AbstractAsyncContextManager[None], *, in_pieces: bool = False
    ) -> "HttpsStream":
        """Send a request while holding `slot`, and once more with a new credential if the server refuses the first."""
        try:
            async with asyncio.timeout(seconds), slot:
                reply = await self._exchange(request, in_pieces=in_pieces)
                if reply.status == 401 and self._connection.credentials.reject():
                    if in_pieces:
                        await reply.close()
                    reply = await self._exchange(request, in_pieces=in_pieces)
                return reply
        except TimeoutError:
            where = f"{self._connection.server}{request.path}"
            raise DeadlineError(f"{request.method} {where}: no answer within {seconds:g} s") from None

    async def _exchange(self, request: Request, *, in_pieces: bool) -> "HttpsStream":
        """Send a request; return its response, complete or, with `in_pieces`, as soon as the headers have arrived."""
        credential = await self._connection.credentials.current()
        data = self._serialize_request(request, credential)
        while True:
            channel = self._take_idle_connection(credential) or await self._open_connection(credential)
            reused, now = channel.idle_since > 0, asyncio.get_running_loop().time
            asked = now()
            try:
                if request.guard is not None:
                    request.guard()
                reply = channel.send_request(data, in_pieces=in_pieces, longest=request.max_response_bytes)
                await (reply.head or reply.end)
            except BaseException as error:
                self._release_connection(channel)
                if not channel.has_received:
                    if isinstance(error, asyncio.CancelledError) and now() - asked > _SILENT_SECONDS:
                        self._close_idle_connections()
                    is_harmless = request.method == "GET" or request.is_repeatable
                    if isinstance(error, DisconnectedError) and reused and is_harmless:
                        continue
                raise
            if not in_pieces:
                self._release_connection(channel)
            return reply

    def _serialize_request(self, request: Request, credential: Credential) -> bytes:
        """Return a request as bytes, with Host and the credential's own headers. Raise ConnectError if it cannot be."""
        pairs = [("host", self._netloc), *request.headers.items(), *credential.headers]
        if credential.authorization:
            pairs.append(("authorization", credential.authorization))
        if request.body or request.method not in {"GET", "HEAD"}:
            pairs.append(("content-length", str(len(request.body))))
        try:
            head = f"{request_line(request.method, f'{self._base}{request.target}')}{header_lines(pairs)}\r\n"
        except HeadError as error:
            raise ConnectError(f"nothing was sent: {error}") from None
        return head.encode("latin-1", "replace") + request.body

    def _take_idle_connection(self, credential: Credential) -> "_PooledConnection | None":
        """Remove and return the most recently used open connection that is free; None if there is none."""
        self._use_client_certificate(credential)
        now = asyncio.get_running_loop().time()
        while self._idle:
            channel = self._idle.pop()
            if channel.is_usable and now - channel.idle_since < _IDLE_SECONDS:
                return channel
            channel.abort()
        return None

    def _release_connection(self, channel: "_PooledConnection") -> None:
        if channel.is_usable and channel in self._open and not self._closed and channel.context is self._context:
            if not channel.idle_since and channel.tls_object is not None and not channel.tls_object.session_reused:
                self._session = channel.tls_object.session  # with its first answer came what can be resumed
            channel.idle_since = asyncio.get_running_loop().time()
            self._idle.append(channel)
        else:
            channel.abort()

    async def _open_connection(self, credential: Credential) -> "_PooledConnection":
        if self._closed:
            raise ConnectError("this client was closed")
        self._use_client_certificate(credential)
        name = self._connection.tls_server_name or self._host
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, channel = await asyncio.get_running_loop().create_connection(
                    lambda: _PooledConnection(self._open),
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname=name if self._secure else None,
                )
        except TimeoutError:
            raise ConnectError(f"{self._connection.server}: no connection within {_CONNECT_SECONDS:g} s") from None
        except ssl.SSLCertVerificationError as error:
            why = f"its certificate is not trusted: {error.verify_message}"
            raise ConnectError(f"{self._connection.server}: {why}") from error
        except OSError as error:
            raise ConnectError(f"{self._connection.server}: {error.strerror or error}") from error
        return channel

    def _use_client_certificate(self, credential: Credential) -> None:
        """Use a credential's client certificate for new connections; if it has changed, close the free ones."""
        identity = (credential.certificate, credential.key)
        if not self._secure or identity == self._identity:
            return
        self._context = _make_tls_context(self._connection, credential)
        self._context.sslobject_class = self._make_resuming_class()
        self._session = None
        self._identity = identity
        self._close_idle_connections()

    def _make_resuming_class(self) -> type[ssl.SSLObject]:
        """Return a class of TLS connections that resume the last session.

        A full handshake costs client and server more than a request, and a burst of writes opens dozens of connections.
        """
        transport = self

        class SessionResumingTls(ssl.SSLObject):
            has_begun = False

            def do_handshake(self) -> None:
                if not self.has_begun:
                    self.has_begun = True
                    if transport._session is not None and self.context is transport._context:
                        self.session = transport._session
                super().do_handshake()

        return SessionResumingTls

    def _close_idle_connections(self) -> None:
        for channel in self._idle:
            channel.abort()
        self._idle.clear()


class HttpsStream:
    """A response being received. `end` completes with the body, `head` (only with `in_pieces`) with the headers."""

    def __init__(self, channel: "_PooledConnection", *, in_pieces: bool, longest: int) -> None:
        loop = asyncio.get_running_loop()
        self.channel = channel
        self.has_head = False
        self.longest = longest
        self.status = 0
        self.lines: list[tuple[bytes, bytes]] = []
        """The headers as they were received."""
        self.head_bytes = 0
        """The bytes of headers received while they are incomplete."""
        self.parts: list[bytes] = []
        self.head: asyncio.Future[None] | None = loop.create_future() if in_pieces else None
        self.end: asyncio.Future[None] = loop.create_future()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers by lower-case name; repeated ones are joined by commas."""
        headers: dict[str, str] = {}
        for raw_name, raw_value in self.lines:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, each time all bytes received since the last; raise the connection's error if cut off."""
        while True:
            if self.parts:
                data = b"".join(self.parts)
                self.parts.clear()
                self.channel.resume_reading()
                yield data
            elif self.end.done():
                self.end.result()  # raises when the stream broke off
                return
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter

    async def close(self) -> None:
        self.channel.abort()

    def wake_reader(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def finish(self, error: Exception | None = None) -> None:
        for future in (self.head, self.end):
            if future is not None and not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
                    future.exception()  # a waiting caller gets it; there may be none
        self.wake_reader()


class _PooledConnection(asyncio.Protocol):
    """A connection of the pool, which serves one request at a time."""

    def __init__(self, open_channels: "set[_PooledConnection]") -> None:
        self.has_received = False
        """Whether any byte of the current response has been received."""
        self.idle_since = 0.0
        """When it was last returned to the pool; 0 before."""
        self.context: ssl.SSLContext | None = None
        """The TLS context that it was opened with."""
        self._all = open_channels
        self._parser = httptools.HttpResponseParser(self)
        self._reply: HttpsStream | None = None
        self._buffered = 0
        self._paused = False
        self._broken = False

    @property
    def tls_object(self) -> ssl.SSLObject | None:
        """Return the TLS object of an encrypted connection; None for plain HTTP."""
        return cast("ssl.SSLObject | None", self._transport.get_extra_info("ssl_object"))

    @property
    def is_usable(self) -> bool:
        """Return whether the connection is open and serves no request, so that one can be sent."""
        return self._reply is None and not self._broken

    def send_request(self, data: bytes, *, in_pieces: bool = False, longest: int = 0) -> HttpsStream:
        """Send a request; return its response, which is still arriving. Raise DisconnectedError if closed.

        The response fails with TooLongError once its body exceeds `longest` bytes (0: no limit).
        """
        if not self.is_usable:
            raise DisconnectedError("the connection was closed")
        self.has_received = False
        self._reply = reply = HttpsStream(self, in_pieces=in_pieces, longest=longest)
        self._transport.write(data)
        return reply

    def abort(self) -> None:
        self._broken = True
        self._transport.abort()

    def resume_reading(self) -> None:
        """Read from the socket again after a pause, once the reader has taken all received data."""
        self._buffered = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # it is, though uvloop's do not inherit from it
        self._all.add(self)
        self.context = transport.get_extra_info("sslcontext")
        connected = transport.get_extra_info("socket")
        if connected is not None:
            _enable_keep_alive(connected)

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        reply = self._reply
        if reply is None:
            self.abort()  # nothing was asked
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail_response(f"the server sent what is no HTTP: {error}")
            self.abort()
            return
        if not reply.has_head:
            reply.head_bytes += len(data)
            if reply.head_bytes > _MAX_HEAD_BYTES:
                self._fail_response(f"the server sent more than {_MAX_HEAD_BYTES} bytes of headers")
                self.abort()
        reply.wake_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._broken = True
        self._all.discard(self)
        reply = self._reply
        if reply is not None and reply.has_head and exc is None and ends_with_connection(reply.headers):
            self._reply = None
            reply.finish()
            return
        self._fail_response(f"the server closed the connection{f': {exc}' if exc else ''}")

    # -- called by the parser

    def on_message_begin(self) -> None:
        if self._reply is None:
            self._broken = True  # an answer to nothing: whose answer would the next one be?

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reply is not None:
            self._reply.lines.append((name, value))

    def on_headers_complete(self) -> None:
        reply = self._reply
        if reply is not None:
            reply.status = self._parser.get_status_code()
            reply.has_head = reply.status >= 200
            if reply.has_head and reply.head is not None and not reply.head.done():
                reply.head.set_result(None)

    def on_body(self, body: bytes) -> None:
        reply = self._reply
        if reply is None:
            return
        reply.parts.append(body)
        self._buffered += len(body)
        if reply.longest and self._buffered > reply.longest:
            self._reply = None
            reply.finish(TooLongError(f"the answer is longer than {reply.longest} bytes"))
            self.abort()
        elif reply.head is not None and self._buffered > _MAX_BUFFERED_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        reply = self._reply
        if reply is None:
            return
        if reply.status < 200:  # 1xx announces the real answer
            reply.lines.clear()
            return
        self._reply = None
        self._buffered = 0
        if not self._parser.should_keep_alive():
            self._broken = True
        reply.finish()

    def _fail_response(self, why: str) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.finish(DisconnectedError(why))


def _enable_keep_alive(connected: socket.socket) -> None:
    """Enable TCP keep-alive, so that a lost server is noticed within a minute even if a watch is silent."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _make_tls_context(connection: Connection, credential: Credential) -> ssl.SSLContext:
    try:
        authority = connection.certificate_authority.decode("ascii") or None
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{connection.server}: the certificate authority is no certificate in PEM: {error}") from None
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.certificate:
        with tempfile.TemporaryDirectory(prefix="mooring-") as folder:  # only its owner may look into it
            path = Path(folder) / "client.pem"  # Python reads certificates from files only
            path.write_bytes(credential.certificate + b"\n" + credential.key)
            try:
                context.load_cert_chain(path, password="")  # an encrypted key fails instead of asking
            except ssl.SSLError as error:
                raise ConfigError(f"{connection.server}: client certificate and key cannot be used: {error}") from None
    return context


def _parse_warnings(lines: Sequence[tuple[bytes, bytes]]) -> tuple[str, ...]:
    headers = [value for name, value in lines if len(name) == len("warning") and name.lower() == b"warning"]
    if not headers:
        return ()
    texts = _WARNING.findall(", ".join(header.decode("latin-1") for header in headers))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in texts)
