"""Pods bound a second through the API: a server on disk and a scheduler, each a process of its own, over HTTPS.

python -m benchmarks scheduler                       all workloads at 5,000 nodes
NODES=1000 PODS=2000 WORKLOADS=basic,cel python -m benchmarks scheduler

Nodes and pods are made first, then the scheduler starts; what is measured is the time from its readiness until the last
pod is bound. Bound means written durably. The targets are for 5,000 nodes.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from msgspec import structs

from benchmarks.scheduler_engine import WORKLOADS, _node, _pod
from mooring.api.core_v1 import Container, Pod, ResourceRequirements
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import parse
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
}
"""Workloads and their targets. Churn: a fifth of the pods fits nowhere. Preemption: every pod displaces another."""
_AT_ONCE = 64
_SECONDS = 300
_LOOK_SECONDS = 0.2
"""Reading metrics costs the scheduler 20 ms: not too often."""


def main() -> None:
    wanted = os.environ.get("WORKLOADS")
    chosen = wanted.split(",") if wanted else list(TARGETS)
    print(f"{'workload':<20} {'nodes':>7} {'pods':>6} {'pods/s':>8} {'target':>7} {'ready s':>8} {'MB':>6}")
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
                seconds, ready, memory = await _schedule(folder, pods)
        finally:
            _stop(server)
    target = TARGETS[name] or ""
    print(
        f"{name:<20} {nodes:>7} {pods:>6} {pods / seconds:>8.0f} {target:>7} {ready:>8.1f} {memory:>6.0f}", flush=True
    )


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
    elif name == "unschedulable-churn":
        await asyncio.gather(*(make_pod("unschedulable") for _ in range(pods // 5)))
        await asyncio.gather(*(make_pod("basic") for _ in range(pods)))
    else:
        await asyncio.gather(*(make_pod(name) for _ in range(pods)))


def _large() -> list[Container]:
    requests = {"cpu": parse("20"), "memory": parse("128Mi")}
    return [Container(name="c", image="app:1", resources=ResourceRequirements(requests=requests))]


async def _schedule(folder: str, pods: int) -> tuple[float, float, float]:
    """Seconds until all were bound, seconds until the scheduler was ready, and the scheduler's memory in MB."""
    kubeconfig = str(Path(folder) / "scheduler.kubeconfig")
    begun = time.perf_counter()
    scheduler = _command("scheduler", "--kubeconfig", kubeconfig, "--scheduler-name", "mooring", "--port", "0")
    try:
        url = _line(scheduler, "metrics are at").rpartition(" ")[2].strip()
        _line(scheduler, "is ready")
        ready = time.perf_counter()
        async with _polling(ready + _SECONDS) as turns:
            async for _ in turns:
                if await asyncio.to_thread(_bound, url) >= pods:
                    break
        return time.perf_counter() - ready, ready - begun, _memory(scheduler.pid)
    finally:
        _stop(scheduler)


@asynccontextmanager
async def _polling(until: float) -> AsyncIterator[AsyncIterator[None]]:
    async def turns() -> AsyncIterator[None]:
        while time.perf_counter() < until:
            yield
            await asyncio.sleep(_LOOK_SECONDS)
        raise TimeoutError("not all pods were bound in time")

    yield turns()


def _bound(url: str) -> float:
    with urlopen(f"{url}/metrics") as page:
        for line in page.read().decode().splitlines():
            if line.startswith("scheduler_schedule_attempts_total") and 'result="scheduled"' in line:
                return float(line.rpartition(" ")[2])
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
