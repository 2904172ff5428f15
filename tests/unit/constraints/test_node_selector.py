"""Node selectors: every operator, terms, fields, CEL, what is invalid, volumes, and points."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from mooring.api.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    PodSpec,
    PreferredSchedulingTerm,
    VolumeNodeAffinity,
)
from mooring.base import logs
from mooring.constraints import node_selector
from mooring.constraints.options import ConstraintOptions

ALL_ON = ConstraintOptions()
ALL_OFF = ConstraintOptions(numeric_tolerations=False, semver_operators=False, cel=False)
LABELS = {"zone": "a", "cores": "16", "kernel": "5.15.0-91-generic", "runtime": "v2.1", "odd": "x.y"}


def req(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values))


def term(*requirements: NodeSelectorRequirement, cel: tuple[str, ...] = (), name: str = "") -> NodeSelectorTerm:
    fields = [req("metadata.name", "In", name)] if name else []
    return NodeSelectorTerm(match_expressions=list(requirements), match_fields=fields, match_cel_expressions=list(cel))


def matches(*terms: NodeSelectorTerm, options: ConstraintOptions = ALL_ON, name: str = "node-1") -> bool:
    selector = node_selector.compile_selector(NodeSelector(node_selector_terms=list(terms)), options)
    return selector.matches(LABELS, name)


@pytest.fixture(autouse=True)
def nothing_said_yet() -> Iterator[None]:
    logs._once.clear()
    yield
    logs._once.clear()


@dataclass(frozen=True)
class Case:
    id: str
    requirement: NodeSelectorRequirement
    expected: bool


class TestNodeSelectorRequirementsAsSelector:
    """Named in KEP-5500's test plan: one requirement, every operator."""

    CASES = (
        Case("In with the value", req("zone", "In", "b", "a"), True),
        Case("In without the value", req("zone", "In", "b", "c"), False),
        Case("In for an absent label", req("none", "In", "a"), False),
        Case("NotIn with the value", req("zone", "NotIn", "b", "a"), False),
        Case("NotIn without the value", req("zone", "NotIn", "b"), True),
        Case("NotIn for an absent label", req("none", "NotIn", "a"), True),
        Case("Exists", req("zone", "Exists"), True),
        Case("Exists for an absent label", req("none", "Exists"), False),
        Case("DoesNotExist", req("zone", "DoesNotExist"), False),
        Case("DoesNotExist for an absent label", req("none", "DoesNotExist"), True),
        Case("Gt below", req("cores", "Gt", "15"), True),
        Case("Gt is not at least", req("cores", "Gt", "16"), False),
        Case("Lt above", req("cores", "Lt", "17"), True),
        Case("Lt is not at most", req("cores", "Lt", "16"), False),
        Case("settled question 2: Gt keeps its lax parsing", req("cores", "Gt", "007"), True),
        Case("Gt for a label that is no number", req("zone", "Gt", "1"), False),
        Case("Gt for an absent label", req("none", "Gt", "1"), False),
        Case("SemverGt below", req("kernel", "SemverGt", "5.10"), True),
        Case("SemverGt above", req("kernel", "SemverGt", "v5.15.0"), False),
        Case("SemverLt above", req("kernel", "SemverLt", "5.15"), True),
        Case("SemverLt below", req("kernel", "SemverLt", "5.14.99"), False),
        Case("SemverEq however it is written", req("runtime", "SemverEq", "2.1.0"), True),
        Case("SemverEq to another version", req("runtime", "SemverEq", "2.1.1"), False),
        Case("SemverGt for an absent label", req("none", "SemverGt", "1.0.0"), False),
        Case("SemverLt for a label that is no version", req("odd", "SemverLt", "9.0.0"), False),
        Case(
            "a version with build metadata is no label value, but a version", req("runtime", "SemverEq", "2.1+b"), False
        ),
        Case("build metadata is ignored", req("runtime", "SemverEq", "2.1.0+b"), True),
    )

    @pytest.mark.req("5500.15", "5721.2", "5721.4")
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
    def test_operator(self, case: Case) -> None:
        assert matches(term(case.requirement)) is case.expected

    INVALID = (
        Case("an unknown operator", req("zone", "SemverGe", "1"), False),
        Case("In without values", req("zone", "In"), False),
        Case("NotIn without values", req("none", "NotIn"), False),
        Case("Exists with a value", req("zone", "Exists", "a"), False),
        Case("DoesNotExist with a value", req("none", "DoesNotExist", "a"), False),
        Case("Gt with a word", req("cores", "Gt", "many"), False),
        Case("Gt with two values", req("cores", "Gt", "1", "2"), False),
        Case("Gt beyond 64 bits", req("cores", "Lt", "9223372036854775808"), False),
        Case("a version that is none", req("kernel", "SemverGt", "x"), False),
        Case("two versions", req("kernel", "SemverGt", "1.0.0", "2.0.0"), False),
        Case("no version", req("kernel", "SemverGt"), False),
        Case("a value that is no label value", req("zone", "NotIn", "no label"), False),
        Case("a key that is no label key", req("no label", "DoesNotExist"), False),
    )

    @pytest.mark.req("5500.15")
    @pytest.mark.parametrize("case", INVALID, ids=lambda case: case.id)
    def test_what_is_invalid_never_matches_and_does_not_vanish_from_its_term(self, case: Case) -> None:
        assert not matches(term(case.requirement))
        assert not matches(term(req("zone", "Exists"), case.requirement))
        assert matches(term(case.requirement), term(req("zone", "Exists")))


@dataclass(frozen=True)
class SelectorCase:
    id: str
    terms: list[NodeSelectorTerm]
    expected: bool


class TestNodeSelectorMatch:
    """Named in KEP-5500's test plan: terms, fields and their combinations."""

    NOT_NAMED = NodeSelectorTerm(match_fields=[req("metadata.name", "NotIn", "node-1")])
    CASES = (
        SelectorCase("no terms", [], False),
        SelectorCase("an empty term", [term()], False),
        SelectorCase("an empty term beside a matching one", [term(), term(req("zone", "Exists"))], True),
        SelectorCase("all conditions of a term", [term(req("zone", "In", "a"), req("cores", "Gt", "9"))], True),
        SelectorCase("one condition fails", [term(req("zone", "In", "a"), req("cores", "Gt", "99"))], False),
        SelectorCase("one of two terms", [term(req("zone", "In", "b")), term(req("zone", "In", "a"))], True),
        SelectorCase("the name", [term(name="node-1")], True),
        SelectorCase("another name", [term(name="node-2")], False),
        SelectorCase("not the name", [NOT_NAMED], False),
        SelectorCase("name and label", [term(req("zone", "In", "a"), name="node-1")], True),
        SelectorCase("name without the label", [term(req("zone", "In", "b"), name="node-1")], False),
        SelectorCase("another field", [NodeSelectorTerm(match_fields=[req("spec.x", "NotIn", "a")])], False),
        SelectorCase(
            "two names in one condition",
            [NodeSelectorTerm(match_fields=[req("metadata.name", "NotIn", "a", "b")])],
            False,
        ),
        SelectorCase(
            "a version operator on a field",
            [NodeSelectorTerm(match_fields=[req("metadata.name", "SemverGt", "1.0.0")])],
            False,
        ),
    )

    @pytest.mark.req("5500.15", "5500.5")
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
    def test_terms(self, case: SelectorCase) -> None:
        assert matches(*case.terms) is case.expected


class TestNodeAffinityCELMatching:
    """Named in KEP-5500's test plan, with its cases."""

    ZONE_A = "node.labels['zone'] == 'a'"
    CASES = (
        SelectorCase("CEL expression matches label exists", [term(cel=("'zone' in node.labels",))], True),
        SelectorCase("CEL expression label does not exist", [term(cel=("'none' in node.labels",))], False),
        SelectorCase("CEL expression matches label value", [term(cel=(ZONE_A,))], True),
        SelectorCase("CEL expression label value mismatch", [term(cel=("node.labels['zone'] == 'b'",))], False),
        SelectorCase("CEL expression with startsWith", [term(cel=("node.labels['kernel'].startsWith('5.')",))], True),
        SelectorCase("CEL expression with contains", [term(cel=("node.labels['kernel'].contains('gen')",))], True),
        SelectorCase("multiple CEL expressions (AND semantics)", [term(cel=(ZONE_A, "size(node.labels) > 2"))], True),
        SelectorCase("multiple CEL expressions one fails (AND semantics)", [term(cel=(ZONE_A, "false"))], False),
        SelectorCase("multiple terms (OR semantics) first matches", [term(cel=("true",)), term(cel=("false",))], True),
        SelectorCase("multiple terms (OR semantics) second matches", [term(cel=("false",)), term(cel=("true",))], True),
        SelectorCase("mix of CEL and matchExpressions", [term(req("zone", "In", "a"), cel=(ZONE_A,))], True),
        SelectorCase(
            "mix of CEL and matchExpressions - CEL fails", [term(req("zone", "In", "a"), cel=("false",))], False
        ),
        SelectorCase("CEL expression always true", [term(cel=("true",))], True),
        SelectorCase("CEL, label and name", [term(req("zone", "In", "a"), cel=(ZONE_A,), name="node-1")], True),
        SelectorCase("CEL and another name", [term(cel=(ZONE_A,), name="node-2")], False),
        SelectorCase("a version range", [term(cel=("semver.compare(node.labels['kernel'], '>=5.10 <6')",))], True),
        SelectorCase("an absent label is an error", [term(cel=("node.labels['none'] != 'x'",))], False),
        SelectorCase("an error in one term", [term(cel=("node.labels['none'] != 'x'",)), term(cel=("true",))], True),
        SelectorCase("all labels", [term(cel=("node.labels.exists(key, key.startsWith('ker'))",))], True),
        SelectorCase("an expression that does not compile", [term(cel=("node.name == 'x'",))], False),
        SelectorCase("an expression that is no bool", [term(cel=("node.labels['zone']",))], False),
    )

    @pytest.mark.req("5500.15", "5500.5", "5500.6", "5500.2")
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
    def test_terms(self, case: SelectorCase) -> None:
        assert matches(*case.terms) is case.expected

    @pytest.mark.req("5500.9")
    def test_settled_question_4_a_term_that_cannot_be_used_does_not_match_all(self) -> None:
        assert not matches(term(cel=("true",)), options=ALL_OFF)
        assert not matches(term(req("zone", "In", "a"), cel=("true",)), options=ALL_OFF)
        assert matches(term(cel=("true",)), term(req("zone", "In", "a")), options=ALL_OFF)


@pytest.mark.req("5721.6")
@pytest.mark.parametrize("operator", ["SemverGt", "SemverLt", "SemverEq"])
def test_version_operators_fail_closed_when_their_gate_is_off(operator: str) -> None:
    version = {"SemverGt": "2.0.0", "SemverLt": "3.0.0", "SemverEq": "2.1.0"}[operator]
    assert matches(term(req("runtime", operator, version)))
    assert not matches(term(req("runtime", operator, version)), options=replace(ALL_ON, semver_operators=False))
    assert matches(term(req("cores", "Gt", "1")), options=ALL_OFF), "node affinity's own Gt has no gate"


@dataclass(frozen=True)
class PodCase:
    id: str
    expected: bool
    node_selector: dict[str, str] = field(default_factory=dict)
    terms: list[NodeSelectorTerm] | None = None


class TestPodMatchesNodeSelectorAndAffinityTerms:
    """Named in KEP-5500's test plan: `nodeSelector` and the required affinity must both hold."""

    CASES = (
        PodCase("nothing is demanded", True),
        PodCase("nodeSelector alone", True, {"zone": "a"}),
        PodCase("nodeSelector with another value", False, {"zone": "b"}),
        PodCase("nodeSelector with one pair of two", False, {"zone": "a", "none": "x"}),
        PodCase("affinity alone", True, terms=[term(req("zone", "In", "a"))]),
        PodCase("affinity without terms", False, terms=[]),
        PodCase("both", True, {"zone": "a"}, [term(req("cores", "Gt", "1"))]),
        PodCase("nodeSelector fails", False, {"zone": "b"}, [term(req("cores", "Gt", "1"))]),
        PodCase("affinity fails", False, {"zone": "a"}, [term(req("cores", "Gt", "100"))]),
        PodCase("nodeSelector and CEL", True, {"zone": "a"}, [term(cel=("'cores' in node.labels",))]),
        PodCase("a nodeSelector is never CEL", False, {"zone": "node.labels['zone'] == 'a'"}),
    )

    @pytest.mark.req("5500.15", "5500.10")
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
    def test_pod(self, case: PodCase) -> None:
        required = None if case.terms is None else NodeSelector(node_selector_terms=case.terms)
        affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
        spec = PodSpec(node_selector=case.node_selector, affinity=Affinity(node_affinity=affinity))
        assert node_selector.required_affinity(spec, ALL_ON).matches(LABELS, "node-1") is case.expected

    def test_a_pod_without_affinity_is_content_everywhere(self) -> None:
        assert node_selector.required_affinity(PodSpec(), ALL_ON) is node_selector.ANY_NODE
        assert node_selector.preferred_affinity(PodSpec(), ALL_ON).score(LABELS, "node-1") == 0


@dataclass(frozen=True)
class ScoreCase:
    id: str
    preferences: list[tuple[int, NodeSelectorTerm]]
    score: int
    options: ConstraintOptions = ALL_ON


class TestPreferredSchedulingTermsScore:
    """Named in KEP-5500's test plan: the weights of the terms that match."""

    CASES = (
        ScoreCase("no terms", [], 0),
        ScoreCase("a matching term", [(5, term(req("zone", "In", "a")))], 5),
        ScoreCase("weights add up", [(5, term(req("zone", "In", "a"))), (7, term(req("cores", "Gt", "1")))], 12),
        ScoreCase("a term that does not match", [(5, term(req("zone", "In", "b")))], 0),
        ScoreCase("an empty term", [(5, term())], 0),
        ScoreCase("no weight", [(0, term(req("zone", "In", "a")))], 0),
        ScoreCase("a version", [(5, term(req("kernel", "SemverGt", "5.0")))], 5),
        ScoreCase("a label that is no version gives 0", [(5, term(req("odd", "SemverGt", "5.0")))], 0),
        ScoreCase("CEL", [(5, term(cel=("node.labels['zone'] == 'a'",)))], 5),
        ScoreCase("an error in CEL gives 0", [(5, term(cel=("node.labels['none'] == 'a'",)))], 0),
        ScoreCase(
            "an invalid term gives 0", [(5, term(req("zone", "Like", "a"))), (2, term(req("zone", "Exists")))], 2
        ),
        ScoreCase("gates off", [(5, term(cel=("true",))), (3, term(req("kernel", "SemverGt", "1")))], 0, ALL_OFF),
    )

    @pytest.mark.req("5500.15", "5721.2", "5721.7", "5500.6")
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
    def test_score(self, case: ScoreCase) -> None:
        preferred = [PreferredSchedulingTerm(weight=weight, preference=entry) for weight, entry in case.preferences]
        affinity = NodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
        spec = PodSpec(affinity=Affinity(node_affinity=affinity))
        assert node_selector.preferred_affinity(spec, case.options).score(LABELS, "node-1") == case.score


def volume(*terms: NodeSelectorTerm) -> PersistentVolume:
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=list(terms)))
    return PersistentVolume(spec=PersistentVolumeSpec(node_affinity=affinity))


class TestVolumes:
    @pytest.mark.parametrize(
        "anywhere",
        [
            PersistentVolume(spec=PersistentVolumeSpec()),
            PersistentVolume(spec=PersistentVolumeSpec(node_affinity=VolumeNodeAffinity())),
        ],
        ids=["no affinity", "an affinity that demands nothing"],
    )
    def test_a_volume_without_demands_can_be_used_everywhere(self, anywhere: PersistentVolume) -> None:
        assert node_selector.volume_matches(anywhere, LABELS, ALL_ON)

    @pytest.mark.req("5721.3", "5500.1", "5721.6", "5500.9")
    @pytest.mark.parametrize(
        "matching",
        [term(req("kernel", "SemverGt", "5.10.0")), term(cel=("node.labels['zone'] == 'a'",))],
        ids=["a version", "CEL"],
    )
    def test_the_new_conditions_work_and_fail_closed(self, matching: NodeSelectorTerm) -> None:
        assert node_selector.volume_matches(volume(matching), LABELS, ALL_ON)
        assert not node_selector.volume_matches(volume(matching), {"kernel": "5.9", "zone": "b"}, ALL_ON)
        assert not node_selector.volume_matches(volume(matching), LABELS, ALL_OFF)

    def test_only_the_labels_of_the_node_count(self) -> None:
        assert not node_selector.volume_matches(volume(term(name="node-1")), LABELS, ALL_ON)


BOTH_NAMES = NodeSelectorTerm(match_fields=[req("metadata.name", "In", "a"), req("metadata.name", "In", "b")])


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([term(name="a"), term(name="b")], {"a", "b"}),
        ([term(name="a"), term(req("zone", "Exists"))], None),
        ([term(name="a"), term()], None),
        ([BOTH_NAMES], set()),
        ([], None),
    ],
    ids=["every term names a node", "one term does not", "one term is empty", "two names at once", "no term"],
)
def test_nodes_that_could_match_are_known_by_name(terms: list[NodeSelectorTerm], expected: set[str] | None) -> None:
    assert node_selector.named_nodes(NodeSelector(node_selector_terms=terms)) == expected


def test_a_term_that_wants_two_names_has_no_node() -> None:
    assert not matches(BOTH_NAMES, name="a")


@pytest.mark.req("5721.7")
def test_a_label_that_is_no_version_is_logged_once_for_those_who_look_closely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="mooring")
    for _ in range(3):
        matches(term(req("odd", "SemverGt", "1.0.0")))
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.DEBUG, "Parse semver failed for value x.y in label odd")
    ]


@pytest.mark.req("5500.6")
def test_a_failing_expression_is_logged_once_per_cause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="mooring")
    for _ in range(3):
        matches(term(cel=("node.labels['none'] == 'x'",)))
        matches(term(cel=("node.",)))
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "CEL runtime error"),
        (logging.ERROR, "Failed to compile CEL expression"),
    ]
