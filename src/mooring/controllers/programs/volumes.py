"""The volumes of a pod as folders of this machine.

Volumes from objects are written as files and kept current; an `emptyDir` is deleted with its pod. A `hostPath` is a
folder of the simulated node, not of this machine; a claim has a folder too. Called by ``pods.py``.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from mooring.api import times
from mooring.api.authentication_v1 import TokenRequestSpec
from mooring.api.certificates_v1 import ClusterTrustBundle, PodCertificateRequest, PodCertificateRequestSpec
from mooring.api.core_v1 import (
    ConfigMap,
    Container,
    Node,
    Pod,
    PodCertificateProjection,
    Secret,
    ServiceAccount,
    Volume,
)
from mooring.api.environment import expand_references
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.api.program_folders import pod_folder
from mooring.api.volume_files import Files, MissingError, files_of, is_built_from_objects
from mooring.client import Client
from mooring.controllers.programs.mounts import open_beneath
from mooring.controllers.programs.sandbox import Mount

_LOOK_SECONDS, _WAIT_SECONDS = 0.5, 10.0
_HOUR, _DAY = 3600, 86_400
_RENEWAL_SHARE = 0.8
"""The share of a token's lifetime after which it is renewed."""
_CURVES = {"ECDSAP256": ec.SECP256R1(), "ECDSAP384": ec.SECP384R1(), "ECDSAP521": ec.SECP521R1()}
_Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@dataclass
class PodCertificate:
    """A pod's private key and certificate chain; the chain is empty until the PodCertificateRequest is issued."""

    key: bytes
    request: str
    """The name of the PodCertificateRequest."""
    chain: bytes = b""
    refresh: datetime | None = None


class ReferencedObjectReader:
    """Reads from the server the objects that a pod's volumes and environment variables refer to.

    Tokens and certificates are requested for each pod, and cached until they must be renewed.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._certificates: dict[tuple[str, str, str], PodCertificate] = {}
        """Certificates by pod uid, volume and paths."""
        self._tokens: dict[tuple[str, ...], tuple[str, float]] = {}

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return await self._client.find(ConfigMap, name, namespace)

    async def secret(self, namespace: str, name: str) -> Secret | None:
        return await self._client.find(Secret, name, namespace)

    async def token(self, pod: Pod, spec: TokenRequestSpec) -> str:
        """Return a token of the pod's service account; request a new one when most of its lifetime is over."""
        key, now = (pod.metadata.uid, str(spec.expiration_seconds), *spec.audiences), self._client.clock.monotonic()
        token, refresh = self._tokens.get(key, ("", 0.0))
        if not token or now >= refresh:
            account = pod.spec.service_account_name or "default"
            token = (await self._client.create_token(account, pod.metadata.namespace, spec)).status.token
            self._tokens[key] = (token, now + _RENEWAL_SHARE * (spec.expiration_seconds or _HOUR))
        return token

    async def trust_bundles(self) -> Sequence[ClusterTrustBundle]:
        return (await self._client.list(ClusterTrustBundle)).items

    def forget(self, pod: Pod) -> None:
        """Drop the cached tokens and certificates of a deleted pod."""
        uid = pod.metadata.uid
        self._certificates = {key: found for key, found in self._certificates.items() if key[0] != uid}
        self._tokens = {key: found for key, found in self._tokens.items() if key[0] != uid}

    async def certificate(self, pod: Pod, volume: str, wanted: PodCertificateProjection) -> tuple[bytes, bytes]:
        """Request a pod's certificate unless cached; return its key and chain. Raise MissingError if late or denied."""
        paths = wanted.credential_bundle_path + wanted.key_path
        place = (pod.metadata.uid, volume, paths)
        found = self._certificates.get(place)
        now = self._client.clock.now()
        if found is None or (found.refresh is not None and found.refresh <= now):
            found = self._certificates[place] = await self._request_certificate(pod, wanted)
        for _ in range(int(_WAIT_SECONDS / _LOOK_SECONDS)):
            if found.chain or await self._update_if_issued(pod, found):
                return found.key, found.chain
            await asyncio.sleep(_LOOK_SECONDS)
        raise MissingError(f"the PodCertificateRequest {found.request} was not answered yet")

    async def _request_certificate(self, pod: Pod, wanted: PodCertificateProjection) -> PodCertificate:
        key = await asyncio.to_thread(_generate_key, wanted.key_type)
        node = await self._client.get(Node, pod.spec.node_name)
        meta = pod.metadata
        account = await self._client.get(ServiceAccount, pod.spec.service_account_name or "default", meta.namespace)
        owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid)
        request = PodCertificateRequest(
            metadata=ObjectMeta(
                generate_name=f"req-{meta.name[:40]}-", namespace=meta.namespace, owner_references=[owner]
            ),
            spec=PodCertificateRequestSpec(
                signer_name=wanted.signer_name,
                pod_name=meta.name,
                pod_uid=meta.uid,
                service_account_name=account.metadata.name,
                service_account_uid=account.metadata.uid,
                node_name=node.metadata.name,
                node_uid=node.metadata.uid,
                max_expiration_seconds=wanted.max_expiration_seconds or _DAY,
                stub_pkcs10_request=_build_signing_request(key),
                unverified_user_annotations=wanted.user_annotations,
            ),
        )
        made = await self._client.create(request)
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return PodCertificate(text, made.metadata.name)

    async def _update_if_issued(self, pod: Pod, wanted: PodCertificate) -> bool:
        """Read the chain of a requested certificate; return False if it is not issued. Raise MissingError if denied."""
        found = await self._client.find(PodCertificateRequest, wanted.request, pod.metadata.namespace)
        if found is None:
            self._certificates = {key: each for key, each in self._certificates.items() if each is not wanted}
            raise MissingError(f"the PodCertificateRequest {wanted.request} is gone")
        for condition in found.status.conditions:
            if condition.type in {"Denied", "Failed"} and condition.status == "True":
                raise MissingError(f"the PodCertificateRequest {wanted.request} was {condition.type.lower()}")
        if not found.status.certificate_chain:
            return False
        wanted.chain = found.status.certificate_chain.encode()
        wanted.refresh = times.parse(found.status.begin_refresh_at) if found.status.begin_refresh_at else None
        return True


def _generate_key(key_type: str) -> _Key:
    if key_type in _CURVES:
        return ec.generate_private_key(_CURVES[key_type])
    if key_type.startswith("RSA"):
        return rsa.generate_private_key(65537, int(key_type[3:]))
    return ed25519.Ed25519PrivateKey.generate()


def _build_signing_request(key: _Key) -> bytes:
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    signed = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)


_OUTSIDE = re.compile(r"(^|/)\.\.(/|$)")


class Volumes:
    """Writes the volumes of a pod as folders below `folder`, and returns the mounts of its containers.

    The path of `folder` has no links.
    """

    def __init__(self, folder: Path, source: ReferencedObjectReader) -> None:
        self._folder = folder
        self._source = source

    async def write(self, pod: Pod) -> None:
        """Write the files of all volumes of a pod. Raise MissingError if an object they refer to does not exist."""
        for volume in pod.spec.volumes:
            place = self._folder_of(pod, volume)
            found = await files_of(self._source, pod, volume)
            place.mkdir(parents=True, exist_ok=True)
            if found is not None:
                _write_files(place, found)
            elif volume.empty_dir is not None:
                place.chmod(0o777)

    def build_mounts(self, pod: Pod, container: Container, variables: dict[str, str]) -> list[Mount]:
        """Return a container's mounts. Raise MissingError if a subPath leads outside its volume or cannot be opened."""
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        found = []
        for mount in container.volume_mounts:
            volume = volumes[mount.name]
            source = self._folder_of(pod, volume)
            below = mount.sub_path or expand_references(mount.sub_path_expr, variables)
            if below:
                source = _path_in_volume(source, below, f"subPath {below!r} of volumeMount {mount.name!r}")
            read_only = mount.read_only or is_built_from_objects(volume)
            found.append(Mount(str(PurePosixPath("/") / mount.mount_path), source, read_only))
        return found

    def _folder_of(self, pod: Pod, volume: Volume) -> Path:
        if volume.host_path is not None:
            return self._folder / "nodes" / pod.spec.node_name / quote(volume.host_path.path, safe="")
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim.claim_name
            return self._folder / "claims" / pod.metadata.namespace / claim
        return pod_folder(self._folder, pod.metadata.uid) / "volumes" / volume.name


def _path_in_volume(volume: Path, path: str, what: str) -> Path:
    """Return the path of a file or folder in a volume, with links resolved; create it as a folder if missing.

    Raise MissingError if a link leads outside.
    Programs may replace a directory by a link at any time, so only ``mounts.py`` creates and mounts it, by descriptors;
    this is a first check, which resolves links within the volume.
    """
    top = -1
    try:
        place = (volume / path).resolve()
        if path.startswith("/") or _OUTSIDE.search(path) or not place.is_relative_to(volume):
            raise MissingError(f"{what} leads out of the volume")
        top = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        os.close(open_beneath(top, str(place.relative_to(volume)), create=True))
    except (OSError, RuntimeError) as error:  # Path raises a RuntimeError for links that lead in circles
        raise MissingError(f"{what}: {error}") from error
    finally:
        if top >= 0:
            os.close(top)
    return place


def _write_files(folder: Path, files: Files) -> None:
    for path, file in files.items():
        if path.startswith("/") or _OUTSIDE.search(path):
            raise MissingError(f"the path {path!r} leads out of the volume")
        place = folder / path
        if place.is_file() and place.read_bytes() == file.content:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.parent / f"..{place.name}"
        fresh.write_bytes(file.content)
        fresh.chmod(file.mode)
        fresh.replace(place)
    kept = {folder / path for path in files}
    for place in folder.rglob("*"):
        if not place.is_dir() and place not in kept:
            place.unlink(missing_ok=True)
