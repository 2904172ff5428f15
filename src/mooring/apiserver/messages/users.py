"""The names of built-in users and groups, and the user of a client certificate."""

from collections.abc import Mapping
from typing import Any

from mooring.api.authentication_v1 import UserInfo

MASTERS = "system:masters"
"""The group with all rights, whatever roles exist, so that administrators can repair wrong roles."""
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVER = UserInfo(username="system:apiserver", groups=[MASTERS, AUTHENTICATED])
"""The user as which the API server writes its own objects."""
NODES = "system:nodes"
"""The group of kubelets; their users are `system:node:` and the name of the node."""
BOOTSTRAPPERS = "system:bootstrappers"
"""The group of users with a bootstrap token."""
JOINING_NODES = "system:bootstrappers:mooring:nodes"
"""The group of the bootstrap tokens that `mooring join-config` creates."""
_NODE_USER = "system:node:"
SCHEDULER = "system:kube-scheduler"
CONTROLLERS = "system:kube-controller-manager"
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
"""The user as which this server authenticates to kubelets."""


def anonymous() -> UserInfo:
    return UserInfo(username=ANONYMOUS, groups=[UNAUTHENTICATED])


def authenticated_user(username: str, uid: str = "", groups: list[str] | None = None) -> UserInfo:
    """Return a UserInfo with the group `system:authenticated` in addition to the given ones."""
    groups = groups or []
    every = groups if AUTHENTICATED in groups else [*groups, AUTHENTICATED]
    return UserInfo(username=username, uid=uid, groups=every)


def node_name(user: UserInfo) -> str | None:
    """Return the node name of a kubelet's user; None for other users."""
    if NODES not in user.groups or not user.username.startswith(_NODE_USER):
        return None
    return user.username.removeprefix(_NODE_USER) or None


def service_account_name(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def split_service_account(username: str) -> tuple[str, str] | None:
    """Return namespace and name from a service account's user name; None for another user name."""
    parts = username.split(":")
    return (parts[2], parts[3]) if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"] else None


def service_account_groups(namespace: str) -> list[str]:
    return [SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"]


def user_of_certificate(peer: Mapping[str, Any]) -> UserInfo | None:
    """Return the user in a verified client certificate (as `ssl` decodes it); None if it has no common name."""
    name, groups = "", []
    for part in peer.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                name = str(value)
            elif key == "organizationName":
                groups.append(str(value))
    return authenticated_user(name, groups=groups) if name else None
