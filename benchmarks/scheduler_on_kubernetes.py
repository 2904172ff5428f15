"""`mooring scheduler` as the second scheduler of a real kube-apiserver, and what that server can do at most.

KUBECONFIG=… APISERVER_PID=… ETCD_PID=… NODES=5000 PODS=3000 python -m benchmarks scheduler_on_kubernetes

The server must be a fresh one, and on this machine: its processor time is counted. First, pods are bound by the
scheduler, while the server has these and the nodes and nothing else. Then as many are bound by a client that does
nothing but send prepared bindings, as the scheduler sends them: the ceiling. The same with an event for each shows what
events cost.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from benchmarks.scheduler import _until_bound
from benchmarks.scheduler_cluster import NAMESPACE, SCHEDULER, Process
from benchmarks.scheduler_engine import _node, _pod, _spec
from mooring.api.core_v1 import Binding, Node, ObjectReference, Pod, ServiceAccount
from mooring.api.errors import AlreadyExists
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import BulkBinding, Client, EventRecorder, connect

NODES = int(os.environ.get("NODES", "5000"))
PODS = int(os.environ.get("PODS", "3000"))
PIDS = {"kube-apiserver": os.environ.get("APISERVER_PID", ""), "etcd": os.environ.get("ETCD_PID", "")}
_AT_ONCE = 16


def main() -> None:
    if not os.environ.get("KUBECONFIG"):
        print("no KUBECONFIG of a kube-apiserver: nothing measured")
        return
    asyncio.run(_measure())


async def _measure() -> None:
    async with connect(os.environ["KUBECONFIG"], user_agent="benchmark") as client:
        with suppress(AlreadyExists):
            await client.create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=NAMESPACE)))
        await _each(lambda number: _make_node(client, number), range(NODES))
        await _make_pods(client)
        await _schedule()
        for name, with_events in (("bindings alone", False), ("bindings and events", True)):
            pods = await _make_pods(client)
            async with _measured(name):
                await _bind(client, pods, with_events=with_events)


async def _schedule() -> None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("--kubeconfig", os.environ["KUBECONFIG"], "--scheduler-name", SCHEDULER, "--port", "0")
        scheduler = Process(Path(folder), "scheduler", *arguments)
        try:
            url = scheduler.line("metrics are at").rpartition(" ")[2].strip()
            scheduler.line("is ready")
            before = scheduler.processor_seconds
            async with _measured("mooring scheduler") as measured:
                measured.seconds, _ = await _until_bound(url, time.perf_counter(), PODS)
            print(
                f"{'  the scheduler itself':<24} {1e6 * (scheduler.processor_seconds - before) / PODS:>22.0f} µs a pod"
            )
        finally:
            scheduler.stop()


@dataclass
class _Measured:
    seconds: float = 0.0
    """How long it took, where that is known better than by when it is over."""


@asynccontextmanager
async def _measured(name: str) -> AsyncIterator[_Measured]:
    """Print pods a second, and the processor time that a pod took in the server."""
    measured = _Measured()
    begun, before = time.perf_counter(), {part: _spent(pid) for part, pid in PIDS.items()}
    yield measured
    seconds = measured.seconds or time.perf_counter() - begun
    spent = ", ".join(f"{part} {1e6 * (_spent(pid) - before[part]) / PODS:.0f} µs a pod" for part, pid in PIDS.items())
    print(f"{name:<24} {PODS / seconds:>8.0f} pods a second; {spent}; load {os.getloadavg()[0]:.0f}", flush=True)


def _spent(pid: str) -> float:
    """How long a process has computed, in seconds; nothing of one that is not named."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _each(act: Callable[[int], Awaitable[object]], numbers: Iterable[int]) -> None:
    remaining = iter(numbers)

    async def work() -> None:
        for number in remaining:
            await act(number)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


async def _make_node(client: Client, number: int) -> None:
    made: Node = await client.create(_node(number))
    kept = [taint for taint in made.spec.taints if not taint.key.startswith("node.kubernetes.io/")]
    await client.update(structs.replace(made, spec=structs.replace(made.spec, taints=kept)))


async def _make_pods(client: Client) -> list[Pod]:
    made: list[Pod] = []

    async def make(number: int) -> None:
        pod = _pod("basic", _spec())
        meta = structs.replace(pod.metadata, uid="", name=f"p-{time.time_ns():x}-{number}", namespace=NAMESPACE)
        spec = structs.replace(pod.spec, scheduler_name=SCHEDULER)
        made.append(await client.create(structs.replace(pod, metadata=meta, spec=spec)))

    await _each(make, range(PODS))
    return made


async def _bind(client: Client, pods: list[Pod], *, with_events: bool) -> None:
    bindings = [
        Binding(
            metadata=ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid),
            target=ObjectReference(kind="Node", name=f"node-{2 * number % NODES}"),
        )
        for number, pod in enumerate(pods)
    ]
    recorder = EventRecorder(client, SCHEDULER)
    if with_events:
        for pod in pods:
            recorder.event(pod, "Normal", "Scheduled", "bound by the benchmark", action="Binding")
        recorder.start()
    failed = [outcome for outcome in await BulkBinding(client).bind(bindings) if outcome is not None]
    if failed:
        raise failed[0]
    await recorder.stop(seconds=120)
