"""Costs: estimated before an expression runs and counted while it runs, from the same table."""

import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cel import STANDARD, CallCost, CostLimitExceeded, Environment, Field, ObjectType, Range
from mooring.cel.costs import MAX, UNKNOWN, arg, between, fixed, scaled, smaller, up_to
from mooring.cel.costs import STRING as PER_CHARACTER
from mooring.cel.ext.optionals import OPTIONALS
from mooring.cel.types import INT, STRING, TIMESTAMP, list_of, map_of

NODE = ObjectType("Node", {"labels": Field(map_of(STRING, STRING)), "added": Field(TIMESTAMP)})
SIZES = {
    ("node", "labels"): Range(0, 10),
    ("node", "labels", "@keys"): Range(0, 30),
    ("node", "labels", "@values"): Range(0, 63),
}
ENV = Environment(
    variables={"node": NODE.type, "s": STRING, "i": INT, "l": list_of(STRING)},
    libraries=(STANDARD, OPTIONALS),
    types=(NODE,),
    sizes=SIZES.get,
    has_cost=0,
)
BINDINGS = {
    "node": {"labels": {"a": "x" * 25, "b": "y"}},
    "s": "0123456789" * 2,
    "i": 3,
    "l": ["a", "b", "c"],
}


@dataclass(frozen=True)
class Case:
    id: str
    text: str
    estimate: tuple[int, int]
    counted: int


CASES = [
    Case("constants are free", "1", (0, 0), 0),
    Case("a variable costs one", "i", (1, 1), 1),
    Case("each step of a path costs one", "node.labels['a']", (3, 3), 3),
    Case("has() is free here", "has(node.labels.a)", (2, 2), 2),
    Case("a nominal call costs one", "i + 1", (2, 2), 2),
    Case("equality reads the shorter text", "node.labels['a'] == s", (5, 11), 6),
    Case("equality with a constant", "node.labels['a'] == 'abc'", (4, 4), 4),
    Case("a prefix", "s.startsWith('0123456789x')", (3, 3), 3),
    Case("a substring", "node.labels['a'].contains('z')", (3, 10), 6),
    Case("a regular expression", "node.labels['a'].matches('[0-9]+x')", (5, 17), 9),
    Case("joining texts reads both", "node.labels['a'] + 'yy'", (4, 10), 6),
    Case("a list costs ten and is folded when it is constant", "[1, 2].size()", (11, 11), 1),
    Case("a list of variables", "[i, i]", (12, 12), 12),
    Case("a map costs thirty", "{'a': i}", (31, 31), 31),
    Case("membership in a list reads all of it", "'a' in l", (1, MAX), 4),
    Case("membership in a constant list is free at run time", "s in ['a', 'b']", (13, 13), 1),
    Case("conversions of constants are done before", "int('3') + i", (3, 3), 2),
    Case("logic may stop after the left side", "i == 3 || i == 4", (2, 4), 2),
    Case("a condition costs its dearer branch", "i == 3 ? [i] : []", (12, 13), 13),
    Case("a branch does not pay for the variable itself", "i == 3 ? node.labels['a'] : ''", (2, 5), 4),
    Case("an index does not pay for its variable", "node.labels[l[0]]", (5, 5), 4),
    Case("the index of a call's result costs two", "[i][0]", (12, 12), 13),
    Case("a loop costs its body for each entry", "node.labels.all(k, k != 'z')", (3, 53), 13),
    Case("a loop stops when it is decided", "node.labels.exists(k, k == 'a')", (3, 63), 12),
    Case("a list is built at ten an element", "node.labels.map(k, k)", (13, 143), 29),
    Case("optional index of what is there", "node.labels[?'a'].orValue('') == ''", (4, 4), 3),
    Case("an optional that is absent costs nothing", "node.labels[?'q'].hasValue()", (4, 4), 3),
    Case("an absorbed error has its cost", "node.labels['q'] == 'x' || i == 3", (4, 6), 6),
    Case("size beyond a join is known", "(node.labels['a'] + node.labels['b']) == s", (8, 33), 12),
]


@pytest.mark.req("5500.3", "5500.4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_expression_costs_what_it_does(case: Case) -> None:
    program = ENV.compile(case.text)
    assert not program.issues
    assert (program.min_cost, program.max_cost) == case.estimate
    assert program.evaluate_counted(BINDINGS).cost == case.counted


@pytest.mark.req("5500.4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_limit_is_exact(case: Case) -> None:
    program = ENV.compile(case.text)
    program.evaluate_counted(BINDINGS, limit=case.counted)
    if case.counted:
        with pytest.raises(CostLimitExceeded):
            program.evaluate_counted(BINDINGS, limit=case.counted - 1)


@pytest.mark.req("5500.4")
@pytest.mark.parametrize(
    "text",
    [
        "l.all(a, l.all(b, l.all(c, l.all(d, a + b + c + d != ''))))",
        "l.map(a, l.map(b, l)).size() > 0",
        "l.exists(a, l.map(b, b + a).size() > 1000) || true",
    ],
)
def test_the_limit_stops_in_the_middle_of_a_loop(text: str) -> None:
    program = ENV.compile(text)
    started = time.process_time()
    with pytest.raises(CostLimitExceeded):
        program.evaluate_counted({"l": ["abc"] * 1_000}, limit=20_000)
    assert time.process_time() - started < 1


@pytest.mark.req("5500.4")
def test_regular_expressions_match_in_linear_time() -> None:
    program = ENV.compile("s.matches('^(a+)+$')")
    started = time.process_time()
    assert program.evaluate({"s": "a" * 100_000 + "b"}) is False
    assert time.process_time() - started < 1


def test_a_call_that_is_too_dear_is_never_made() -> None:
    program = ENV.compile("s.contains(s)")
    with pytest.raises(CostLimitExceeded):
        program.evaluate_counted({"s": "a" * 1_000_000}, limit=1_000)


TERMS = {
    "the size of an argument": arg(0),
    "a fixed number": fixed(7),
    "a factor": scaled(arg(0), PER_CHARACTER),
    "a sum": arg(0) + arg(1),
    "a product": scaled(arg(0), 0.25) * arg(1),
    "the smaller": scaled(smaller(arg(0) + fixed(1), arg(1) + fixed(1)), PER_CHARACTER),
    "limits": between(4, 16),
    "up to": up_to(arg(1)),
}


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS.keys())
@given(data=st.data())
def test_what_is_counted_is_within_what_was_estimated(term: object, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 10**4), min_size=2, max_size=2))
    ranges = [Range(data.draw(st.integers(0, size)), data.draw(st.integers(size, MAX))) for size in sizes]
    assert isinstance(term, type(arg(0)))
    estimated, counted = term.estimate(ranges), term.count(["x" * size for size in sizes])
    assert estimated.min <= counted <= estimated.max


def test_costs_stop_at_their_maximum() -> None:
    assert UNKNOWN.plus(UNKNOWN) == Range(0, MAX)
    assert UNKNOWN.times(Range(2, 2)) == Range(0, MAX)
    assert UNKNOWN.scaled(2) == Range(0, MAX)


def test_a_counter_of_its_own_sees_arguments_and_result() -> None:
    cost = CallCost(counter=lambda args, result: len(args) + len(result), counts_result=True)
    assert cost.count(["a", "b"], "xyz") == 5
