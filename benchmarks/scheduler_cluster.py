"""The cluster that ``scheduler.py`` measures in: an API server on disk, nodes that suit every workload, and its pods.

Nodes are made once for all workloads; what a workload needs besides, such as pods to be displaced or claims, is made
before it and deleted after it.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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

NAMESPACE, SCHEDULER = "default", "mooring"
_AT_ONCE = 200
_LOOK_SECONDS = 0.01


class Process:
    """A component in a process of its own. What it prints goes to a file, so that it never waits for a reader."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._log = folder / f"{arguments[0]}.log"
        with self._log.open("w") as log:
            command = [sys.executable, "-m", "mooring", *arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def line(self, words: str) -> str:
        """Wait for the output line that contains `words` and return it."""
        while True:
            is_over = self._process.poll() is not None
            found = [line for line in self._log.read_text().splitlines() if words in line]
            if found:
                return found[0]
            if is_over:
                raise RuntimeError(f"it ended without saying {words!r}: {self._log.read_text()[-2000:]}")
            time.sleep(_LOOK_SECONDS)

    @property
    def megabytes(self) -> float:
        """The memory that it uses now."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)

    @property
    def processor_seconds(self) -> float:
        """How long it has computed."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=60)


class BenchmarkCluster:
    """An API server with a number of nodes, by default with eight devices each."""

    client: Client

    def __init__(self, nodes: int, *, has_devices: bool = True) -> None:
        self.nodes = nodes
        self._has_devices = has_devices
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name)

    async def __aenter__(self) -> Self:
        self.server = Process(self.folder, "apiserver", "--data-dir", str(self.folder), "--port", "0")
        self.server.line("ready at")
        self.client = connect(self.folder / "admin.kubeconfig", user_agent="benchmark", grouped=True)
        await self.client.create(DeviceClass(metadata=ObjectMeta(name="gpu")))
        await self.client.create(PriorityClass(metadata=ObjectMeta(name="high"), value=1000))
        await self._each(self._make_node, range(self.nodes))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()
        self.server.stop()
        self._temporary.cleanup()

    async def fill(self, workload: str, pods: int) -> None:
        """Make the pods of a workload, and what they need."""
        if workload == "preemption":
            # One large pod on every node that tolerates pods: each new one has to displace one of them.
            await self._each(self._make_victim, range(0, self.nodes, 2))
            await self._each(self._make_preemptor, range(pods))
        elif workload == "device-claims":
            await self._each(self._make_claim, range(pods))
            await self._each(self._make_claiming_pod, range(pods))
        elif workload == "unschedulable-churn":
            await self._each(lambda _: self._make_pod("unschedulable"), range(pods // 5))
            await self._each(lambda _: self._make_pod("basic"), range(pods))
        else:
            await self._each(lambda _: self._make_pod(workload), range(pods))

    async def clear(self) -> None:
        """Delete what a workload has left."""
        await self.client.delete_collection(Pod, NAMESPACE, grace_period_seconds=0)
        claims = await self.client.list(ResourceClaim, NAMESPACE)
        await self._each(self._release, claims.items)
        await self.client.delete_collection(ResourceClaim, NAMESPACE)

    # -- how

    async def _each(self, make: Callable[[Any], Awaitable[object]], things: Iterable[Any]) -> None:
        """Do something for each, some at a time."""
        remaining = iter(things)

        async def work() -> None:
            for thing in remaining:
                await make(thing)

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))

    async def _make_node(self, number: int) -> None:
        made = await self.client.create(_node(number))
        kept = [taint for taint in made.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
        await self.client.update(structs.replace(made, spec=structs.replace(made.spec, taints=kept)))
        if self._has_devices:
            await self.client.create(_devices(number))

    async def _make_pod(self, workload: str, **spec: Any) -> None:
        made = _pod(workload, WORKLOADS[workload]())
        meta = structs.replace(made.metadata, uid="", namespace=NAMESPACE)
        wanted = structs.replace(made.spec, scheduler_name=SCHEDULER, **spec)
        await self.client.create(structs.replace(made, metadata=meta, spec=wanted))

    async def _make_victim(self, number: int) -> None:
        """Return a pod that fills a node and has no grace period."""
        await self._make_pod(
            "basic", containers=_large(), termination_grace_period_seconds=0, node_name=f"node-{number}"
        )

    async def _make_preemptor(self, _number: int) -> None:
        await self._make_pod("basic", containers=_large(), priority_class_name="high")

    async def _make_claim(self, number: int) -> None:
        exactly = ExactDeviceRequest(device_class_name="gpu", allocation_mode="ExactCount", count=2)
        devices = DeviceClaim(requests=[DeviceRequest(name="r", exactly=exactly)])
        meta = ObjectMeta(name=f"c{number}", namespace=NAMESPACE)
        await self.client.create(ResourceClaim(metadata=meta, spec=ResourceClaimSpec(devices=devices)))

    async def _make_claiming_pod(self, number: int) -> None:
        await self._make_pod("basic", resource_claims=[PodResourceClaim(name="c", resource_claim_name=f"c{number}")])

    async def _release(self, claim: ResourceClaim) -> None:
        """Let a claim go, as its controller would."""
        if claim.metadata.finalizers:
            await self.client.update(structs.replace(claim, metadata=structs.replace(claim.metadata, finalizers=[])))


def _devices(number: int) -> Resource:
    name = f"node-{number}"
    pool = ResourcePool(name=name, generation=1, resource_slice_count=1)
    devices = [Device(name=f"g{device}") for device in range(8)]
    spec = ResourceSliceSpec(driver="gpu.example.com", node_name=name, pool=pool, devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def _large() -> list[Container]:
    requests = {"cpu": parse("20"), "memory": parse("128Mi")}
    return [Container(name="c", image="app:1", resources=ResourceRequirements(requests=requests))]
