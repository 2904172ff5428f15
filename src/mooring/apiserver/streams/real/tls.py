"""TLS contexts for kubelets, pods and nodes, and a TLS connection that loses no bytes when the peer closes.

uvloop's TLS reads ahead of a slow reader, and drops what it has not decrypted when the peer closes: the end of a long
response is lost. `TlsConnection` reads from the socket only when its reader has taken all decrypted bytes.
``http_call.py`` opens one for each request; docs/decisions/streams.md has the reasons.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mooring.api import errors
from mooring.apiserver.access.pki import KeyPair
from mooring.apiserver.messages.connection import CHUNK, Connection, ConnectionLostError
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
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._made = 0.0

    def for_kubelets(self, *, insecure: bool = False) -> ssl.SSLContext:
        """Return a TLS context that verifies kubelets if there is an authority, unless `insecure`.

        Raise InternalError if the authority's file is unusable.
        """
        now = self._clock.monotonic()
        if now - self._made > _RENEWAL_SECONDS:  # the certificate may have been renewed
            self._contexts.clear()
            self._made = now
        verified = self._authority is not None and not insecure
        if verified not in self._contexts:
            self._contexts[verified] = self._context(self._authority if verified else None)
        return self._contexts[verified]

    def _context(self, authority: Path | None) -> ssl.SSLContext:
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


class TlsConnection(Connection):
    """A client's TLS connection that reads from the socket only on demand, so that it buffers little."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext, host: str
    ) -> None:
        super().__init__(reader, writer)
        self._arrived = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname=host)

    async def shake_hands(self) -> None:
        """Perform the TLS handshake; raise ssl.SSLError if it fails, ConnectionLostError if the peer leaves."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            else:
                return await self._flush()

    async def read(self) -> bytes:
        """Wait for decrypted bytes and return them; empty bytes at the end, even without close_notify."""
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._receive()
            except ssl.SSLError:  # no close_notify, or garbage
                return b""

    async def write(self, data: bytes) -> None:
        """Encrypt and send bytes; wait while too many are unsent. Raise ConnectionLostError if the peer is gone."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            raise ConnectionLostError(f"the connection broke: {error.reason or error}") from None
        await self._flush()

    def close(self) -> None:
        """Close when all bytes are sent, or after a timeout."""
        with suppress(ssl.SSLError):  # the peer has not closed TLS yet
            self._tls.unwrap()
        if not self._writer.is_closing():
            self._writer.write(self._leaving.read())
        super().close()

    async def _receive(self) -> None:
        """Read encrypted bytes from the socket once; without this call the peer is held back."""
        if data := await super().read():
            self._arrived.write(data)
        else:
            self._arrived.write_eof()

    async def _flush(self) -> None:
        if data := self._leaving.read():
            await super().write(data)
