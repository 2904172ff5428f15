"""Writes the roles and bindings of ``bootstrap_roles.py`` when a server starts, and adds what they lack.

What somebody has added to them stays. One with the annotation `autoupdate: "false"` is left alone.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from mooring.api import codec, errors
from mooring.api.meta_v1 import Resource
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from mooring.apiserver.http import Request, Response
from mooring.apiserver.resources import Resources
from mooring.apiserver.routes import ResourceRoute
from mooring.apiserver.security import bootstrap_roles as defaults
from mooring.apiserver.security import users
from mooring.apiserver.security.escalation import missing_rights
from mooring.apiserver.security.rbac import API_VERSION

_ATTEMPTS = 5
T = TypeVar("T")


async def bootstrap_rbac(resources: Resources) -> None:
    """Create and complete all of them, at the same time: the store then writes them together."""
    everything: list[Resource] = [
        *defaults.cluster_roles(),
        *defaults.cluster_role_bindings(),
        *defaults.roles(),
        *defaults.role_bindings(),
    ]
    await asyncio.gather(*(_ensure(resources, obj) for obj in everything))


async def _ensure(resources: Resources, wanted: Resource) -> None:
    for _ in range(_ATTEMPTS):
        try:
            await _call(resources, "POST", wanted)
        except errors.AlreadyExists:
            pass
        else:
            return
        try:
            found = await _call(resources, "GET", wanted)
            current = codec.decode_own(_bytes(found), type(wanted))
            if not completed(current, wanted):
                return
            await _call(resources, "PUT", current)
        except (errors.Conflict, errors.NotFound):
            continue  # somebody else is at work on it
        return


def completed(current: Resource, wanted: Resource) -> bool:
    """Add what an object lacks; False if it lacks nothing or wants no help."""
    if current.metadata.annotations.get(defaults.AUTO_UPDATE, "true") == "false":
        return False
    match current, wanted:
        case (ClusterRole() | Role()) as role, (ClusterRole() | Role()) as complete:
            missing = missing_rights(complete.rules, role.rules)
            role.rules = [*role.rules, *missing]
            return bool(missing)
        case (ClusterRoleBinding() | RoleBinding()) as binding, (ClusterRoleBinding() | RoleBinding()) as complete:
            missing_subjects = _lacking(complete.subjects, binding.subjects)
            binding.subjects = [*binding.subjects, *missing_subjects]
            return bool(missing_subjects)
    return False


def _lacking(wanted: Sequence[T], held: Sequence[T]) -> list[T]:
    return [each for each in wanted if each not in held]


async def _call(resources: Resources, method: str, obj: Resource) -> Response:
    kind = resources.registry.scheme.kind(API_VERSION, type(obj).__name__)
    if kind is None:
        raise ValueError(f"the scheme has no {type(obj).__name__}")
    obj.kind, obj.api_version = kind.kind, kind.api_version
    name = "" if method == "POST" else obj.metadata.name
    body = b"" if method == "GET" else codec.encode(obj)
    request = Request(method=method, path="", body=body, user=users.SERVER, headers={"user-agent": "mooring-apiserver"})
    return await resources.handle(request, ResourceRoute(kind, obj.metadata.namespace, name))


def _bytes(response: Response) -> bytes:
    assert isinstance(response.body, bytes)  # noqa: S101 - a single object is never a stream
    return response.body
