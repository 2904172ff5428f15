"""The volumes of a pod as folders of this machine.

Volumes from objects are written as files and kept current; an `emptyDir` is deleted with its pod. A `hostPath` is a
folder of the simulated node, not of this machine; a claim has a folder too. Called by ``pod.py``.
"""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from mooring.api import errors
from mooring.api.authentication_v1 import TokenRequestSpec
from mooring.api.certificates_v1 import ClusterTrustBundle
from mooring.api.core_v1 import ConfigMap, Container, Pod, PodCertificateProjection, Secret, Volume
from mooring.api.environment import expand_references
from mooring.api.program_folders import pod_folder
from mooring.api.volume_files import Files, MissingError, files_of, is_built_from_objects
from mooring.client import Client
from mooring.controllers.programs.certificates import Certificates
from mooring.controllers.programs.mounts import open_beneath
from mooring.controllers.programs.sandbox import Mount

_HOUR, _OLD = 3600, 0.8
"""A token is renewed after this share of its lifetime."""
_OUTSIDE = re.compile(r"(^|/)\.\.(/|$)")


class FromServer:
    """Reads the objects that volumes and variables refer to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._certificates = Certificates(client)
        self._tokens: dict[tuple[str, ...], tuple[str, float]] = {}

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        try:
            return await self._client.get(ConfigMap, name, namespace)
        except errors.NotFound:
            return None

    async def secret(self, namespace: str, name: str) -> Secret | None:
        try:
            return await self._client.get(Secret, name, namespace)
        except errors.NotFound:
            return None

    async def token(self, pod: Pod, spec: TokenRequestSpec) -> str:
        key, now = (pod.metadata.uid, str(spec.expiration_seconds), *spec.audiences), self._client.clock.monotonic()
        token, refresh = self._tokens.get(key, ("", 0.0))
        if not token or now >= refresh:
            account = pod.spec.service_account_name or "default"
            token = (await self._client.create_token(account, pod.metadata.namespace, spec)).status.token
            self._tokens[key] = (token, now + _OLD * (spec.expiration_seconds or _HOUR))
        return token

    async def trust_bundles(self) -> Sequence[ClusterTrustBundle]:
        return (await self._client.list(ClusterTrustBundle)).items

    async def certificate(self, pod: Pod, volume: str, wanted: PodCertificateProjection) -> tuple[bytes, bytes]:
        return await self._certificates.of(pod, volume, wanted)

    def forget(self, pod: Pod) -> None:
        self._certificates.forget(pod)
        self._tokens = {key: kept for key, kept in self._tokens.items() if key[0] != pod.metadata.uid}


class Volumes:
    """The volumes of one pod, in a folder whose path has no links."""

    def __init__(self, folder: Path, source: FromServer) -> None:
        self._folder = folder
        self._source = source

    async def write(self, pod: Pod) -> None:
        """Create or update all volumes. Raise MissingError."""
        for volume in pod.spec.volumes:
            place = self._place(pod, volume)
            found = await files_of(self._source, pod, volume)
            place.mkdir(parents=True, exist_ok=True)
            if found is not None:
                _write(place, found)
            elif volume.empty_dir is not None:
                place.chmod(0o777)

    def mounts(self, pod: Pod, container: Container, variables: dict[str, str]) -> list[Mount]:
        """Return a container's mounts. Raise MissingError for one that cannot be mounted."""
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        found = []
        for mount in container.volume_mounts:
            volume = volumes[mount.name]
            source = self._place(pod, volume)
            below = mount.sub_path or expand_references(mount.sub_path_expr, variables)
            if below:
                source = _below(source, below, f"subPath {below!r} of volumeMount {mount.name!r}")
            read_only = mount.read_only or is_built_from_objects(volume)
            found.append(Mount(str(PurePosixPath("/") / mount.mount_path), source, read_only))
        return found

    def _place(self, pod: Pod, volume: Volume) -> Path:
        if volume.host_path is not None:
            return self._folder / "nodes" / pod.spec.node_name / quote(volume.host_path.path, safe="")
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim.claim_name
            return self._folder / "claims" / pod.metadata.namespace / claim
        return pod_folder(self._folder, pod.metadata.uid) / "volumes" / volume.name


def _below(volume: Path, path: str, what: str) -> Path:
    """Return a file or folder of a volume, created if need be, without links. Raise MissingError where one leads out.

    Programs may replace a directory by a link at any time, so nothing but the descriptors of ``mounts.py`` creates or
    mounts it: this path is a first check, which resolves links within the volume.
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


def _write(folder: Path, files: Files) -> None:
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


def remove(folder: Path, uid: str) -> None:
    """Delete the folder of a deleted pod."""
    shutil.rmtree(pod_folder(folder, uid), ignore_errors=True)
