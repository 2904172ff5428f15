"""Writes the roles and bindings of ``bootstrap_roles.py`` when a server starts, and adds what they lack.

Additions stay, except for subjects that earlier releases bound too widely. A role with the annotation
 `autoupdate: "false"` is left alone.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from mooring.api import errors
from mooring.api.meta_v1 import Resource
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from mooring.apiserver.access import bootstrap_roles as defaults
from mooring.apiserver.access.escalation import missing_rights
from mooring.apiserver.registry import Resources
from mooring.apiserver.registry.loopback_client import LoopbackClient

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
    calls = LoopbackClient(resources)
    await asyncio.gather(*(_ensure(calls, obj) for obj in everything))


async def _ensure(calls: LoopbackClient, wanted: Resource) -> None:
    for _ in range(_ATTEMPTS):
        current = await calls.get(type(wanted), wanted.metadata.name, wanted.metadata.namespace)
        try:
            if current is None:
                await calls.create(wanted)
            elif completed(current, wanted):
                await calls.update(current)
        except (errors.AlreadyExists, errors.Conflict, errors.NotFound):
            continue  # a conflict: another server writes it
        return


def completed(current: Resource, wanted: Resource) -> bool:
    """Add what an object lacks; False if it lacks nothing or wants no help."""
    if current.metadata.annotations.get(defaults.AUTO_UPDATE, "true") == "false":
        return False
    match current, wanted:
        case (ClusterRole() | Role()) as role, (ClusterRole() | Role()) as complete:
            missing = [] if role.rules == complete.rules else missing_rights(complete.rules, role.rules)
            role.rules = [*role.rules, *missing]
            return bool(missing)
        case (ClusterRoleBinding() | RoleBinding()) as binding, (ClusterRoleBinding() | RoleBinding()) as complete:
            kept = _lacking(binding.subjects, defaults.RETIRED.get(binding.metadata.name, ()))
            subjects = [*kept, *_lacking(complete.subjects, kept)]
            changed, binding.subjects = subjects != binding.subjects, subjects
            return changed
    return False


def _lacking(wanted: Sequence[T], held: Sequence[T]) -> list[T]:
    return [each for each in wanted if each not in held]
