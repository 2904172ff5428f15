"""The engine: where pods go, what it says when they cannot, and what it counts."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import Cluster, NodeInfo
from mooring.scheduler.deciding.engine import Engine, UnknownSchedulerError, fit_message
from mooring.scheduler.framework import SKIP, SUCCESS, CycleState, Handle, PluginArguments, Status, error, unschedulable
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.framework.registry import Factory, PluginError
from mooring.scheduler.plugins import IN_TREE
from mooring.testing.builders import ZONE, made, node, pod


def engine_with(*things: Any, **options: Any) -> Engine:
    engine = Engine(**options)
    for thing in things:
        engine.put(thing)
    return engine


@pytest.mark.req("S.3")
def test_the_emptier_node_is_chosen() -> None:
    engine = engine_with(node("a"), node("b"), pod("x", cpu="2", on="a"))
    assert engine.schedule(pod("new", cpu="1")).node == "b"


def test_assumed_pods_take_room_until_they_are_forgotten() -> None:
    engine = engine_with(node("a", cpu="1"))
    first, second = pod("first", cpu="1"), pod("second", cpu="1")
    engine.assume(first, "a")
    assert engine.schedule(second).node is None
    engine.forget(first)
    assert engine.schedule(second).node == "a"


def test_an_assumed_pod_that_is_then_seen_bound_counts_once() -> None:
    engine = engine_with(node("a", cpu="2"))
    engine.assume(pod("p", cpu="1"), "a")
    engine.put(pod("p", cpu="1", on="a"))
    assert engine.schedule(pod("new", cpu="1")).node == "a"


def test_a_pod_that_was_bound_elsewhere_moves() -> None:
    engine = engine_with(node("a", cpu="1"), node("b", cpu="1"))
    engine.assume(pod("p", cpu="1"), "a")
    engine.put(pod("p", cpu="1", on="b"))
    assert engine.schedule(pod("new", cpu="1")).node == "a"


def test_pods_of_a_node_that_is_not_there_yet_wait_for_it() -> None:
    engine = engine_with(pod("early", cpu="3", on="a"), node("a", cpu="4"))
    assert engine.schedule(pod("new", cpu="2")).node is None
    engine.remove(node("a"))
    engine.put(node("a", cpu="4"))
    assert engine.schedule(pod("new", cpu="2")).node is None
    engine.remove(pod("early", on="a"))
    assert engine.schedule(pod("new", cpu="2")).node == "a"


def test_ended_pods_take_no_room() -> None:
    engine = engine_with(node("a", cpu="1"), pod("p", cpu="1", on="a"))
    engine.put(pod("p", cpu="1", on="a", status={"phase": "Succeeded"}))
    assert engine.schedule(pod("new", cpu="1")).node == "a"


def test_equal_nodes_are_chosen_by_lot_and_the_seed_decides_the_lot() -> None:
    def choices(seed: int) -> list[str | None]:
        engine = engine_with(*(node(f"n{number}") for number in range(20)), seed=seed)
        return [engine.schedule(pod("p")).node for _ in range(8)]

    assert choices(1) == choices(1)
    assert len(set(choices(1))) > 1
    assert choices(1) != choices(2)


def test_many_more_nodes_than_rows_at_first() -> None:
    engine = engine_with(*(node(f"n{number}", cpu="1") for number in range(300)))
    pods = [pod(f"p{number}", cpu="1") for number in range(301)]
    nodes = []
    for entry in pods:
        outcome = engine.schedule(entry)
        nodes.append(outcome.node)
        if outcome.node:
            engine.assume(entry, outcome.node)
    assert nodes[-1] is None
    assert len(set(nodes)) == 301


def test_pods_go_to_the_profile_that_they_name() -> None:
    packed = ProfileSpec(
        "packer",
        arguments={"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}},
        disabled={"score": frozenset({"NodeResourcesBalancedAllocation"})},
    )
    engine = engine_with(node("a"), node("b"), pod("x", cpu="2", on="a"), profiles=(ProfileSpec(), packed))
    assert engine.schedule(pod("new", cpu="1", spec={"schedulerName": "packer"})).node == "a"
    assert engine.schedule(pod("new", cpu="1")).node == "b"
    with pytest.raises(UnknownSchedulerError, match="nobody"):
        engine.schedule(pod("new", spec={"schedulerName": "nobody"}))


@dataclass(frozen=True)
class MessageCase:
    name: str
    nodes: list[Any]
    pod: Pod
    message: str


MESSAGES = [
    MessageCase("no nodes at all", [], pod("p"), "0/0 nodes are available:"),
    MessageCase(
        "reasons are counted and sorted as text",
        [node("a", cpu="1", taints=["sla=950:NoSchedule"]), node("b", cpu="1"), node("c", unschedulable=True)],
        pod("p", cpu="2"),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {sla: 950}, "
        "1 node(s) were unschedulable.",
    ),
    MessageCase(
        "a taint without a value",
        [node("a", taints=["maintenance:NoExecute"])],
        pod("p"),
        "0/1 nodes are available: 1 node(s) had untolerated taint {maintenance: }.",
    ),
    MessageCase(
        "the first untolerated taint of each node is named",
        [node("a", taints=["x=1:NoSchedule", "y=2:NoSchedule"]), node("b", taints=["y=2:NoSchedule"])],
        pod("p", spec={"tolerations": [{"key": "x", "operator": "Exists"}]}),
        "0/2 nodes are available: 2 node(s) had untolerated taint {y: 2}.",
    ),
    MessageCase(
        "a pod that names no common node",
        [node("a")],
        pod(
            "p",
            spec={
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {"key": "metadata.name", "operator": "In", "values": ["a"]},
                                        {"key": "metadata.name", "operator": "In", "values": ["b"]},
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
        ),
        "0/1 nodes are available: pod affinity terms conflict.",
    ),
    MessageCase(
        "nodes that are not named are not looked at",
        [node("a", cpu="1"), node("b"), node("c")],
        pod(
            "p",
            cpu="2",
            spec={
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                            ]
                        }
                    }
                }
            },
        ),
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
    ),
]


@pytest.mark.req("S.3", "5471.6")
@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case.name)
def test_the_message_of_a_pod_that_fits_nowhere(case: MessageCase) -> None:
    engine = engine_with(*case.nodes)
    assert fit_message(engine.schedule(case.pod)) == case.message
    assert fit_message(engine.schedule(case.pod)) == case.message  # the second time from what is kept


def test_the_diagnosis_names_the_plugins_that_refused() -> None:
    engine = engine_with(node("a", cpu="1"), node("b", taints=["x:NoSchedule"]))
    diagnosis = engine.schedule(pod("p", cpu="2")).diagnosis
    assert diagnosis is not None
    assert diagnosis.plugins == {"NodeResourcesFit", "TaintToleration"}
    assert diagnosis.statuses()["b"].reasons == ("node(s) had untolerated taint {x: }",)


def test_a_plugin_that_names_nodes_counts_as_one_that_refused_the_others() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["later"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    engine = engine_with(node("a"))
    diagnosis = engine.schedule(pod("p", spec={"affinity": {"nodeAffinity": required}})).diagnosis
    assert diagnosis is not None
    assert diagnosis.plugins == {"NodeAffinity"}


@pytest.mark.req("5471.10")
def test_evaluations_are_counted_as_if_every_node_had_been_evaluated_again() -> None:
    things = (node("a"), node("b", taints=["x:NoSchedule"]), node("c", cpu="1"), node("d"))
    engine = engine_with(*things)
    scoring = ("TaintToleration", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "VolumeBinding")
    expected = {
        ("NodeResourcesFit", "PreFilter", "Success"): 1,
        **{(plugin, "PreScore", "Success"): 1 for plugin in (*scoring, "DynamicResources")},
        ("NodeUnschedulable", "Filter", "Success"): 4,
        ("NodeName", "Filter", "Success"): 4,
        ("TaintToleration", "Filter", "Success"): 3,
        ("TaintToleration", "Filter", "UnschedulableAndUnresolvable"): 1,
        ("NodeResourcesFit", "Filter", "Success"): 2,
        ("NodeResourcesFit", "Filter", "UnschedulableAndUnresolvable"): 1,
        ("TaintToleration", "Score", "Success"): 2,
        ("NodeResourcesFit", "Score", "Success"): 2,
        ("NodeResourcesBalancedAllocation", "Score", "Success"): 2,
        ("ImageLocality", "Score", "Success"): 2,
        ("VolumeBinding", "Score", "Success"): 2,  # these two score every pod, with 0 points where there is nothing
        ("DynamicResources", "Score", "Success"): 2,
    }
    for name in ("first", "second"):  # the second shares the verdicts of the first
        counted: Counter[tuple[str, str, str]] = Counter()
        for plugin, point, code, number in engine.schedule(pod(name, cpu="2")).evaluations():
            counted[plugin, point, str(code)] += number
        assert counted == expected


def test_room_that_was_promised_to_a_more_important_pod_is_left_to_it() -> None:
    engine = engine_with(node("a", cpu="2"))
    engine.nominations.put(pod("promised", cpu="2", priority=10), "a")
    outcome = engine.schedule(pod("low", cpu="1"))
    assert outcome.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert engine.schedule(pod("higher", cpu="1", priority=20)).node == "a"
    assert engine.schedule(pod("promised", cpu="2", priority=10)).node == "a"
    engine.remove(pod("promised"))
    assert engine.schedule(pod("low", cpu="1")).node == "a"


def test_a_promise_is_over_when_the_pod_is_seen_on_a_node() -> None:
    engine = engine_with(node("a", cpu="2"), node("b", cpu="2"))
    engine.nominations.put(pod("promised", cpu="2", priority=10), "a")
    engine.put(pod("promised", cpu="2", priority=10, on="b"))
    assert engine.schedule(pod("low", cpu="1")).node == "a"
    assert engine.schedule(pod("large", cpu="2")).node == "a", "the pod on b still takes its room"


def test_a_promised_pod_keeps_others_out_only_where_its_node_is_in_a_domain() -> None:
    """It repels pods of `new` in its zone, and a node without the label is in no zone."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "new"}}}
    lonely = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    engine = engine_with(node("a", zone="z"), node("b"))
    for name in ("a", "b"):
        engine.nominations.put(pod(f"promised-{name}", priority=10, spec=lonely), name)
    assert engine.schedule(pod("new", labels={"app": "new"})).node == "b"


@given(
    cpus=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    promises=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3), st.integers(0, 2)), max_size=10),
    wanted=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_identical_nodes_share_what_nominated_pods_leave(
    cpus: list[int], promises: list[tuple[int, int, int]], wanted: int
) -> None:
    """Promises count as much as pods that are there already, on every node, and looking changes nothing."""
    engine = engine_with(*(node(f"n{number}", cpu=str(cpu)) for number, cpu in enumerate(cpus)))
    left = dict(enumerate(cpus))
    for index, (number, cpu, priority) in enumerate(promises):
        if number in left:
            engine.nominations.put(pod(f"promised-{index}", cpu=str(cpu), priority=priority), f"n{number}")
            left[number] -= cpu if priority >= 1 else 0
    for name in ("first", "second"):  # whether verdicts are made or kept
        found = engine.explain(pod(name, cpu=str(wanted), priority=1))
        fits = {name for name, explanation in found.items() if explanation.status.is_success}
        assert fits == {f"n{number}" for number, cpu in left.items() if cpu >= wanted}


# -- plugins of users


class EvenNodes:
    """Refuses nodes with odd numbers, for pods with the label."""

    name = "EvenNodes"

    def __init__(self, _arguments: PluginArguments, _handle: Handle) -> None:
        self.asked: list[str] = []

    def pre_filter_pod(self, _cycle: CycleState, pod: Pod, _cluster: Cluster) -> Status:
        return SUCCESS if "even" in pod.metadata.labels else SKIP

    def filter_node(self, _cycle: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.asked.append(node.name)
        if pod.metadata.labels["even"] == "broken":
            return error("it broke")
        return SUCCESS if int(node.name) % 2 == 0 else unschedulable("odd")

    def score_node(self, _cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(pod.metadata.labels.get("points", 0)) + int(node.name)

    def normalize_scores(self, _pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        return {name: score * 10 for name, score in scores.items()}


def engine_of_users(*things: Any) -> Engine:
    registry: dict[str, Factory] = {**IN_TREE, EvenNodes.name: EvenNodes}
    spec = ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("EvenNodes", 5)))
    return engine_with(*things, profiles=(spec,), registry=registry)


def test_a_plugin_written_per_node_is_asked_only_about_nodes_that_are_left() -> None:
    engine = engine_of_users(node("1"), node("2"), node("3", unschedulable=True))
    even = pod("p", labels={"even": "yes"})
    assert engine.schedule(even).node == "2"
    plugin = next(plugin for plugin in engine.profiles["default-scheduler"].plugins if isinstance(plugin, EvenNodes))
    assert plugin.asked == ["1", "2"]
    assert engine.explain(even)["1"].status.reasons == ("odd",)


def test_a_plugin_written_per_node_scores_with_its_weight() -> None:
    engine = engine_of_users(node("1"), node("2"))
    points = {name: entry.scores["EvenNodes"] for name, entry in engine.explain(pod("p")).items()}
    assert points == {"1": 50, "2": 100}
    assert engine.schedule(pod("p")).node == "2"


def test_an_error_of_a_plugin_ends_the_attempt() -> None:
    engine = engine_of_users(node("1"))
    outcome = engine.schedule(pod("p", labels={"even": "broken"}))
    assert outcome.node is None
    assert outcome.error is not None
    assert (outcome.error.plugin, outcome.message) == ("EvenNodes", "it broke")
    assert engine.schedule(pod("p")).node == "1"


def test_points_outside_of_the_range_are_the_plugins_mistake() -> None:
    engine = engine_of_users(node("1"), node("2"))
    with pytest.raises(ValueError, match="EvenNodes gave node 1 1010 points"):
        engine.schedule(pod("p", labels={"points": "100"}))


@dataclass(frozen=True)
class WrongProfile:
    name: str
    spec: ProfileSpec
    message: str


WRONG = [
    WrongProfile("a plugin that nobody has", ProfileSpec(plugins=(PluginUse("Nope"),)), "there is no scheduler plugin"),
    WrongProfile("nothing that sorts", ProfileSpec(plugins=(PluginUse("NodeName"),)), "one plugin must sort the queue"),
    WrongProfile(
        "a plugin at a point that it does not have",
        ProfileSpec(enabled={"filter": (PluginUse("ImageLocality"),)}),
        "does not have the extension point filter",
    ),
    WrongProfile(
        "an argument that does not exist",
        ProfileSpec(arguments={"NodeAffinity": {"added": {}}}),
        "arguments of the scheduler plugin NodeAffinity: .*added",
    ),
    WrongProfile(
        "a weight out of range",
        ProfileSpec(arguments={"InterPodAffinity": {"hardPodAffinityWeight": 101}}),
        "hardPodAffinityWeight",
    ),
    WrongProfile(
        "an unknown strategy",
        ProfileSpec(arguments={"NodeResourcesFit": {"scoringStrategy": {"type": "Best"}}}),
        '"Best" is not LeastAllocated',
    ),
    WrongProfile(
        "a shape that falls back",
        ProfileSpec(
            arguments={
                "NodeResourcesFit": {
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "requestedToCapacityRatio": {
                            "shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]
                        },
                    }
                }
            }
        ),
        "utilization values must",
    ),
    WrongProfile(
        "system defaults and a list at once",
        ProfileSpec(
            arguments={"PodTopologySpread": {"defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE}]}},
        ),
        "there are no defaultConstraints",
    ),
    WrongProfile(
        "a share of nodes beyond all",
        ProfileSpec(arguments={"DefaultPreemption": {"minCandidateNodesPercentage": 101}}),
        "minCandidateNodesPercentage",
    ),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_profile_that_cannot_be_is_refused(case: WrongProfile) -> None:
    with pytest.raises(PluginError, match=case.message):
        Engine((case.spec,))


def test_other_objects_are_kept_by_their_key() -> None:
    from mooring.api.core_v1 import Service

    engine = Engine()
    service = made(Service, {"metadata": {"name": "web", "namespace": "default"}, "spec": {}})
    engine.put(service)
    assert engine.cluster.objects(Service) == {"default/web": service}
    before = engine.cluster.changed_at(Service)
    engine.remove(service)
    assert engine.cluster.objects(Service) == {}
    assert engine.cluster.changed_at(Service) > before
