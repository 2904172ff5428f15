"""How long a pod takes from bytes to the object that is stored: decoded, defaulted, mutated and validated.

The target is 100 µs. Run with `python -m benchmarks admission`.
"""

import json
import time
from datetime import UTC, datetime

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.pod.known_specs import ValidSpecCache
from mooring.admission.strategy import Request
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod

ROUNDS = 3000
OPTIONS = AdmissionOptions()
KNOWN = ValidSpecCache()  # as a server has them: pods of a template seen before
NOW = datetime(2026, 1, 1, tzinfo=UTC)

PLAIN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1", "labels": {"app": "web", "pod-template-hash": "7d9f8b6c5d"}},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "registry.example/web:1.4.2",
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [{"name": "MODE", "value": "prod"}, {"name": "REGION", "value": "eu"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "web"}}],
    },
}
CONSTRAINED = {
    **PLAIN,
    "spec": {
        **PLAIN["spec"],  # type: ignore[dict-item] # the literal above is a tree of dicts
        "tolerations": [
            {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"},
            {"key": "cni", "operator": "SemverGt", "value": "1.2.0"},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kernel", "operator": "SemverGt", "values": ["5.10"]},
                                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                            ]
                        }
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "matchLabelKeys": ["pod-template-hash"],
                    }
                ]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
    },
}


def request(known: ValidSpecCache | None = KNOWN) -> Request:
    return Request(options=OPTIONS, now=NOW, namespace="default", known_specs=known)


def create(body: bytes, known: ValidSpecCache | None = KNOWN) -> Pod:
    """Decode, default and validate a new pod; with None, its spec is validated as that of a new template."""
    return admit_create(codec.decode(body, Pod).object, request(known)).object


def main() -> None:
    print(f"{'pod':<14}{'decoded':>12}{'and admitted':>14}{'new template':>14}{'updated':>12}   µs")
    for name, tree in (("plain", PLAIN), ("constrained", CONSTRAINED)):
        body = json.dumps(tree).encode()
        stored = create(body)
        stored.metadata.resource_version = "1"
        changed = copy_of(stored)
        changed.metadata.labels["more"] = "yes"
        times = [
            _microseconds(lambda body=body: codec.decode(body, Pod)),
            _microseconds(lambda body=body: create(body)),
            _microseconds(lambda body=body: create(body, None)),
            _microseconds(lambda new=changed, old=stored: admit_update(new, old, request())),
        ]
        print(f"{name:<14}{times[0]:>12.1f}{times[1]:>14.1f}{times[2]:>14.1f}{times[3]:>12.1f}")


def _microseconds(action: object) -> float:
    assert callable(action)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(ROUNDS // 5):
            action()
        best = min(best, (time.perf_counter() - start) / (ROUNDS // 5))
    return best * 1e6


if __name__ == "__main__":
    main()
