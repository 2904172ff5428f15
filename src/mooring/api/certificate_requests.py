"""Parse certificate signing requests (PKCS #10) and check them against the rules of Kubernetes' signers.

Used by admission, the controller that approves kubelet requests, and the API server's signer. `cryptography` is slow to
import, so it is imported when the first request is parsed.
"""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.api.certificates_v1 import CLIENT, KUBELET_CLIENT, KUBELET_SERVING

if TYPE_CHECKING:
    from cryptography.x509 import CertificateSigningRequest

NODE_USER: Final = "system:node:"
NODES: Final = "system:nodes"
_BASIC: Final = frozenset({"digital signature", "key encipherment"})
_KUBELET_CLIENT_USAGES: Final = ({"digital signature", "client auth"}, {*_BASIC, "client auth"})
_KUBELET_SERVING_USAGES: Final = ({"digital signature", "server auth"}, {*_BASIC, "server auth"})


class RequestError(ValueError):
    """The bytes are not a certificate signing request. The message says why."""


class CertificateRequest(msgspec.Struct, frozen=True):
    """The names that a certificate signing request asks for, with the parsed request."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    emails: tuple[str, ...]
    uris: tuple[str, ...]
    parsed: "CertificateSigningRequest"


@lru_cache(maxsize=256)
def read(pem: bytes) -> CertificateRequest:
    """Parse the request in a PEM block and verify its signature. Raise RequestError."""
    from cryptography import x509  # noqa: PLC0415 - see above
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    if not pem.lstrip().startswith(b"-----BEGIN CERTIFICATE REQUEST-----"):
        raise RequestError("PEM block type must be CERTIFICATE REQUEST")
    try:
        parsed = x509.load_pem_x509_csr(pem)
        if not parsed.is_signature_valid:
            raise RequestError("the signature does not belong to the key in the request")
        names = _alternative_names(parsed)
        common = [str(part.value) for part in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        organizations = parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise error if isinstance(error, RequestError) else RequestError(f"it cannot be read: {error}") from error
    return CertificateRequest(
        common_name=common[-1] if common else "",
        organizations=tuple(str(part.value) for part in organizations),
        parsed=parsed,
        **names,
    )


def _alternative_names(parsed: "CertificateSigningRequest") -> dict[str, tuple[str, ...]]:
    from cryptography import x509  # noqa: PLC0415 - as above

    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    return {
        "dns_names": tuple(names.get_values_for_type(x509.DNSName)),
        "addresses": tuple(map(str, names.get_values_for_type(x509.IPAddress))),
        "emails": tuple(names.get_values_for_type(x509.RFC822Name)),
        "uris": tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
    }


def rejection_reason(signer: str, request: CertificateRequest, usages: Collection[str]) -> str | None:
    """Return why a Kubernetes signer would reject a request; None if it would sign it. KeyError for other signers."""
    return _RULES[signer](request, usages)


def is_known(signer: str) -> bool:
    """Whether `rejection_reason` has rules for a signer."""
    return signer in _RULES


def _kubelet_client(request: CertificateRequest, usages: Collection[str]) -> str | None:
    if request.organizations != (NODES,):
        return f"subject organization is not {NODES}"
    for kind, names in (
        ("DNS", request.dns_names),
        ("Email", request.emails),
        ("IP", request.addresses),
        ("URI", request.uris),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    if not request.common_name.startswith(NODE_USER):
        return f"subject common name does not begin with {NODE_USER}"
    return _differs(usages, *_KUBELET_CLIENT_USAGES)


def _kubelet_serving(request: CertificateRequest, usages: Collection[str]) -> str | None:
    if request.organizations != (NODES,):
        return f"subject organization is not {NODES}"
    if not request.dns_names and not request.addresses:
        return "DNS or IP subjectAltName is required"
    for kind, names in (("Email", request.emails), ("URI", request.uris)):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    wrong = _differs(usages, *_KUBELET_SERVING_USAGES)
    if wrong:
        return wrong
    return None if request.common_name.startswith(NODE_USER) else f"subject common name does not begin with {NODE_USER}"


def _client(request: CertificateRequest, usages: Collection[str]) -> str | None:  # noqa: ARG001 - as the others
    for usage in usages:
        if usage not in _BASIC and usage != "client auth":
            return f"invalid usage for client certificate: {usage}"
    return None if "client auth" in usages else "missing required usage for client certificate: client auth"


def _differs(usages: Collection[str], *allowed: set[str]) -> str | None:
    return None if set(usages) in allowed else f"usages did not match [{' '.join(sorted(allowed[-1]))}]"


_RULES: Final[Mapping[str, Callable[[CertificateRequest, Collection[str]], str | None]]] = {
    CLIENT: _client,
    KUBELET_CLIENT: _kubelet_client,
    KUBELET_SERVING: _kubelet_serving,
}
