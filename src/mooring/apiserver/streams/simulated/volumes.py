"""The files that volumes bring into a simulated container: of ConfigMaps, Secrets, the pod itself, and tokens.

The API server has all that these files are made of, so they hold what they would hold on a real node. Called by
``kubelet.py`` when somebody runs a command or reads a log.
"""

import posixpath
from collections.abc import Awaitable, Callable, Iterable, Mapping

from mooring.api.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from mooring.api.core_v1 import ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, Volume, VolumeProjection
from mooring.api.environment import field_of
from mooring.apiserver.objects import Objects
from mooring.apiserver.streams.simulated.container import spec_of

Issue = Callable[[str, str, TokenRequest], Awaitable[TokenRequest]]
"""Fills in the answer to a request for a token of an account."""


async def mounted_files(objects: Objects, issue: Issue, pod: Pod, container: str) -> dict[str, str]:
    """What is in the files of a container's volumes, by path; what is not text or not there is left out."""
    spec = spec_of(pod, container)
    volumes = {volume.name: volume for volume in pod.spec.volumes}
    found: dict[str, str] = {}
    for mount in spec.volume_mounts if spec is not None else ():
        volume = volumes.get(mount.name)
        if volume is None or mount.sub_path_expr:
            continue
        files = await _files(objects, issue, pod, volume)
        if mount.sub_path:
            found |= {mount.mount_path: files[mount.sub_path]} if mount.sub_path in files else {}
        else:
            found |= {posixpath.join(mount.mount_path, path): text for path, text in files.items()}
    return found


async def _files(objects: Objects, issue: Issue, pod: Pod, volume: Volume) -> dict[str, str]:
    namespace = pod.metadata.namespace
    if volume.config_map is not None:
        return await _of_config_map(objects, namespace, volume.config_map.name, volume.config_map.items)
    if volume.secret is not None:
        return await _of_secret(objects, namespace, volume.secret.secret_name, volume.secret.items)
    if volume.downward_api is not None:
        return _of_pod(pod, volume.downward_api.items)
    found: dict[str, str] = {}
    for source in volume.projected.sources if volume.projected is not None else ():
        found |= await _projected(objects, issue, pod, source)
    return found


async def _projected(objects: Objects, issue: Issue, pod: Pod, source: VolumeProjection) -> dict[str, str]:
    namespace = pod.metadata.namespace
    if source.config_map is not None:
        return await _of_config_map(objects, namespace, source.config_map.name, source.config_map.items)
    if source.secret is not None:
        return await _of_secret(objects, namespace, source.secret.name, source.secret.items)
    if source.downward_api is not None:
        return _of_pod(pod, source.downward_api.items)
    if source.service_account_token is not None:
        wanted = source.service_account_token
        bound = BoundObjectReference(kind="Pod", api_version="v1", name=pod.metadata.name, uid=pod.metadata.uid)
        spec = TokenRequestSpec(
            audiences=[wanted.audience] if wanted.audience else [],
            expiration_seconds=wanted.expiration_seconds,
            bound_object_ref=bound,
        )
        account = pod.spec.service_account_name or "default"
        answer = await issue(namespace, account, TokenRequest(spec=spec))
        return {wanted.path: answer.status.token}
    return {}


async def _of_config_map(objects: Objects, namespace: str, name: str, items: list[KeyToPath]) -> dict[str, str]:
    found = await objects.get(ConfigMap, name, namespace)
    return _chosen({**found.data, **_texts(found.binary_data)}, items) if found is not None else {}


async def _of_secret(objects: Objects, namespace: str, name: str, items: list[KeyToPath]) -> dict[str, str]:
    found = await objects.get(Secret, name, namespace)
    return _chosen(_texts(found.data), items) if found is not None else {}


def _chosen(data: Mapping[str, str], items: list[KeyToPath]) -> dict[str, str]:
    return {item.path: data[item.key] for item in items if item.key in data} if items else dict(data)


def _texts(data: Mapping[str, bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in data.items():
        try:
            found[key] = value.decode()
        except UnicodeDecodeError:
            continue
    return found


def _of_pod(pod: Pod, items: Iterable[DownwardAPIVolumeFile]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in items:
        if item.field_ref is None:
            continue
        whole = {"metadata.labels": pod.metadata.labels, "metadata.annotations": pod.metadata.annotations}
        entries = whole.get(item.field_ref.field_path)
        text = (
            "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))
            if entries is not None
            else field_of(pod, item.field_ref)
        )
        if text is not None:
            found[item.path] = text
    return found
