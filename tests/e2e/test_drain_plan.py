"""The drain plan that `mooring upgrade-check` prints equals what `kubectl drain` does to the nodes of `mooring up`."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kubectl_caller import Kubectl
from mooring.api.core_v1 import Pod
from random_clusters import ALONE, apps, random_cluster, settle
from running_up import running_up

SEEDS = range(100, 130) if os.environ.get("MOORING_FULL") else [107]
"""Seed 107 blocks a drain, leaves a pod pending and moves three, and kubectl waits only once for a refused eviction."""
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=1s")
CHECK = ("--from-version=1.37", "--to=1.37", "--start-time=1s", "--node-time=1s", "--drain-timeout=10m", "-o", "json")


def rollout_of(kubeconfig: Path) -> Any:
    command = [sys.executable, "-m", "mooring", "upgrade-check", "--kubeconfig", str(kubeconfig), *CHECK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    return json.loads(done.stdout)["rollout"]


async def drain(kubectl: Kubectl, nodes: list[str], wanted: int, client: Any) -> tuple[dict[str, int], dict[str, int]]:
    blocked = Counter[str]()

    async def pods() -> list[Pod]:
        lost = not (await client.list(Pod, "default", field_selector=f"metadata.name={ALONE}")).items
        return await asyncio.wait_for(settle(client, wanted - (has_alone and lost), lambda: asyncio.sleep(0.1)), 60)

    has_alone = bool((await client.list(Pod, "default", field_selector=f"metadata.name={ALONE}")).items)
    pending = {pod.metadata.uid for pod in await pods() if not pod.spec.node_name}
    for name in nodes:
        before = None
        while (here := [pod for pod in await pods() if pod.spec.node_name == name]) and before != (
            before := {pod.metadata.uid for pod in here}
        ):
            await asyncio.to_thread(kubectl, "drain", name, *DRAIN, code=None)
        kubectl("cordon", name)
        blocked.update(apps(here))
        if not here:
            kubectl("uncordon", name)
    return dict(blocked), apps(
        [pod for pod in await pods() if not pod.spec.node_name and pod.metadata.uid not in pending]
    )


@pytest.mark.req("E.6")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_drain_plan_equals_what_kubectl_does(seed: int, tmp_path: Path) -> None:
    cluster = random_cluster(seed)
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(cluster.nodes)
    with running_up("--ephemeral", "--nodes", str(nodes)) as plane:
        kubectl = Kubectl(plane.kubeconfig)
        kubectl.apply(*cluster.objects)

        async def compare() -> None:
            async with plane.client() as client:
                await asyncio.wait_for(settle(client, cluster.pods, lambda: asyncio.sleep(0.1)), 60)
                plan = await asyncio.to_thread(rollout_of, plane.kubeconfig)
                real = await drain(kubectl, [each["node"] for each in plan["nodes"]], cluster.pods, client)
            blocked = Counter(
                each["owner"].rpartition("/")[2] for each in plan.get("blocks", []) if each.get("isFinal")
            )
            pending = {each["workload"].rpartition("/")[2]: each["pods"] for each in plan.get("pending", [])}
            assert (dict(blocked), pending) == real

        asyncio.run(compare())
