"""The scheduler's engine on pods with claims: devices that are allocated, and local volumes that are bound.

python -m benchmarks scheduler_claims                 100 to 15,000 nodes
NODES=5000 PODS=2000 python -m benchmarks scheduler_claims
"""

import os
import time
from collections.abc import Callable
from typing import Any

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.deciding.engine import Engine
from mooring.testing.builders import HOSTNAME, made, node, pod

NODES = [int(text) for text in os.environ.get("NODES", "100,1000,5000,15000").split(",")]
PODS = int(os.environ.get("PODS", "1000"))
DEVICES = 8
"""On every node; each pod takes two."""


def main() -> None:
    print(f"{'workload':<16} {'nodes':>7} {'pods/s':>9} {'first ms':>9}")
    for name, (prepare, spec) in WORKLOADS.items():
        for nodes in NODES:
            _measure(name, prepare, spec, nodes)


def _measure(
    name: str, prepare: Callable[[Engine, int, int], None], spec: Callable[[int], dict[str, Any]], nodes: int
) -> None:
    engine = Engine()
    for number in range(nodes):
        engine.put(node(f"n{number}", cpu="64"))
    number = min(PODS, nodes)
    prepare(engine, nodes, number)
    pods = [pod(f"p{index}", spec=spec(index)) for index in range(number)]
    first = _place(engine, pods[:1])
    rate = (len(pods) - 1) / _place(engine, pods[1:])
    print(f"{name:<16} {nodes:>7} {rate:>9.0f} {1000 * first:>9.1f}")


def _place(engine: Engine, pods: list[Pod]) -> float:
    """Schedule, assume and reserve, as the scheduler's cycle does; how long it took."""
    start = time.perf_counter()
    for each in pods:
        outcome = engine.schedule(each)
        if outcome.node is None:
            raise SystemExit(outcome.message)
        engine.assume(each, outcome.node)
        for plugin in outcome.profile.reserve:
            status = plugin.reserve(outcome.cycle, each, outcome.node)
            if not status.is_success:
                raise SystemExit(status.message)
    return time.perf_counter() - start


def _with_devices(engine: Engine, nodes: int, pods: int) -> None:
    selectors = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
    engine.put(made(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}))
    devices = [{"name": f"g{number}", "attributes": {"model": {"string": "a100"}}} for number in range(DEVICES)]
    for number in range(nodes):
        pool = {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": f"n{number}", "pool": pool, "devices": devices}
        engine.put(made(ResourceSlice, {"metadata": {"name": f"n{number}"}, "spec": spec}))
    chosen = [{"cel": {"expression": "device.attributes['gpu.example.com'].model == 'a100'"}}]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2, "selectors": chosen}
    for number in range(pods):
        metadata = {"name": f"c{number}", "namespace": "default", "uid": f"claim-{number}"}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        engine.put(made(ResourceClaim, {"metadata": metadata, "spec": spec}))


def _with_volumes(engine: Engine, nodes: int, pods: int) -> None:
    fields = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    engine.put(made(StorageClass, {"metadata": {"name": "local"}, **fields}))
    wanted = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    for number in range(nodes):
        here = {"key": HOSTNAME, "operator": "In", "values": [f"n{number}"]}
        spec = {
            **wanted,
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        tree = {"metadata": {"name": f"v{number}"}, "spec": spec, "status": {"phase": "Available"}}
        engine.put(made(PersistentVolume, tree))
    for number in range(pods):
        metadata = {"name": f"c{number}", "namespace": "default", "uid": f"claim-{number}"}
        spec = {**wanted, "resources": {"requests": {"storage": "1Gi"}}}
        engine.put(made(PersistentVolumeClaim, {"metadata": metadata, "spec": spec}))


WORKLOADS: dict[str, tuple[Callable[[Engine, int, int], None], Callable[[int], dict[str, Any]]]] = {
    "device claims": (
        _with_devices,
        lambda number: {"resourceClaims": [{"name": "c", "resourceClaimName": f"c{number}"}]},
    ),
    "local volumes": (
        _with_volumes,
        lambda number: {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{number}"}}]},
    ),
}

if __name__ == "__main__":
    main()
