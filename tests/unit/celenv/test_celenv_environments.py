"""The environments of tolerations and node affinity: what they know at which version."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.base.version import Version
from mooring.cel.errors import CostLimitExceeded, EvaluationError
from mooring.constraints.celenv import COST_LIMIT, NODE, TAINT, Environments


@dataclass(frozen=True)
class Introduction:
    """An expression that may be written from a version on."""

    expression: str
    since: Version


INTRODUCTIONS = (
    Introduction("node.labels.size() > 0", Version(1, 35)),
    Introduction("semver.compare('1.0.0', '>=1')", Version(1, 35)),
    Introduction("[1, 2].includes(1)", Version(1, 37)),
    Introduction("[2, 1].sort() == [1, 2]", Version(1, 34)),
    Introduction("isSemver('v1', true)", Version(1, 33)),
    Introduction("{'a': 1}.all(k, v, v == 1)", Version(1, 32)),
    Introduction("format.named('uri').hasValue()", Version(1, 31)),
    Introduction("isIP('10.0.0.1') && isCIDR('10.0.0.0/8')", Version(1, 30)),
    Introduction("sets.contains([1], [1])", Version(1, 29)),
    Introduction("strings.quote('a') == ''", Version(1, 29)),
    Introduction("quantity('1').isInteger()", Version(1, 28)),
    Introduction("optional.of(1).hasValue()", Version(1, 28)),
    Introduction("{'a': 1}[?'a'].hasValue()", Version(1, 28)),
    Introduction("1 < 2.0", Version(1, 28)),
)


@pytest.mark.req("5500.12", "4330.6")
@pytest.mark.parametrize("case", INTRODUCTIONS, ids=lambda case: f"{case.expression} since {case.since}")
def test_a_function_may_be_written_from_its_release_on(case: Introduction) -> None:
    assert NODE.new_expressions(case.since.minus(1)).compile(case.expression).issues
    assert NODE.new_expressions(case.since).compile(case.expression).issues == ()


@pytest.mark.req("5500.12", "4330.6")
@pytest.mark.parametrize("case", INTRODUCTIONS, ids=lambda case: case.expression)
def test_a_stored_expression_is_always_understood(case: Introduction) -> None:
    assert NODE.stored_expressions().compile(case.expression).issues == ()


@pytest.mark.parametrize(
    "expression",
    ["math.abs(-1) == 1", "cel.bind(x, 1, x == 1)", "base64.encode(b'a') == ''", "'a'.reverse() == 'a'"],
    ids=lambda expression: f"{expression} is not Kubernetes'",
)
def test_other_libraries_are_off(expression: str) -> None:
    assert NODE.stored_expressions().compile(expression).issues


@dataclass(frozen=True)
class Evaluation:
    name: str
    environments: Environments
    expression: str
    value: object
    expected: bool


TAINT_OBJECT = SimpleNamespace(key="maintenance", value="950", effect="NoExecute", time_added=None)
EVALUATIONS = (
    Evaluation("a taint as a mapping", TAINT, "taint.key == 'a'", {"key": "a", "value": "", "effect": ""}, True),
    Evaluation("a taint as an object", TAINT, "int(taint.value) > 900", TAINT_OBJECT, True),
    Evaluation("an absent time", TAINT, "has(taint.timeAdded)", TAINT_OBJECT, False),
    Evaluation(
        "a time as the API has it",
        TAINT,
        "has(taint.timeAdded) && taint.timeAdded < timestamp('2026-06-01T00:00:00Z')",
        SimpleNamespace(key="a", value="", effect="", time_added="2026-03-01T12:00:00Z"),
        True,
    ),
    Evaluation("a version in a range", TAINT, "semver.compare(taint.value, '>=3.25 <4')", {"value": "v3.27.2"}, True),
    Evaluation("a node's label", NODE, "node.labels['zone'].startsWith('us-')", {"labels": {"zone": "us-1"}}, True),
    Evaluation("a node as an object", NODE, "'a' in node.labels", SimpleNamespace(labels={"a": ""}), True),
)


@pytest.mark.req("5500.2")
@pytest.mark.parametrize("case", EVALUATIONS, ids=lambda case: case.name)
def test_evaluation(case: Evaluation) -> None:
    program = case.environments.stored_expressions().compile(case.expression)
    assert program.issues == ()
    assert program.evaluate({case.environments.variable: case.value}) is case.expected


@pytest.mark.req("5500.2")
def test_reading_an_absent_time_is_an_error() -> None:
    program = TAINT.stored_expressions().compile("taint.timeAdded > timestamp('2026-01-01T00:00:00Z')")
    with pytest.raises(EvaluationError):
        program.evaluate({"taint": TAINT_OBJECT})


@dataclass(frozen=True)
class Cost:
    environments: Environments
    expression: str
    most: int


COSTS = (
    Cost(TAINT, "taint.key.contains('/')", 34),
    Cost(TAINT, "taint.value.lowerAscii() == 'a'", 10),
    Cost(TAINT, "taint.effect.contains('No')", 4),
    Cost(NODE, "node.labels.all(k, k.startsWith('k'))", 2563),
    Cost(NODE, "node.labels['a'].contains('-')", 10),
    Cost(TAINT, "semver.compare(taint.value, '>=3.25.0')", 2 + 7 + 1 + 1),
)


PARTS = (
    Cost(NODE, "semver.compare(node.labels['runtime'].split('://')[1], '>=2.0')", 26),
    Cost(NODE, "node.labels['a'].split(',').all(x, x.contains('b'))", 710),
    Cost(NODE, "node.labels['runtime'].split('://')[1] == '2.1.4'", 18),  # recorded: it was finite anyway
)


@pytest.mark.req("5500.3")
@pytest.mark.parametrize("case", PARTS, ids=lambda case: case.expression)
def test_parts_of_a_text_are_at_most_as_long_as_the_text(case: Cost) -> None:
    assert case.environments.stored_expressions().compile(case.expression).max_cost == case.most


@pytest.mark.req("5500.3")
def test_what_is_unbounded_for_another_reason_stays_so() -> None:
    expression = "node.labels['a'].split(',', -1).all(x, x.contains('b'))"
    assert NODE.stored_expressions().compile(expression).max_cost > 2**63


@pytest.mark.req("4330.6")
def test_a_forced_feature_is_there_as_a_whole_and_nothing_else_is() -> None:
    forced = NODE.new_expressions(Version(1, 34), forced=True)
    assert forced.compile("semver.compare(node.labels['a'], '>=1')").issues == ()
    assert forced.compile("[1, 2].includes(1)").issues
    assert NODE.new_expressions(Version(1, 34)).compile("'a' in node.labels").issues


@pytest.mark.parametrize("case", COSTS, ids=lambda case: case.expression)
def test_estimates_assume_the_declared_sizes(case: Cost) -> None:
    assert case.environments.stored_expressions().compile(case.expression).max_cost == case.most


@pytest.mark.req("5500.4")
def test_evaluation_stops_at_the_limit() -> None:
    labels = {f"key-{index}": "x" for index in range(3000)}
    program = NODE.stored_expressions().compile("node.labels.all(a, node.labels.all(b, a == b || a != b))")
    with pytest.raises(CostLimitExceeded):
        program.evaluate_counted({"node": {"labels": labels}}, limit=COST_LIMIT)


def test_environments_are_built_once() -> None:
    assert NODE.stored_expressions() is NODE.stored_expressions()
    assert NODE.new_expressions(Version(1, 36)) is NODE.new_expressions(Version(1, 36))


RECORDED = json.loads((Path(__file__).parents[2] / "conformance/data/cel/k8s-cel.json").read_bytes())
RECORDED_EXPRESSIONS = [case["expr"] for case in RECORDED["cases"] if case["env"] == "node" and "maxCost" in case]
KEYS = sorted({key for node in RECORDED["inputs"]["node"] for key in node["labels"]})
VALUES = st.sampled_from(
    ["", "linux", "us-west-2a", "v1.31.4", "10.0.0.7", "64Gi", "8", "containerd://2.1.4", "x" * 63]
)


@pytest.mark.req("5500.3", "5500.4")
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(RECORDED_EXPRESSIONS), st.dictionaries(st.sampled_from(KEYS), VALUES))
@example("node.labels['gpu'].split('-', 2)[0] == 'us'", {"gpu": "x" * 63})
def test_an_evaluation_costs_no_more_than_estimated(expression: str, labels: dict[str, str]) -> None:
    program = NODE.stored_expressions().compile(expression)
    with suppress(EvaluationError):
        cost = program.evaluate_counted({"node": {"labels": labels}}).cost
        # Kubernetes' estimates, as recorded, leave out what comparing a part of a `split` string costs.
        assert cost <= program.max_cost + expression.count(".split(")
