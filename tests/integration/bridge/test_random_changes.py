"""Nodes and pods change at random while the bridge runs, or does not: in the end stock rules decide right."""

import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

import stock_rules
from bridged_cluster import StockCluster, gated, newer_than, stock_cluster, tree_of
from mooring.api.core_v1 import Node, Pod
from mooring.bridge import plan
from mooring.constraints import annotations, node_selector
from mooring.constraints import tolerations as new_rules

KERNELS, SLAS = ["5.4.0", "6.1.0", "6.8.0"], ["940", "960", "980"]
TOLERATIONS: list[list[dict[str, Any]]] = [
    [{"key": "sla", "operator": "Gt", "value": "950"}],
    [{"key": "sla", "operator": "Lt", "value": "970", "effect": "NoSchedule"}],
    [],
]
TERMS: list[list[dict[str, Any]]] = [
    [newer_than("6.0")],
    [newer_than("6.5"), {"matchCELExpressions": ["!('kernel' in node.labels)"]}],
    [],
]


async def disagreements(cluster: StockCluster) -> list[tuple[str, str]]:
    """Pods and nodes about which stock rules on what is stored decide other than the new rules on what was written."""
    nodes = (await cluster.client.list(Node)).items
    found = []
    for pod in (await cluster.client.list(Pod)).items:
        original = annotations.as_in_spec(gated("x", **_written(pod)))
        affinity = node_selector.required_affinity(original.spec, plan.OPTIONS)
        spec = tree_of(pod)["spec"]
        for node in nodes:
            name, own = node.metadata.name, plan.own_labels(node.metadata.labels)
            hard = [taint for taint in node.spec.taints if taint.effect == "NoSchedule"]
            wanted = (
                affinity.matches(own, name),
                new_rules.find_untolerated(hard, original.spec.tolerations, plan.OPTIONS) is None,
            )
            trees = tree_of(node).get("spec", {}).get("taints", [])
            stock = (
                stock_rules.meets_required(spec, node.metadata.labels, name),
                stock_rules.untolerated(trees, spec.get("tolerations", []), "NoSchedule") is None,
            )
            if plan.is_gated(pod) or stock != wanted:
                found.append((pod.metadata.name, name))
    return found


def _written(pod: Pod) -> dict[str, Any]:
    number = int(pod.metadata.name.split("-")[1])
    return {"tolerations": TOLERATIONS[number % 3], "required": TERMS[number // 3 % 3]}


async def change(cluster: StockCluster, dice: random.Random, number: int) -> None:
    node = f"n{dice.randrange(3)}"
    match dice.randrange(4):
        case 0:
            await cluster.label(node, kernel=dice.choice([*KERNELS, None]))
        case 1:
            await cluster.taint(node, f"sla={dice.choice(SLAS)}:NoSchedule")
        case 2:
            pods = (await cluster.client.list(Pod)).items
            if len(pods) > 3:
                await cluster.client.delete(Pod, dice.choice(pods).metadata.name, "default", grace_period_seconds=0)
        case _:
            choice = dice.choice([0, 1, 2, 3, 4, 5, 6, 7])
            wanted = gated(f"p{number}-{choice}", TOLERATIONS[choice % 3], TERMS[choice // 3 % 3])
            await cluster.create(wanted)


@pytest.mark.req("B.7", "B.12")
@pytest.mark.parametrize("seed", range(3))
async def test_stock_rules_decide_right_at_every_quiet_point(seed: int) -> None:
    dice = random.Random(seed)
    async with stock_cluster() as cluster:
        for number in range(3):
            await cluster.node(f"n{number}", {"kernel": dice.choice(KERNELS)}, [f"sla={dice.choice(SLAS)}:NoSchedule"])
        for episode in range(4):
            async with AsyncExitStack() as stack:
                if dice.random() < 0.6:
                    await stack.enter_async_context(cluster.bridged())
                for step in range(6):
                    await change(cluster, dice, episode * 10 + step)
            async with cluster.bridged():

                async def agrees() -> bool:
                    return not await disagreements(cluster)

                await cluster.until(agrees)
