"""Which reads are guarded: a table, and the promise that an expression without unguarded reads never misses a key."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.advisor.lint import expressions, guards
from mooring.advisor.lint.expressions import Subject
from mooring.cel.errors import EvaluationError

pytestmark = pytest.mark.req("S.5")


@dataclass(frozen=True)
class Case:
    name: str
    expression: str
    unguarded: tuple[str, ...] = ()
    subject: Subject = "node"


A = "node.labels['a']"
CASES = (
    Case("a read alone", "node.labels['a'] == 'x'", (A,)),
    Case("a read by dot", "node.labels.a == 'x'", (A,)),
    Case("a guard before the read", "'a' in node.labels && node.labels['a'] == 'x'"),
    Case("a guard behind the read, for && forgives errors", "node.labels['a'] == 'x' && 'a' in node.labels"),
    Case("has as the guard", "has(node.labels.a) && node.labels['a'] == 'x'"),
    Case("a guard of another label", "'b' in node.labels && node.labels['a'] == 'x'", (A,)),
    Case("a guard that or does not keep", "'a' in node.labels || node.labels['a'] == 'x'", (A,)),
    Case("a negated guard in an or", "!('a' in node.labels) || node.labels['a'] == 'x'"),
    Case("a negated guard in an and", "!('a' in node.labels) && node.labels['a'] == 'x'", (A,)),
    Case(
        "a guard that both sides of an or give", "('a' in node.labels || 'a' in node.labels) && node.labels['a'] == ''"
    ),
    Case("a guard that one side of an or gives", "('a' in node.labels || true) && node.labels['a'] == ''", (A,)),
    Case("a condition as the guard of its yes", "'a' in node.labels ? node.labels['a'] == 'x' : false"),
    Case("a condition is no guard of its no", "'a' in node.labels ? true : node.labels['a'] == 'x'", (A,)),
    Case("a negated condition as the guard of its no", "!has(node.labels.a) ? false : node.labels['a'] == 'x'"),
    Case("a guard far around", "'a' in node.labels && (true || (false || node.labels['a'] == 'x'))"),
    Case("an optional read", "node.labels[?'a'].orValue('') == 'x'"),
    Case("keys that come from the labels", "node.labels.exists(k, k.startsWith('a') && node.labels[k] == 'x')"),
    Case("a read in a loop", "['x', 'y'].exists(v, node.labels['a'] == v)", (A,)),
    Case("a read twice is told once", "node.labels['a'] == 'x' || node.labels['a'] == 'y'", (A,)),
    Case("two reads in their order", "node.labels['b'] == node.labels['a']", ("node.labels['b']", A)),
    Case("fields of taints that are always there", "taint.key == 'a' && taint.value != ''", subject="taint"),
    Case("the time of a taint", "taint.timeAdded < timestamp('2026-01-01T00:00:00Z')", ("taint.timeAdded",), "taint"),
    Case(
        "the time of a taint with its guard",
        "has(taint.timeAdded) && taint.timeAdded < timestamp('2026-01-01T00:00:00Z')",
        subject="taint",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_unguarded_reads(case: Case) -> None:
    program = expressions.compile_expression(case.subject, case.expression)
    assert program is not None
    assert program.expr is not None
    assert tuple(map(str, guards.find_unguarded(program.expr))) == case.unguarded


KEYS = st.sampled_from(["a", "b"])
ATOMS = st.one_of(
    st.builds("'{}' in node.labels".format, KEYS),
    st.builds("has(node.labels.{})".format, KEYS),
    st.builds("node.labels['{}'] == 'x'".format, KEYS),
    st.builds("node.labels[?'{}'].orValue('') == 'x'".format, KEYS),
    st.just("true"),
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_an_expression_without_unguarded_reads_has_a_value_on_every_node(expression: str) -> None:
    program = expressions.compile_expression("node", expression)
    assert program is not None
    assert program.expr is not None
    if guards.find_unguarded(program.expr):
        return
    for labels in ({}, {"a": "x"}, {"a": "y"}, {"b": "x"}, {"a": "x", "b": "y"}, {"a": "y", "b": "x"}):
        try:
            program.evaluate({"node": {"labels": labels}})
        except EvaluationError as error:
            pytest.fail(f"{expression} on {labels}: {error}")
