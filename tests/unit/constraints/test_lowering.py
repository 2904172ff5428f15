"""Lowered constraints: stock rules on what was lowered decide what the new rules decide on the original."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stock_rules
from mooring.api import codec
from mooring.api.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    VolumeNodeAffinity,
)
from mooring.constraints import node_selector, tolerations
from mooring.constraints.lowering.for_node import NodeProperties, lower_pod, lower_volume
from mooring.constraints.lowering.support import STOCK, is_unsupported
from mooring.constraints.lowering.terms import LABEL_VALUE, constraint_of, lower_term, term_of_known_values
from mooring.constraints.lowering.tolerations import lower_tolerations
from mooring.constraints.options import ConstraintOptions

ALL_ON = ConstraintOptions()
EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
TIMES = [None, "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"]
OPTIONS = st.builds(ConstraintOptions, st.booleans(), st.booleans(), st.booleans())


def taints(times: Sequence[str | None] = TIMES) -> st.SearchStrategy[list[Taint]]:
    """Return the taints of one node: a key and an effect stand there once."""
    one = st.builds(
        Taint,
        key=st.sampled_from(["sla", "cni"]),
        value=st.sampled_from(["940", "960", "0960", "v3.27.2", ""]),
        effect=st.sampled_from(EFFECTS),
        time_added=st.sampled_from(times),
    )
    return st.lists(one, max_size=4, unique_by=lambda taint: (taint.key, taint.effect))


SECONDS = st.none() | st.integers(-1, 60)
BY_OPERATOR = st.builds(
    lambda key, operator, value, effect, seconds: Toleration(
        key=key,
        operator=operator,
        value="" if operator == "Exists" else value,
        effect=effect,
        toleration_seconds=seconds if effect == "NoExecute" else None,
    ),
    st.sampled_from(["sla", "cni"]),
    st.sampled_from(["", "Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq"]),
    st.sampled_from(["940", "950", "965", "3.27.2", "junk"]),
    st.sampled_from(["", *EFFECTS]),
    SECONDS,
)
BY_EXPRESSION = st.builds(
    Toleration,
    expression=st.sampled_from(
        [
            "taint.key == 'sla' && int(taint.value) > 950",
            "taint.effect == 'NoExecute'",
            "!has(taint.timeAdded)",
            "taint.timeAdded > timestamp('2026-03-01T00:00:00Z')",
            "semver.compare(taint.value, '>=3.28')",
            "true",
            "nonsense",
        ]
    ),
    toleration_seconds=SECONDS,
)
TOLERATIONS = st.lists(BY_OPERATOR | BY_EXPRESSION, max_size=4)

LABELS = st.fixed_dictionaries(
    {},
    optional={
        "kernel": st.sampled_from(["5.4", "v5.15.0-91", "6.1.0", "none"]),
        "zone": st.sampled_from(["a", "b"]),
        "cores": st.sampled_from(["4", "16", "many"]),
    },
)
NAMES = ["node-0", "node-1", "node-2"]
TERMS = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(
        st.sampled_from(
            [
                NodeSelectorRequirement(key=key, operator=operator, values=values)
                for key, operator, values in [
                    ("zone", "In", ["a"]),
                    ("zone", "NotIn", ["a"]),
                    ("cores", "Gt", ["8"]),
                    ("kernel", "Exists", []),
                    ("kernel", "DoesNotExist", []),
                    ("kernel", "SemverGt", ["5.10"]),
                    ("kernel", "SemverLt", ["6"]),
                    ("kernel", "SemverEq", ["6.1"]),
                    ("cores", "SemverGt", ["8"]),
                    ("kernel", "SemverEq", ["x"]),
                ]
            ]
        ),
        max_size=2,
    ),
    match_fields=st.lists(
        st.builds(
            lambda operator, name: NodeSelectorRequirement(key="metadata.name", operator=operator, values=[name]),
            st.sampled_from(["In", "NotIn"]),
            st.sampled_from(NAMES),
        ),
        max_size=1,
    ),
    match_cel_expressions=st.lists(
        st.sampled_from(
            [
                "node.labels['zone'] == 'a'",
                "!has(node.labels.zone)",
                "semver.compare(node.labels['kernel'], '>=5.10')",
                "int(node.labels['cores']) > 8 || node.labels['zone'] == 'b'",
                "size(node.labels) == 2",
                "true",
                "nonsense",
            ]
        ),
        max_size=2,
    ),
)
SELECTORS = st.builds(NodeSelector, node_selector_terms=st.lists(TERMS, max_size=3))


def wire(value: Any) -> Any:
    return codec.to_tree(value)


def stays(seconds: int | None) -> float:
    return float("inf") if seconds is None else seconds


def pod_with(tolerated: list[Toleration], selector: NodeSelector | None) -> Pod:
    preferred = [
        PreferredSchedulingTerm(weight=1, preference=term) for term in (selector or NodeSelector()).node_selector_terms
    ]
    affinity = NodeAffinity(
        required_during_scheduling_ignored_during_execution=selector,
        preferred_during_scheduling_ignored_during_execution=preferred,
    )
    return Pod(spec=PodSpec(tolerations=tolerated, affinity=Affinity(node_affinity=affinity)))


@pytest.mark.req("N.1", "N.3")
@settings(max_examples=120, deadline=None)
@given(taints(), LABELS, TOLERATIONS, st.none() | SELECTORS, st.tuples(OPTIONS, st.booleans()))
def test_stock_rules_on_what_a_node_reads_equal_the_new_rules_on_what_is_stored(
    of_node: list[Taint],
    labels: dict[str, str],
    tolerated: list[Toleration],
    selector: NodeSelector | None,
    gates: tuple[ConstraintOptions, bool],
) -> None:
    name, (options, knows_comparisons) = NAMES[0], gates
    known = ConstraintOptions(knows_comparisons, False, False)
    pod = pod_with(tolerated, selector)
    spec = wire(lower_pod(pod, NodeProperties(tuple(of_node), labels, known), options).spec)
    for effect in EFFECTS:
        evaluated = stock_rules.untolerated(wire(of_node), spec.get("tolerations", []), effect, knows_comparisons)
        assert evaluated == wire(tolerations.find_untolerated(of_node, tolerated, options, frozenset({effect})))
    stay = tolerations.permitted_stay(of_node, tolerated, options).seconds
    assert stock_rules.stay(wire(of_node), spec.get("tolerations", []), knows_comparisons) == stays(stay)
    required = node_selector.required_affinity(pod.spec, options)
    assert stock_rules.meets_required(spec, labels, name) is required.matches(labels, name)
    for entry, weighted in zip(
        spec["affinity"]["nodeAffinity"].get("preferredDuringSchedulingIgnoredDuringExecution", []),
        (selector or NodeSelector()).node_selector_terms,
        strict=True,
    ):
        compiled = node_selector.compile_term(weighted, options)
        assert stock_rules.meets_term(entry["preference"], labels, name) is bool(
            compiled and compiled.matches(labels, name)
        )


@pytest.mark.req("B.2", "B.12")
@settings(max_examples=80, deadline=None)
@given(st.lists(taints([None]), max_size=4), TOLERATIONS, OPTIONS)
def test_tolerations_for_a_cluster_mean_the_same_on_each_of_its_nodes(
    nodes: list[list[Taint]], tolerated: list[Toleration], options: ConstraintOptions
) -> None:
    lowered = wire(lower_tolerations(tolerated, [taint for node in nodes for taint in node], options))
    for node in nodes:
        for effect in EFFECTS:
            original = tolerations.find_untolerated(node, tolerated, options, frozenset({effect}))
            assert stock_rules.untolerated(wire(node), lowered, effect) == wire(original)
        stay = tolerations.permitted_stay(node, tolerated, options).seconds
        assert stock_rules.stay(wire(node), lowered) == stays(stay)


@pytest.mark.req("B.2")
@settings(max_examples=80, deadline=None)
@given(st.lists(taints(), max_size=4), TOLERATIONS, OPTIONS)
def test_taints_that_differ_in_their_time_alone_are_never_tolerated_more_widely_or_longer(
    nodes: list[list[Taint]], tolerated: list[Toleration], options: ConstraintOptions
) -> None:
    lowered = wire(lower_tolerations(tolerated, [taint for node in nodes for taint in node], options))
    for node in nodes:
        for taint in node:
            if any(stock_rules.tolerates(entry, wire(taint)) for entry in lowered):
                assert tolerations.any_tolerates(tolerated, taint, options)
        stay = tolerations.permitted_stay(node, tolerated, options).seconds
        assert stock_rules.stay(wire(node), lowered) <= stays(stay)


@pytest.mark.req("B.2")
@settings(max_examples=80, deadline=None)
@given(st.lists(taints([None]), min_size=2, max_size=4), TOLERATIONS)
def test_new_taints_only_add_tolerations_and_none_stands_twice(
    nodes: list[list[Taint]], tolerated: list[Toleration]
) -> None:
    seen = [
        lower_tolerations(tolerated, [taint for node in nodes[:count] for taint in node], ALL_ON)
        for count in range(len(nodes) + 1)
    ]
    for before, after in pairwise(seen):
        assert all(entry in after for entry in before)
    foreign = sum(is_unsupported(entry) for entry in tolerated)
    kept = len(tolerated) - foreign
    distinct = {(taint.key, taint.value, taint.effect) for node in nodes for taint in node}
    assert len(seen[-1]) <= kept + len(distinct)


@pytest.mark.req("B.3", "B.12")
@settings(max_examples=120, deadline=None)
@given(st.lists(LABELS, min_size=1, max_size=3), TERMS, OPTIONS)
def test_a_term_for_a_cluster_chooses_the_same_nodes_by_its_label(
    nodes: list[dict[str, str]], term: NodeSelectorTerm, options: ConstraintOptions
) -> None:
    constraint, original = constraint_of(term, options), node_selector.compile_term(term, options)
    lowered = wire(lower_term(term, options))
    values = {key: [node[key] for node in nodes if key in node] for key in ("kernel", "zone", "cores")}
    second = term_of_known_values(term, values, options)
    for name, labels in zip(NAMES, nodes, strict=False):
        holds = bool(original and original.matches(labels, name))
        met = constraint is not None and constraint.is_met_by(labels)
        labelled = {**labels, constraint.label: LABEL_VALUE} if constraint and met else labels
        assert stock_rules.meets_term(lowered, labelled, name) is holds
        if second is not None:
            assert constraint is not None
            assert constraint.reads is not None
            by_value = stock_rules.meets_term(wire(second), labels, name)
            assert by_value is (holds and constraint.reads[0] in labels)


GT_950 = Toleration(key="sla", operator="Gt", value="950", effect="NoExecute", toleration_seconds=10)
ALL_SLA = Toleration(key="sla", operator="Exists")
LATE = Toleration(expression="taint.timeAdded > timestamp('2026-03-01T00:00:00Z')", toleration_seconds=5)
ANY = Toleration(expression="true", toleration_seconds=7)


def equal(value: str, effect: str = "NoExecute", seconds: int | None = None) -> Toleration:
    return Toleration(key="sla", operator="Equal", value=value, effect=effect, toleration_seconds=seconds)


def sla(value: str, effect: str = "NoExecute", added: str | None = None) -> Taint:
    return Taint(key="sla", value=value, effect=effect, time_added=added)


@dataclass
class Lowered:
    name: str
    tolerations: list[Toleration]
    taints: list[Taint]
    lowered: list[Toleration]


@pytest.mark.req("B.2")
@pytest.mark.parametrize(
    "case",
    [
        Lowered("one for each tolerated value", [GT_950], [sla("960"), sla("940")], [equal("960", seconds=10)]),
        Lowered(
            "it stands where its original stood",
            [GT_950, ALL_SLA, ANY],
            [sla("960")],
            [equal("960", seconds=10), ALL_SLA],
        ),
        Lowered("none where an earlier one matches", [ALL_SLA, GT_950], [sla("960")], [ALL_SLA]),
        Lowered("seconds only beside NoExecute", [ANY], [sla("1", "NoSchedule")], [equal("1", "NoSchedule")]),
        Lowered(
            "sorted, whatever the order of nodes",
            [ANY],
            [sla("2"), sla("1")],
            [equal("1", seconds=7), equal("2", seconds=7)],
        ),
        Lowered(
            "times of which one is not tolerated", [LATE], [sla("1", added=TIMES[1]), sla("1", added=TIMES[2])], []
        ),
        Lowered(
            "the shortest period of all times",
            [LATE, ALL_SLA],
            [sla("1", added=TIMES[1]), sla("1", added=TIMES[2])],
            [equal("1", seconds=5), ALL_SLA],
        ),
    ],
    ids=lambda case: case.name,
)
def test_tolerations_are_lowered_for_the_taints_of_a_cluster(case: Lowered) -> None:
    assert lower_tolerations(case.tolerations, case.taints, ALL_ON) == case.lowered


@dataclass
class Labelled:
    name: str
    one: NodeSelectorTerm
    other: NodeSelectorTerm
    same: bool


def semver(*versions: str, key: str = "kernel", expressions: Sequence[str] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=[NodeSelectorRequirement(key=key, operator="SemverGt", values=[v]) for v in versions],
        match_cel_expressions=list(expressions),
    )


ZONE_A = NodeSelectorRequirement(key="zone", operator="In", values=["a"])


@pytest.mark.req("B.3")
@pytest.mark.parametrize(
    "case",
    [
        Labelled("the order of requirements does not matter", semver("5", "6"), semver("6", "5"), True),
        Labelled("a repeated requirement says nothing new", semver("5", "5"), semver("5"), True),
        Labelled(
            "the order of expressions does not matter",
            semver(expressions=["true", "1 < 2"]),
            semver(expressions=["1 < 2", "true"]),
            True,
        ),
        Labelled(
            "stock requirements beside it do not matter",
            semver("5"),
            NodeSelectorTerm(match_expressions=[ZONE_A, *semver("5").match_expressions]),
            True,
        ),
        Labelled("another version is another constraint", semver("5"), semver("6"), False),
        Labelled("another key is another constraint", semver("5"), semver("5", key="runtime"), False),
        Labelled("a requirement is not an expression", semver("5"), semver(expressions=["5"]), False),
    ],
    ids=lambda case: case.name,
)
def test_equal_constraints_share_a_label(case: Labelled) -> None:
    one, other = constraint_of(case.one, ALL_ON), constraint_of(case.other, ALL_ON)
    assert one is not None
    assert other is not None
    assert (one.label == other.label) is case.same


@pytest.mark.req("B.3")
def test_the_label_of_a_constraint_is_the_same_in_every_release_and_with_its_gate_off() -> None:
    for options in (ALL_ON, STOCK):
        constraint = constraint_of(semver("6.0", expressions=["node.labels['rack'] == 'a'"]), options)
        assert constraint is not None
        assert constraint.label == "constraints.mooring.dev/791c6ad695d559eaa7fde65a505dc054"
        assert constraint.is_met_by({"kernel": "6.1", "rack": "a"}) is (options is ALL_ON)


@pytest.mark.req("B.3")
def test_a_constraint_on_one_label_lists_the_known_values_that_meet_it() -> None:
    constraint = constraint_of(semver("5.10"), ALL_ON)
    assert constraint is not None
    assert constraint.known_values(["6.1.0", "5.4", "junk", "5.15.0", "6.1.0"]) == ("kernel", ["5.15.0", "6.1.0"])
    two = constraint_of(semver("5.10", expressions=["node.labels['rack'] == 'a'"]), ALL_ON)
    assert two is not None
    assert two.known_values(["6.1.0"]) is None


@pytest.mark.req("N.3")
def test_a_node_that_knows_the_words_reads_the_original() -> None:
    pod = pod_with(
        [Toleration(key="sla", operator="Gt", value="950"), Toleration(expression="true")],
        NodeSelector(node_selector_terms=[semver("6.0")]),
    )
    assert lower_pod(pod, NodeProperties((), {}, ALL_ON), ALL_ON) is pod


@pytest.mark.req("N.3")
def test_what_the_control_plane_has_switched_off_never_matches_for_a_node_that_would_evaluate_it() -> None:
    taint = Taint(key="sla", value="960", effect="NoExecute")
    pod = pod_with(
        [Toleration(key="sla", operator="Gt", value="950")], NodeSelector(node_selector_terms=[semver("6.0")])
    )
    read = lower_pod(pod, NodeProperties((taint,), {"kernel": "6.1"}, ALL_ON), STOCK)
    assert read.spec.tolerations == []
    assert not stock_rules.meets_required(wire(read.spec), {"kernel": "6.1"}, "node-0")


@pytest.mark.req("N.1")
@pytest.mark.parametrize(("kernel", "usable"), [("6.1.0", True), ("5.4", False)])
def test_a_volume_says_to_a_node_whether_it_can_be_used_there(kernel: str, usable: bool) -> None:
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=[semver("6.0")]))
    volume = PersistentVolume(spec=PersistentVolumeSpec(node_affinity=affinity))
    read = wire(lower_volume(volume, NodeProperties((), {"kernel": kernel}), ALL_ON))
    assert stock_rules.meets_selector(read["spec"]["nodeAffinity"]["required"], {"kernel": kernel}, "node-0") is usable


@pytest.mark.req("N.4")
def test_what_has_no_new_words_is_the_same_object() -> None:
    plain = Pod(spec=PodSpec(tolerations=[Toleration(key="sla", operator="Exists")]))
    assert lower_pod(plain, NodeProperties((), {}), ALL_ON) is plain
    in_zone = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[ZONE_A])])
    volume = PersistentVolume(spec=PersistentVolumeSpec(node_affinity=VolumeNodeAffinity(required=in_zone)))
    assert lower_volume(volume, NodeProperties((), {}), ALL_ON) is volume
