"""Three members of etcd, two API servers, two schedulers, two sets of controllers; each is killed, stopped, restarted.

Under load, at random, several at once. Afterwards no write that was acknowledged is lost, no pod was bound twice,
no watch had a gap or sent anything twice, and every pod has a node.
"""

import asyncio
import json
import os
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos_acts import Chaos
from chaos_load import NAMESPACE, Counter, Journal, Pods, insist, node_of, number_of
from etcd_servers import EtcdServers
from ha_cluster import HaCluster, ha_cluster
from mooring.api import codec
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import ConfigMap, Pod
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.client import Client, connect
from mooring.controllers.simulated_nodes.templates import build_numbered_nodes, create_nodes

COUNTERS, NODES, REPLICAS = 4, 5, 8
SETTLE_SECONDS = 45.0
LAST = "last"


@dataclass
class Rig:
    """Clients of a cluster, and what they have seen."""

    client: Client
    """Through the balancer."""
    counters: list[Counter]
    pods: Pods
    maps: list[Journal[ConfigMap]]
    bindings: list[Journal[Pod]]

    @property
    def journals(self) -> Sequence[Journal[Any]]:
        return [*self.maps, *self.bindings]


@asynccontextmanager
async def rig(cluster: HaCluster) -> AsyncIterator[Rig]:
    """Everything that reads and writes; it has not begun yet."""
    async with AsyncExitStack() as stack:

        async def client(kubeconfig: Path) -> Client:
            return await stack.enter_async_context(connect(kubeconfig, user_agent="test"))

        balanced = await client(cluster.kubeconfig)
        await create_nodes(balanced, build_numbered_nodes(NODES))
        await balanced.create(_deployment())
        version = (await balanced.list(ConfigMap, NAMESPACE)).resource_version
        servers = [await client(server.kubeconfig) for server in cluster.servers]
        ways = {"the balancer": balanced} | {f"server {number}": each for number, each in enumerate(servers)}
        yield Rig(
            balanced,
            [Counter(await client(cluster.kubeconfig), f"counter-{number}", servers) for number in range(COUNTERS)],
            Pods(balanced),
            [Journal(way, ConfigMap, number_of, version, where) for where, way in ways.items()],
            [Journal(way, Pod, node_of, version, where) for where, way in ways.items()],
        )


def _deployment() -> Deployment:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    tree = {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec}
    return codec.from_tree(tree, Deployment, codec.FieldValidation.STRICT)[0]


SEEDS = [4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 5))]


@pytest.mark.req("S.3", "S.7")
@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_doubled_or_forgotten(tmp_path: Path, seed: int) -> None:
    seconds = 45.0 if os.environ.get("MOORING_FULL") else 10.0
    with ha_cluster(tmp_path, members=3) as (cluster, crew):
        chaos = Chaos(cluster, crew, seed)
        await asyncio.to_thread(chaos.start_workers)
        async with rig(cluster) as seen:
            watching = [asyncio.create_task(journal.run()) for journal in seen.journals]
            work = [seen.pods.run(), *(each for counter in seen.counters for each in (counter.run(), counter.look()))]
            load = [asyncio.create_task(each) for each in work]
            try:
                await chaos.run(seconds)
                await _end(load)
                await _settled(seen, chaos)
            finally:
                await _end([*load, *watching])
            await _check(seen, cluster.etcd)
    assert _tracebacks(tmp_path) == [], chaos.acts


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome


async def _settled(seen: Rig, chaos: Chaos) -> None:
    """Wait until all requested work is done, and until every watch has sent the last change."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while waiting := await _unscheduled(seen):
        assert time.monotonic() < deadline, f"{waiting} after {chaos.acts}"
        chaos.supervise()
        await asyncio.sleep(0.2)
    last: list[Resource] = [
        ConfigMap(metadata=ObjectMeta(name=LAST, namespace=NAMESPACE)),
        codec.from_tree(
            {
                "metadata": {"name": LAST, "namespace": NAMESPACE},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]},
            },
            Pod,
            codec.FieldValidation.STRICT,
        )[0],
    ]
    for each in last:
        await seen.client.create(each)
    while unaware := [journal.where for journal in seen.journals if not journal.up_to(LAST)]:
        assert time.monotonic() < deadline, f"watches through {unaware} have not ended"
        await asyncio.sleep(0.05)


async def _unscheduled(seen: Rig) -> str:
    """Return what is still to be done; empty if nothing."""
    pods = (await insist(lambda: seen.client.list(Pod, NAMESPACE))).items
    missing = set(seen.pods.acknowledged) - {pod.metadata.name for pod in pods}
    assert not missing, f"acknowledged, and lost: {missing}"
    if homeless := [pod.metadata.name for pod in pods if not pod.spec.node_name]:
        return f"pods without a node: {homeless}"
    replicas = sum(pod.metadata.labels.get("app") == "web" for pod in pods)
    return "" if replicas == REPLICAS else f"{replicas} replicas, not {REPLICAS}"


async def _check(seen: Rig, etcd: EtcdServers) -> None:
    stored = _stored(etcd)
    for counter in seen.counters:
        number = int((await counter.read()).data["n"])
        assert counter.lost == []
        assert counter.acknowledged <= number <= counter.attempted
        assert min(number, counter.looked) > 10, "there was something to see"
        assert stored[counter.name] == number + 1, "etcd has counted the writes too"
    for journal in seen.journals:
        assert journal.wrong == []
    for journals in (seen.maps, seen.bindings):
        for journal in journals[1:]:
            assert journal.up_to(LAST) == journals[0].up_to(LAST), "all watches tell the same"
    for key, history in seen.maps[0].histories().items():
        assert history == [str(number) for number in range(len(history))], f"{key}: a gap, or one seen twice"
    moved = {key: nodes for key, nodes in seen.bindings[0].histories().items() if len(nodes) > 1}
    assert moved == {}, "a pod was bound twice"
    assert any(journal.resumed for journal in seen.journals), "watches were disturbed"


def _tracebacks(folder: Path) -> list[str]:
    """Return the components that failed in an unexpected way."""
    return [log.name for log in folder.rglob("*.log") if "Traceback" in log.read_text()]


def _stored(etcd: EtcdServers) -> dict[str, int]:
    """By ConfigMap, how often etcd says that it was written."""
    answer = json.loads(etcd.etcdctl("get", "--prefix", f"/registry/configmaps/{NAMESPACE}/", "-w", "json"))
    return {b64decode(kv["key"]).decode().rpartition("/")[2]: int(kv["version"]) for kv in answer["kvs"]}
