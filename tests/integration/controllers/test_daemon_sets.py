"""DaemonSets on a real server: which nodes, updates in place and with surge, pods that fail."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mooring.api.apps_v1 import DaemonSet
from mooring.api.core_v1 import Node, Pod
from mooring.api.events_v1 import Event
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import PatchType
from mooring.constraints.options import ConstraintOptions
from mooring.controllers.options import ControllerOptions
from mooring.controllers.workloads.daemon_nodes import target_node_of
from mooring.testing.clock import MockClock
from workload_cluster import Cluster, Tree, cluster, template, workload

pytestmark = pytest.mark.req("S.4")
CONTROLLERS = ["daemonset"]


async def add_node(c: Cluster, name: str, taints: list[Tree] | None = None, **labels: str) -> None:
    await c.client.create(Node(metadata=ObjectMeta(name=name, labels=labels)))
    await c.client.patch(Node, name, {"spec": {"taints": taints}}, type=PatchType.MERGE)  # ready, so to speak


def spec(image: str = "nginx:1", strategy: Tree | None = None, **pod: Any) -> Tree:
    made = workload("ds", updateStrategy=strategy or {"type": "RollingUpdate"})
    made["template"] = template("ds", image, **pod)
    del made["replicas"]
    return made


async def where(c: Cluster) -> set[str]:
    return {target_node_of(pod) for pod in await c.pods() if pod.metadata.deletion_timestamp is None}


async def images(c: Cluster) -> list[str]:
    return sorted(pod.spec.containers[0].image for pod in await c.pods())


def taint(value: str, effect: str = "NoSchedule") -> Tree:
    return {"key": "grade", "value": value, "effect": effect}


def affinity(key: str, operator: str, *values: str) -> Tree:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def toleration(operator: str, value: str = "") -> Tree:
    return {"tolerations": [{"key": "grade", "operator": operator, "value": value, "effect": "NoSchedule"}]}


@dataclass
class Case:
    name: str
    pod: Tree
    nodes: set[str]
    extra: Tree = field(default_factory=dict)


PLACES = [
    Case("a template without wishes runs on nodes without taints", {}, {"plain", "other"}),
    Case("a node selector chooses by label", {"nodeSelector": {"cpu": "8"}}, {"plain"}),
    Case("Gt in node affinity compares numbers", affinity("cpu", "Gt", "10"), {"other"}),
    Case("SemverGt in node affinity compares versions", affinity("kernel", "SemverGt", "5.9.0"), {"other"}),
    Case("Gt in a toleration admits taints above", toleration("Gt", "900"), {"plain", "other", "gold"}),
    Case("Lt in a toleration admits taints below", toleration("Lt", "900"), {"plain", "other", "tin"}),
    Case("Exists admits all", toleration("Exists"), {"plain", "other", "gold", "tin"}),
    Case(
        "an expression admits what it is true for",
        {"tolerations": [{"expression": "taint.key == 'grade' && int(taint.value) > 900"}]},
        {"plain", "other", "gold"},
    ),
]


@pytest.mark.parametrize("case", PLACES, ids=lambda case: case.name)
async def test_which_nodes(case: Case, tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await add_node(c, "plain", cpu="8", kernel="5.4.0")
        await add_node(c, "other", cpu="16", kernel="6.1.0")
        await add_node(c, "gold", [taint("950")])
        await add_node(c, "tin", [taint("100")])
        await c.create(DaemonSet, "ds", spec(**case.pod))
        await c.rest()
        assert await where(c) == case.nodes
        status = (await c.get(DaemonSet, "ds")).status
        numbers = (status.desired_number_scheduled, status.current_number_scheduled, status.number_available)
        assert numbers == (len(case.nodes),) * 3


async def test_nodes_that_come_change_and_go(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await add_node(c, "a")
        await c.create(DaemonSet, "ds", spec())
        await c.rest()
        await add_node(c, "b")
        await c.rest()
        assert await where(c) == {"a", "b"}
        await c.client.patch(Node, "a", {"spec": {"taints": [taint("1")]}})
        await c.rest()
        assert await where(c) == {"a", "b"}  # NoSchedule keeps new pods off and lets others stay
        await c.client.patch(Node, "a", {"spec": {"taints": [taint("1", "NoExecute")]}}, type=PatchType.MERGE)
        await c.rest()
        assert await where(c) == {"b"}
        await c.client.delete(Node, "b")
        await c.rest()
        assert await where(c) == set()


async def test_pods_tolerate_what_is_wrong_with_their_node(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await add_node(c, "a", [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])
        await c.create(DaemonSet, "ds", spec())
        await c.rest()
        (pod,) = await c.pods()
        assert {each.key for each in pod.spec.tolerations} >= {
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "node.kubernetes.io/unschedulable",
            "node.kubernetes.io/disk-pressure",
        }


async def test_an_update_replaces_as_many_at_a_time_as_may_be_missing(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        for number in range(5):
            await add_node(c, f"n{number}")
        pace = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
        await c.create(DaemonSet, "ds", spec(strategy=pace))
        await c.rest()
        c.runs = lambda _: ""
        await c.patch(DaemonSet, "ds", {"template": template("ds", "nginx:2")})
        await c.rest()
        assert await images(c) == ["nginx:1"] * 3 + ["nginx:2"] * 2
        c.runs = lambda _: "Running"
        for pod in await c.pods():
            if pod.status.phase == "Pending":
                await c.set_phase(pod, "Running")
        await c.rest()
        assert await images(c) == ["nginx:2"] * 5
        status = (await c.get(DaemonSet, "ds")).status
        assert (status.updated_number_scheduled, status.number_available, status.number_unavailable) == (5, 5, 0)


async def test_with_surge_the_new_pod_starts_beside_the_old_one(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        for number in range(3):
            await add_node(c, f"n{number}")
        pace = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await c.create(DaemonSet, "ds", spec(strategy=pace))
        await c.rest()
        c.runs = lambda _: ""
        await c.patch(DaemonSet, "ds", {"template": template("ds", "nginx:2")})
        await c.rest()
        assert await images(c) == ["nginx:1"] * 3 + ["nginx:2"]
        c.runs = lambda _: "Running"
        for pod in await c.pods():
            if pod.status.phase == "Pending":
                await c.set_phase(pod, "Running")
        await c.rest()
        assert await images(c) == ["nginx:2"] * 3


async def test_on_delete_waits_for_a_user_to_delete_pods(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await add_node(c, "a")
        await c.create(DaemonSet, "ds", spec(strategy={"type": "OnDelete"}))
        await c.rest()
        await c.patch(DaemonSet, "ds", {"template": template("ds", "nginx:2")})
        await c.rest()
        assert await images(c) == ["nginx:1"]
        (pod,) = await c.pods()
        await c.client.delete(Pod, pod.metadata.name, "default")
        await c.rest()
        assert await images(c) == ["nginx:2"]


async def test_a_pod_that_keeps_failing_is_replaced_ever_more_slowly(tmp_path: Path) -> None:
    clock = MockClock()
    async with cluster(tmp_path, CONTROLLERS, clock=clock, runs=lambda _: "Failed") as c:
        await add_node(c, "a")
        await c.create(DaemonSet, "ds", spec())
        await c.rest()
        for _ in range(30):
            await clock.run(2)
            await c.rest(0.05)
        made = c.transport.requests["POST pods"]
        assert 4 <= made <= 9  # after 1, 2, 4, 8, 16, 32 s
        assert "FailedDaemonPod" in {event.reason for event in await c.all(Event)}


def required(**term: Any) -> Tree:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


_NEWER = {"key": "kernel", "operator": "SemverGt", "values": ["5.9.0"]}
_UNJUDGED = [
    (required(matchExpressions=[_NEWER]), "SemverGt"),
    (required(matchCELExpressions=["node.labels['kernel'].startsWith('6')"]), "matchCELExpressions"),
    (
        required(matchExpressions=[_NEWER], matchCELExpressions=["'kernel' in node.labels"]),
        "SemverGt, matchCELExpressions",
    ),
]


@pytest.mark.req("5721.6")
@pytest.mark.req("5500.9")
@pytest.mark.parametrize(("pod", "uses"), _UNJUDGED, ids=[uses for _, uses in _UNJUDGED])
async def test_what_runs_goes_on_when_the_gate_of_its_affinity_goes_off(pod: Tree, uses: str, tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await add_node(c, "old", kernel="5.4.0")
        await add_node(c, "new", kernel="6.1.0")
        await c.create(DaemonSet, "ds", spec(**pod))
        await c.rest()
        (before,) = await c.pods()

        c.options = ControllerOptions(constraints=ConstraintOptions(semver_operators=False, cel=False))
        await c.restart()
        await add_node(c, "another", kernel="6.2.0")
        await c.client.patch(Node, "new", {"metadata": {"labels": {"kernel": "6.1.1"}}})
        await c.rest()
        assert [each.metadata.uid for each in await c.pods()] == [before.metadata.uid]
        status = (await c.get(DaemonSet, "ds")).status
        numbers = (status.desired_number_scheduled, status.number_available, status.number_misscheduled)
        assert numbers == (1, 1, 0)
        (condition,) = status.conditions
        assert (condition.type, condition.status, condition.reason) == (
            "NodeAffinityNotJudged",
            "True",
            "FeatureGateOff",
        )
        assert f"uses {uses}, whose feature gate is off" in condition.message
        assert [event.reason for event in await c.all(Event) if event.note == condition.message] == ["FeatureGateOff"]

        c.options = ControllerOptions()
        await c.restart()
        await c.rest()
        assert await where(c) == {"new", "another"}
        assert (await c.get(DaemonSet, "ds")).status.conditions == []


@dataclass
class Kept:
    name: str
    pod: Tree
    change: Tree
    """What happens to the node while the gate is off."""
    stays: bool


_CANNOT = required(matchExpressions=[_NEWER])
KEPT = [
    Kept("a node selector still decides", _CANNOT | {"nodeSelector": {"pool": "a"}}, {"pool": "b"}, stays=False),
    Kept(
        "a condition beside the one that is not judged still decides",
        required(matchExpressions=[_NEWER, {"key": "pool", "operator": "In", "values": ["a"]}]),
        {"pool": "b"},
        stays=False,
    ),
    Kept("the label that is not judged does not decide", _CANNOT, {"kernel": "1.0.0"}, stays=True),
]


@pytest.mark.req("5721.6")
@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
async def test_what_can_be_evaluated_still_counts(case: Kept, tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await add_node(c, "n", kernel="6.1.0", pool="a")
        await c.create(DaemonSet, "ds", spec(**case.pod))
        await c.rest()
        assert await where(c) == {"n"}
        c.options = ControllerOptions(constraints=ConstraintOptions(semver_operators=False))
        await c.restart()
        await c.client.patch(Node, "n", {"metadata": {"labels": case.change}})
        await c.rest()
        assert await where(c) == ({"n"} if case.stays else set())


@pytest.mark.req("5471.3c")
async def test_a_noexecute_taint_that_nothing_tolerates_any_more_still_evicts(tmp_path: Path) -> None:
    tolerated = {"key": "grade", "operator": "Gt", "value": "900", "effect": "NoExecute"}
    async with cluster(tmp_path, CONTROLLERS) as c:
        await add_node(c, "n", [taint("950", "NoExecute")], kernel="6.1.0")
        await c.create(DaemonSet, "ds", spec(**_CANNOT, tolerations=[tolerated]))
        await c.rest()
        assert await where(c) == {"n"}
        c.options = ControllerOptions(constraints=ConstraintOptions(numeric_tolerations=False, semver_operators=False))
        await c.restart()
        await c.rest()
        assert await where(c) == set()
