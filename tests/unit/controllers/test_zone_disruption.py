"""How fast nodes that fail lose their pods: one by one, and not at all when everything fails."""

from collections.abc import AsyncIterator

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.core_v1 import Node
from mooring.client import PatchType
from mooring.controllers.node_lifecycle import ZoneState, compute_zone_state
from mooring.controllers.simulated_nodes.templates import build_numbered_nodes, create_nodes

pytestmark = pytest.mark.req("S.4")


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with control_plane("simulated-nodes", "node-lifecycle") as running:
        nodes = build_numbered_nodes(9)
        for node in nodes:
            node.metadata.labels["topology.kubernetes.io/zone"] = "one"
        await create_nodes(running.client, nodes)
        await running.run(6)
        yield running


async def fail(plane: ControlPlane, count: int) -> None:
    for number in range(count):
        body = {"metadata": {"annotations": {"simulation.mooring.dev/failure": "not-ready"}}}
        await plane.client.patch(Node, f"node-{number}", body, type=PatchType.MERGE)
    await plane.run(1)


async def evicting(plane: ControlPlane) -> int:
    nodes = (await plane.client.list(Node)).items
    return sum(any(taint.effect == "NoExecute" for taint in node.spec.taints) for node in nodes)


async def test_nodes_of_a_zone_lose_their_pods_one_by_one(plane: ControlPlane) -> None:
    await fail(plane, 3)
    assert await evicting(plane) == 1
    await plane.run(10)
    assert await evicting(plane) == 2
    await plane.run(10)
    assert await evicting(plane) == 3


async def test_a_small_zone_that_is_mostly_down_loses_no_more(plane: ControlPlane) -> None:
    await fail(plane, 6)
    await plane.run(120)
    assert await evicting(plane) == 1


async def test_when_all_nodes_fail_no_pod_is_evicted(plane: ControlPlane) -> None:
    await fail(plane, 9)
    await plane.run(120)
    assert await evicting(plane) == 0
    nodes = (await plane.client.list(Node)).items
    assert all(node.spec.taints for node in nodes), "nobody is scheduled there, though"


@pytest.mark.parametrize(
    ("nodes", "ready", "state"),
    [
        (0, 0, ZoneState.NORMAL),
        (1, 0, ZoneState.FULL_DISRUPTION),
        (3, 1, ZoneState.NORMAL),
        (4, 1, ZoneState.PARTIAL_DISRUPTION),
        (100, 46, ZoneState.NORMAL),
        (100, 45, ZoneState.PARTIAL_DISRUPTION),
    ],
    ids=["no nodes", "the only node is down", "two are few", "three of four", "54 of 100", "55 of 100"],
)
def test_the_state_of_a_zone(nodes: int, ready: int, state: ZoneState) -> None:
    assert compute_zone_state(nodes, ready) is state


async def test_when_most_nodes_fall_silent_at_once_it_is_believed_later() -> None:
    async with control_plane("simulated-nodes", "node-lifecycle") as plane:
        await create_nodes(plane.client, build_numbered_nodes(12))
        await plane.run(20)
        for number in range(12):
            body = {"metadata": {"annotations": {"simulation.mooring.dev/failure": "unreachable"}}}
            await plane.client.patch(Node, f"node-{number}", body, type=PatchType.MERGE)

        async def unknown() -> int:
            nodes = (await plane.client.list(Node)).items
            return sum(condition.status == "Unknown" for node in nodes for condition in node.status.conditions[-1:])

        await plane.run(80)
        assert await unknown() == 0
        await plane.run(50)
        assert await unknown() == 12
