"""TLS contexts and TLS connections for kubelets, pods and nodes.

uvloop's TLS reads ahead of a slow reader, and drops what it has not decrypted when the peer closes: the end of a long
response is lost. So `open_tls` uses the transport of the server (``edge/tls_transport.py``), which reads one record at
a time. ``http_call.py`` opens a connection for each request; docs/decisions/streams.md has the reasons.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from mooring.api import errors
from mooring.apiserver.access.pki import KeyPair
from mooring.apiserver.edge.tls_transport import TlsTransport
from mooring.apiserver.messages.connection import CHUNK, Connection
from mooring.base.clock import Clock

_RENEWAL_SECONDS = 3600.0


class KubeletTls:
    """Make TLS contexts for kubelets, with the client certificate of this server.

    Without an authority, certificates of kubelets are not verified, as by kube-apiserver without
    `--kubelet-certificate-authority`: by default kubelets sign their own.
    """

    def __init__(self, identity: Callable[[], KeyPair], authority: Path | None, clock: Clock) -> None:
        self._identity = identity
        self._authority = authority
        self._clock = clock
        self._context_of = lru_cache(maxsize=2)(self._make_context)

    def for_kubelets(self, *, insecure: bool = False) -> ssl.SSLContext:
        """Return a TLS context that verifies kubelets if there is an authority, unless `insecure`.

        Raise InternalError if the authority's file is unusable.
        """
        authority = None if insecure else self._authority
        return self._context_of(authority, self._clock.monotonic() // _RENEWAL_SECONDS)

    def _make_context(self, authority: Path | None, _period: float) -> ssl.SSLContext:
        """Return a new context; one for each period, because the certificate may have been renewed."""
        context = unverified_context()
        if authority is not None:
            try:
                context.load_verify_locations(cafile=authority)
            except (OSError, ssl.SSLError) as error:
                raise errors.internal_error(
                    f"the authority of kubelets in {authority} cannot be used: {error}"
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED
            context.check_hostname = True
        pair = self._identity()
        context.load_cert_chain(pair.certificate_file, pair.key_file)
        return context


def unverified_context() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate, since ports of pods have unknown authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def open_tls(connected: socket.socket, context: ssl.SSLContext, host: str) -> Connection:
    """Perform the client's TLS handshake on a connected socket; return the connection. Raise OSError if it fails.

    `host` is the name or address that the server's certificate must have, if the context verifies it.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    opened: asyncio.Future[None] = loop.create_future()

    def finish_handshake() -> asyncio.Protocol:
        opened.set_result(None)
        return protocol

    secured = context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
    transport = TlsTransport(loop, secured, finish_handshake, opened.set_exception)
    try:
        await opened
    except BaseException:
        transport.abort()
        raise
    return Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
