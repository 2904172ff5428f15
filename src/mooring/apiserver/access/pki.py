"""The certificate authority of a data directory, the certificates that it signs, and kubeconfig files with these.

    <data-dir>/pki/ca.crt, ca.key            the authority; ten years
    <data-dir>/pki/apiserver.crt, .key       the server's certificate; one year
    <data-dir>/pki/admin.crt, .key …         certificates of clients, user in CN and groups in O; one year

Keys are ECDSA P-256, which makes handshakes cheap. Files can be read by their owner only and are replaced as a whole. A
certificate that expires soon, that another authority signed, or that lacks one of the server's addresses is replaced on
its next use; the server checks once an hour. Servers on one etcd must have the same keys (`require_shared_keys`).
"""

import base64
import hashlib
import ipaddress
import os
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.api.certificate_requests import CertificateRequest
from mooring.base import logs
from mooring.base.clock import Clock

log = logs.get(__name__)
T = TypeVar("T")

AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=365)
_TOLERANCE = timedelta(minutes=5)
"""How far before now certificates begin to be valid, for clients whose clocks are slow."""
_PURPOSES = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}
_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
)


class PkiError(Exception):
    """A certificate or key file cannot be used; the message names it and says what to do."""


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, as files and as PEM; the certificate also decoded."""

    certificate_file: Path
    key_file: Path
    certificate: bytes
    key: bytes
    decoded: x509.Certificate

    @property
    def private_key(self) -> ec.EllipticCurvePrivateKey:
        return _read_key(self.key_file)


class Pki:
    """The certificate authority in a data directory, and what it signs. A shared authority is never replaced."""

    def __init__(self, directory: Path, clock: Clock, *, is_shared: bool = False) -> None:
        self.directory = directory
        self._clock = clock
        self._is_shared = is_shared

    @property
    def authority(self) -> KeyPair:
        """Return certificate and key of the authority; create them if they are missing or expire soon."""
        found = self._load_pair("ca")
        if found and not self._ends_soon(found.decoded, AUTHORITY_LIFE):
            return found
        if found and self._is_shared:
            if logs.once(("authority", self.directory)):
                life = f"from {found.decoded.not_valid_before_utc} to {found.decoded.not_valid_after_utc}"
                log.warning("The certificate authority is good %s: replace it on all servers together", life)
            return found
        if found:
            log.warning("The certificate authority expires soon and was replaced: clients need new certificates")
        return self._make_authority("ca", "mooring-ca")

    @property
    def proxy_authority(self) -> KeyPair:
        """Return the authority that signs front proxies' certificates; these may name the user they act for."""
        return self._load_pair("front-proxy-ca") or self._make_authority("front-proxy-ca", "mooring-front-proxy-ca")

    def server(self, addresses: Sequence[str] = ()) -> KeyPair:
        """Return the server's certificate and key, for this machine's names and `addresses`; reissue if needed."""
        names = sorted({*_SERVER_NAMES, *filter(None, addresses)})
        wanted = x509.SubjectAlternativeName([_make_general_name(name) for name in names])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._load_or_issue("apiserver", subject, ExtendedKeyUsageOID.SERVER_AUTH, wanted)

    def client(self, name: str, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Return certificate and key for a user and groups, from the files `<name>.crt` and `.key`; reissue if due."""
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._load_or_issue(name, subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def sign_request(self, request: CertificateRequest, usages: Collection[str], life: timedelta) -> bytes:
        """Sign a certificate request (only its names and key are used); return the certificate in PEM."""
        authority = self.authority
        until = min(self._clock.now() + life, authority.decoded.not_valid_after_utc)
        builder = self._certificate_builder(request.parsed.subject, authority, request.parsed.public_key(), until)
        purposes = [_PURPOSES[usage] for usage in usages if usage in _PURPOSES]
        names = [_make_general_name(name) for name in (*request.dns_names, *request.addresses)]
        alternative = x509.SubjectAlternativeName(names) if names else None
        return _sign(authority, builder, usages, purposes, alternative).public_bytes(serialization.Encoding.PEM)

    def signing_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the private key that signs service account tokens; create it if missing."""
        path = self.directory / "sa.key"
        if path.exists():
            return _read_key(path)
        key = _generate_key()
        write_private(path, _encode_key(key))
        return key

    def fingerprints(self) -> dict[str, str]:
        """Return fingerprints of the keys, by file, that all servers of a cluster share; create missing keys."""
        keys = {"ca.key": self.authority.private_key, "sa.key": self.signing_key()}
        return {file: _fingerprint(key) for file, key in keys.items()}

    def _make_authority(self, file: str, common_name: str) -> KeyPair:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        key = _generate_key()
        usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
        builder = (
            self._certificate_builder(name, None, key.public_key(), self._clock.now() + AUTHORITY_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return self._write_pair(file, builder.sign(key, hashes.SHA256()), key)

    def _load_or_issue(
        self, file: str, subject: x509.Name, purpose: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> KeyPair:
        """Return a stored certificate and key; issue new ones if missing, expiring or for other names."""
        authority = self.authority
        found = self._load_pair(file)
        if found and self._is_still_valid(found.decoded, authority.decoded, subject, names):
            return found
        key = _generate_key()
        builder = self._certificate_builder(subject, authority, key.public_key(), self._clock.now() + LIFE)
        return self._write_pair(file, _sign(authority, builder, ["digital signature"], [purpose], names), key)

    def _is_still_valid(
        self,
        certificate: x509.Certificate,
        authority: x509.Certificate,
        subject: x509.Name,
        names: x509.SubjectAlternativeName | None,
    ) -> bool:
        if self._ends_soon(certificate, LIFE) or certificate.subject != subject:
            return False
        try:
            certificate.verify_directly_issued_by(authority)
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (InvalidSignature, ValueError, TypeError):
            return False
        except x509.ExtensionNotFound:
            return names is None
        return names is not None and set(names) <= set(found)

    def _ends_soon(self, certificate: x509.Certificate, life: timedelta) -> bool:
        """Return whether a certificate has less than a tenth of its life left, or is not valid yet."""
        now = self._clock.now()
        return not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - life / 10

    def _certificate_builder(
        self, subject: x509.Name, issuer: KeyPair | None, key: CertificatePublicKeyTypes, until: datetime
    ) -> x509.CertificateBuilder:
        """Return a builder of a certificate without extensions; without an issuer, a self-signed one."""
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.decoded.subject if issuer else subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._clock.now() - _TOLERANCE)
            .not_valid_after(until)
        )

    # -- files

    def _load_pair(self, name: str) -> KeyPair | None:
        certificate_file, key_file = self._paths_of(name)
        if not (certificate_file.exists() and key_file.exists()):
            return None
        certificate = _parse_file(certificate_file, x509.load_pem_x509_certificate)
        key = _read_key(key_file)
        if certificate.public_key() != key.public_key():
            raise PkiError(f"{certificate_file} and {key_file} do not belong together: remove both to make new ones")
        return KeyPair(certificate_file, key_file, certificate_file.read_bytes(), key_file.read_bytes(), certificate)

    def _write_pair(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        made = KeyPair(*self._paths_of(name), pem, _encode_key(key), certificate)
        write_private(made.key_file, made.key)
        write_private(made.certificate_file, made.certificate)
        return made

    def _paths_of(self, name: str) -> tuple[Path, Path]:
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file by one that only its owner can read; raise PkiError if that fails."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - the descriptor has the mode that Path.open cannot give
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise PkiError(f"cannot write {path}: {error.strerror}") from error


def _sign(
    authority: KeyPair,
    builder: x509.CertificateBuilder,
    usages: Collection[str],
    purposes: Sequence[x509.ObjectIdentifier],
    names: x509.SubjectAlternativeName | None,
) -> x509.Certificate:
    """Add the extensions of a leaf certificate to a builder, and return the signed certificate."""
    issuer_key = authority.private_key
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    signs, enciphers = "digital signature" in usages, "key encipherment" in usages
    usage = x509.KeyUsage(signs, False, enciphers, False, False, False, False, False, False)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(issuer, critical=False)
    )
    if names:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _generate_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _fingerprint(key: ec.EllipticCurvePrivateKey) -> str:
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(public).hexdigest()}"


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = _parse_file(path, lambda content: serialization.load_pem_private_key(content, password=None))
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PkiError(f"{path} is no ECDSA key: remove it to make a new one")
    return key


def _parse_file(path: Path, read: Callable[[bytes], T]) -> T:
    try:
        return read(path.read_bytes())
    except OSError as error:
        raise PkiError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PkiError(f"{path} cannot be understood: remove it to make a new one") from error


def _make_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


_NAME = "pki"


async def require_shared_keys(pki: Pki, agree: Callable[[str, bytes], Awaitable[bytes]]) -> None:
    """Raise PkiError if this server's keys differ from those of the other servers on the store."""
    mine = [f"{file} {fingerprint}" for file, fingerprint in pki.fingerprints().items()]
    theirs = (await agree(_NAME, "\n".join(mine).encode())).decode(errors="replace").splitlines()
    odd = [line.split()[0] for line in mine if line not in theirs]
    if odd:
        raise PkiError(
            f"{pki.directory} is not what the other servers on this etcd have ({' and '.join(odd)}), so that their"
            " clients would be refused here: copy ca.crt, ca.key and sa.key from one of them. If the keys of all"
            f" servers were changed on purpose: etcdctl del PREFIX/.mooring/{_NAME}, with PREFIX as in --etcd-prefix"
        )


def write_kubeconfig(path: Path, server: str, authority: bytes, user: str, client: KeyPair) -> None:
    """Write a kubeconfig with one user, and a cluster and a context named `mooring`."""
    credentials = {"client-certificate-data": _base64(client.certificate), "client-key-data": _base64(client.key)}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "mooring", "cluster": {"server": server, "certificate-authority-data": _base64(authority)}}
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "mooring", "context": {"cluster": "mooring", "user": user}}],
        "current-context": "mooring",
    }
    content = yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=False).encode()
    try:
        known = path.read_bytes()
    except OSError:  # it is not there, or is no file: then writing it says what is wrong
        known = b""
    if known != content:
        write_private(path, content, durable=False)  # each start looks whether it is right


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
