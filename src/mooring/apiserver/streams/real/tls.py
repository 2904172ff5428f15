"""TLS contexts for connections to kubelets, pods and nodes."""

import ssl
from collections.abc import Callable
from pathlib import Path

from mooring.api import errors
from mooring.apiserver.access.pki import KeyPair
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
