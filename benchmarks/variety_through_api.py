"""What pods that differ cost through an API server: Mooring's scheduler beside kube-scheduler, in one run.

    MOORING_REAL=bin python -m benchmarks variety_through_api
    MOORING_REAL=bin python -m benchmarks variety_through_api --axes mix --planes kubernetes/kubernetes,mooring/mooring

Every row has a new control plane (``control_planes.py``): nodes and pods are created before the scheduler starts, and
the rate is from the first bind to the last. A plane is an API server and a scheduler; kubernetes/mooring is Mooring's
scheduler on kube-apiserver. An axis is one of ``varied_pods.py`` with a template for every pod, or with a number of
templates: ``mix:300``. ``identical`` is one template.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import structs

from benchmarks import varied_pods
from benchmarks.control_planes import ControlPlane, Flavor
from mooring.api.core_v1 import Node, Pod, ServiceAccount
from mooring.api.errors import AlreadyExists
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.client import Client, Informers, connect
from mooring.testing.builders import made

AXES = "identical,label,mix:300,mix,anti-affinity,spread"
PLANES = "kubernetes/kubernetes,mooring/mooring"
_AT_ONCE = 32


def main() -> None:
    run([])


def run(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    if options.binaries is None and "kubernetes" in options.planes:
        print("no MOORING_REAL with the programs of Kubernetes: nothing measured")
        return 0
    print(f"{'pods':<16} {'server/scheduler':<24} {'nodes':>6} {'number':>6} {'pods/s':>8} {'ratio':>6}")
    for axis in options.axes.split(","):
        first = 0.0
        for plane in options.planes.split(","):
            rate = asyncio.run(_measure(axis, plane, options))
            first = first or rate
            print(
                f"{axis:<16} {plane:<24} {options.nodes:>6} {options.pods:>6} {rate:>8.0f} {rate / first:>6.1f}",
                flush=True,
            )
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks variety_through_api")
    parser.add_argument("--axes", default=AXES, help="kinds of pods, with commas between them (%(default)s)")
    parser.add_argument("--planes", default=PLANES, help="API server/scheduler; ratios are to the first (%(default)s)")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--binaries", type=Path, default=os.environ.get("MOORING_REAL"), help="programs of Kubernetes")
    return parser.parse_args(arguments)


async def _measure(axis: str, plane: str, options: argparse.Namespace) -> float:
    """Return the number of pods bound per second."""
    server, scheduler = (_flavor(part) for part in plane.split("/"))
    with ControlPlane(server, scheduler, binaries=options.binaries) as running:
        async with connect(running.kubeconfig, user_agent="benchmark") as client:
            account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
            await _create_once(client, account)
            await _each(lambda number: _create_node(client, number), options.nodes)
            await _each(lambda number: client.create(_pod(axis, number)), options.pods)
            bound = _Bound(options.pods)
            informers = Informers(client)
            informers.of(Pod).add_handler(updated=bound.note)
            async with informers:
                await informers.wait_for_sync()
                await asyncio.to_thread(running.start_scheduler)
                await asyncio.wait_for(bound.all.wait(), 900)
    return float(options.pods - 1) / (bound.last - bound.first)


class _Bound:
    """Count bound pods, with the times of the first and the last."""

    def __init__(self, wanted: int) -> None:
        self.all = asyncio.Event()
        self.first = self.last = 0.0
        self._wanted = wanted

    def note(self, old: Pod, new: Pod) -> None:
        if new.spec.node_name and not old.spec.node_name:
            self.last = time.perf_counter()
            self.first = self.first or self.last
            self._wanted -= 1
            if not self._wanted:
                self.all.set()


def _flavor(word: str) -> Flavor:
    for known in get_args(Flavor):
        if word == known:
            return word  # type: ignore[return-value] # it is one of them
    raise SystemExit(f"{word} is not one of {', '.join(get_args(Flavor))}")


def _pod(axis: str, number: int) -> Pod:
    name, _, templates = axis.partition(":")
    template = number % int(templates) if templates else number
    if name == "identical":
        name, template = "label", 0
    return made(Pod, varied_pods.pod(name, template, number))


async def _create_once(client: Client, thing: Resource) -> None:
    try:
        await client.create(thing)
    except AlreadyExists:
        return


async def _create_node(client: Client, number: int) -> None:
    """Create a node and remove the not-ready taint that admission adds, as a node controller would."""
    wanted = made(Node, varied_pods.node(number))
    created = await client.create(wanted)
    await client.update(structs.replace(created, spec=wanted.spec))


async def _each(make: Callable[[int], Awaitable[Any]], number: int) -> None:
    numbers = iter(range(number))

    async def work() -> None:
        for each in numbers:
            await make(each)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


if __name__ == "__main__":
    main()
