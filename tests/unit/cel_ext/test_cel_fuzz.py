"""Whatever is written and whatever it is evaluated on: only the engine's own errors come out, and soon."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.cel.errors import CelError, CostLimitExceeded
from mooring.constraints.celenv import COST_LIMIT, NODE, TAINT

ENVIRONMENT = NODE.stored_expressions()
WORDS = (
    "node . labels [ ] ( ) { } ? : , ' \" ''' \\ ` && || ! - + * / % == != < <= > >= in 1 1u 0x 1.5 1e999 null true "
    "b'' r'' 'a' \"b\" x y has( all( exists( map( filter( optMap( sortBy( transformMap( size() matches( split( "
    "format( string( int( duration( timestamp( type( dyn( optional.of( optional.none() lists.range( sets.contains( "
    "semver( quantity( ip( cidr( url( isURL( .? [? {? // 9223372036854775808 18446744073709551616u"
)
TOKENS = st.sampled_from([*WORDS.split(), " ", "\n", "\t", "\x00", "\ufeff", "é", "😀", "\ud800"])
RECORDED = json.loads((Path(__file__).parents[2] / "conformance/data/cel/k8s-cel.json").read_bytes())
EXPRESSIONS = st.sampled_from([case["expr"] for case in RECORDED["cases"]])


def check(expression: str, bindings: dict[str, Any]) -> None:
    """Compiles and evaluates; anything but the engine's errors fails the test."""
    program = ENVIRONMENT.compile(expression)
    if program.issues:
        assert all(str(issue) for issue in program.issues)
        return
    for evaluate in (program.evaluate, lambda given: program.evaluate_counted(given, limit=COST_LIMIT)):
        with suppress(CelError):
            evaluate(bindings)


LABELS = st.fixed_dictionaries({"labels": st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=4)})


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), LABELS)
def test_any_text(expression: str, node: dict[str, Any]) -> None:
    check(expression, {"node": node})


@settings(max_examples=100, deadline=None)
@given(st.lists(TOKENS, max_size=14).map("".join), LABELS)
def test_any_tokens(expression: str, node: dict[str, Any]) -> None:
    check(expression, {"node": node})


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.integers(0, 60), st.integers(0, 60))
def test_a_right_expression_with_a_piece_cut_out(expression: str, start: int, length: int) -> None:
    check(expression[:start] + expression[start + length :], {"node": {"labels": {}}})


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ON_ODD_INPUTS = [
    "node.labels['a'] == 'b'",
    "node.labels.all(k, node.labels[k] != '')",
    "node.labels.exists(k, v, v.contains(k))",
    "size(node.labels) > 1",
    "'a' in node.labels",
    "has(node.labels.a)",
    "node.labels[?'a'].orValue('x') < 'y'",
    "semver.compare(node.labels['a'], '>=1')",
    "node.labels.transformMap(k, v, v + k).size() > 0",
    "dyn(node.labels) == {'a': 1}",
    "string(dyn(node.labels)['a']) == ''",
]


@settings(max_examples=60, deadline=None)
@given(ODD, st.sampled_from(ON_ODD_INPUTS))
def test_any_input(odd: object, expression: str) -> None:
    check(expression, {"node": odd})
    check(expression, {"node": {"labels": odd}})
    check(expression, {"node": {"labels": {"a": odd}}})
    check(expression, {})


SLACK = 5
"""The tests share the machine with others; benchmarks measure without it."""


@dataclass(frozen=True)
class Hostile:
    name: str
    expression: str


BIG_NODE = {"labels": {f"example.com/label-{index:03}": "v" * 63 for index in range(512)}}
HOSTILE = (
    Hostile("loops in loops over all labels", "LABELS.all(a, LABELS.all(b, LABELS.all(c, a != b + c)))"),
    Hostile(
        "loops in loops that build lists", "node.labels.map(a, node.labels.map(b, node.labels.map(c, c))).size() > 0"
    ),
    Hostile(
        "a filter in a map in an exists",
        "node.labels.exists(a, node.labels.map(b, b + a).filter(c, c == a).size() > 1)",
    ),
    Hostile(
        "a regular expression that others choke on",
        "node.labels.all(k, ('a' + node.labels[k] + '!').matches('^(a+)+(v|vv)*$'))",
    ),
    Hostile("many regular expressions", "node.labels.all(k, node.labels[k].matches('(' + k + ')*' + k))"),
    Hostile("a large counted repetition", "node.labels.all(k, k.matches('((a{1,100}){1,100}){1,100}'))"),
    Hostile("nested brackets", "(" * 5000 + "1" + ")" * 5000 + " == 1"),
    Hostile("nested lists", "[" * 5000 + "]" * 5000 + " == []"),
    Hostile("nested maps", "{'a':" * 1500 + "1" + "}" * 1500 + " == {}"),
    Hostile("nested calls", "string(" * 1400 + "1" + ")" * 1400 + " == ''"),
    Hostile("many negations", "!" * 10000 + "true"),
    Hostile("many minuses", "-" * 10000 + "1 == 1"),
    Hostile("many additions", "+".join(["1"] * 5000) + " > 0"),
    Hostile("many conditions", " && ".join(["true"] * 1400)),
    Hostile("many conditionals", "true ? true : " * 700 + "true"),
    Hostile("many selections", "node" + ".labels" * 1400),
    Hostile("many indices", "node.labels" + "['a']" * 1900),
    Hostile(
        "doubling a text",
        "['a'].map(x, x + x).map(x, x + x + x + x)" + ".map(x, x + x + x + x + x + x + x + x)" * 12 + "[0].size() > 0",
    ),
    Hostile("a text between every character", "'a'" + ".replace('', 'bbbbbbbbbbbbbbbb')" * 8 + ".size() > 0"),
    Hostile(
        "joining over and over",
        "lists.range(1000).map(i, lists.range(1000).map(j, 'xxxxxxxxxx').join()).join().size() > 0",
    ),
    Hostile("a format that fills memory", "'%.1000f%.1000f%.1000f'.format([1e308, 1e308, 1e308]).size() > 0"),
    Hostile("a range that fills memory", "lists.range(9223372036854775807).size() > 0"),
    Hostile("sorting a large range", "lists.range(999900).sort().size() > 0"),
    Hostile("distinct in a large range", "lists.range(999900).map(i, [i]).distinct().size() > 0"),
    Hostile("a map of a large range", "lists.range(900000).transformMap(i, v, v).size() > 0"),
    Hostile("sets of large ranges", "sets.equivalent(lists.range(300000), lists.range(300000))"),
    Hostile("a large range in another", "lists.range(100000).all(i, i in lists.range(100000))"),
    Hostile("flatten deeply", "[[1]].flatten(9223372036854775807).size() > 0"),
    Hostile("optMap doubles what it is called on", "node.labels[?'a']" + ".optMap(x, x)" * 40 + ".hasValue()"),
    Hostile("sortBy in sortBy", "node.labels.map(k, k)" + ".sortBy(x, x)" * 40 + ".size() > 0"),
    Hostile("a huge exponent", "1e99999999999 > 1.0"),
    Hostile("a huge number", "9" * 9000 + " > 1"),
    Hostile(
        "a quantity with a huge exponent",
        "quantity('1e2147483647').add(quantity('1')).isGreaterThan(quantity('1e-2147483648'))",
    ),
    Hostile("a huge quantity", "quantity('" + "9" * 9000 + "').isInteger()"),
    Hostile("a huge version", "isSemver('" + "9" * 5000 + ".0.0') || isSemver('1.0.0-" + "a." * 2000 + "a')"),
    Hostile("a huge range of versions", "semver.compare('1.0.0', '" + ">=1.0.0 || " * 900 + "<1.0.0')"),
    Hostile("a comment that never ends", "true //" + "x" * 10000),
    Hostile("a text that never ends", "'" + "a" * 10000),
)


@pytest.mark.req("5500.4")
@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
def test_a_hostile_expression_is_refused_or_stopped(case: Hostile) -> None:
    """Refused by its errors or its estimated cost, or stopped at the limit; never slow, never a crash."""
    started = time.process_time()
    program = ENVIRONMENT.compile(case.expression)
    compiled = time.process_time() - started
    assert compiled < 1.0 * SLACK
    if program.issues or program.max_cost > COST_LIMIT:
        return
    started = time.process_time()
    with suppress(CelError):
        program.evaluate_counted({"node": BIG_NODE}, limit=COST_LIMIT)
    assert time.process_time() - started < 0.1 * SLACK


@pytest.mark.req("5500.4")
@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
def test_a_hostile_expression_that_was_stored_anyway_is_stopped(case: Hostile) -> None:
    """Estimates do not protect what is already stored: the limit must stop the evaluation by itself."""
    program = ENVIRONMENT.compile(case.expression)
    if program.issues:
        return
    started = time.process_time()
    with suppress(CelError):
        program.evaluate_counted({"node": BIG_NODE}, limit=COST_LIMIT)
    assert time.process_time() - started < 0.5 * SLACK


def test_the_limit_stops_in_the_middle_of_a_loop() -> None:
    program = ENVIRONMENT.compile("node.labels.all(a, node.labels.all(b, a == b || a != b))")
    with pytest.raises(CostLimitExceeded):
        program.evaluate_counted({"node": BIG_NODE}, limit=1000)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(["NoSchedule", "NoExecute", ""]))
def test_any_taint(key: str, value: str, effect: str) -> None:
    taint = {"key": key, "value": value, "effect": effect}
    for expression in (
        "taint.key.startsWith(taint.value)",
        "semver.compare(taint.value, taint.key)",
        "int(taint.value) > 1 || taint.key.matches(taint.value)",
        "quantity(taint.value).isGreaterThan(quantity('1'))",
        "cidr(taint.value).containsIP(taint.key) || url(taint.value).getHost() == taint.key",
        "timestamp(taint.value) > taint.timeAdded || duration(taint.value) > duration('1s')",
        "taint.value.split(taint.key).join(taint.effect).replace(taint.key, taint.value).find(taint.value) == ''",
        "format.named(taint.value).hasValue() || '%s'.format([taint.value]) == taint.key",
    ):
        with suppress(CelError):
            TAINT.stored_expressions().compile(expression).evaluate({"taint": taint})
