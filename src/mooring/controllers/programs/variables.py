"""Compute the environment of a container that runs a program."""

import re
from urllib.parse import urlsplit

from mooring.api.core_v1 import (
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVarSource,
    Node,
    Pod,
    SecretKeySelector,
)
from mooring.api.environment import expand_references, field_of, resource_of
from mooring.api.volume_files import MissingError, Source

_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


async def variables_of(source: Source, pod: Pod, container: Container, node: Node) -> dict[str, str]:
    """Return the variables as a kubelet would. Raise MissingError."""
    found: dict[str, str] = {}
    for each in container.env_from:
        found |= await _from(source, pod, each)
    for variable in container.env:
        value: str | None = expand_references(variable.value, found)
        if variable.value_from is not None:
            value = await _referred(source, pod, container, node, variable.value_from)
        if value is not None:
            found[variable.name] = value
    return found


def server_variables(url: str) -> dict[str, str]:
    """Return the variables by which clients in a cluster find the API server."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", str(parts.port or 443)
    shown = f"[{host}]" if ":" in host else host
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": f"tcp://{shown}:{port}",
    }


async def _from(source: Source, pod: Pod, each: EnvFromSource) -> dict[str, str]:
    namespace = pod.metadata.namespace
    data: dict[str, str] = {}
    if each.config_map_ref is not None:
        of = each.config_map_ref
        config_map = await source.config_map(namespace, of.name)
        if config_map is None and not of.optional:
            raise MissingError(f'configmap "{of.name}" not found')
        data = config_map.data if config_map is not None else {}
    elif each.secret_ref is not None:
        kept = each.secret_ref
        secret = await source.secret(namespace, kept.name)
        if secret is None and not kept.optional:
            raise MissingError(f'secret "{kept.name}" not found')
        data = {key: value.decode(errors="replace") for key, value in secret.data.items()} if secret is not None else {}
    named = {each.prefix + key: value for key, value in data.items()}
    return {name: value for name, value in named.items() if _NAME.fullmatch(name)}


async def _referred(source: Source, pod: Pod, container: Container, node: Node, of: EnvVarSource) -> str | None:
    if of.field_ref is not None:
        return field_of(pod, of.field_ref)
    if of.resource_field_ref is not None:
        return resource_of(pod, container.name, of.resource_field_ref, node.status.allocatable)
    return await _key(source, pod.metadata.namespace, of)


async def _key(source: Source, namespace: str, of: EnvVarSource) -> str | None:
    wanted: ConfigMapKeySelector | SecretKeySelector
    if of.config_map_key_ref is not None:
        wanted, kind = of.config_map_key_ref, "ConfigMap"
        config_map = await source.config_map(namespace, wanted.name)
        value = config_map.data.get(wanted.key) if config_map is not None else None
    elif of.secret_key_ref is not None:
        wanted, kind = of.secret_key_ref, "Secret"
        secret = await source.secret(namespace, wanted.name)
        found = secret.data.get(wanted.key) if secret is not None else None
        value = None if found is None else found.decode(errors="replace")
    else:
        return None
    if value is None and not wanted.optional:
        raise MissingError(f"couldn't find key {wanted.key} in {kind} {namespace}/{wanted.name}")
    return value
