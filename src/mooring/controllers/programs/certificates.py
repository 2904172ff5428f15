"""Issue certificates for pods (`podCertificate` volumes): generate a key, and request a certificate from a signer."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from mooring.api import errors, times
from mooring.api.certificates_v1 import PodCertificateRequest, PodCertificateRequestSpec
from mooring.api.core_v1 import Node, Pod, PodCertificateProjection, ServiceAccount
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.api.volume_files import MissingError
from mooring.client import Client

_LOOK_SECONDS, _WAIT_SECONDS = 0.5, 10.0
_DAY = 86_400
_CURVES = {"ECDSAP256": ec.SECP256R1(), "ECDSAP384": ec.SECP384R1(), "ECDSAP521": ec.SECP521R1()}
_Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@dataclass
class _Kept:
    key: bytes
    request: str
    chain: bytes = b""
    refresh: datetime | None = None


class Certificates:
    """The certificates of all pods."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: dict[tuple[str, str, str], _Kept] = {}

    def forget(self, pod: Pod) -> None:
        self._kept = {key: kept for key, kept in self._kept.items() if key[0] != pod.metadata.uid}

    async def of(self, pod: Pod, volume: str, wanted: PodCertificateProjection) -> tuple[bytes, bytes]:
        """Return key and chain. Raise MissingError if they are not issued yet, or were denied."""
        paths = wanted.credential_bundle_path + wanted.key_path
        place = (pod.metadata.uid, volume, paths)
        kept = self._kept.get(place)
        now = self._client.clock.now()
        if kept is None or (kept.refresh is not None and kept.refresh <= now):
            kept = await self._ask(pod, wanted)
            self._kept[place] = kept
        for _ in range(int(_WAIT_SECONDS / _LOOK_SECONDS)):
            if kept.chain or await self._is_issued(pod, kept):
                return kept.key, kept.chain
            await asyncio.sleep(_LOOK_SECONDS)
        raise MissingError(f"the PodCertificateRequest {kept.request} was not answered yet")

    async def _ask(self, pod: Pod, wanted: PodCertificateProjection) -> _Kept:
        key = await asyncio.to_thread(_generate_key, wanted.key_type)
        node = await self._client.get(Node, pod.spec.node_name)
        meta = pod.metadata
        account = await self._client.get(ServiceAccount, pod.spec.service_account_name or "default", meta.namespace)
        owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid)
        request = PodCertificateRequest(
            metadata=ObjectMeta(generate_name=f"req-{meta.name[:40]}-", namespace=meta.namespace),
            spec=PodCertificateRequestSpec(
                signer_name=wanted.signer_name,
                pod_name=meta.name,
                pod_uid=meta.uid,
                service_account_name=account.metadata.name,
                service_account_uid=account.metadata.uid,
                node_name=node.metadata.name,
                node_uid=node.metadata.uid,
                max_expiration_seconds=wanted.max_expiration_seconds or _DAY,
                stub_pkcs10_request=_request(key),
                unverified_user_annotations=wanted.user_annotations,
            ),
        )
        request.metadata.owner_references = [owner]
        made = await self._client.create(request)
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _Kept(text, made.metadata.name)

    async def _is_issued(self, pod: Pod, kept: _Kept) -> bool:
        try:
            found = await self._client.get(PodCertificateRequest, kept.request, pod.metadata.namespace)
        except errors.NotFound:
            self._forget_request(kept)
            raise MissingError(f"the PodCertificateRequest {kept.request} is gone") from None
        for condition in found.status.conditions:
            if condition.type in {"Denied", "Failed"} and condition.status == "True":
                raise MissingError(f"the PodCertificateRequest {kept.request} was {condition.type.lower()}")
        if not found.status.certificate_chain:
            return False
        kept.chain = found.status.certificate_chain.encode()
        kept.refresh = times.parse(found.status.begin_refresh_at) if found.status.begin_refresh_at else None
        return True

    def _forget_request(self, kept: _Kept) -> None:
        self._kept = {key: each for key, each in self._kept.items() if each is not kept}


def _generate_key(key_type: str) -> _Key:
    if key_type in _CURVES:
        return ec.generate_private_key(_CURVES[key_type])
    if key_type.startswith("RSA"):
        return rsa.generate_private_key(65537, int(key_type[3:]))
    return ed25519.Ed25519PrivateKey.generate()


def _request(key: _Key) -> bytes:
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    signed = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)
