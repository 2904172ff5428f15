"""How fast objects come and go: decoding and encoding a pod of 1.5 KB, YAML, and importing the types.

Run as `python -m benchmarks api`. Targets: decode with the search for repeated fields 30 µs, encode 10 µs, import
150 ms.
"""

import json
import subprocess
import sys
import timeit
from collections.abc import Callable
from typing import Any

from mooring.api import codec, label_selector, quantity
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Pod

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-7d4b9c6f5d-x2x9k",
        "namespace": "shop",
        "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d", "tier": "frontend"},
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "example.com/team": "storefront"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-7d4b9c6f5d",
                "uid": "2f1c1b1e-6f0a-4e57-9c1c-0d8a4f4e8f11",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    },
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "registry.example.com/shop/web:1.25.3",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "DB_HOST", "value": "db.shop.svc"}],
                "resources": {
                    "requests": {"cpu": "250m", "memory": "256Mi"},
                    "limits": {"cpu": "1", "memory": "512Mi"},
                },
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "web",
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"},
        ],
        "priority": 0,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
                    ]
                }
            }
        },
    },
}


def main() -> None:
    body = json.dumps(POD, separators=(",", ":")).encode()
    unknown = body[:-1] + b',"unknown":1}'
    pod = codec.decode(body, Pod).object
    text = codec.to_yaml([pod])
    labels = pod.metadata.labels
    selector = label_selector.parse("app in (web,api),tier=frontend,!canary")
    print(f"a pod of {len(body)} bytes")
    _row("decode, strict", 30, lambda: codec.decode(body, Pod))
    _row("decode, ignoring unknown and repeated fields", 30, lambda: codec.decode(body, Pod, FieldValidation.IGNORE))
    _row("decode from the store", 30, lambda: codec.decode_own(body, Pod))
    _row("decode with a warning", None, lambda: codec.decode(unknown, Pod, FieldValidation.WARN))
    _row("encode", 10, lambda: codec.encode(pod))
    _row("decode YAML", None, lambda: codec.decode_yaml(text, Pod))
    _row("write YAML", None, lambda: codec.to_yaml([pod]))
    _row("match a label selector of three requirements", None, lambda: selector.matches(labels))
    _row("parse a quantity seen before", None, lambda: quantity.parse("256Mi"))
    _row("parse a new quantity", None, lambda: quantity.parse.__wrapped__("256Mi"))
    print(f"{'import mooring.api.core_v1':<50}{_import_milliseconds():>10.0f} ms   at most 150")


def _row(name: str, limit: int | None, work: Callable[[], object]) -> None:
    timer = timeit.Timer(work)
    number, _ = timer.autorange()
    number = max(number // 10, 1)
    best = min(timer.repeat(repeat=15, number=number)) / number * 1e6
    print(f"{name:<50}{best:>10.2f} µs{f'   at most {limit}' if limit else ''}")


def _import_milliseconds() -> float:
    """Measure the time that the import adds to the start of Python."""
    return (_start("import mooring.api.core_v1") - _start("")) * 1000


def _start(code: str) -> float:
    def run() -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    return min(timeit.repeat(run, number=1, repeat=5))


if __name__ == "__main__":
    main()
