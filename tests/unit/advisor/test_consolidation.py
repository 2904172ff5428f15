"""`mooring simulate --consolidate`: which nodes can go, and what keeps the others."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.advisor.simulate import Drain, RemoveNodes, Scenario, Settings, Step, simulate
from mooring.advisor.simulate.consolidation import Consolidation, consolidate, format_lines
from mooring.advisor.simulate.traces.prices import Prices
from mooring.advisor.snapshot import Snapshot
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.testing import builders

pytestmark = pytest.mark.req("E.3")


def app(name: str, replicas: int, cpu: str = "1", annotations: dict[str, str] | None = None, **spec: Any) -> Deployment:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    meta = {"labels": {"app": name}, "annotations": annotations or {}}
    template = {"metadata": meta, "spec": {"containers": [container], **spec}}
    tree = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return builders.made(Deployment, {"metadata": {"name": name, "namespace": "default"}, "spec": tree})


def budget(name: str, minimum: int) -> PodDisruptionBudget:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": name}}}
    return builders.made(PodDisruptionBudget, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def found(*objects: Resource, prices: Prices | None = None) -> Consolidation:
    return consolidate(Snapshot("a test", objects), Settings(), prices or Prices())


NODES = [builders.node(f"n{index}", cpu="4") for index in range(3)]


@dataclass(frozen=True)
class Case:
    objects: list[Resource]
    removed: int
    reason: str = ""


CASES = {
    "pods of three nodes fit on one": Case([*NODES, app("web", 3)], 2, "unschedulable"),
    "a full cluster keeps its nodes": Case([*NODES, app("web", 3, "3")], 0, "Insufficient cpu"),
    "a budget keeps the nodes of its pods": Case([*NODES, app("db", 3), budget("db", 3)], 0, "disruption budget"),
    "an annotation keeps a node": Case(
        [*NODES, app("db", 1, annotations={"karpenter.sh/do-not-disrupt": "true"})], 2, "karpenter.sh/do-not-disrupt"
    ),
    "a pod without a controller keeps its node": Case(
        [*NODES, builders.pod("alone", cpu="1", spec={"nodeName": "n0"})], 2, "no controller"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_nodes_go_while_their_pods_fit_elsewhere(case: Case) -> None:
    result = found(*case.objects)
    assert len(result.removed) == case.removed
    assert all(case.reason in each.reason for each in result.kept)
    assert len(result.removed) + len(result.kept) == len(NODES)


def test_the_dearest_node_goes_first() -> None:
    nodes = [builders.node(f"n{index}", labels={"price": str(index)}) for index in range(3)]
    result = found(*nodes, app("web", 2), prices=Prices(label="price"))
    assert {each.node for each in result.removed} == {"n1", "n2"}
    assert (result.saves, result.unit) == (3.0, "price")


def test_a_node_that_fits_nowhere_is_tried_first_when_that_saves_more() -> None:
    """The dearest node goes first in every order, and takes the room of two others that save more together."""

    def owned(name: str, node: str, cpu: str, **spec: Any) -> Pod:
        made = builders.pod(name, cpu=cpu, spec={"nodeName": node, **spec})
        owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, uid=name, controller=True)
        made.metadata.owner_references = [owner]
        return made

    def node(name: str, cpu: str, price: str, **more: Any) -> Node:
        return builders.node(name, cpu=cpu, labels={"price": price}, **more)

    tolerant = {"tolerations": [{"operator": "Exists"}]}
    result = found(
        node("dear", "16", "5", taints=["own=yes:NoSchedule"]),
        *(node(name, "2", "4") for name in ("b", "c")),
        node("room", "4", "0"),
        builders.pod("alone", spec={"nodeName": "room"}),
        owned("big", "dear", "4", **tolerant),
        *(owned(f"{name}-{number}", name, "1") for name in ("b", "c") for number in range(2)),
        prices=Prices(label="price"),
    )
    assert ({each.node for each in result.removed}, result.saves) == ({"b", "c"}, 8.0)


def test_moves_name_the_new_node_of_every_pod() -> None:
    result = found(*NODES, app("web", 2))
    left = {node.metadata.name for node in NODES} - {each.node for each in result.removed}
    assert {target for each in result.removed for target in each.moves.values()} <= left | {
        each.node for each in result.removed
    }
    assert "nodes can go" in next(format_lines(result))


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    replicas=st.lists(st.integers(1, 3), min_size=6, max_size=6),
    cpus=st.lists(st.sampled_from(["500m", "1", "1500m", "2"]), min_size=6, max_size=6),
    spread=st.integers(0, 2),
)
@settings(max_examples=15, deadline=None)
def test_playing_the_result_leaves_nothing_pending_that_ran(
    sizes: list[int], replicas: list[int], cpus: list[str], spread: int
) -> None:
    nodes = [builders.node(f"n{index}", cpu=str(2 * size), zone=f"z{index % 2}") for index, size in enumerate(sizes)]
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    apps: list[Resource] = []
    for number, (count, cpu) in enumerate(zip(replicas, cpus, strict=True)):
        selector = {"matchLabels": {"app": f"a{number}"}}
        extra: dict[str, Any] = (
            {"topologySpreadConstraints": [{**constraint, "labelSelector": selector}]} if number < spread else {}
        )
        apps.append(app(f"a{number}", count, cpu, **extra))
    snapshot = Snapshot("a test", [*nodes, *apps])
    names = tuple(each.node for each in consolidate(snapshot, Settings(), Prices()).removed)
    before = simulate(snapshot, Scenario()).counts.pending
    if names:
        steps = (Step((Drain(names),)), Step((RemoveNodes(names),)))
        assert simulate(snapshot, Scenario(steps=steps)).counts.pending <= before
