"""Pods bound a second through the API: a server on disk and a scheduler, each a process of its own, over HTTPS.

python -m benchmarks scheduler                       all workloads at 5,000 nodes
NODES=1000 PODS=2000 WORKLOADS=basic,cel python -m benchmarks scheduler

Nodes and pods are made first, then the scheduler starts; what is measured is the time from its readiness until the last
pod is bound. Bound means written durably. The targets are for 5,000 nodes. Latencies are those of an attempt, from
taking the pod out of the queue until it is bound, with its wait for the group that it is bound with.
"""

import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from msgspec import structs

from benchmarks.scheduler_engine import WORKLOADS, _node, _pod
from mooring.api.core_v1 import Container, Pod, PodResourceClaim, ResourceRequirements
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.quantity import parse
from mooring.api.resource_v1 import (
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from mooring.api.scheduling_v1 import PriorityClass
from mooring.client import Client, connect

NODES = [int(text) for text in os.environ.get("NODES", "5000").split(",")]
PODS = int(os.environ.get("PODS", "5000"))
TARGETS = {
    "basic": 2000,
    "numeric-toleration": 1500,
    "node-affinity": 1500,
    "semver": 1500,
    "cel": 1500,
    "spread-DoNotSchedule": 1500,
    "spread-ScheduleAnyway": 1500,
    "pod-affinity": 1000,
    "anti-affinity": 1000,
    "unschedulable-churn": None,
    "preemption": None,
    "device-claims": None,
}
"""Workloads and their targets. Churn: a fifth of the pods fits nowhere. Preemption: every pod displaces another.
Device claims: every node has eight devices, and every pod claims two of them."""
_ATTEMPT = "scheduler_scheduling_attempt_duration_seconds"
_AT_ONCE = 64
_SECONDS = 300
_LOOK_SECONDS = 0.2
"""Reading metrics costs the scheduler 20 ms: not too often."""


def main() -> None:
    wanted = os.environ.get("WORKLOADS")
    chosen = wanted.split(",") if wanted else list(TARGETS)
    latencies = f"{'p50 ms':>7} {'p90 ms':>7} {'p99 ms':>7}"
    print(f"{'workload':<22} {'nodes':>6} {'pods':>6} {'pods/s':>7} {'target':>7} {latencies} {'ready s':>8} {'MB':>6}")
    for nodes in NODES:
        for name in chosen:
            asyncio.run(_measure(name, nodes))


async def _measure(name: str, nodes: int) -> None:
    pods = min(PODS, nodes // 2) if name in ("anti-affinity", "preemption") else PODS
    with tempfile.TemporaryDirectory() as folder:
        server = _command("apiserver", "--data-dir", folder, "--port", "0")
        try:
            _line(server, "ready at")
            async with connect(Path(folder) / "admin.kubeconfig", user_agent="benchmark") as client:
                await _fill(client, name, nodes, pods)
                found = await _schedule(folder, pods)
        finally:
            _stop(server)
    target = TARGETS[name] or ""
    latencies = " ".join(f"{1000 * quantile(found.metrics, share):>7.0f}" for share in (0.5, 0.9, 0.99))
    rate = f"{pods / found.seconds:>7.0f} {target:>7}"
    print(f"{name:<22} {nodes:>6} {pods:>6} {rate} {latencies} {found.ready:>8.1f} {found.memory:>6.0f}", flush=True)


@dataclass(frozen=True)
class _Found:
    seconds: float
    """Until all pods were bound."""
    ready: float
    """Seconds until the scheduler was ready."""
    memory: float
    """The scheduler's, in MB."""
    metrics: str
    """Its page of metrics."""


async def _fill(client: Client, name: str, nodes: int, pods: int) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def make_node(number: int) -> None:
        async with slots:
            made = await client.create(_node(number))
            kept = [taint for taint in made.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
            await client.update(structs.replace(made, spec=structs.replace(made.spec, taints=kept)))

    async def make_pod(workload: str, **spec: Any) -> Pod:
        made = _pod(name, WORKLOADS[workload]())
        meta = structs.replace(made.metadata, uid="", namespace="default")
        async with slots:
            return await client.create(
                structs.replace(made, metadata=meta, spec=structs.replace(made.spec, scheduler_name="mooring", **spec))
            )

    async def make_victim(number: int) -> None:
        """A pod that fills a node, and whose deletion takes no time."""
        made = await make_pod("basic", containers=_large(), termination_grace_period_seconds=0)
        await client.bind(made.metadata.name, "default", f"node-{number}")

    await asyncio.gather(*map(make_node, range(nodes)))
    if name == "preemption":
        await client.create(PriorityClass(metadata=ObjectMeta(name="high"), value=1000))
        await asyncio.gather(*map(make_victim, range(nodes)))
        await asyncio.gather(*(make_pod("basic", containers=_large(), priority_class_name="high") for _ in range(pods)))
    elif name == "device-claims":
        await client.create(DeviceClass(metadata=ObjectMeta(name="gpu")))
        await asyncio.gather(*(_make(client, slots, _devices(number)) for number in range(nodes)))
        await asyncio.gather(*(_make(client, slots, _claim(number)) for number in range(pods)))
        claims = ([PodResourceClaim(name="c", resource_claim_name=f"c{number}")] for number in range(pods))
        await asyncio.gather(*(make_pod("basic", resource_claims=entries) for entries in claims))
    elif name == "unschedulable-churn":
        await asyncio.gather(*(make_pod("unschedulable") for _ in range(pods // 5)))
        await asyncio.gather(*(make_pod("basic") for _ in range(pods)))
    else:
        await asyncio.gather(*(make_pod(name) for _ in range(pods)))


async def _make(client: Client, slots: asyncio.Semaphore, thing: Resource) -> None:
    async with slots:
        await client.create(thing)


def _devices(number: int) -> ResourceSlice:
    name = f"node-{number}"
    pool = ResourcePool(name=name, generation=1, resource_slice_count=1)
    devices = [Device(name=f"g{device}") for device in range(8)]
    spec = ResourceSliceSpec(driver="gpu.example.com", node_name=name, pool=pool, devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def _claim(number: int) -> ResourceClaim:
    exactly = ExactDeviceRequest(device_class_name="gpu", allocation_mode="ExactCount", count=2)
    devices = DeviceClaim(requests=[DeviceRequest(name="r", exactly=exactly)])
    return ResourceClaim(
        metadata=ObjectMeta(name=f"c{number}", namespace="default"), spec=ResourceClaimSpec(devices=devices)
    )


def _large() -> list[Container]:
    requests = {"cpu": parse("20"), "memory": parse("128Mi")}
    return [Container(name="c", image="app:1", resources=ResourceRequirements(requests=requests))]


async def _schedule(folder: str, pods: int) -> _Found:
    kubeconfig = str(Path(folder) / "scheduler.kubeconfig")
    begun = time.perf_counter()
    scheduler = _command("scheduler", "--kubeconfig", kubeconfig, "--scheduler-name", "mooring", "--port", "0")
    try:
        url = _line(scheduler, "metrics are at").rpartition(" ")[2].strip()
        _line(scheduler, "is ready")
        ready = time.perf_counter()
        while _bound(page := await asyncio.to_thread(_metrics, url)) < pods:
            if time.perf_counter() > ready + _SECONDS:
                raise TimeoutError("not all pods were bound in time")
            await asyncio.sleep(_LOOK_SECONDS)
        return _Found(time.perf_counter() - ready, ready - begun, _memory(scheduler.pid), page)
    finally:
        _stop(scheduler)


def _metrics(url: str) -> str:
    with urlopen(f"{url}/metrics") as page:
        return str(page.read().decode())


def _bound(page: str) -> float:
    for line in page.splitlines():
        if line.startswith("scheduler_schedule_attempts_total") and 'result="scheduled"' in line:
            return float(line.rpartition(" ")[2])
    return 0.0


def quantile(page: str, share: float) -> float:
    """In seconds, from a pod's being taken out of the queue until it was bound: Prometheus' `histogram_quantile`."""
    buckets: list[tuple[float, float]] = []
    for line in page.splitlines():
        if line.startswith(f"{_ATTEMPT}_bucket") and 'result="scheduled"' in line:
            bound = re.search(r'le="([^"]+)"', line)
            buckets.append((float(bound[1]) if bound else math.inf, float(line.rpartition(" ")[2])))
    wanted = share * buckets[-1][1] if buckets else 0.0
    lower = below = 0.0
    for upper, number in buckets:
        if number >= wanted:
            return lower if math.isinf(upper) else lower + (upper - lower) * (wanted - below) / max(number - below, 1)
        lower, below = upper, number
    return 0.0


def _memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def _command(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mooring", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _line(process: subprocess.Popen[str], words: str) -> str:
    """The line of a process's output that has some words."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise RuntimeError(f"{process.args!r} ended without saying {words!r}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
