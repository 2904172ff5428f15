"""The drain plan of `upgrade-check` equals what happens when the nodes of a control plane are really drained.

The plan is computed from a snapshot; then each node is cordoned and its pods are evicted by the API, as `kubectl drain`
does, in the order of the plan. Compared are the blocked and the newly pending pods of every workload.
``tests/e2e/test_drain_plan.py`` does the same with kubectl.
"""

import asyncio
import os
from collections import Counter

import pytest

from mooring.advisor.simulate import Settings
from mooring.advisor.simulate.manifests import decode_trees
from mooring.advisor.snapshot import live
from mooring.advisor.upgrade import DrainOptions, drain_all
from mooring.api.core_v1 import Node, Pod
from mooring.api.errors import NotFound, TooManyRequests
from mooring.client import PatchType
from mooring.controllers.simulated_nodes.templates import create_nodes, read_templates
from mooring.testing import MockClock, RunningControlPlane
from random_clusters import ALONE, apps, random_cluster, settle

CLUSTERS = 30 if os.environ.get("MOORING_FULL") else 4
Counts = tuple[dict[str, int], dict[str, int]]


async def settled(plane: RunningControlPlane, wanted: int) -> list[Pod]:
    clock = plane.clock
    assert isinstance(clock, MockClock)
    return await settle(plane.client, wanted, lambda: clock.run(1.0))


async def really_drained(plane: RunningControlPlane, nodes: list[str], wanted: int) -> Counts:
    client, blocked = plane.client, Counter[str]()
    before = {pod.metadata.uid for pod in await settled(plane, wanted) if not pod.spec.node_name}
    for name in nodes:
        await client.patch(Node, name, {"spec": {"unschedulable": True}}, type=PatchType.MERGE)
        while True:
            here = [pod for pod in await settled(plane, wanted) if pod.spec.node_name == name]
            evicted = 0
            for pod in here:
                try:
                    await client.evict(pod.metadata.name, "default")
                    evicted += 1
                except (TooManyRequests, NotFound):
                    continue
                wanted -= pod.metadata.name == ALONE
            if not evicted:
                break
        blocked.update(apps(here))
        if not here:
            await client.patch(Node, name, {"spec": {"unschedulable": None}}, type=PatchType.MERGE)
    pods = await settled(plane, wanted)
    return dict(blocked), apps([pod for pod in pods if not pod.spec.node_name and pod.metadata.uid not in before])


@pytest.mark.req("E.6")
@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_a_drain_plan_equals_a_real_drain(seed: int) -> None:
    cluster = random_cluster(seed)
    with RunningControlPlane(mock_clock=True) as plane:
        plane.run(create_nodes(plane.client, read_templates(cluster.nodes)))
        plane.create(*decode_trees(cluster.objects, "objects"))
        plane.run(asyncio.wait_for(settled(plane, cluster.pods), 30))
        snapshot = plane.run(live(plane.client, "a test"))
        plan = drain_all(snapshot, DrainOptions(start_seconds=1, node_seconds=1, timeout_seconds=600), Settings())
        real = plane.run(asyncio.wait_for(really_drained(plane, [each.node for each in plan.nodes], cluster.pods), 60))
    blocked = Counter(each.owner.rpartition("/")[2] for each in plan.blocks if each.is_final)
    pending = {each.workload.rpartition("/")[2]: each.pods for each in plan.pending}
    assert (dict(blocked), pending) == real
