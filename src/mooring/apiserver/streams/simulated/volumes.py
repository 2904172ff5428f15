"""Return the files of volumes in a simulated container: of ConfigMaps, Secrets, the downward API and tokens.

Their content is that of a real node, since it derives from the API only. ``kubelet.py`` calls this for commands and
logs; ``mooring.api.volume_files`` has the rules.
"""

import posixpath
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from mooring.api import errors
from mooring.api.authentication_v1 import TokenRequest, TokenRequestSpec
from mooring.api.certificates_v1 import ClusterTrustBundle
from mooring.api.core_v1 import ConfigMap, Pod, PodCertificateProjection, Secret, Volume
from mooring.api.volume_files import MissingError, files_of
from mooring.apiserver.registry.storage.objects import Objects
from mooring.apiserver.streams.simulated.container import find_container_spec

_MOST_BYTES = 16 * 1024 * 1024
_MOST_FILES = 10_000
IssueToken = Callable[[str, str, TokenRequest], Awaitable[TokenRequest]]
"""A function that issues a token for a namespace and a service account; it returns the TokenRequest with its status."""


class _StoredSources(msgspec.Struct, frozen=True):
    objects: Objects
    issue: IssueToken

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return await self.objects.get(ConfigMap, name, namespace)

    async def secret(self, namespace: str, name: str) -> Secret | None:
        return await self.objects.get(Secret, name, namespace)

    async def token(self, pod: Pod, spec: TokenRequestSpec) -> str:
        account = pod.spec.service_account_name or "default"
        answer = await self.issue(pod.metadata.namespace, account, TokenRequest(spec=spec))
        return answer.status.token

    async def trust_bundles(self) -> Sequence[ClusterTrustBundle]:
        return await self.objects.list(ClusterTrustBundle)

    async def certificate(self, pod: Pod, volume: str, wanted: PodCertificateProjection) -> tuple[bytes, bytes]:  # noqa: ARG002 - the interface of sources
        raise MissingError("a simulated node asks for no certificates")


async def read_mounted_files(objects: Objects, issue: IssueToken, pod: Pod, container: str) -> dict[str, str]:
    """Return the text files in a container's volumes (ConfigMap, Secret, downward API, token), by path."""
    spec = find_container_spec(pod, container)
    volumes = {volume.name: volume for volume in pod.spec.volumes}
    stored = _StoredSources(objects, issue)
    texts: dict[str, dict[str, str]] = {}
    size = 0
    found: dict[str, str] = {}
    for mount in spec.volume_mounts if spec is not None else ():
        volume = volumes.get(mount.name)
        if volume is None or mount.sub_path_expr:
            continue
        if mount.name not in texts:
            texts[mount.name] = await _read_volume_files(stored, pod, volume)
            size += sum(map(len, texts[mount.name].values()))
        files = texts[mount.name]
        if size > _MOST_BYTES or len(found) + len(files) > _MOST_FILES:
            most = f"{_MOST_FILES} files or {_MOST_BYTES // 2**20} MiB"
            raise errors.bad_request(f"the volumes of container {container} have more than {most}")
        if mount.sub_path:
            found |= {mount.mount_path: files[mount.sub_path]} if mount.sub_path in files else {}
        else:
            found |= {posixpath.join(mount.mount_path, path): text for path, text in files.items()}
    return found


async def _read_volume_files(stored: _StoredSources, pod: Pod, volume: Volume) -> dict[str, str]:
    found: dict[str, str] = {}
    with suppress(MissingError):
        for path, file in (await files_of(stored, pod, volume) or {}).items():
            with suppress(UnicodeDecodeError):
                found[path] = file.content.decode()
    return found
