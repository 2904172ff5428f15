"""`format`, in the two dialects, and the check of its arguments when the expression is compiled."""

from dataclasses import dataclass

import pytest

from mooring.cel.environment import Environment
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.strings import strings
from mooring.cel.standard import STANDARD

LITERAL = Environment(libraries=(STANDARD, strings(2)))
PLAIN = Environment(libraries=(STANDARD, strings(4)))


@dataclass(frozen=True)
class Case:
    name: str
    expression: str
    literal: str
    plain: str


CASES = (
    Case("a text and a number", "'%s-%d'.format(['a', 3])", "a-3", "a-3"),
    Case("percent signs", "'%d%%'.format([3])", "3%", "3%"),
    Case("a list", "'%s'.format([[dyn('a'), 1.5, null]])", '["a", 1.500000, null]', "[a, 1.5, null]"),
    Case("a map in the order of its keys", "'%s'.format([{'b': 2, 'a': 1}])", '{"a":1, "b":2}', "{a: 1, b: 2}"),
    Case("a duration", "'%s'.format([duration('1h')])", "3600s", "3600s"),
    Case("a duration in a list", "'%s'.format([[duration('1h')]])", '[duration("3600s")]', "[3600s]"),
    Case("bytes", "'%s'.format([b'abc'])", "abc", "abc"),
    Case("fixed point", "'%.2f'.format([1234.5])", "1,234.50", "1234.50"),
    Case("scientific", "'%e'.format([1234.5])", "1.234500\u202f\u00d7\u202f10⁰³", "1.234500e+03"),
    Case("hexadecimal of a text", "'%X'.format(['hi'])", "6869", "6869"),
    Case("octal and binary", "'%o %b'.format([8, true])", "10 1", "10 1"),
    Case(
        "a large number without an exponent",
        "'%s'.format([[1e21]])",
        "[1000000000000000000000.000000]",
        "[1000000000000000000000]",
    ),
    Case("infinity", "'%f'.format([-1.0 / 0.0])", "-∞", "-Infinity"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_format(case: Case) -> None:
    assert LITERAL.compile(case.expression).evaluate({}) == case.literal
    assert PLAIN.compile(case.expression).evaluate({}) == case.plain


@dataclass(frozen=True)
class Refusal:
    name: str
    expression: str
    message: str
    column: int


REFUSALS = (
    Refusal("too few arguments", "'%s %s'.format(['a'])", "index 1 out of range", 15),
    Refusal("too many arguments", "'%s'.format(['a', 'b'])", "expected 1, got 2", 12),
    Refusal("a text where a number must be", "'%d'.format(['a'])", "decimal clause can only be used on integers", 14),
    Refusal("an unknown clause", "'%q'.format(['a'])", 'unrecognized formatting clause "q"', 12),
    Refusal("a template that ends too early", "'%'.format(['a'])", "unexpected end of string", 11),
    Refusal("a precision without digits", "'%.f'.format([1.0])", "precision", 13),
    Refusal("a precision to fill memory with", "'%.999999f'.format([1.0])", "more than 1000", 19),
)


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.name)
def test_format_is_checked_when_it_is_compiled(case: Refusal) -> None:
    (issue,) = LITERAL.compile(case.expression).issues
    assert case.message in issue.message
    assert issue.column == case.column


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.name)
def test_format_fails_when_it_runs(case: Refusal) -> None:
    if case.name == "too many arguments":
        return
    with pytest.raises(EvaluationError):
        PLAIN.compile(case.expression).evaluate({})
