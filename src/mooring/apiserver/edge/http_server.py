"""The HTTP/1.1 server of API server, dashboard, webhooks and health pages.

``protocol.py`` handles each connection; ``tls_transport.py`` accepts and encrypts them. Health pages and the dashboard
run without TLS.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from mooring.apiserver.edge.calls import Identify
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.edge.protocol import Application, HttpProtocol, ServedCall
from mooring.apiserver.edge.tls_transport import accept_connections
from mooring.base import logs

log = logs.get(__name__)

_BACKLOG = 2048
_STOP_LOOK_SECONDS = 0.01
_LISTEN_ERRORS: dict[int | None, str] = {
    errno.EADDRINUSE: "another program listens there already; stop it, or choose another --port",
    errno.EACCES: "this user may not use the port; choose one above 1023 with --port",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose another --bind-address",
}


class ListenError(Exception):
    """The server cannot listen on an address; the message has the cause and the remedy."""


def listen(address: str, port: int) -> socket.socket:
    """Return a socket listening on an address and port; raise ListenError if that is not possible."""
    is_ipv6 = ":" in address
    where = f"[{address}]:{port}" if is_ipv6 else f"{address}:{port}"
    try:
        listening = socket.create_server(
            (address, port),
            family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
            backlog=_BACKLOG,
            dualstack_ipv6=is_ipv6 and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        why = _LISTEN_ERRORS.get(error.errno) or error.strerror or str(error)
        raise ListenError(f"cannot listen on {where}: {why}") from error
    except OverflowError:
        raise ListenError(f"cannot listen on {where}: ports go from 0 to 65535") from None
    listening.setblocking(False)
    return listening


def tls_context(certificate: Path, key: Path, client_authority: bytes) -> ssl.SSLContext:
    """Return the TLS settings of a server: version 1.2 or newer, client certificates of `client_authority` optional."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client_authority.decode())
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    return context


class HttpServer:
    """An HTTP server for one application on a bound socket, with TLS if a context is given."""

    def __init__(
        self,
        app: Application,
        listening: socket.socket,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        *,
        identify: Identify = lambda _: None,
        before_stop: Callable[[], None] = lambda: None,
        grace_seconds: float = 30.0,
    ) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._tls = tls
        self._before_stop = before_stop
        self._grace_seconds = grace_seconds
        self._is_hurried = False
        self._stop_listening: Callable[[], object] = lambda: None
        self.connections: set[HttpProtocol] = set()
        self._calls: set[ServedCall] = set()
        shared = {"application": staticmethod(app), "identify": staticmethod(identify), "limits": limits or Limits()}
        shared |= {"connections": self.connections, "calls": self._calls}
        self._protocol: type[HttpProtocol] = type("HttpProtocol", (HttpProtocol,), shared)

    async def start(self) -> None:
        """Accept connections from now on."""
        loop = self._protocol.loop = asyncio.get_running_loop()
        if self._tls is not None:
            accepting = loop.create_task(accept_connections(self._socket, self._tls, self._protocol))
            self._stop_listening = accepting.cancel
        else:
            server = await loop.create_server(self._protocol, sock=self._socket, backlog=_BACKLOG)
            self._stop_listening = server.close

    def drain(self) -> None:
        """From now on, close each connection after its next response, so that few are open when the server stops."""
        self._protocol.draining = True

    async def stop(self) -> None:
        """Refuse new connections, end streams, and wait for other requests; cancel them after the grace period."""
        self._protocol.stopping = True
        self._before_stop()
        self._stop_listening()
        self._socket.close()
        for connection in list(self.connections):
            connection.shutdown()
        for call in [call for call in self._calls if call.ends_with_server]:
            call.interrupt()
        try:
            async with asyncio.timeout(self._grace_seconds):
                while (self.connections or self._calls) and not self._is_hurried:  # noqa: ASYNC110 - at the end only
                    await asyncio.sleep(_STOP_LOOK_SECONDS)
        except TimeoutError:
            log.warning("Requests cancelled after the grace period", extra={"fields": {"count": len(self._calls)}})
            for call in self._calls:
                call.task.cancel()

    def stop_at_once(self) -> None:
        """Let a running or later `stop` return without waiting for unfinished requests."""
        self._is_hurried = True
