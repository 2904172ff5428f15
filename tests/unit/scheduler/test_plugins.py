"""What single plugins say, beyond what the recorded cases have: arguments, edge cases, label keys, defaults."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.api.apps_v1 import ReplicaSet
from mooring.api.core_v1 import Node, Pod, Service
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Code, SchedulerFeatures
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.testing.builders import HOSTNAME, ZONE, made, node, pod

GIGA = 1024**3


def engine_with(*things: Any, arguments: dict[str, Any] | None = None, **features: Any) -> Engine:
    engine = Engine((ProfileSpec(arguments=arguments or {}),), features=SchedulerFeatures(**features))
    for thing in things:
        engine.put(thing)
    return engine


def points(engine: Engine, plugin: str, wanted: Pod) -> dict[str, int | None]:
    return {name: entry.scores.get(plugin) for name, entry in engine.explain(wanted).items()}


def reasons(engine: Engine, wanted: Pod) -> dict[str, tuple[str, ...]]:
    return {name: entry.status.reasons for name, entry in engine.explain(wanted).items()}


# -- NodeResourcesFit


@dataclass(frozen=True)
class ScoreCase:
    name: str
    arguments: dict[str, Any]
    wanted: Pod
    points: dict[str, int]


def strategy(kind: str, **more: Any) -> dict[str, Any]:
    return {"scoringStrategy": {"type": kind, **more}}


RATIO = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
GPU = [{"name": "example.com/gpu", "weight": 3}]
SCORES = [
    # node a: 4 of 4 cpu and 16 of 16 Gi free; node b: 2 cpu and 8 Gi used
    ScoreCase("the emptier, by default", {}, pod("p", cpu="1", memory="4Gi"), {"a": 75, "b": 25}),
    ScoreCase("the fuller", strategy("MostAllocated"), pod("p", cpu="1", memory="4Gi"), {"a": 25, "b": 75}),
    ScoreCase(
        "a broken line over the utilisation",
        strategy("RequestedToCapacityRatio", requestedToCapacityRatio=RATIO),
        pod("p", cpu="1", memory="4Gi"),
        {"a": 25, "b": 75},
    ),
    ScoreCase(
        "only what is named",
        strategy("LeastAllocated", resources=[{"name": "memory"}]),
        pod("p", cpu="1", memory="8Gi"),
        {"a": 50, "b": 0},
    ),
    ScoreCase(
        "weights",
        strategy("LeastAllocated", resources=[{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]),
        pod("p", cpu="2", memory="4Gi"),
        {"a": 56, "b": 6},
    ),
    ScoreCase(
        "an extended resource counts for pods that ask for it",
        strategy("MostAllocated", resources=GPU),
        pod("p", requests={"example.com/gpu": "1"}),
        {"a": 50, "b": 50},
    ),
    ScoreCase("and not for others", strategy("MostAllocated", resources=GPU), pod("p", cpu="1"), {"a": 0, "b": 0}),
]


@pytest.mark.parametrize("case", SCORES, ids=lambda case: case.name)
def test_scores_by_resources(case: ScoreCase) -> None:
    engine = engine_with(
        node("a", resources={"example.com/gpu": "2"}),
        node("b", resources={"example.com/gpu": "2"}),
        pod("x", cpu="2", memory="8Gi", on="b"),
        arguments={"NodeResourcesFit": case.arguments},
    )
    assert points(engine, "NodeResourcesFit", case.wanted) == case.points


@pytest.mark.parametrize("number", [3, 40])
def test_what_is_lacking_is_reported_for_few_and_for_many_resources(number: int) -> None:
    names = [f"example.com/r{place:02}" for place in range(number)]
    has = {name: "1" if place % 2 else "2" for place, name in enumerate(names)}
    wanted = pod("p", requests=dict.fromkeys(names, "2") | {"example.com/none": "1"})
    lacking = tuple(f"Insufficient {name}" for name in (*names[1::2], "example.com/none"))
    reported = reasons(engine_with(node("a", resources=has), node("b", resources=dict.fromkeys(names, "2"))), wanted)
    assert {name: set(texts) for name, texts in reported.items()} == {"a": set(lacking), "b": {lacking[-1]}}


def test_extended_resources_can_be_ignored_by_name_and_by_group() -> None:
    wanted = pod("p", requests={"example.com/gpu": "1", "other.com/thing": "1", "third.com/x": "1"})
    arguments = {"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["other.com"]}
    engine = engine_with(node("a"), arguments={"NodeResourcesFit": arguments})
    assert reasons(engine, wanted) == {"a": ("Insufficient third.com/x",)}


def test_what_the_node_as_such_does_not_have_is_refused_for_good() -> None:
    engine = engine_with(node("a", cpu="2"), pod("x", cpu="1", on="a"))
    small, large = pod("p", cpu="2"), pod("p", cpu="3")
    assert engine.explain(small)["a"].status.code is Code.UNSCHEDULABLE
    assert engine.explain(large)["a"].status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_balance_counts_three_resources_by_their_deviation() -> None:
    resources = [{"name": "cpu"}, {"name": "memory"}, {"name": "example.com/gpu"}]
    engine = engine_with(
        node("a", cpu="4", memory="4Gi", resources={"example.com/gpu": "4"}),
        node("b", cpu="4", memory="4Gi"),
        arguments={"NodeResourcesBalancedAllocation": {"resources": resources}},
    )
    even = pod("p", cpu="2", memory="2Gi", requests={"example.com/gpu": "2"})
    uneven = pod("q", cpu="4", memory="2Gi", requests={"example.com/gpu": "0"})
    assert points(engine, "NodeResourcesBalancedAllocation", even) == {"a": 75, "b": None}
    assert points(engine, "NodeResourcesBalancedAllocation", uneven) == {"a": 62, "b": 62}


# -- NodeName, NodePorts, NodeUnschedulable


def test_a_pod_that_names_its_node_goes_there() -> None:
    engine = engine_with(node("a"), node("b"))
    wanted = pod("p", spec={"nodeName": "b"})
    assert reasons(engine, wanted)["a"] == ("node(s) didn't match the requested node name",)
    assert engine.schedule(wanted).node == "b"


def with_port(name: str, address: str = "", protocol: str = "TCP", on: str = "", **more: Any) -> Pod:
    port = {"containerPort": 80, "hostPort": 80, "hostIP": address, "protocol": protocol}
    containers = [{"name": "c", "image": "app:1", "ports": [port]}]
    return pod(name, on=on, spec={"containers": containers, **more})


PORTS = [
    ("the same port", "", "TCP", "", "TCP", False),
    ("another protocol", "", "TCP", "", "UDP", True),
    ("another address", "10.0.0.1", "TCP", "10.0.0.2", "TCP", True),
    ("the same address", "10.0.0.1", "TCP", "10.0.0.1", "TCP", False),
    ("every address against one", "", "TCP", "10.0.0.1", "TCP", False),
    ("one address against every", "10.0.0.1", "TCP", "0.0.0.0", "TCP", False),
]


@pytest.mark.parametrize("case", PORTS, ids=[case[0] for case in PORTS])
def test_host_ports(case: tuple[str, str, str, str, str, bool]) -> None:
    _, taken_address, taken_protocol, address, protocol, fits = case
    engine = engine_with(node("a"), with_port("x", taken_address, taken_protocol, on="a"))
    wanted = with_port("p", address, protocol)
    assert (engine.schedule(wanted).node == "a") is fits
    engine.remove(with_port("x", taken_address, taken_protocol, on="a"))
    assert engine.schedule(wanted).node == "a"


@pytest.mark.req("5471.1", "5500.8")
def test_an_unschedulable_node_takes_pods_that_tolerate_it() -> None:
    engine = engine_with(node("a", unschedulable=True))
    for toleration in (
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        {"expression": "taint.key == 'node.kubernetes.io/unschedulable'"},
    ):
        assert engine.schedule(pod("p", spec={"tolerations": [toleration]})).node == "a"
    assert engine.schedule(pod("p")).node is None


# -- NodeAffinity


def affinity(*terms: dict[str, Any], weights: tuple[int, ...] = ()) -> dict[str, Any]:
    if weights:
        preferred = [{"weight": weight, "preference": term} for weight, term in zip(weights, terms, strict=True)]
        return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


@pytest.mark.req("5500.14")
def test_added_affinity_with_cel_holds_for_every_pod() -> None:
    added = {
        **affinity({"matchCELExpressions": ["node.labels['tier'] == 'gold'"]}),
        **affinity({"matchCELExpressions": ["'ssd' in node.labels"]}, weights=(10,)),
    }
    engine = engine_with(
        node("gold", labels={"tier": "gold"}),
        node("fast", labels={"tier": "gold", "ssd": ""}),
        node("iron", labels={"tier": "iron"}),
        arguments={"NodeAffinity": {"addedAffinity": added}},
    )
    assert reasons(engine, pod("p"))["iron"] == ("node(s) didn't match scheduler-enforced node affinity",)
    assert points(engine, "NodeAffinity", pod("p")) == {"gold": 0, "fast": 200, "iron": None}
    own = pod("p", spec={"affinity": {"nodeAffinity": affinity({"matchFields": [named("gold")]})}})
    assert engine.schedule(own).node == "gold"


def named(name: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [name]}


@pytest.mark.req("5721.2", "5500.5")
def test_preferred_versions_and_expressions_give_their_weight() -> None:
    wishes = affinity(
        {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10"]}]},
        {"matchCELExpressions": ["node.labels['zone'] == 'a'"]},
        weights=(30, 20),
    )
    engine = engine_with(
        node("both", labels={"kernel": "6.1", "zone": "a"}),
        node("one", labels={"kernel": "v5.11"}),
        node("none", labels={"kernel": "unknown"}),
    )
    wanted = pod("p", spec={"affinity": {"nodeAffinity": wishes}})
    assert points(engine, "NodeAffinity", wanted) == {"both": 200, "one": 120, "none": 0}


# -- ImageLocality


def test_large_images_that_many_nodes_have_count_more() -> None:
    size = 500 * 1024 * 1024
    engine = engine_with(node("a", images={"app:1": size}), node("b", images={"app:1": size}), node("c"), node("d"))
    assert points(engine, "ImageLocality", pod("p")) == {"a": 23, "b": 23, "c": 0, "d": 0}
    engine.put(node("c", images={"app:1": size}))
    assert points(engine, "ImageLocality", pod("p"))["a"] == 36


# -- PodTopologySpread


def spread(key: str = ZONE, action: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector, **more}


@dataclass(frozen=True)
class SpreadCase:
    name: str
    constraint: dict[str, Any]
    feasible: set[str]
    existing: list[Pod] = field(default_factory=list)


WEB = {"app": "web"}
NODES = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"), node("c1", labels={"rack": "1"})]
SPREADS = [
    SpreadCase("the fuller domain is refused", spread(), {"b1"}, [pod("x", labels=WEB, on="a1")]),
    SpreadCase("a larger skew is allowed", spread(maxSkew=2), {"a1", "a2", "b1"}, [pod("x", labels=WEB, on="a1")]),
    SpreadCase(
        "pods of other namespaces", spread(), {"a1", "a2", "b1"}, [pod("x", namespace="o", labels=WEB, on="a1")]
    ),
    SpreadCase(
        "pods that are going do not count",
        spread(),
        {"a1", "a2", "b1"},
        [pod("x", labels=WEB, on="a1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
    ),
    SpreadCase(
        "too few domains: the emptiest counts as empty",
        spread(minDomains=3),
        set(),
        [
            pod("x", labels=WEB, on="a1"),
            pod("y", labels=WEB, on="b1"),
        ],
    ),
    SpreadCase(
        "enough domains",
        spread(minDomains=2),
        {"a1", "a2", "b1"},
        [
            pod("x", labels=WEB, on="a1"),
            pod("y", labels=WEB, on="b1"),
        ],
    ),
]


@pytest.mark.req("S.3")
@pytest.mark.parametrize("case", SPREADS, ids=lambda case: case.name)
def test_spreading_strictly(case: SpreadCase) -> None:
    engine = engine_with(*NODES, *case.existing)
    wanted = pod("p", labels=WEB, spec={"topologySpreadConstraints": [case.constraint]})
    explained = engine.explain(wanted)
    assert {name for name, entry in explained.items() if entry.status.is_success} == case.feasible
    assert explained["c1"].status.reasons == (
        "node(s) didn't match pod topology spread constraints (missing required label)",
    )


@dataclass(frozen=True)
class LabelKeyCase:
    name: str
    features: dict[str, Any]
    selector: dict[str, Any]
    feasible: set[str]


MERGED = {"matchLabels": WEB, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}]}
LABEL_KEYS = [
    LabelKeyCase("honoured by the scheduler", {"spread_label_keys_merged": False}, {"matchLabels": WEB}, {"a1", "a2"}),
    LabelKeyCase("merged by the API server", {}, MERGED, {"a1", "a2"}),
    LabelKeyCase("not merged, because the pod is older", {}, {"matchLabels": WEB}, {"a1", "a2"}),
    LabelKeyCase("off", {"spread_label_keys": False}, {"matchLabels": WEB}, {"b1"}),
]


@pytest.mark.req("3633.6")
@pytest.mark.parametrize("case", LABEL_KEYS, ids=lambda case: case.name)
def test_match_label_keys_of_spread_constraints(case: LabelKeyCase) -> None:
    old = [pod(f"old{n}", labels={"app": "web", "rev": "0"}, on="a1") for n in range(2)]
    new = pod("new", labels={"app": "web", "rev": "1"}, on="b1")
    engine = engine_with(*NODES[:3], *old, new, **case.features)
    constraint = spread(matchLabelKeys=["rev"], labelSelector=case.selector)
    wanted = pod("p", labels={"app": "web", "rev": "1"}, spec={"topologySpreadConstraints": [constraint]})
    explained = engine.explain(wanted)
    assert {name for name, entry in explained.items() if entry.status.is_success} == case.feasible


def test_inclusion_policies_are_left_aside_when_their_gate_is_off() -> None:
    tainted = node("b1", zone="b", taints=["x:NoSchedule"])
    existing = pod("x", labels=WEB, on="a1")
    wanted = pod(
        "p", labels=WEB, spec={"topologySpreadConstraints": [spread(nodeTaintsPolicy="Honor")], "tolerations": []}
    )
    assert engine_with(node("a1", zone="a"), tainted, existing).schedule(wanted).node == "a1"
    off = engine_with(node("a1", zone="a"), tainted, existing, node_inclusion_policy=False)
    assert off.schedule(wanted).node is None


def test_pods_of_a_workload_are_spread_by_default() -> None:
    replica_set = made(
        ReplicaSet,
        {"metadata": {"name": "rs", "namespace": "default"}, "spec": {"selector": {"matchLabels": WEB}}},
    )
    owned = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}]}
    engine = engine_with(node("a", zone="a"), node("b", zone="b"), pod("x", labels=WEB, on="a"))
    wanted = pod("p", labels=WEB, metadata=owned)
    assert points(engine, "PodTopologySpread", wanted) == {"a": None, "b": None}
    engine.put(replica_set)
    assert points(engine, "PodTopologySpread", wanted) == {"a": 132, "b": 200}


def test_default_constraints_of_the_arguments_apply_to_pods_of_a_service() -> None:
    defaults = [{"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}]
    arguments = {"PodTopologySpread": {"defaultingType": "List", "defaultConstraints": defaults}}
    service = made(Service, {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}})
    engine = engine_with(node("a"), node("b"), pod("x", labels=WEB, on="a"), service, arguments=arguments)
    assert reasons(engine, pod("p", labels=WEB))["a"] == ("node(s) didn't match pod topology spread constraints",)
    assert reasons(engine, pod("p", labels={"app": "db"}))["a"] == ()


# -- InterPodAffinity


def near(**term: Any) -> dict[str, Any]:
    entry = {"topologyKey": ZONE, "labelSelector": {"matchLabels": WEB}, **term}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [entry]}}}


@pytest.mark.req("3633.5")
def test_the_first_pod_of_a_group_that_wants_to_be_together_may_begin_anywhere() -> None:
    engine = engine_with(*NODES)
    first = pod("p", labels=WEB, spec=near())
    assert {name for name, entry in engine.explain(first).items() if entry.status.is_success} == {"a1", "a2", "b1"}
    engine.assume(first, "b1")
    second = pod("q", labels=WEB, spec=near())
    assert {name for name, entry in engine.explain(second).items() if entry.status.is_success} == {"b1"}
    stranger = pod("r", labels={"app": "db"}, spec=near(namespaces=["elsewhere"]))
    assert engine.schedule(stranger).node is None


def test_preferences_of_placed_pods_can_be_ignored() -> None:
    wish = {
        "weight": 10,
        "podAffinityTerm": near()["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0],
    }
    fan = pod(
        "fan", on="a1", spec={"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}
    )
    wanted = pod("p", labels=WEB)
    assert points(engine_with(*NODES, fan), "InterPodAffinity", wanted)["a2"] == 200
    arguments = {"InterPodAffinity": {"ignorePreferredTermsOfExistingPods": True}}
    assert points(engine_with(*NODES, fan, arguments=arguments), "InterPodAffinity", wanted)["a2"] is None


def test_the_weight_of_required_affinity_of_placed_pods() -> None:
    fan = pod("fan", labels=WEB, on="a1", spec=near())
    wanted = pod("p", labels=WEB)
    assert points(engine_with(*NODES, fan), "InterPodAffinity", wanted)["a2"] == 200
    arguments = {"InterPodAffinity": {"hardPodAffinityWeight": 0}}
    assert points(engine_with(*NODES, fan, arguments=arguments), "InterPodAffinity", wanted)["a2"] is None


# -- gates that are off


@pytest.mark.req("5471.3c", "5721.6", "5500.9")
@pytest.mark.parametrize(
    ("switch", "toleration"),
    [
        ("numeric_tolerations", {"key": "sla", "operator": "Gt", "value": "900"}),
        ("semver_operators", {"key": "sla", "operator": "SemverGt", "value": "900.0.0"}),
        ("cel", {"expression": "taint.key == 'sla'"}),
    ],
    ids=["numbers", "versions", "expressions"],
)
def test_tolerations_match_only_while_their_gate_is_on(switch: str, toleration: dict[str, Any]) -> None:
    from mooring.constraints.options import ConstraintOptions

    tainted: Node = node("a", taints=["sla=950:NoSchedule"])
    wanted = pod("p", spec={"tolerations": [toleration]})
    assert engine_with(tainted).schedule(wanted).node == "a"
    off = engine_with(tainted, constraints=ConstraintOptions(**{switch: False}))
    assert off.schedule(wanted).message == "0/1 nodes are available: 1 node(s) had untolerated taint {sla: 950}."


# -- NodeDeclaredFeatures

RESTART_ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


def able(name: str, *features: str) -> Node:
    found = node(name)
    found.status.declared_features = list(features)
    return found


def needing(kind: str) -> Pod:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    specs: dict[str, dict[str, Any]] = {
        "nothing": {},
        "restart all": {"containers": [{**container, "restartPolicyRules": [RESTART_ALL]}]},
        "restart all of an init container": {"initContainers": [{**container, "restartPolicyRules": [RESTART_ALL]}]},
        "restart one": {"containers": [{**container, "restartPolicyRules": [{**RESTART_ALL, "action": "Restart"}]}]},
        "users in the host's network": {"hostNetwork": True, "hostUsers": False},
        "the host's users": {"hostNetwork": True, "hostUsers": True},
        "mount options": {
            "containers": [{**container, "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["x"]}]}]
        },
    }
    return pod("p", spec=specs[kind])


@pytest.mark.req("N.10")
@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        ("nothing", {"plain", "restarts", "all"}),
        ("restart all", {"restarts", "all"}),
        ("restart all of an init container", {"restarts", "all"}),
        ("restart one", {"plain", "restarts", "all"}),
        ("users in the host's network", {"all"}),
        ("the host's users", {"plain", "restarts", "all"}),
        ("mount options", {"all"}),
    ],
)
def test_a_pod_goes_to_nodes_that_declare_what_it_needs(kind: str, fits: set[str]) -> None:
    restarts = "RestartAllContainersOnContainerExits"
    nodes = (
        able("plain"),
        able("restarts", restarts),
        able("all", restarts, "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"),
    )
    found = {name for name, why in reasons(engine_with(*nodes), needing(kind)).items() if not why}
    assert found == fits
    off = engine_with(*nodes, node_declared_features=False)
    assert not any(reasons(off, needing(kind)).values())


@pytest.mark.req("N.10")
def test_the_words_for_a_node_without_the_feature() -> None:
    engine = engine_with(able("plain"))
    assert reasons(engine, needing("restart all"))["plain"] == ("node(s) didn't match Pod's required features",)
