"""A scheduler that leads goes on when the API server that it talks to dies or hangs: the balancer has another one."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ha_cluster import HaCluster, ha_cluster
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Pod
from mooring.client import Client, connect
from scheduler_objects import node, pod

pytestmark = pytest.mark.req("S.3", "S.7")


def kill(cluster: HaCluster, number: int) -> Callable[[], None]:
    cluster.servers[number].kill()
    return lambda: cluster.start_server(number)


def freeze(cluster: HaCluster, number: int) -> Callable[[], None]:
    server = cluster.servers[number]
    server.pause()

    def resume() -> None:
        time.sleep(12)  # longer than the deadline for renewing the lease
        server.resume()

    return resume


@pytest.mark.parametrize("end", [kill, pytest.param(freeze, marks=pytest.mark.slow)])
async def test_the_leader_keeps_its_lease(tmp_path: Path, end: Callable[[HaCluster, int], Callable[[], None]]) -> None:
    with ha_cluster(tmp_path) as (cluster, crew):
        async with connect(cluster.kubeconfig, user_agent="test") as client:
            made = await client.create(node("n"))
            made.spec.taints = []
            await client.update(made)
            scheduler = crew.start("scheduler", "--leader-elect")
            await asyncio.to_thread(scheduler.wait_until_it_leads)
            before = await _holder(client)
            for number in range(2):  # it talks to one of them, and afterwards to the other
                again = end(cluster, number)
                async with connect(cluster.servers[1 - number].kubeconfig, user_agent="test") as other:
                    await _is_bound(other, f"p{number}")
                await asyncio.to_thread(again)
                await asyncio.to_thread(cluster.wait_for_servers, 2)
            async with connect(cluster.kubeconfig, user_agent="test") as client_again:
                assert await _holder(client_again) == before
            assert scheduler.is_running, scheduler.log.read_text()


async def _is_bound(client: Client, name: str) -> None:
    wanted = pod(name)
    wanted.metadata.uid = ""
    await client.create(wanted)
    async with asyncio.timeout(20):
        while not (await client.get(Pod, name, "default")).spec.node_name:  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.05)


async def _holder(client: Client) -> str:
    return (await client.get(Lease, "mooring-scheduler", "kube-system")).spec.holder_identity or ""
