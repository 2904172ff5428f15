"""Set the service account of a new pod: its name, a projected token volume, and image pull secrets.

This runs before validation, because a projected token needs the account's name. If a namespace has no account `default`
(a server without controllers), pods are not changed.
"""

import hashlib
from collections.abc import Mapping

from mooring.admission.pod.annotations import MIRROR
from mooring.admission.strategy import Request
from mooring.api import core_v1, errors

DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT_CA = "kube-root-ca.crt"
_VOLUME_PREFIX = "kube-api-access-"
_TOKEN_SECONDS = 3607
"""The lifetime of projected tokens: an hour plus seven seconds, unlike tokens requested by clients."""
_FILE_MODE = 0o644
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def set_service_account(pod: core_v1.Pod, request: Request) -> None:
    """Set a new pod's service account, token volume and pull secrets. Raise Forbidden if the account is unknown."""
    accounts = request.lookups.service_accounts(request.namespace)
    spec = pod.spec
    if accounts is None:
        return
    if MIRROR in pod.metadata.annotations:
        _restrict_mirror_pod(pod)
        return
    spec.service_account_name = spec.service_account = spec.service_account_name or DEFAULT
    account = _get_service_account(pod, accounts, request.namespace)
    wants_token = spec.automount_service_account_token
    if wants_token is None:
        wants_token = account.automount_service_account_token
    if wants_token is not False:
        _mount_account_token(spec, account)
    if not spec.image_pull_secrets:
        spec.image_pull_secrets = list(account.image_pull_secrets)


def _get_service_account(
    pod: core_v1.Pod, accounts: Mapping[str, core_v1.ServiceAccount], namespace: str
) -> core_v1.ServiceAccount:
    name = pod.spec.service_account_name
    account = accounts.get(name)
    if account is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise errors.forbidden("pods", pod.metadata.name, why)
    return account


def _restrict_mirror_pod(pod: core_v1.Pod) -> None:
    why = ""
    if pod.spec.service_account_name:
        why = "a mirror pod may not reference service accounts"
    elif _uses_secrets(pod.spec):
        why = "a mirror pod may not reference secrets"
    elif any(source.service_account_token is not None for source in _list_volume_projections(pod.spec)):
        why = "a mirror pod may not use ServiceAccountToken volume projections"
    if why:
        raise errors.forbidden("pods", pod.metadata.name, why)


def _uses_secrets(spec: core_v1.PodSpec) -> bool:
    containers = (*spec.init_containers, *spec.containers)
    return (
        bool(spec.image_pull_secrets)
        or any(volume.secret is not None for volume in spec.volumes)
        or any(source.secret is not None for source in _list_volume_projections(spec))
        or any(source.secret_ref is not None for container in containers for source in container.env_from)
        or any(
            variable.value_from is not None and variable.value_from.secret_key_ref is not None
            for container in containers
            for variable in container.env
        )
    )


def _list_volume_projections(spec: core_v1.PodSpec) -> list[core_v1.VolumeProjection]:
    return [source for volume in spec.volumes if volume.projected is not None for source in volume.projected.sources]


def _mount_account_token(spec: core_v1.PodSpec, account: core_v1.ServiceAccount) -> None:
    known = next((volume.name for volume in spec.volumes if volume.name.startswith(_VOLUME_PREFIX)), "")
    name = known or _build_token_volume_name(account)
    containers = (*spec.init_containers, *spec.containers)
    bare = [each for each in containers if not any(mount.mount_path == MOUNT_PATH for mount in each.volume_mounts)]
    for container in bare:
        mount = core_v1.VolumeMount(name=name, read_only=True, mount_path=MOUNT_PATH)
        container.volume_mounts = [*container.volume_mounts, mount]
    if bare and not known:
        spec.volumes = [*spec.volumes, build_token_volume(name)]


def _build_token_volume_name(account: core_v1.ServiceAccount) -> str:
    digest = hashlib.sha256(account.metadata.uid.encode()).digest()
    return _VOLUME_PREFIX + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])


def build_token_volume(name: str) -> core_v1.Volume:
    """Return the projected volume for a pod's service account: token, CA certificate and namespace."""
    namespace = core_v1.ObjectFieldSelector(api_version="v1", field_path="metadata.namespace")
    certificate = core_v1.KeyToPath(key="ca.crt", path="ca.crt")
    sources = [
        core_v1.VolumeProjection(
            service_account_token=core_v1.ServiceAccountTokenProjection(expiration_seconds=_TOKEN_SECONDS, path="token")
        ),
        core_v1.VolumeProjection(config_map=core_v1.ConfigMapProjection(name=ROOT_CA, items=[certificate])),
        core_v1.VolumeProjection(
            downward_api=core_v1.DownwardAPIProjection(
                items=[core_v1.DownwardAPIVolumeFile(path="namespace", field_ref=namespace)]
            )
        ),
    ]
    return core_v1.Volume(name=name, projected=core_v1.ProjectedVolumeSource(sources=sources, default_mode=_FILE_MODE))
