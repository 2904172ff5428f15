"""Compute the files of volumes that are built from objects: ConfigMaps, Secrets, downward API, tokens, trust bundles.

The rules are a kubelet's, for two callers: the API server, which computes what commands in simulated containers print,
and the controllers, which write the files for programs. Each provides a `Source`.
"""

import base64
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mooring.api import core_v1
from mooring.api.authentication_v1 import BoundObjectReference, TokenRequestSpec
from mooring.api.certificates_v1 import ClusterTrustBundle
from mooring.api.environment import field_of, resource_of
from mooring.api.label_selector import from_label_selector

_DEFAULT_MODE = 0o644
_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]+-----(.*?)-----END [A-Z0-9 ]+-----", re.DOTALL)
_LINE = 64


class MissingError(Exception):
    """An object that a volume needs does not exist; the message is a kubelet's."""


class File(NamedTuple):
    """The content and mode of one file in a volume."""

    content: bytes
    mode: int = _DEFAULT_MODE


Files = dict[str, File]
"""Files by path within the volume."""


class Source(Protocol):
    """Looks up the objects that volumes are built from; returns None for one that does not exist."""

    async def config_map(self, namespace: str, name: str) -> core_v1.ConfigMap | None: ...
    async def secret(self, namespace: str, name: str) -> core_v1.Secret | None: ...
    async def token(self, pod: core_v1.Pod, spec: TokenRequestSpec) -> str: ...
    async def trust_bundles(self) -> Sequence[ClusterTrustBundle]: ...
    async def certificate(
        self, pod: core_v1.Pod, volume: str, wanted: core_v1.PodCertificateProjection
    ) -> tuple[bytes, bytes]:
        """Return a private key and a certificate chain in PEM; raise MissingError."""
        ...


async def files_of(source: Source, pod: core_v1.Pod, volume: core_v1.Volume) -> Files | None:
    """Return the files of a volume, None for one that is not built from objects; raise MissingError."""
    mode: int | None
    if volume.config_map is not None:
        mode = volume.config_map.default_mode
        parts = [await _of_config_map(source, pod, volume.config_map)]
    elif volume.secret is not None:
        mode = volume.secret.default_mode
        parts = [await _of_secret(source, pod, volume.secret.secret_name, volume.secret)]
    elif volume.downward_api is not None:
        mode = volume.downward_api.default_mode
        parts = [_of_pod(pod, volume.downward_api.items)]
    elif volume.projected is not None:
        mode = volume.projected.default_mode
        parts = [await _files_of_projection(source, pod, volume.name, each) for each in volume.projected.sources]
    else:
        return None
    found = {path: file for part in parts for path, file in part.items()}
    plain = _DEFAULT_MODE if mode is None else mode
    return {path: File(content, plain if own is None else own) for path, (content, own) in found.items()}


def is_built_from_objects(volume: core_v1.Volume) -> bool:
    """Whether `files_of` can compute a volume's files, which containers cannot modify."""
    return any(each is not None for each in (volume.config_map, volume.secret, volume.downward_api, volume.projected))


Part = dict[str, tuple[bytes, int | None]]
"""Contents by path, with the file's own mode if it has one."""


async def _files_of_projection(source: Source, pod: core_v1.Pod, volume: str, part: core_v1.VolumeProjection) -> Part:
    if part.config_map is not None:
        return await _of_config_map(source, pod, part.config_map)
    if part.secret is not None:
        return await _of_secret(source, pod, part.secret.name, part.secret)
    if part.downward_api is not None:
        return _of_pod(pod, part.downward_api.items)
    if part.service_account_token is not None:
        return await _token(source, pod, part.service_account_token)
    if part.cluster_trust_bundle is not None:
        wanted = part.cluster_trust_bundle
        return {wanted.path: (_anchors(await source.trust_bundles(), wanted), None)}
    if part.pod_certificate is not None:
        asked = part.pod_certificate
        key, chain = await source.certificate(pod, volume, asked)
        contents = {
            asked.credential_bundle_path: key + chain,
            asked.key_path: key,
            asked.certificate_chain_path: chain,
        }
        return {path: (content, None) for path, content in contents.items() if path}
    return {}


_ConfigMapSource = core_v1.ConfigMapVolumeSource | core_v1.ConfigMapProjection
_SecretSource = core_v1.SecretVolumeSource | core_v1.SecretProjection


async def _of_config_map(source: Source, pod: core_v1.Pod, wanted: _ConfigMapSource) -> Part:
    found = await source.config_map(pod.metadata.namespace, wanted.name)
    if found is None and not wanted.optional:
        raise MissingError(f'configmap "{wanted.name}" not found')
    data = {key: text.encode() for key, text in found.data.items()} | found.binary_data if found is not None else {}
    return _select_keys(data, wanted)


async def _of_secret(source: Source, pod: core_v1.Pod, name: str, wanted: _SecretSource) -> Part:
    found = await source.secret(pod.metadata.namespace, name)
    if found is None and not wanted.optional:
        raise MissingError(f'secret "{name}" not found')
    return _select_keys(found.data if found is not None else {}, wanted)


def _select_keys(data: Mapping[str, bytes], wanted: _ConfigMapSource | _SecretSource) -> Part:
    if not wanted.items:
        return {key: (content, None) for key, content in data.items()}
    for item in wanted.items:
        if item.key not in data and not wanted.optional:
            raise MissingError(f"references non-existent config key: {item.key}")
    return {item.path: (data[item.key], item.mode) for item in wanted.items if item.key in data}


def _of_pod(pod: core_v1.Pod, items: Iterable[core_v1.DownwardAPIVolumeFile]) -> Part:
    found: Part = {}
    for item in items:
        text = _field(pod, item)
        if text is not None:
            found[item.path] = (text.encode(), item.mode)
    return found


def _field(pod: core_v1.Pod, item: core_v1.DownwardAPIVolumeFile) -> str | None:
    if item.resource_field_ref is not None:
        return resource_of(pod, item.resource_field_ref.container_name, item.resource_field_ref)
    if item.field_ref is None:
        return None
    whole = {"metadata.labels": pod.metadata.labels, "metadata.annotations": pod.metadata.annotations}
    entries = whole.get(item.field_ref.field_path)
    if entries is None:
        return field_of(pod, item.field_ref)
    return "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))


async def _token(source: Source, pod: core_v1.Pod, wanted: core_v1.ServiceAccountTokenProjection) -> Part:
    spec = TokenRequestSpec(
        audiences=[wanted.audience] if wanted.audience else [],
        expiration_seconds=wanted.expiration_seconds,
        bound_object_ref=BoundObjectReference(
            kind="Pod", api_version="v1", name=pod.metadata.name, uid=pod.metadata.uid
        ),
    )
    return {wanted.path: ((await source.token(pod, spec)).encode(), None)}


def _anchors(bundles: Sequence[ClusterTrustBundle], wanted: core_v1.ClusterTrustBundleProjection) -> bytes:
    """Return the trust anchors that a projection selects, deduplicated; raise MissingError if it must not be empty."""
    if wanted.name is not None:
        chosen = [bundle for bundle in bundles if bundle.metadata.name == wanted.name]
        why = f'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "{wanted.name}" not found'
    else:
        selector = from_label_selector(wanted.label_selector)
        chosen = [
            bundle
            for bundle in bundles
            if bundle.spec.signer_name == wanted.signer_name and selector.matches(bundle.metadata.labels)
        ]
        why = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
    if not chosen and not wanted.optional:
        raise MissingError(why)
    blocks = {"".join(block.split()) for bundle in chosen for block in _BLOCK.findall(bundle.spec.trust_bundle)}
    return "".join(pem("CERTIFICATE", base64.b64decode(block)) for block in sorted(blocks)).encode()


def pem(label: str, content: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(content).decode(), _LINE)
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])
