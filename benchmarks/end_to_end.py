"""What a user sees: from a workload that was applied until all of its pods run, its update, and until all are gone.

python -m benchmarks end_to_end
NODES=500 PODS=1000 WORKLOADS=Deployment,Job ROLL=yes python -m benchmarks end_to_end

A control plane in two processes on disk, over HTTPS, with simulated nodes, as `mooring up` starts it. By the clock, in
processor time of the server and of what works for it (scheduler, controllers, simulated kubelets), in memory with what
processes share counted once, and with `REQUESTS=yes` in requests to the server by kind. `PROFILE=folder` samples both
processes with py-spy.
"""

import asyncio
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.up import Run, start
from mooring.api.apps_v1 import DaemonSet, Deployment, StatefulSet
from mooring.api.batch_v1 import Job
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.client import Client, connect
from mooring.testing.builders import made

NODES = int(os.environ.get("NODES", "5000"))
PODS = int(os.environ.get("PODS", "10000"))
WORKLOADS = os.environ.get("WORKLOADS", "Deployment").split(",")
ROLL = bool(os.environ.get("ROLL"))
REQUESTS = bool(os.environ.get("REQUESTS"))
PROFILE = os.environ.get("PROFILE", "")
_SECONDS = 900.0
_LOOK_SECONDS = 0.05
_LABELS = {"app": "web"}
_REQUEST = re.compile(r"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Workload:
    """A kind of workload: its own fields, and how many of its pods run."""

    cls: type[Resource]
    spec: dict[str, Any]
    running: Callable[[Any], int]
    pod: dict[str, Any]


def _updated(seen: Deployment) -> int:
    """Pods of the newest template that are ready, once no others are left."""
    status = seen.status
    at_rest = status.observed_generation == seen.metadata.generation and status.replicas == status.updated_replicas
    return status.ready_replicas if at_rest else 0


_ALWAYS = {"containers": [{"name": "c", "image": "app:1"}]}
_SELECTOR = {"selector": {"matchLabels": _LABELS}}
_FULL_SURGE = {"strategy": {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}}
KINDS = {
    "Deployment": Workload(Deployment, {"replicas": PODS, **_SELECTOR, **_FULL_SURGE}, _updated, _ALWAYS),
    "StatefulSet": Workload(
        StatefulSet,
        {"replicas": PODS, **_SELECTOR, "podManagementPolicy": "Parallel", "serviceName": "web"},
        lambda seen: int(seen.status.ready_replicas),
        _ALWAYS,
    ),
    "DaemonSet": Workload(DaemonSet, _SELECTOR, lambda seen: int(seen.status.number_ready), _ALWAYS),
    "Job": Workload(
        Job,
        {"parallelism": PODS, "completions": PODS},
        lambda seen: int(seen.status.ready or 0),
        {"containers": [{"name": "c", "image": "pause"}], "restartPolicy": "Never"},  # others end before the last runs
    ),
}


def main() -> None:
    print(f"{'':<24} {'pods':>6} {'s':>7} {'pods/s':>7} {'CPU ms a pod: server + others':>30} {'MB':>5}")
    for name in WORKLOADS:
        with tempfile.TemporaryDirectory() as folder:
            run = start(folder, "--nodes", str(NODES))
            try:
                asyncio.run(_measure(run, name))
            finally:
                run.stop()


async def _measure(run: Run, name: str) -> None:
    workload = KINDS[name]
    pods = NODES if name == "DaemonSet" else PODS
    async with connect(run.kubeconfig, user_agent="benchmark") as client:
        while not all(_is_ready(node) for node in (await client.list(Node)).items):  # noqa: ASYNC110 - as above
            await asyncio.sleep(1)
        async with _stage(run, client, f"{name} runs", pods):
            await client.create(_applied(workload))
            await _until(client, workload, pods)
        if ROLL and name == "Deployment":
            template = {"metadata": {"labels": {"turn": "2"}}}
            async with _stage(run, client, f"{name} rolls", pods):
                await client.patch(workload.cls, "web", {"spec": {"template": template}}, "default")
                await _until(client, workload, pods)
        async with _stage(run, client, f"{name} is gone", pods):
            await client.delete(workload.cls, "web", "default", propagation_policy="Background")
            while (await client.page(Pod, "default", limit=1)).items:  # noqa: ASYNC110 - as a user looks
                await asyncio.sleep(_LOOK_SECONDS)


def _is_ready(node: Node) -> bool:
    return not node.spec.taints and bool(node.status.addresses)


def _applied(workload: Workload) -> Resource:
    template = {"metadata": {"labels": _LABELS}, "spec": workload.pod}
    wanted = {"metadata": {"name": "web", "namespace": "default"}, "spec": {**workload.spec, "template": template}}
    return made(workload.cls, wanted)


async def _until(client: Client, workload: Workload, pods: int) -> None:
    began = time.monotonic()
    while workload.running(await client.get(workload.cls, "web", "default")) < pods:
        if time.monotonic() - began > _SECONDS:
            raise TimeoutError("the pods did not come to run")
        await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def _stage(run: Run, client: Client, name: str, pods: int) -> AsyncIterator[None]:
    """Print what a stage took, from what sets it off until it is seen to be over."""
    before = await _requests(client) if REQUESTS else Counter[str]()
    with _profiled(run, name):
        processor, began = run.processor(), time.monotonic()
        yield
    seconds = time.monotonic() - began
    used = [1000 * (now - then) / pods for then, now in zip(processor, run.processor(), strict=True)]
    costs = " + ".join(f"{each:.2f}" for each in used)
    print(f"{name:<24} {pods:>6} {seconds:>7.1f} {pods / seconds:>7.0f} {costs:>30} {run.memory():>5.0f}", flush=True)
    if REQUESTS:
        for what, count in ((await _requests(client)) - before).most_common(12):
            print(f"    {count:>8} {what}")


async def _requests(client: Client) -> Counter[str]:
    """How many requests the server has answered, by verb and resource."""
    counts: Counter[str] = Counter()
    page = (await client.raw("GET", "/metrics", accept="text/plain")).body.decode()
    for labels, value in _REQUEST.findall(page):
        found = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        what = f"{found['resource']}/{found['subresource']}".rstrip("/")
        counts[f"{found['verb']} {what} {found['code']}"] += int(float(value))
    return counts


@contextmanager
def _profiled(run: Run, name: str) -> Iterator[None]:
    """Sample the processes while something happens, if that was asked for."""
    if not PROFILE:
        yield
        return
    spies = [
        subprocess.Popen(
            ["py-spy", "record", "--format", "raw", "--rate", "200", "--pid", pid, "-o",
             f"{PROFILE}/{name.replace(' ', '-')}-{part}.txt"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for part, pid in zip(("server", "others"), run.pids(), strict=False)
    ]  # fmt: skip
    try:
        yield
    finally:
        for spy in spies:
            spy.send_signal(2)
            spy.wait()
