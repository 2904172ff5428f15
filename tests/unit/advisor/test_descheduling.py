"""`mooring simulate --descheduler`: what a DeschedulerPolicy would evict, and where pods land."""

from dataclasses import dataclass
from typing import Any

import pytest

from mooring.advisor.simulate import Scenario, ScenarioError, Settings, Simulation, simulate
from mooring.advisor.simulate.descheduling import read_policy
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.testing import builders

pytestmark = pytest.mark.req("E.5")
ZONE = "topology.kubernetes.io/zone"


def policy(plugin: str, arguments: str = "{}", evictor: str = "{}", point: str = "deschedule") -> bytes:
    return f"""
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: test
  pluginConfig: [{{name: {plugin}, args: {arguments}}}, {{name: DefaultEvictor, args: {evictor}}}]
  plugins: {{{point}: {{enabled: [{plugin}]}}}}
""".encode()


def placed(name: str, node: str, owner: str = "web", cpu: str = "1", **spec: Any) -> Pod:
    pod = builders.pod(name, cpu=cpu, labels={"app": owner}, spec={"nodeName": node, **spec})
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    tree = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [reference], "labels": {"app": owner}}
    pod.metadata = builders.made(Pod, {"metadata": tree}).metadata
    return pod


def descheduled(text: bytes, *objects: Resource) -> Simulation:
    profiles, _ = read_policy(text, "policy.yaml")
    return simulate(Snapshot("a test", objects), Scenario(descheduler=profiles), Settings())


def spread() -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def anti_affinity() -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


NODES = [builders.node("a", zone="z1"), builders.node("b", zone="z2")]


@dataclass(frozen=True)
class Case:
    policy: bytes
    objects: list[Resource]
    evicted: list[str]


CASES = {
    "a pod on a node that was tainted later": Case(
        policy("RemovePodsViolatingNodeTaints"),
        [builders.node("a", taints=["x=y:NoSchedule"]), NODES[1], placed("p", "a")],
        ["default/p"],
    ),
    "a pod whose node lost its label": Case(
        policy("RemovePodsViolatingNodeAffinity"),
        [NODES[0], builders.node("b", labels={"disk": "ssd"}), placed("p", "a", nodeSelector={"disk": "ssd"})],
        ["default/p"],
    ),
    "one of two pods that exclude each other": Case(
        policy("RemovePodsViolatingInterPodAntiAffinity"),
        [*NODES, placed("p", "a", **anti_affinity()), placed("q", "a", **anti_affinity())],
        ["default/p"],
    ),
    "as many pods as the skew is too large": Case(
        policy("RemovePodsViolatingTopologySpreadConstraint", point="balance"),
        [*NODES, *(placed(f"p{number}", "a", **spread()) for number in range(3))],
        ["default/p0"],
    ),
    "duplicates beyond an even share": Case(
        policy("RemoveDuplicates", point="balance"),
        [*NODES, *(placed(f"p{number}", "a", cpu="100m") for number in range(4))],
        ["default/p2", "default/p3"],
    ),
    "pods of an overused node while another is idle": Case(
        policy("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}", point="balance"),
        [*NODES, *(placed(f"p{number}", "a") for number in range(3))],
        ["default/p0"],
    ),
    "nothing where all is well": Case(policy("RemovePodsViolatingNodeTaints"), [*NODES, placed("p", "a")], []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_policy_evicts_what_violates_it(case: Case) -> None:
    result = descheduled(case.policy, *case.objects)
    assert [each.pod for each in result.evicted] == case.evicted
    assert result.counts.pending == 0


TAINTED = [builders.node("a", taints=["x=y:NoSchedule"]), NODES[1]]
GUARD = builders.made(
    PodDisruptionBudget,
    {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    },
)
PROTECTED: dict[str, tuple[bytes, list[Resource]]] = {
    "a budget": (policy("RemovePodsViolatingNodeTaints"), [*TAINTED, placed("p", "a"), GUARD]),
    "no controller": (
        policy("RemovePodsViolatingNodeTaints"),
        [*TAINTED, builders.pod("p", spec={"nodeName": "a"})],
    ),
    "local data": (
        policy("RemovePodsViolatingNodeTaints"),
        [*TAINTED, placed("p", "a", volumes=[{"name": "v", "emptyDir": {}}])],
    ),
    "a namespace that is excluded": (
        policy("RemovePodsViolatingNodeTaints", "{namespaces: {exclude: [default]}}"),
        [*TAINTED, placed("p", "a")],
    ),
    "a namespace that is not included": (
        policy("RemovePodsViolatingNodeTaints", "{namespaces: {include: [other]}}"),
        [*TAINTED, placed("p", "a")],
    ),
    "the kind of its owner": (
        policy("RemoveDuplicates", "{excludeOwnerKinds: [ReplicaSet]}", point="balance"),
        [*NODES, *(placed(f"p{number}", "a", cpu="100m") for number in range(4))],
    ),
    "idle nodes without room below the target": (
        policy("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {cpu: 1}}", point="balance"),
        [*NODES, placed("p", "a"), placed("q", "b", cpu="400m")],
    ),
    "no other node that fits": (
        policy("RemovePodsViolatingNodeTaints", evictor="{nodeFit: true}"),
        [TAINTED[0], placed("p", "a")],
    ),
}


@pytest.mark.parametrize(("text", "objects"), PROTECTED.values(), ids=PROTECTED.keys())
def test_a_pod_is_protected_by(text: bytes, objects: list[Resource]) -> None:
    assert descheduled(text, *objects).evicted == ()


def test_the_evictor_may_be_let_at_local_data() -> None:
    text = policy("RemovePodsViolatingNodeTaints", evictor="{evictLocalStoragePods: true}")
    pod = placed("p", "a", volumes=[{"name": "v", "emptyDir": {}}])
    assert len(descheduled(text, *TAINTED, pod).evicted) == 1


def test_plugins_that_are_not_played_are_named() -> None:
    _, unknown = read_policy(policy("PodLifeTime"), "policy.yaml")
    assert unknown == ("PodLifeTime",)


def test_arguments_that_are_not_played_are_named() -> None:
    _, unknown = read_policy(policy("RemoveDuplicates", "{namespaces: {}, x: 1}", evictor="{minPodAge: 1h}"), "p.yaml")
    assert unknown == ("RemoveDuplicates.x", "DefaultEvictor.minPodAge")


@pytest.mark.parametrize(
    "text", [b"", b"kind: Other", b"{", b"a: 1\n---\nb: 2"], ids=["empty", "other", "broken", "two"]
)
def test_a_wrong_policy_is_refused_with_its_file(text: bytes) -> None:
    with pytest.raises(ScenarioError, match=r"^policy\.yaml: expected"):
        read_policy(text, "policy.yaml")


@pytest.mark.parametrize(
    "profiles",
    ["3", "[{pluginConfig: [x]}]", "[{plugins: 3}]", "[{plugins: {balance: {enabled: [1]}}}]"],
    ids=["no list", "a plugin without a name", "no plugins", "a number as a plugin"],
)
def test_a_malformed_profile_is_refused_with_its_place(profiles: str) -> None:
    with pytest.raises(ScenarioError, match=r"^policy\.yaml: profiles: Expected"):
        read_policy(f"kind: DeschedulerPolicy\nprofiles: {profiles}".encode(), "policy.yaml")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{thresholds: {cpu: many}}", "thresholds: Expected `float`"),
        ("{evictableNamespaces: {exclude: shop}}", "evictableNamespaces: Expected `array`"),
        ("{targetThresholds: 3}", "targetThresholds: Expected `object`"),
    ],
)
def test_an_argument_of_another_type_is_refused(arguments: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=f"LowNodeUtilization: {reason}"):
        read_policy(policy("LowNodeUtilization", arguments, point="balance"), "policy.yaml")
