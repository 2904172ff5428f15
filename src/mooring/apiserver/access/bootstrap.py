"""Write the initial objects of a cluster when a server starts: roles, bindings, and the trusted certificate
authorities.

Rules and subjects of ``bootstrap_roles.py`` that stored roles and bindings lack are added. Additions of users stay,
except for subjects that earlier releases bound too widely. A role with the annotation `autoupdate: "false"` is not
changed.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import structs

from mooring.api.core_v1 import ConfigMap
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from mooring.apiserver.access import bootstrap_roles as defaults
from mooring.apiserver.access.escalation import missing_rights
from mooring.apiserver.registry import Resources
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient

_ATTEMPTS = 5
T = TypeVar("T")


async def bootstrap_rbac(resources: Resources) -> None:
    """Create missing bootstrap roles and bindings, and add rules and subjects that existing ones lack."""
    calls, everything = LoopbackClient(resources), structs.astuple(defaults.load_roles())
    await asyncio.gather(*(_create_or_complete(calls, obj) for objects in everything for obj in objects))


async def _create_or_complete(calls: LoopbackClient, wanted: Resource) -> None:
    for _ in range(_ATTEMPTS):
        if await calls.ensure(wanted, add_missing):
            return


def add_missing(current: Resource, wanted: Resource) -> bool:
    """Add missing rules or subjects to a role or binding; return False if it has all, or disables updates."""
    if current.metadata.annotations.get(defaults.AUTO_UPDATE, "true") == "false":
        return False
    match current, wanted:
        case (ClusterRole() | Role()) as role, (ClusterRole() | Role()) as complete:
            missing = [] if role.rules == complete.rules else missing_rights(complete.rules, role.rules)
            role.rules = [*role.rules, *missing]
            return bool(missing)
        case (ClusterRoleBinding() | RoleBinding()) as binding, (ClusterRoleBinding() | RoleBinding()) as complete:
            kept = _missing_items(binding.subjects, defaults.RETIRED.get(binding.metadata.name, ()))
            subjects = [*kept, *_missing_items(complete.subjects, kept)]
            changed, binding.subjects = subjects != binding.subjects, subjects
            return changed
    return False


def _missing_items(wanted: Sequence[T], held: Sequence[T]) -> list[T]:
    return [each for each in wanted if each not in held]


NAMESPACE = "kube-system"
TRUST = "extension-apiserver-authentication"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
_PROXIES = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}


async def publish_trust(calls: LoopbackClient, clients: bytes, proxies: bytes, now: datetime) -> None:
    """Write the trusted authorities, and when legacy-token tracking began, into ConfigMaps of `kube-system`.

    Components read `extension-apiserver-authentication` to accept the same clients at their own ports; its other keys
    stay, and so do proxy authorities of other servers. The start of tracking is written once and never changed.
    """
    found = await calls.get(ConfigMap, TRUST, NAMESPACE)
    current = found.data.get("requestheader-client-ca-file", "") if found else ""
    own = proxies.decode("ascii")
    bundle = current if own in current else current + own  # each of several servers has its own
    trust = {"client-ca-file": clients.decode("ascii"), "requestheader-client-ca-file": bundle, **_PROXIES}
    await calls.ensure(ConfigMap(metadata=ObjectMeta(name=TRUST, namespace=NAMESPACE), data=trust), _add_keys)
    tracking = ObjectMeta(name=TRACKING, namespace=NAMESPACE)
    await calls.ensure(ConfigMap(metadata=tracking, data={"since": now.date().isoformat()}))


def _add_keys(current: ConfigMap, wanted: ConfigMap) -> bool:
    """Set the keys of `wanted` in a ConfigMap; return False if it has all of them with these values."""
    if wanted.data.items() <= current.data.items():
        return False
    current.data |= wanted.data
    return True
