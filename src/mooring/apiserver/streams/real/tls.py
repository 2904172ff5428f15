"""TLS to kubelets, pods and nodes: contexts, and a connection that loses nothing that was received before its end.

uvloop's own TLS reads from the socket while the reader rests, and drops what is not decrypted when the peer closes just
then: the end of a long response to a slow reader is lost. `TlsConnection` reads a plain connection only when everything
before is decrypted and taken. ``http_call.py`` opens one for each request; docs/decisions/streams.md has the reasons.
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
    """TLS with the server's certificate for kubelets, which is made when it is first needed.

    Without an authority, kubelets' own certificates are taken as they are: that is what kube-apiserver does without
    `--kubelet-certificate-authority`, since kubelets sign theirs themselves by default.
    """

    def __init__(self, identity: Callable[[], KeyPair], authority: Path | None, clock: Clock) -> None:
        self._identity = identity
        self._authority = authority
        self._clock = clock
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._made = 0.0

    def for_kubelets(self, *, insecure: bool = False) -> ssl.SSLContext:
        """Return the TLS context for kubelets; raise InternalError when the file of the authority cannot be used."""
        now = self._clock.monotonic()
        if now - self._made > _RENEWAL_SECONDS:  # the certificate may have been renewed
            self._contexts.clear()
            self._made = now
        verified = self._authority is not None and not insecure
        if verified not in self._contexts:
            self._contexts[verified] = self._context(self._authority if verified else None)
        return self._contexts[verified]

    def _context(self, authority: Path | None) -> ssl.SSLContext:
        context = unverified()
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


def unverified() -> ssl.SSLContext:
    """TLS without verification: certificates of ports of pods and nodes have unknown authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class TlsConnection(Connection):
    """The client's side. At most one piece is decrypted ahead of its reader, and two wait before it encrypted."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext, host: str
    ) -> None:
        super().__init__(reader, writer)
        self._arrived = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname=host)

    async def shake_hands(self) -> None:
        """To be done first. Raises ssl.SSLError when the two do not agree, and ConnectionLostError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._take_in()
            else:
                return await self._flush()

    async def read(self) -> bytes:
        """Return received bytes as soon as there are any; nothing at the end, however it ended."""
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._take_in()
            except ssl.SSLError:  # it ended without a farewell, or with garbage
                return b""

    async def write(self, data: bytes) -> None:
        """Send; returns when the other side has taken enough of it. Raises ConnectionLostError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            raise ConnectionLostError(f"the connection broke: {error.reason or error}") from None
        await self._flush()

    def close(self) -> None:
        """Close it once all has been sent, or after a while."""
        with suppress(ssl.SSLError):  # the peer has not closed TLS yet
            self._tls.unwrap()
        if not self._writer.is_closing():
            self._writer.write(self._leaving.read())
        super().close()

    async def _take_in(self) -> None:
        """Wait for more from the socket. Only now: what it holds before is the back-pressure."""
        if data := await super().read():
            self._arrived.write(data)
        else:
            self._arrived.write_eof()

    async def _flush(self) -> None:
        if data := self._leaving.read():
            await super().write(data)
