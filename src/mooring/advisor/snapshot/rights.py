"""The permissions that advice needs: a ClusterRole that may read the kinds of snapshots, and nothing private."""

from collections import defaultdict
from typing import Any

from mooring.advisor.snapshot.from_server import read_families

ROLE = "mooring-reader"
_PAGES = ("/version", "/metrics")
"""Non-resource paths where a server reports its release and feature gates."""


def reader_role() -> dict[str, Any]:
    """Return the ClusterRole `mooring-reader`: get, list and watch for every kind that a snapshot contains."""
    plurals: dict[str, set[str]] = defaultdict(set)
    for family in read_families(()):
        plurals[family[0].group].add(family[0].plural)
    verbs = ["get", "list", "watch"]
    rules: list[dict[str, Any]] = [
        {"apiGroups": [group], "resources": sorted(found), "verbs": verbs} for group, found in sorted(plurals.items())
    ]
    rules.append({"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]})
    rules.append({"nonResourceURLs": list(_PAGES), "verbs": ["get"]})
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": rules,
    }


def reader_binding(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    """Return the ClusterRoleBinding that gives a User, Group or ServiceAccount the role."""
    subject = {"kind": kind, "name": name}
    if kind == "ServiceAccount":
        subject["namespace"] = namespace
    else:
        subject["apiGroup"] = "rbac.authorization.k8s.io"
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{ROLE}-{name}".replace(":", "-")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [subject],
    }
