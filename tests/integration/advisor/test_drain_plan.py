"""The drain plan of `upgrade-check` equals what happens when the nodes of a control plane are really drained.

Random clusters run on simulated nodes. The plan is computed from a snapshot; then each node is cordoned and its pods
are evicted by the API, as `kubectl drain` does, in the order of the plan. Nodes have different sizes, so that few
placements are decided by lot. Compared are the blocked and the pending pods of every workload.
"""

import asyncio
import os
import random
from collections import Counter

import pytest

from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import engine, live
from mooring.advisor.upgrade import DrainOptions, drain_all
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Node, Pod
from mooring.api.errors import NotFound, TooManyRequests
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.client import PatchType
from mooring.controllers.simulated_nodes import create_nodes, read_templates
from mooring.testing import MockClock, RunningControlPlane, builders

CLUSTERS = 30 if os.environ.get("MOORING_FULL") else 4
Counts = tuple[dict[str, int], dict[str, int]]


def random_cluster(seed: int) -> tuple[str, list[Deployment | PodDisruptionBudget]]:
    draw = random.Random(seed)
    sizes = draw.sample([3, 4, 5, 6, 7, 8], 3)
    nodes = "---\n".join(
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: n{number}}}\n"
        f'status: {{capacity: {{cpu: "{size}", memory: 64Gi, pods: "50"}}}}\n'
        for number, size in enumerate(sizes)
    )
    objects: list[Deployment | PodDisruptionBudget] = []
    left = sum(sizes) * draw.choice([0.5, 0.8, 0.95])
    for number in range(draw.randint(2, 4)):
        replicas, cores = draw.randint(1, 3), draw.choice([0.5, 1.0, 1.5, 2.0])
        if replicas * cores > left:
            continue
        left -= replicas * cores
        name = f"app{number}"
        container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": str(cores)}}}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        meta = {"name": name, "namespace": "default"}
        objects.append(builders.made(Deployment, {"metadata": meta, "spec": spec}))
        if draw.random() < 0.6:
            guard = {"minAvailable": max(replicas - draw.randint(0, 1), 1), "selector": {"matchLabels": {"app": name}}}
            objects.append(builders.made(PodDisruptionBudget, {"metadata": meta, "spec": guard}))
    return nodes, objects


def apps(pods: list[Pod]) -> dict[str, int]:
    return dict(Counter(pod.metadata.labels["app"] for pod in pods))


async def settle(plane: RunningControlPlane, wanted: int) -> list[Pod]:
    """Let time pass until all pods exist, none is terminating, and each runs or fits on no node."""
    client, clock = plane.client, plane.clock
    assert isinstance(clock, MockClock)
    while True:
        await clock.run(1.0)
        pods = (await client.list(Pod, "default")).items
        budgets = (await client.list(PodDisruptionBudget, "default")).items
        ready = Counter(pod.metadata.labels["app"] for pod in pods if pod.status.phase == "Running")
        current = all(
            each.status.current_healthy == ready[each.metadata.name] and not each.status.disrupted_pods
            for each in budgets
        )
        waiting = [pod for pod in pods if pod.status.phase != "Running"]
        is_still = all(pod.metadata.deletion_timestamp is None for pod in pods)
        if len(pods) == wanted and current and is_still and await fit_nowhere(plane, waiting):
            return list(pods)


async def fit_nowhere(plane: RunningControlPlane, pods: list[Pod]) -> bool:
    """Return whether no node takes any of the pods, so that none of them is only waiting for its backoff."""
    if not pods:
        return True
    asked = engine(await live(plane.client, "a test"))
    return all(not pod.spec.node_name and asked.schedule(pod).node is None for pod in pods)


async def really_drained(plane: RunningControlPlane, nodes: list[str], wanted: int) -> Counts:
    client, blocked = plane.client, Counter[str]()
    for name in nodes:
        await client.patch(Node, name, {"spec": {"unschedulable": True}}, type=PatchType.MERGE)
        while True:
            here = [pod for pod in await settle(plane, wanted) if pod.spec.node_name == name]
            evicted = 0
            for pod in here:
                try:
                    await client.evict(pod.metadata.name, "default")
                    evicted += 1
                except (TooManyRequests, NotFound):
                    continue
            if not evicted:
                break
        blocked.update(apps(here))
        if not here:
            await client.patch(Node, name, {"spec": {"unschedulable": None}}, type=PatchType.MERGE)
    pods = await settle(plane, wanted)
    return dict(blocked), apps([pod for pod in pods if not pod.spec.node_name])


@pytest.mark.req("E.6")
@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_a_drain_plan_equals_a_real_drain(seed: int) -> None:
    nodes, objects = random_cluster(seed)
    wanted = sum(each.spec.replicas or 0 for each in objects if isinstance(each, Deployment))
    with RunningControlPlane(mock_clock=True) as plane:
        plane.run(create_nodes(plane.client, read_templates(nodes)))
        plane.create(*objects)
        plane.run(asyncio.wait_for(settle(plane, wanted), 30))
        snapshot = plane.run(live(plane.client, "a test"))
        plan = drain_all(snapshot, DrainOptions(start_seconds=1, node_seconds=1, timeout_seconds=600), Settings())
        real = plane.run(asyncio.wait_for(really_drained(plane, [each.node for each in plan.nodes], wanted), 60))
    blocked = Counter(each.owner.rpartition("/")[2] for each in plan.blocks if each.is_final)
    pending = {each.workload.rpartition("/")[2]: each.pods for each in plan.pending}
    assert (dict(blocked), pending) == real
