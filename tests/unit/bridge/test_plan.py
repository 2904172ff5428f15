"""What the bridge makes of pods and nodes: stock rules on it decide what the new rules decide on the original."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import stock_rules
from mooring.api import codec
from mooring.api.core_v1 import Affinity, Node, Pod, Taint, Toleration
from mooring.apiserver.registry.patch.json_patch import apply
from mooring.bridge import plan
from mooring.bridge.cluster import BridgedCluster
from mooring.bridge.pods import find_problems
from mooring.constraints import annotations, node_selector
from mooring.constraints import tolerations as new_rules
from mooring.testing.builders import made

ALL_ON = plan.OPTIONS
EFFECTS = ["NoSchedule", "NoExecute"]


def pod(wanted: Sequence[Mapping[str, Any]] = (), required_: Mapping[str, Any] | None = None, **spec: Any) -> Pod:
    given = {annotations.TOLERATIONS: json.dumps(list(wanted))} if wanted else {}
    if required_ is not None:
        given[annotations.NODE_AFFINITY] = json.dumps(dict(required_))
    metadata = {"name": "p", "namespace": "default", "resourceVersion": "7", "annotations": given}
    gates = [{"name": "other"}, {"name": annotations.GATE}]
    containers = [{"name": "c", "image": "i"}]
    return made(Pod, {"metadata": metadata, "spec": {"schedulingGates": gates, "containers": containers, **spec}})


def required(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def term(*entries: str, cel: Sequence[str] = (), name: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    if entries:
        split = [entry.split() for entry in entries]
        found["matchExpressions"] = [
            {"key": key, "operator": operator, **({"values": values} if values else {})}
            for key, operator, *values in split
        ]
    if cel:
        found["matchCELExpressions"] = list(cel)
    if name:
        found["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return found


def cluster(*nodes: Node) -> plan.ClusterFacts:
    values: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in plan.own_labels(node.metadata.labels).items():
            values.setdefault(key, set()).add(value)
    return plan.ClusterFacts([taint for node in nodes for taint in node.spec.taints], values)


def released(before: Pod, facts: plan.ClusterFacts) -> dict[str, Any]:
    tree: dict[str, Any] = apply(plan.release(before, facts), codec.to_tree(before))
    return tree


def affinity_of(*terms: Mapping[str, Any]) -> Affinity | None:
    return made(
        Pod, {"metadata": {"name": "x"}, "spec": {"affinity": {"nodeAffinity": required(*terms)}}}
    ).spec.affinity


def changes_on(node: Node, rules: Sequence[plan.NodeRule]) -> dict[str, str | None]:
    known = BridgedCluster()
    known.add_node(node)
    known.register("default/p", rules)
    return known.changes_on(node.metadata.name)


def labelled(node: Node, subject: Pod) -> dict[str, str]:
    changes = changes_on(node, plan.required_rules(subject))
    return {**node.metadata.labels, **{key: value for key, value in changes.items() if value is not None}}


@dataclass(frozen=True)
class Case:
    name: str
    given: Pod
    expected: dict[str, Any]


GOLD = made(
    Node,
    {
        "metadata": {"name": "a", "labels": {"kernel": "6.1.0", "zone": "x"}},
        "spec": {"taints": [{"key": "sla", "value": "960", "effect": "NoExecute"}]},
    },
)
LABEL = "constraints.mooring.dev/9ccea5d4e0d0b7759085cf16d97f53ee"
BY_LABEL = {"key": LABEL, "operator": "In", "values": ["true"]}
KERNEL = term("kernel SemverGt 6.0")


@pytest.mark.req("B.2", "B.3", "B.4")
@pytest.mark.parametrize(
    "case",
    [
        Case(
            "a number becomes the values that there are, with effect and seconds",
            pod([{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute", "tolerationSeconds": 30}]),
            {
                "tolerations": [
                    {"key": "sla", "operator": "Equal", "value": "960", "effect": "NoExecute", "tolerationSeconds": 30}
                ]
            },
        ),
        Case("what no taint meets adds nothing", pod([{"key": "sla", "operator": "Gt", "value": "970"}]), {}),
        Case(
            "stock words in the annotation are said by value, too, since order counts",
            pod([{"key": "sla", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}]),
            {
                "tolerations": [
                    {"key": "sla", "operator": "Equal", "value": "960", "effect": "NoExecute", "tolerationSeconds": 5}
                ]
            },
        ),
        Case(
            "what the spec tolerates already is left to it",
            pod([{"key": "sla", "operator": "Gt", "value": "950"}], tolerations=[{"key": "sla", "operator": "Exists"}]),
            {"tolerations": [{"key": "sla", "operator": "Exists"}]},
        ),
        Case(
            "a required version becomes a label, and the known values",
            pod((), required(KERNEL)),
            {"affinity": {"nodeAffinity": required({"matchExpressions": [BY_LABEL]}, term("kernel In 6.1.0"))}},
        ),
        Case(
            "a node selector beside it stays",
            pod((), required(KERNEL), nodeSelector={"zone": "x"}),
            {
                "nodeSelector": {"zone": "x"},
                "affinity": {"nodeAffinity": required({"matchExpressions": [BY_LABEL]}, term("kernel In 6.1.0"))},
            },
        ),
    ],
    ids=lambda case: case.name,
)
def test_one_patch_says_constraints_in_stock_words(case: Case) -> None:
    tree = released(case.given, cluster(GOLD))
    spec = {
        key: value
        for key, value in tree["spec"].items()
        if key in ("tolerations", "affinity", "nodeSelector") and value
    }
    assert spec == case.expected
    assert tree["spec"]["schedulingGates"] == [{"name": "other"}]
    assert tree["metadata"]["annotations"][plan.RELEASED] == plan.digest(case.given)


@pytest.mark.req("B.3")
@pytest.mark.parametrize(
    ("own", "wanted", "expected"),
    [
        ([term("zone In x")], [KERNEL], [term("zone In x", f"{LABEL} In true")]),
        ([term("zone In x"), {}], [KERNEL], [term("zone In x", f"{LABEL} In true"), {}]),
    ],
    ids=["one term", "a term that chooses nothing goes on choosing nothing"],
)
def test_terms_of_the_spec_are_tightened_and_none_is_added(own: Any, wanted: Any, expected: Any) -> None:
    given = pod((), required(*wanted))
    given.spec.affinity = affinity_of(*own)
    tree = released(given, cluster(GOLD))
    assert tree["spec"]["affinity"]["nodeAffinity"] == required(*expected)


@pytest.mark.req("B.2")
def test_more_taints_than_a_pod_can_tolerate_are_reported() -> None:
    taints = [Taint(key="sla", value=str(number), effect="NoSchedule") for number in range(2000)]
    with pytest.raises(plan.TooManyTaintsError, match=r"narrow constraints\.mooring\.dev/tolerations"):
        plan.release(pod([{"key": "sla", "operator": "Gt", "value": "-1"}]), plan.ClusterFacts(taints, {}))


@pytest.mark.req("B.8")
def test_a_label_that_no_pod_needs_or_that_a_user_changed_is_corrected() -> None:
    stale = {"constraints.mooring.dev/old": "true", LABEL: "edited", "mine": "1", "kernel": "6.1.0"}
    node = made(Node, {"metadata": {"name": "a", "labels": stale}})
    assert changes_on(node, plan.required_rules(pod((), required(KERNEL)))) == {
        "constraints.mooring.dev/old": None,
        LABEL: "true",
    }


@pytest.mark.req("B.3")
def test_an_expression_that_counts_labels_does_not_count_ours() -> None:
    subject = pod((), required(term(cel=["node.labels.size() == 1"])))
    (rule,) = plan.required_rules(subject)
    node = made(Node, {"metadata": {"name": "a", "labels": {"x": "1", rule.label: "true"}}})
    assert changes_on(node, [rule]) == {}


# -- the same over random clusters and their changes

TAINTS = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from(["sla", "cni"]),
        value=st.sampled_from(["940", "960", "v3.27.2", ""]),
        effect=st.sampled_from(EFFECTS),
    ),
    max_size=3,
    unique_by=lambda taint: (taint.key, taint.effect),
)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "kernel": st.sampled_from(["5.4", "6.1.0", "6.8", "none"]),
        "zone": st.sampled_from(["x", "y"]),
    },
)
NODES = st.lists(st.tuples(LABELS, TAINTS), min_size=1, max_size=4)
TOLERATIONS = st.lists(
    st.sampled_from(
        [
            {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute", "tolerationSeconds": 30},
            {"key": "sla", "operator": "Lt", "value": "950"},
            {"key": "sla", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "cni", "operator": "SemverGt", "value": "3.20", "effect": "NoSchedule"},
            {"expression": "taint.key == 'cni' && taint.value == ''", "tolerationSeconds": 9},
            {"key": "cni", "operator": "Equal", "value": "v3.27.2"},
        ]
    ),
    max_size=3,
)
TERMS = st.lists(
    st.sampled_from(
        [
            term("kernel SemverGt 6.0"),
            term("kernel SemverLt 6.5", "zone In x"),
            term("zone NotIn y"),
            term(cel=["'zone' in node.labels && node.labels['zone'] == 'y'"]),
            term("kernel SemverGt 5", name="n0"),
            {},
        ]
    ),
    min_size=1,
    max_size=3,
)
STOCK_TERMS = st.lists(st.sampled_from([term("zone In x"), term("kernel Exists"), {}]), min_size=1, max_size=2)


def nodes_of(drawn: Sequence[tuple[Mapping[str, str], list[Taint]]]) -> list[Node]:
    made_ = [
        made(Node, {"metadata": {"name": f"n{number}", "labels": dict(labels)}})
        for number, (labels, _) in enumerate(drawn)
    ]
    for node, (_, taints) in zip(made_, drawn, strict=True):
        node.spec.taints = taints
    return made_


def stays(original: Pod, taints: list[Taint]) -> float:
    """How long the new rules let a pod stay."""
    shortest = float("inf")
    for taint in taints:
        if taint.effect == "NoExecute":
            first = next((each for each in original.spec.tolerations if new_rules.tolerates(each, taint, ALL_ON)), None)
            seconds = (
                0.0 if first is None else float("inf") if first.toleration_seconds is None else first.toleration_seconds
            )
            shortest = min(shortest, max(seconds, 0.0))
    return shortest


@pytest.mark.req("B.12")
@settings(max_examples=150, deadline=None)
@given(
    first=NODES,
    then=NODES,
    wanted=TOLERATIONS,
    terms=st.none() | TERMS,
    own=st.none() | STOCK_TERMS,
    tolerant=st.booleans(),
)
def test_stock_rules_on_the_bridged_pod_equal_new_rules_on_the_original(
    *, first: Any, then: Any, wanted: Any, terms: Any, own: Any, tolerant: bool
) -> None:
    subject = pod(wanted, None if terms is None else required(*terms))
    if tolerant:
        subject.spec.tolerations = [Toleration(key="cni", operator="Exists")]
    if own is not None:
        subject.spec.affinity = affinity_of(*own)
    assume(wanted or terms is not None)
    assert find_problems(subject) == []
    original = annotations.as_in_spec(subject)
    affinity = node_selector.required_affinity(original.spec, ALL_ON)
    bridged = subject
    for moment in (first, then):
        nodes = nodes_of(moment)
        facts = cluster(*nodes)
        if moment is first:
            tree = released(bridged, facts)
        else:
            tree = apply(plan.additions(bridged, facts), codec.to_tree(bridged))
        bridged = made(Pod, tree)
        spec = codec.to_tree(bridged)["spec"]
        for node in nodes:
            labels, name = node.metadata.labels, node.metadata.name
            assert stock_rules.meets_required(spec, labelled(node, subject), name) == affinity.matches(labels, name)
            trees = [codec.to_tree(taint) for taint in node.spec.taints]
            refusing = stock_rules.untolerated(trees, spec.get("tolerations", []), "NoSchedule")
            hard = [taint for taint in node.spec.taints if taint.effect == "NoSchedule"]
            assert (refusing is None) == (new_rules.find_untolerated(hard, original.spec.tolerations, ALL_ON) is None)
            assert stock_rules.stay(trees, spec.get("tolerations", [])) == stays(original, node.spec.taints)
