"""Whether expressions and terms can match: tables, and the promise that a verdict is never wrong."""

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.advisor.lint import expressions, terms
from mooring.advisor.lint.expressions import Subject
from mooring.advisor.lint.small_models import TruthFrequency
from mooring.api import names
from mooring.api.core_v1 import NodeSelectorRequirement, NodeSelectorTerm
from mooring.cel.errors import EvaluationError

pytestmark = pytest.mark.req("S.5")
NEVER, SOMETIMES, ALWAYS, UNKNOWN = (
    TruthFrequency.NEVER,
    TruthFrequency.SOMETIMES,
    TruthFrequency.ALWAYS,
    TruthFrequency.UNKNOWN,
)


@dataclass(frozen=True)
class Case:
    name: str
    expression: str
    verdict: TruthFrequency
    subject: Subject = "node"


CASES = (
    Case("a constant", "false", NEVER),
    Case("a constant comparison", "1 > 2", NEVER),
    Case("true", "true", ALWAYS),
    Case("a comparison", "node.labels['a'] == 'x'", SOMETIMES),
    Case("two values at once", "node.labels['a'] == 'x' && node.labels['a'] == 'y'", NEVER),
    Case("two lists without a common value", "node.labels['a'] in ['x', 'y'] && node.labels['a'] in ['z']", NEVER),
    Case("two lists with a common value", "node.labels['a'] in ['x', 'y'] && node.labels['a'] in ['y']", SOMETIMES),
    Case("a value that a label cannot have", "node.labels['a'] == 'two words'", NEVER),
    Case("a key that a label cannot have", "node.labels['two words'] == 'a'", NEVER),
    Case("present and absent", "'a' in node.labels && !has(node.labels.a)", NEVER),
    Case("present or absent", "'a' in node.labels || !has(node.labels.a)", ALWAYS),
    Case("all but one value", "node.labels['a'] != 'x'", SOMETIMES),
    Case("a default that is refused", "node.labels[?'a'].orValue('x') == 'y'", SOMETIMES),
    Case("a default that can never be", "node.labels[?'a'].orValue('x') == 'two words'", NEVER),
    Case("a condition", "'a' in node.labels ? node.labels['a'] == 'x' : false", SOMETIMES),
    Case("a condition without a way out", "'a' in node.labels ? false : 'a' in node.labels", NEVER),
    Case("an empty range of numbers", "int(node.labels['a']) > 8 && int(node.labels['a']) < 9", NEVER),
    Case("a range with one number", "int(node.labels['a']) > 8 && int(node.labels['a']) < 10", SOMETIMES),
    Case("a number in another spelling", "node.labels['a'] != '9' && int(node.labels['a']) == 9", SOMETIMES),
    Case("a negative number, which no label has", "int(node.labels['a']) < 0", NEVER),
    Case("an empty range of versions", "semver.compare(node.labels['a'], '>=6.1 <5.10')", NEVER),
    Case(
        "ranges that exclude each other", "semver.compare(node.labels['a'], '>2.0') && node.labels['a'] == '1.9'", NEVER
    ),
    Case(
        "a pre-release between two versions",
        "semver(node.labels['a']).isGreaterThan(semver('1.0.0')) && "
        "semver(node.labels['a']).isLessThan(semver('1.0.1'))",
        SOMETIMES,
    ),
    Case(
        "a version in another spelling",
        "node.labels['a'] != '1.2.3' && semver(node.labels['a'], true) == semver('1.2.3')",
        SOMETIMES,
    ),
    Case("no verdict: a number in a text", "int(node.labels['a']) > int('5')", UNKNOWN),
    Case("no verdict: a huge version", "semver.compare(node.labels['a'], '>12345678901')", UNKNOWN),
    Case(
        "prefixes that exclude each other",
        "node.labels['a'].startsWith('x') && node.labels['a'].startsWith('y')",
        NEVER,
    ),
    Case("a longer prefix", "node.labels['a'].startsWith('x') && node.labels['a'].startsWith('xy')", SOMETIMES),
    Case("a prefix and another value", "node.labels['a'].startsWith('x') && node.labels['a'] == 'y'", NEVER),
    Case("all prefixes or none", "taint.key.startsWith('x') || !taint.key.startsWith('x')", ALWAYS, "taint"),
    Case("an effect that there is", "taint.effect == 'NoExecute'", SOMETIMES, "taint"),
    Case("an effect that there is not", "taint.effect == 'NoExecutes'", NEVER, "taint"),
    Case("all effects", "taint.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute']", ALWAYS, "taint"),
    Case("an empty key", "taint.key == ''", NEVER, "taint"),
    Case("a time or none", "has(taint.timeAdded) || taint.effect == 'NoSchedule'", SOMETIMES, "taint"),
    Case("a boolean compared", "('a' in node.labels) == false", SOMETIMES),
    Case("no verdict: a function that is not understood", "node.labels['a'].endsWith('x') && false", UNKNOWN),
    Case("no verdict: labels compared with each other", "node.labels['a'] == node.labels['b']", UNKNOWN),
    Case("no verdict: a loop", "node.labels.exists(k, k == 'two words')", UNKNOWN),
    Case("no verdict: a pre-release", "semver.compare(node.labels['a'], '>1.0.0-rc.1')", UNKNOWN),
    Case("no verdict: a prefix of a number", "node.labels['a'].startsWith('1') && int(node.labels['a']) > 5", UNKNOWN),
    Case("no verdict: too much to try", " && ".join(f"node.labels['{k}'] in ['x', 'y']" for k in "abcdefgh"), UNKNOWN),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdicts(case: Case) -> None:
    assert expressions.compile_expression(case.subject, case.expression) is not None
    assert expressions.truth_frequency(case.subject, case.expression) is case.verdict


VALUES = [
    None,
    "",
    "x",
    "xy",
    "y",
    "4",
    "5",
    "05",
    "6",
    "0",
    "q",
    "1.2.3",
    "1.2.4-0",
    "1.2",
    "2",
    "v1.2.3",
    "01.2.3",
    "z",
]
LABEL_A, LABEL_B = "node.labels['a']", "node.labels[?'b'].orValue('')"
READ = st.sampled_from([LABEL_A, LABEL_B])
TEXT = st.sampled_from(["x", "xy", "y", "5", "05", "1.2.3", "", "no label"])
ATOMS = st.one_of(
    st.builds("{} == '{}'".format, READ, TEXT),
    st.builds("{} != '{}'".format, READ, TEXT),
    st.builds("{} in ['{}', '{}']".format, READ, TEXT, TEXT),
    st.builds("{}.startsWith('{}')".format, READ, TEXT),
    st.builds("int({}) {} {}".format, READ, st.sampled_from(["<", "<=", ">", "=="]), st.integers(-1, 6)),
    st.builds(
        "semver.compare({}, '{}')".format, READ, st.sampled_from([">1.2.3", "<1.2.4", "=1.2.3", "1.x", "<1 || >2"])
    ),
    st.builds("semver({}, true) == semver('{}')".format, READ, st.sampled_from(["1.2.3", "2.0.0"])),
    st.just("'a' in node.labels"),
    st.just("has(node.labels.b)"),
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
    ),
    max_leaves=5,
)


def _holds(expression: str, labels: dict[str, str]) -> bool:
    program = expressions.compile_expression("node", expression)
    assert program is not None
    try:
        return program.evaluate({"node": {"labels": labels}}) is True
    except EvaluationError:
        return False


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_no_value_of_a_label_proves_a_verdict_wrong(expression: str) -> None:
    verdict = expressions.truth_frequency("node", expression)
    if verdict not in (NEVER, ALWAYS):
        return
    for a, b in product(VALUES, VALUES):
        labels = {key: value for key, value in (("a", a), ("b", b)) if value is not None}
        assert not any(names.label_value(value) for value in labels.values())
        assert _holds(expression, labels) is (verdict is ALWAYS), labels


def requirement(text: str) -> NodeSelectorRequirement:
    key, operator, *values = text.split()
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


@dataclass(frozen=True)
class TermCase:
    name: str
    conditions: tuple[str, ...]
    contradiction: str | None
    cel: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    node_selector: str = ""


TERMS = (
    TermCase("one condition", ("a In x",), None),
    TermCase("in and not in", ("a In x", "a NotIn x"), 'a In "x"; a NotIn "x"'),
    TermCase("in with a common value", ("a In x y", "a In y z"), None),
    TermCase("exists and does not", ("a Exists", "a DoesNotExist"), "a Exists; a DoesNotExist"),
    TermCase("conditions on different labels", ("a In x", "b NotIn x"), None),
    TermCase("an empty range", ("a Gt 5", "a Lt 6"), 'a Gt "5"; a Lt "6"'),
    TermCase("a number beyond all", ("a Gt 9223372036854775807",), 'no node can meet a Gt "9223372036854775807"'),
    TermCase("versions", ("a SemverGt 2", "a SemverLt 1.9"), 'a SemverGt "2"; a SemverLt "1.9"'),
    TermCase("versions with a pre-release between them", ("a SemverGt 1.9", "a SemverLt 1.9.1"), None),
    TermCase("CEL and a requirement", ("a In x",), "a In", cel=("node.labels['a'] == 'y'",)),
    TermCase("CEL that never holds is told elsewhere", ("a In x",), None, cel=("node.labels['a'] == '?'",)),
    TermCase(
        "CEL that is not understood does not hide others", ("a In x", "a In y"), "a In", cel=("size(node.labels) > 1",)
    ),
    TermCase(
        "labels joined by CEL",
        ("a In x", "b In y"),
        "b In",
        cel=("node.labels['a'] == 'z' || node.labels['b'] == 'z'",),
    ),
    TermCase("nodeSelector besides", ("a In x",), 'nodeSelector a = "y"', node_selector="y"),
    TermCase("two names", (), "matchFields", fields=("metadata.name In n1", "metadata.name In n2")),
    TermCase("a name and not", (), "matchFields", fields=("metadata.name In n1", "metadata.name NotIn n1")),
    TermCase("a name", (), None, fields=("metadata.name In n1", "metadata.name NotIn n2")),
    TermCase("what the server refuses", ("a Gt x", "a Near 1"), None),
)


@pytest.mark.parametrize("case", TERMS, ids=lambda case: case.name)
def test_contradictions(case: TermCase) -> None:
    term = NodeSelectorTerm(
        match_expressions=[requirement(text) for text in case.conditions],
        match_fields=[requirement(text) for text in case.fields],
        match_cel_expressions=list(case.cel),
    )
    found = terms.find_contradiction(term, {"a": case.node_selector} if case.node_selector else {})
    if case.contradiction is None:
        assert found is None
    else:
        assert case.contradiction in (found or "")


def test_a_term_with_very_many_conditions_takes_no_time() -> None:
    many = [NodeSelectorRequirement(key=f"k{index}", operator="Exists") for index in range(5_000)]
    same = [NodeSelectorRequirement(key="k0", operator="NotIn", values=[str(index)]) for index in range(5_000)]
    assert terms.find_contradiction(NodeSelectorTerm(match_expressions=[*many, *same]), {}) is None
