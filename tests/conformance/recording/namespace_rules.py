"""Requests that the rules of a namespace decide, LimitRanges and Pod Security, for ``tools/record_requests.py``.

    python tests/conformance/recording/namespace_rules.py limits > requests.jsonl
    python tools/record_requests.py requests.jsonl --server https://127.0.0.1:6443 --token T > …/data/api/limits.jsonl

The server is a fresh kube-apiserver (shared/real/control-plane.sh starts one) with --allow-privileged and without the
ServiceAccount plugin. Recorded from v1.37. Requests are made in order: later ones speak of what earlier ones have made.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

Tree = dict[str, Any]


def post(name: str, path: str, body: Tree) -> Tree:
    return {"id": name, "method": "POST", "path": path, "body": body}


def namespace(name: str, **labels: str) -> Iterator[Tree]:
    """Yield a namespace with the account that its pods need, where no controller makes it."""
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


# -- Pod Security

ENFORCE, WARN = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"
SAFE: Tree = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def secured(context: Tree | None = None, of_pod: Tree | None = None, **spec: Any) -> Tree:
    """Return a pod of two containers that `restricted` allows, except for what is added to them and to the pod."""
    containers = [{"name": name, "image": "i", "securityContext": {**SAFE, **(context or {})}} for name in "ab"]
    return {"containers": containers, "securityContext": of_pod or {}, **spec}


def http_get(host: str) -> Tree:
    return {"httpGet": {"port": 80, "host": host}}


INSECURE: dict[str, Tree] = {
    "plain": {"containers": [{"name": "c", "image": "i"}]},
    "safe": secured(),
    "app-armor": secured({"appArmorProfile": {"type": "Unconfined"}}, {"appArmorProfile": {"type": "Unconfined"}}),
    "capabilities": secured({"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_BIND_SERVICE"], "drop": ["ALL"]}}),
    "capabilities-kept": secured({"capabilities": {"drop": ["NET_RAW"]}}),
    "host-namespaces": secured(hostNetwork=True, hostPID=True, hostIPC=True),
    "host-path": secured(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "volume-types": secured(
        volumes=[
            {"name": "v", "hostPath": {"path": "/"}},
            {"name": "n", "nfs": {"server": "s", "path": "/"}},
            {"name": "e", "emptyDir": {}},
        ]
    ),
    "host-ports": {
        "containers": [
            {"name": "a", "image": "i", "ports": [{"containerPort": 1, "hostPort": 90}], "securityContext": SAFE},
            {"name": "b", "image": "i", "ports": [{"containerPort": 1, "hostPort": 8080}], "securityContext": SAFE},
        ]
    },
    "probes": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "securityContext": SAFE,
                "livenessProbe": http_get("example.com"),
                "readinessProbe": {"tcpSocket": {"port": 80, "host": "10.0.0.1"}},
                "lifecycle": {"preStop": http_get("example.org")},
            }
        ]
    },
    "privileged": secured({"privileged": True, "allowPrivilegeEscalation": None}),
    "proc-mount": secured({"procMount": "Unmasked"}, hostUsers=False),
    "selinux": secured({"seLinuxOptions": {"type": "spc_t"}}, {"seLinuxOptions": {"user": "u", "role": "r"}}),
    "selinux-engine": secured({"seLinuxOptions": {"type": "container_engine_t"}}),
    "seccomp": secured({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "Unconfined"}}),
    "seccomp-missing": secured({"seccompProfile": None}),
    "seccomp-of-pod": secured({"seccompProfile": None}, {"seccompProfile": {"type": "RuntimeDefault"}}),
    "sysctls": secured(
        of_pod={"sysctls": [{"name": name, "value": "1"} for name in ("kernel.msgmax", "net.ipv4.tcp_rmem")]}
    ),
    "root": secured({"runAsNonRoot": False}, {"runAsNonRoot": False}),
    "root-unsaid": secured({"runAsNonRoot": None}),
    "root-by-number": secured({"runAsNonRoot": None, "runAsUser": 0}, {"runAsUser": 0}),
    "root-of-user-namespace": secured({"runAsNonRoot": None, "runAsUser": 0}, hostUsers=False),
    "windows": {"containers": [{"name": "c", "image": "i"}], "os": {"name": "windows"}},
    "host-process": secured(
        {"windowsOptions": {"hostProcess": True}}, {"windowsOptions": {"hostProcess": True}}, hostNetwork=True
    ),
    "escalation": secured({"allowPrivilegeEscalation": True}),
    "init": {**secured(), "initContainers": [{"name": "i", "image": "i"}]},
}
STANDARDS = {
    "baseline": {ENFORCE: "baseline"},
    "restricted": {ENFORCE: "restricted"},
    "restricted-1-24": {ENFORCE: "restricted", f"{ENFORCE}-version": "v1.24"},
    "restricted-1-18": {ENFORCE: "restricted", f"{ENFORCE}-version": "v1.18"},
    "baseline-1-30": {ENFORCE: "baseline", f"{ENFORCE}-version": "v1.30"},
    "future": {ENFORCE: "restricted", f"{ENFORCE}-version": "v1.99"},
    "warned": {WARN: "restricted", ENFORCE: "baseline"},
    "lax": {ENFORCE: "privileged", "pod-security.kubernetes.io/audit": "restricted"},
}
LABELS = {
    "bad-level": {ENFORCE: "strict"},
    "bad-version": {ENFORCE: "baseline", f"{ENFORCE}-version": "1.30", f"{WARN}-version": "v1.030"},
    "bad-warn": {WARN: "Restricted", "pod-security.kubernetes.io/audit": "x", f"{ENFORCE}-version": "v2.0"},
}


def security() -> Iterator[Tree]:
    for name, labels in {**STANDARDS, **LABELS}.items():
        yield from namespace(name, **labels)
    for space in STANDARDS:
        for name, spec in INSECURE.items():
            yield pod(space, name, spec)
    yield from templates()
    old = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tightened", "labels": {}}}
    yield from namespace("tightened")
    for name in ("plain", "safe", "host-path", "app-armor", "init"):
        yield pod("tightened", name, INSECURE[name])
    for name in ("second", "third"):
        yield pod("tightened", name, INSECURE["plain"])
    steps: list[Tree] = [{ENFORCE: level} for level in ("nothing", "restricted", "baseline")]
    for index, labels in enumerate([*steps, {ENFORCE: "baseline", f"{ENFORCE}-version": "v1.20"}, {}]):
        body = {**old, "metadata": {"name": "tightened", "labels": labels}}
        yield {"id": f"tighten-{index}", "method": "PUT", "path": "/api/v1/namespaces/tightened", "body": body}


def templates() -> Iterator[Tree]:
    """Every kind with a template of pods."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": INSECURE["plain"]}
    once = {"metadata": {}, "spec": {**INSECURE["plain"], "restartPolicy": "Never"}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    for kind, plural, version, body in (
        ("Deployment", "deployments", "apps/v1", {"spec": spec}),
        ("ReplicaSet", "replicasets", "apps/v1", {"spec": spec}),
        ("DaemonSet", "daemonsets", "apps/v1", {"spec": spec}),
        ("StatefulSet", "statefulsets", "apps/v1", {"spec": {**spec, "serviceName": "s"}}),
        ("Job", "jobs", "batch/v1", {"spec": {"template": once}}),
        (
            "CronJob",
            "cronjobs",
            "batch/v1",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}},
        ),
        (
            "ReplicationController",
            "replicationcontrollers",
            "v1",
            {"spec": {"selector": {"a": "b"}, "template": template}},
        ),
        ("PodTemplate", "podtemplates", "v1", {"template": template}),
    ):
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for space in ("restricted", "warned", "lax"):
            tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **body}
            yield post(f"{space}-{kind}", f"{root}/namespaces/{space}/{plural}", tree)
        if kind == "Job":
            continue  # its selector is generated, so that it cannot be sent again
        tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "labels": {"new": "yes"}}, **body}
        path = f"{root}/namespaces/restricted/{plural}/x"
        yield {"id": f"again-{kind}", "method": "PUT", "path": path, "body": tree}


if __name__ == "__main__":
    for request in {"limits": limits, "security": security}[sys.argv[1]]():
        print(json.dumps(request))
