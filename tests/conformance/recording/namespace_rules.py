"""Requests that the rules of a namespace decide: LimitRanges. Prints them, for ``tools/record_requests.py``.

    python tests/conformance/recording/namespace_rules.py limits > requests.jsonl
    python tools/record_requests.py requests.jsonl --server https://127.0.0.1:6443 --token T > …/data/api/limits.jsonl

The server is a fresh kube-apiserver (shared/real/control-plane.sh starts one). Recorded from v1.37. Requests are made
in order: later ones speak of what earlier ones have made.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

Tree = dict[str, Any]


def post(name: str, path: str, body: Tree) -> Tree:
    return {"id": name, "method": "POST", "path": path, "body": body}


def namespace(name: str, **labels: str) -> Iterator[Tree]:
    """A namespace with the account that its pods need, where no controller makes it."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    yield post(f"namespace-{name}", "/api/v1/namespaces", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    yield post(f"account-{name}", f"/api/v1/namespaces/{name}/serviceaccounts", account)


def pod(space: str, name: str, spec: Tree) -> Tree:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return post(f"{space}-{name}", f"/api/v1/namespaces/{space}/pods", body)


# -- LimitRanges


def container(requests: Tree | None = None, limits: Tree | None = None, name: str = "c", **more: Any) -> Tree:
    return {"name": name, "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def one(requests: Tree | None = None, limits: Tree | None = None) -> Tree:
    return {"containers": [container(requests, limits)]}


def limits() -> Iterator[Tree]:
    for name, items in LIMITS.items():
        yield from namespace(name)
        body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": {"limits": items}}
        yield post(f"limits-{name}", f"/api/v1/namespaces/{name}/limitranges", body)
    for space, name, spec in LIMITED_PODS:
        yield pod(space, name, spec)
    for name, size in (("small", "1Gi"), ("fits", "3Gi"), ("large", "6Gi")):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        yield post(f"claim-{name}", "/api/v1/namespaces/claims/persistentvolumeclaims", claim)
    for name, cpu in (("up", "500m"), ("too-far", "3"), ("too-low", "10m")):
        spec = one({"cpu": cpu, "memory": "100Mi"}, {"cpu": cpu, "memory": "100Mi"})
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fits"}, "spec": spec}
        yield {
            "id": f"resize-{name}",
            "method": "PUT",
            "path": "/api/v1/namespaces/bounds/pods/fits/resize",
            "body": body,
        }


LIMITS: dict[str, list[Tree]] = {
    "defaults": [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}],
    "bounds": [
        {
            "type": "Container",
            "min": {"cpu": "100m"},
            "max": {"cpu": "2"},
            "default": {"cpu": "1"},
            "defaultRequest": {"cpu": "1"},
        }
    ],
    "ratio": [{"type": "Container", "maxLimitRequestRatio": {"memory": "1500m"}}],
    "whole": [{"type": "Pod", "min": {"memory": "64Mi"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}],
    "claims": [{"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "5Gi"}}],
}
_SIDECAR = container({"memory": "8Mi"}, {"cpu": "1500m"}, "s", restartPolicy="Always")
LIMITED_PODS: list[tuple[str, str, Tree]] = [
    ("defaults", "nothing-asked", {"containers": [{"name": "c", "image": "i"}]}),
    ("defaults", "some-asked", one({"cpu": "200m"})),
    ("defaults", "limit-asked", one(limits={"cpu": "2"})),
    ("defaults", "all-asked", one({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"})),
    (
        "defaults",
        "init",
        {"containers": [container()], "initContainers": [container({"cpu": "1"}, name="before"), _SIDECAR]},
    ),
    ("defaults", "request-above-default-limit", one({"cpu": "4"})),
    ("bounds", "fits", one({"cpu": "1", "memory": "100Mi"}, {"cpu": "1", "memory": "100Mi"})),
    ("bounds", "request-too-small", one({"cpu": "50m"})),
    ("bounds", "limit-too-large", one({"cpu": "1"}, {"cpu": "2500m"})),
    ("bounds", "both-too-small", one({"cpu": "50m"}, {"cpu": "60m"})),
    (
        "bounds",
        "two-containers-said-once",
        {"containers": [container({"cpu": "1"}, {"cpu": "3"}, "a"), container({"cpu": "1"}, {"cpu": "3"}, "b")]},
    ),
    (
        "bounds",
        "two-different-problems",
        {"containers": [container({"cpu": "50m"}, {"cpu": "1"}, "a"), container({"cpu": "1"}, {"cpu": "3"}, "b")]},
    ),
    ("ratio", "within", one({"memory": "2Gi"}, {"memory": "3Gi"})),
    ("ratio", "beyond", one({"memory": "1Gi"}, {"memory": "3Gi"})),
    ("ratio", "no-request", {"containers": [{"name": "c", "image": "i"}]}),
    ("ratio", "no-limit", one({"memory": "1Gi"})),
    ("ratio", "invalid-before-forbidden", one({"memory": "4Gi"}, {"memory": "3Gi"})),
    ("whole", "fits", one({"memory": "64Mi", "cpu": "1"}, {"cpu": "2"})),
    (
        "whole",
        "sum-too-large",
        {
            "containers": [
                container({"memory": "64Mi", "cpu": "1"}, {"cpu": "1500m"}, "a"),
                container({"cpu": "500m"}, {"cpu": "1"}, "b"),
            ]
        },
    ),
    (
        "whole",
        "sidecar-adds-up",
        {
            "containers": [container({"memory": "64Mi", "cpu": "1"}, {"cpu": "1"}, "a")],
            "initContainers": [
                container({"memory": "8Mi", "cpu": "1"}, {"cpu": "1500m"}, "s", restartPolicy="Always"),
            ],
        },
    ),
    (
        "whole",
        "init-containers-in-turn",
        {
            "containers": [container({"memory": "64Mi", "cpu": "1"}, {"cpu": "1"}, "a")],
            "initContainers": [
                container({"cpu": "1"}, {"cpu": "2"}, "first"),
                container({"cpu": "1"}, {"cpu": "2"}, "then"),
            ],
        },
    ),
    (
        "whole",
        "asked-for-the-pod",
        {
            "containers": [{"name": "c", "image": "i"}],
            "resources": {"requests": {"cpu": "2", "memory": "64Mi"}, "limits": {"cpu": "3"}},
        },
    ),
]


if __name__ == "__main__":
    for request in {"limits": limits}[sys.argv[1]]():
        print(json.dumps(request))
