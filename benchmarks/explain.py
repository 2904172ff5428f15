"""`mooring explain -A` on a large cluster: when the causes are known, and when all remedies are verified.

5,000 nodes, 20,000 running pods, and 2,000 pods of 300 workloads that do not run for six kinds of causes.
"""

import time
from random import Random
from typing import Any

from mooring.advisor.explain import Overview, overview
from mooring.advisor.simulate.options import for_component
from mooring.advisor.snapshot import Snapshot
from mooring.api.apps_v1 import Deployment, ReplicaSet
from mooring.api.meta_v1 import Resource
from mooring.base import component
from mooring.testing.builders import made, node, pod

NODES, OWNERS, PENDING, RUNNING = 5_000, 300, 2_000, 20_000


def _spec(number: int) -> dict[str, Any]:
    """Return a pod that does not run because of a label key, its size, a device, a label value, a claim or a gate."""
    requests = {"cpu": f"{20 + number % 7}" if number % 6 == 1 else "100m"}
    if number % 6 == 2:
        requests["nvidia.com/gpu"] = "1"
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = {"name": "c", "image": f"app:{number}", "resources": {"requests": requests, "limits": limits}}
    more: dict[int, dict[str, Any]] = {
        0: {"nodeSelector": {"disktyp": "ssd"}},
        3: {"nodeSelector": {"disktype": "nvme"}},
        4: {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": f"data{number}"}}]},
        5: {"schedulingGates": [{"name": "example.com/wait"}]},
    }
    return {"containers": [container], **more.get(number % 6, {})}


def _workload(number: int, replicas: int) -> list[Resource]:
    name, labels = f"app{number}", {"app": f"app{number}", "pod-template-hash": "h"}
    spec = _spec(number)
    template = {"metadata": {"labels": labels}, "spec": spec}
    meta = {"namespace": "default", "labels": labels}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"d{number}", "controller": True}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{name}-h",
        "uid": f"r{number}",
        "controller": True,
    }
    pods = (
        pod(
            f"{name}-h-{each}", labels=labels, spec=spec, metadata={"uid": f"{name}-{each}", "ownerReferences": [owner]}
        )
        for each in range(replicas)
    )
    replica_set = {**meta, "name": f"{name}-h", "uid": f"r{number}", "ownerReferences": [above]}
    return [
        made(Deployment, {"metadata": {**meta, "name": name, "uid": f"d{number}"}, "spec": body}),
        made(ReplicaSet, {"metadata": replica_set, "spec": body}),
        *pods,
    ]


def cluster() -> Snapshot:
    random, objects = Random(1), list[Resource]()
    for number in range(NODES):
        taints = ["team=blue:NoSchedule"] if number % 10 == 0 else []
        disk = {"disktype": "ssd" if number % 4 else "hdd"}
        objects.append(node(f"n{number}", zone=f"z{number % 3}", labels=disk, taints=taints))
    for number in range(OWNERS):
        objects += _workload(number, PENDING // OWNERS + (number < PENDING % OWNERS))
    objects += (
        pod(f"run{number}", on=f"n{random.randrange(NODES)}", cpu="100m", labels={"app": f"run{number % 200}"})
        for number in range(RUNNING)
    )
    return Snapshot("the benchmark", objects)


def main() -> None:
    snapshot, settings = cluster(), for_component(component.resolve())
    began, worked = time.perf_counter(), time.process_time()
    causes: list[tuple[float, float, Overview]] = []

    def note(found: Overview) -> None:
        causes.append((time.perf_counter() - began, time.process_time() - worked, found))

    found = overview(snapshot, settings, on_causes=note)
    seconds, processor, first = causes[0]
    helped = sum(group.remedy is not None for group in found.groups)
    print(f"{first.pods:,} pods of {first.owners} workloads, {len(first.groups)} causes, on {first.nodes:,} nodes")
    print(f"causes    {seconds:6.2f} s   {processor:6.2f} s of the processor")
    total, work = time.perf_counter() - began, time.process_time() - worked
    print(f"remedies  {total:6.2f} s   {work:6.2f} s of the processor   {helped} of {len(found.groups)} verified")
