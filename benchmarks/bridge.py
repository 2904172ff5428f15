"""The bridge: gated pods released, a node's label followed, and what is sent when nothing happens.

python -m benchmarks bridge
NODES=500 PODS=2000 python -m benchmarks bridge

A server that knows none of the new words and the bridge are processes of their own, over HTTPS. Nodes belong to ten
pools, each with the version of a driver; a constraint asks for a driver newer than one of a hundred versions, so that
with a thousand constraints a node has about fifty of their labels.
"""

import asyncio
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import uvloop

from benchmarks.controllers import _cpu_seconds, _process, _requests, _resident
from mooring.api.core_v1 import Container, Node, NodeSpec, Pod, PodSchedulingGate, PodSpec, Taint
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.bridge.plan import is_gated
from mooring.client import Client, Informer, Informers, PatchType, connect
from mooring.constraints import annotations
from mooring.constraints.lowering.terms import LABEL_PREFIX

NODES = int(os.environ.get("NODES", "5000"))
PODS = int(os.environ.get("PODS", "10000"))
CONSTRAINTS = int(os.environ.get("CONSTRAINTS", "1000"))
IDLE_SECONDS = 10.0
_POOLS = 10
_CHANGES = 50
_AT_ONCE = 32
_GATES = ("TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators", "TaintTolerationNodeAffinityCEL")


def main() -> None:
    gates = ",".join(f"{gate}=false" for gate in _GATES)
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--data-dir", folder, "--port", "0", "--feature-gates", gates]
        with _process("apiserver", *flags) as server:
            uvloop.run(_measure(Path(folder) / "admin.kubeconfig", server.pid))


def _node(number: int) -> Node:
    labels = {
        "kubernetes.io/hostname": f"node-{number}",
        f"driver-{number % _POOLS}": f"1.{number // _POOLS % 100}.0",
    }
    taint = Taint(key="sla", value=str(900 + number % 100), effect="NoSchedule")
    return Node(metadata=ObjectMeta(name=f"node-{number}", labels=labels), spec=NodeSpec(taints=[taint]))


def _pod(name: str, number: int) -> Pod:
    constraint = number % CONSTRAINTS
    entry = {"key": f"driver-{constraint % _POOLS}", "operator": "SemverGt", "values": [f"1.{constraint // _POOLS}"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [entry]}]}
    tolerations = [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]
    given = {
        annotations.NODE_AFFINITY: json.dumps({"requiredDuringSchedulingIgnoredDuringExecution": required}),
        annotations.TOLERATIONS: json.dumps(tolerations),
    }
    return Pod(
        metadata=ObjectMeta(name=f"{name}-{number}", namespace="default", annotations=given),
        spec=PodSpec(
            containers=[Container(name="c", image="registry.example/app:1")],
            scheduling_gates=[PodSchedulingGate(name=annotations.GATE)],
        ),
    )


async def _measure(kubeconfig: Path, server: int) -> None:
    async with connect(kubeconfig, user_agent="benchmark") as client:
        await _create(client, map(_node, range(NODES)))
        await _create(client, (_pod("early", number) for number in range(PODS)))
        print(f"{NODES:,} nodes, {CONSTRAINTS:,} constraints, {PODS:,} gated pods that wait for a bridge", flush=True)
        before, spent = await _requests(client), _cpu_seconds(server)
        page = Page(_free_port())
        began = time.perf_counter()
        flags = ["--kubeconfig", str(kubeconfig), "--port", str(page.port), "--no-leader-elect"]
        with _process("bridge", *flags) as bridge:
            used = Used(bridge.pid, server, of_server=spent)
            _tell("until the bridge is ready", time.perf_counter() - began, used.since())
            began = time.perf_counter()
            await _until(lambda: page.released() > 0, pause=0.1)
            first = page.released()
            _tell("from then until the first pod is released", time.perf_counter() - began, used.since())
            began = time.perf_counter()
            await _until(lambda: page.released() == PODS, pause=0.5)
            taken = time.perf_counter() - began
            rate = f"{(PODS - first) / taken:,.0f} pods/s (target: 500); {used.since()}"
            _tell(f"from then until the other {PODS - first:,} are", taken, rate)
            sent = await _requests(client) - before
            print(f"requests for {NODES:,} nodes and {PODS:,} pods               {sent:8,.0f}", flush=True)
            await _more(client, page, used)
            await _follow(client)
            await _idle(client, bridge.pid)
        await _once_more(client, flags, page, server)


@dataclass
class Page:
    """The bridge's own metrics: watching the pods instead would take part of the two cores."""

    port: int

    def released(self) -> int:
        with urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            page = answer.read().decode()
        return int(float(page.partition("\nmooring_bridge_released_pods_total ")[2].partition("\n")[0]))


@dataclass
class Used:
    """Processor time of both processes since it was last asked for."""

    bridge: int
    server: int
    of_bridge: float = 0.0
    of_server: float = 0.0

    def since(self) -> str:
        now = _cpu_seconds(self.bridge), _cpu_seconds(self.server)
        text = f"CPU: bridge {now[0] - self.of_bridge:.1f} s, server {now[1] - self.of_server:.1f} s"
        self.of_bridge, self.of_server = now
        return text


async def _more(client: Client, page: Page, used: Used) -> None:
    """Pods that come while the bridge runs; their creation counts."""
    before, began = await _requests(client), time.perf_counter()
    used.since()
    await _create(client, (_pod("late", number) for number in range(PODS)))
    created = time.perf_counter() - began
    await _until(lambda: page.released() == 2 * PODS, pause=0.5)
    taken = time.perf_counter() - began
    rates = f"{PODS / taken:,.0f} pods/s, created at {PODS / created:,.0f}"
    _tell(f"{PODS:,} more, created and released", taken, f"{rates}; {used.since()}")
    print(f"requests for each of them, its creation included  {(await _requests(client) - before) / PODS:8.2f}")
    gated = sum(map(is_gated, (await client.list(Pod, managed_fields=False)).items))
    print(f"pods that still have the gate                     {gated:8,}")


async def _once_more(client: Client, flags: list[str], page: Page, server: int) -> None:
    """Pods that came while no bridge ran, with constraints whose labels the nodes have: they are released, no more."""
    await client.delete_collection(Pod, "default", grace_period_seconds=0)
    await _create(client, (_pod("waiting", number) for number in range(PODS)))
    spent, began = _cpu_seconds(server), time.perf_counter()
    with _process("bridge", *flags) as bridge:
        used = Used(bridge.pid, server, of_server=spent)
        _tell("until a bridge that was started again is ready", time.perf_counter() - began, used.since())
        first, began = page.released(), time.perf_counter()
        await _until(lambda: page.released() == PODS, pause=0.5)
        taken = time.perf_counter() - began
        rate = f"{(PODS - first) / taken:,.0f} pods/s (target: 500); {used.since()}"
        _tell(f"from then until {PODS - first:,} pods are released", taken, rate)


async def _follow(client: Client) -> None:
    """Measure the time from a change of a node's label to the change of the bridge's labels on it."""
    seconds = []
    informers = Informers(client)
    nodes = informers.of(Node)
    async with informers:
        await informers.wait_for_sync()
        for number in range(0, _CHANGES * _POOLS, _POOLS):
            name = f"node-{number}"
            before = _bridged(nodes, name)
            body = {"metadata": {"labels": {"driver-0": "0.1.0" if before else "2.0.0"}}}  # meets none, or all
            began = time.perf_counter()
            await client.patch(Node, name, body, type=PatchType.MERGE)
            await _until(lambda name=name, before=before: _bridged(nodes, name) != before, pause=0.005)  # type: ignore[misc]
            seconds.append(time.perf_counter() - began)
    shown = f"longest {max(seconds):.2f} s (target: 1 s)"
    _tell("until a node's change is followed, median", statistics.median(seconds), shown)


def _bridged(nodes: Informer[Node], name: str) -> set[str]:
    found = nodes.get(name)
    return {key for key in found.metadata.labels if key.startswith(LABEL_PREFIX)} if found else set()


async def _idle(client: Client, bridge: int) -> None:
    await asyncio.sleep(1)
    before, spent = await _requests(client), _cpu_seconds(bridge)
    await asyncio.sleep(IDLE_SECONDS)
    rate = (await _requests(client) - before - 1) / IDLE_SECONDS  # one is the reading itself
    print(f"requests while nothing happens                    {rate:8.2f} /s")
    print(f"CPU of the bridge meanwhile                       {(_cpu_seconds(bridge) - spent) / IDLE_SECONDS:8.2%}")
    print(f"memory of the bridge                              {_resident(bridge):8.0f} MB")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _tell(what: str, seconds: float, more: str = "") -> None:
    print(f"{what:48}  {seconds:8.2f} s  {more}", flush=True)


async def _until(done: Callable[[], bool], pause: float = 0.05) -> None:
    async with asyncio.timeout(600):
        while not done():  # noqa: ASYNC110 - the condition is about others
            await asyncio.sleep(pause)


async def _create(client: Client, objects: Iterable[Resource]) -> None:
    left = iter(objects)

    async def some() -> None:
        for each in left:
            await client.create(each)

    work: list[Awaitable[None]] = [some() for _ in range(_AT_ONCE)]
    await asyncio.gather(*work)


if __name__ == "__main__":
    main()
