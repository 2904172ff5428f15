"""The server is killed while a scheduler binds pods, and comes back: nothing is lost, nothing bound twice."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from mooring.api.core_v1 import Node, Pod
from mooring.base.component import resolve
from mooring.client import Client, connect, user_agent
from mooring.scheduler.queue import Backoffs
from mooring.scheduler.running.options import SchedulerConfig, for_component
from mooring.scheduler.running.runtime import Scheduler
from running_server import start_server
from scheduler_objects import node, pod

PODS = 300


@pytest.mark.req("S.3")
async def test_a_killed_server_costs_nothing_but_time(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    port = str(server.address[1])
    admin = connect(server.kubeconfig, user_agent="kubectl/v1.37.0")
    client = connect(tmp_path / "scheduler.kubeconfig", user_agent=user_agent("mooring-scheduler", "1.37"))
    scheduler = Scheduler(
        client, SchedulerConfig(backoffs=Backoffs(initial=0.1, maximum=0.5)), for_component(resolve())
    )
    try:
        await _fill(admin)
        work = asyncio.ensure_future(scheduler.run())
        await scheduler.wait_until_ready()
        await asyncio.sleep(0.03)
        server.kill()
        server = await asyncio.to_thread(start_server, tmp_path, "--port", port)
        async with asyncio.timeout(60):
            while len(await _bound(admin)) < PODS:  # noqa: ASYNC110 - the server is asked, there is no event
                await asyncio.sleep(0.1)
        used = Counter((await _bound(admin)).values())
        assert max(used.values()) <= 40
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    finally:
        await client.close()
        await admin.close()
        server.stop()


async def _fill(admin: Client) -> None:
    for number in range(10):
        made = await admin.create(node(f"n{number}", cpu="4"))
        made.spec.taints = []
        await admin.update(made)
    assert len((await admin.list(Node)).items) == 10
    for number in range(PODS):
        wanted = pod(f"p{number}", cpu="100m")
        wanted.metadata.uid = ""
        await admin.create(wanted)


async def _bound(admin: Client) -> dict[str, str]:
    listing = await admin.list(Pod, "default")
    return {found.metadata.name: found.spec.node_name for found in listing.items if found.spec.node_name}
