"""Measure Deployments that differ, through all of `mooring up`, from the first request until every pod runs.

    python -m benchmarks varied_deployments
    NODES=500 APPS=100 REPLICAS=10 CONNECTIONS=8 python -m benchmarks varied_deployments

Every Deployment has its own image, requests, environment and label, and one of the placement rules of the mix in
``varied_pods.py``. A control plane in two processes on disk, over HTTPS, as `mooring up` starts it. An informer of
Deployments sees when all pods run: to list them ten times a second took a third of a core.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from benchmarks import varied_pods
from benchmarks.up import Run, start
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Node
from mooring.client import Client, Informer, Informers, connect
from mooring.testing.builders import made

NODES = int(os.environ.get("NODES", "5000"))
APPS = int(os.environ.get("APPS", "1000"))
REPLICAS = int(os.environ.get("REPLICAS", "10"))
CONNECTIONS = int(os.environ.get("CONNECTIONS", "8"))
_SECONDS = 300.0
_POLL_SECONDS = 0.1
NOT_READY = "node.kubernetes.io/not-ready"


def main() -> None:
    print(f"{'':<20} {'nodes':>6} {'pods':>6} {'s':>7} {'pods/s':>7} {'CPU ms a pod: server + others':>30} {'MB':>5}")
    with tempfile.TemporaryDirectory() as folder:
        nodes = Path(folder, "nodes.json")
        nodes.write_bytes(msgspec.json.encode({"kind": "List", "items": [varied_pods.node(n) for n in range(NODES)]}))
        run = start(folder, "--nodes", str(nodes))
        try:
            asyncio.run(_measure(run))
        finally:
            run.stop()


async def _measure(run: Run) -> None:
    async with AsyncExitStack() as stack:
        connections = [connect(run.kubeconfig, user_agent="benchmark") for _ in range(CONNECTIONS)]
        clients = [await stack.enter_async_context(each) for each in connections]
        while not all(map(_is_ready, (await clients[0].list(Node)).items)):  # noqa: ASYNC110 - as a user looks
            await asyncio.sleep(1)
        informers = Informers(clients[0])
        deployments = informers.of(Deployment)
        await stack.enter_async_context(informers)
        await informers.wait_for_sync()
        processor, began = run.processor(), time.monotonic()
        numbers = iter(range(APPS))
        await asyncio.gather(*(_create(client, numbers) for client in clients))
        await _wait_until_running(deployments)
    seconds, pods = time.monotonic() - began, APPS * REPLICAS
    used = [1000 * (now - then) / pods for then, now in zip(processor, run.processor(), strict=True)]
    costs = " + ".join(f"{each:.2f}" for each in used)
    rate = f"{seconds:>7.1f} {pods / seconds:>7.0f}"
    print(f"{f'{APPS} Deployments':<20} {f'n{NODES}':>6} {pods:>6} {rate} {costs:>30} {run.memory():>5.0f}", flush=True)


def _is_ready(node: Node) -> bool:
    return bool(node.status.addresses) and all(taint.key != NOT_READY for taint in node.spec.taints)


async def _create(client: Client, numbers: Iterator[int]) -> None:
    for number in numbers:
        await client.create(_deployment(number))


def _deployment(number: int) -> Deployment:
    pod = varied_pods.pod("mix", number, number)
    labels = pod["metadata"]["labels"]
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    return made(Deployment, {"metadata": {"name": labels["app"], "namespace": "default"}, "spec": spec})


async def _wait_until_running(deployments: Informer[Deployment]) -> None:
    began = time.monotonic()
    while sum(each.status.ready_replicas for each in deployments.objects()) < APPS * REPLICAS:
        if time.monotonic() - began > _SECONDS:
            raise TimeoutError("the pods did not come to run")
        await asyncio.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
