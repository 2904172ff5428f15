"""What expressions evaluate to, both on the fast path and in the interpreter."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.cel import STANDARD, CelError, Environment, EvaluationError, Field, ObjectType, Program
from mooring.cel.ext.optionals import OPTIONALS
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, list_of, map_of
from mooring.cel.values import Duration, Timestamp, UInt, Value, equal, map_of_pairs

pytestmark = pytest.mark.req("5500.2")

TAINT = ObjectType(
    "app.Taint",
    {"key": Field(STRING), "keys": Field(list_of(STRING)), "timeAdded": Field(TIMESTAMP, attribute="time_added")},
)
ENV = Environment(
    variables={
        "b": BOOL,
        "i": INT,
        "j": INT,
        "u": UINT,
        "x": DOUBLE,
        "s": STRING,
        "raw": BYTES,
        "t": TIMESTAMP,
        "d": DURATION,
        "l": list_of(INT),
        "m": map_of(STRING, STRING),
        "flags": map_of(BOOL, STRING),
        "any": DYN,
        "taint": TAINT.type,
    },
    libraries=(STANDARD, OPTIONALS),
    types=(TAINT,),
)
BINDINGS: dict[str, Value] = {
    "b": True,
    "i": 6,
    "j": -4,
    "u": UInt(3),
    "x": 1.5,
    "s": "h\u00e9llo",
    "raw": b"\x00\xff",
    "t": Timestamp.from_datetime(datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)),
    "d": Duration(90 * 60 * 10**9),
    "l": [1, 2, 3],
    "m": {"a": "x", "b": ""},
    "flags": {True: "yes"},
    "any": {"n": 1, "list": [1, 2.0, "3", None]},
    "taint": {"key": "k", "timeAdded": "2026-03-01T12:00:00Z"},
}

FAILS = EvaluationError


def exactly(program: Program, bindings: dict[str, Value]) -> tuple[Value, int]:
    """Return what the interpreter says, without any generated code."""
    assert program._compiled is not None
    return program._compiled.interpreter.evaluate(bindings)


def outcome(evaluate: Callable[[], tuple[Value, int]]) -> tuple[Value, int]:
    try:
        return evaluate()
    except EvaluationError:
        return FAILS, 0


def both(program: Program, bindings: dict[str, Value]) -> Value:
    """Return the value; generated code and the interpreter must agree on it, or on having none, and on the cost."""
    fast, _ = outcome(lambda: (program.evaluate(bindings), 0))
    exact, cost = outcome(lambda: exactly(program, bindings))
    counted, counted_cost = outcome(lambda: program.evaluate_counted(bindings))
    assert counted_cost == cost
    assert (counted is FAILS) == (exact is FAILS)
    if fast is FAILS or exact is FAILS:
        assert fast is exact
    else:
        assert type(fast) is type(exact)
        assert equal(fast, exact) or (isinstance(fast, float) and math.isnan(fast) and math.isnan(exact))
    return fast


@dataclass(frozen=True)
class Case:
    text: str
    value: Value

    def __str__(self) -> str:
        return f"{self.text} is {self.value!r}"


CASES = [
    # Integers of 64 bits
    Case("i + 9223372036854775801", 2**63 - 1),
    Case("i + 9223372036854775802", FAILS),
    Case("-9223372036854775808 - i", FAILS),
    Case("i * 9223372036854775807", FAILS),
    Case("j / 3", -1),
    Case("j % 3", -1),
    Case("i / 0", FAILS),
    Case("i % 0", FAILS),
    Case("(-9223372036854775807 - 1) / (i - 7)", FAILS),
    Case("-(-9223372036854775807 - 1)", FAILS),
    Case("u - 4u", FAILS),
    Case("u + 18446744073709551613u", FAILS),
    Case("u * 2u", UInt(6)),
    Case("u % 2u", UInt(1)),
    # Doubles
    Case("x / 0.0", math.inf),
    Case("-x / 0.0", -math.inf),
    Case("0.0 / (x - 1.5)", math.nan),
    Case("i < 6.5 && u >= 3.0 && i > u", True),
    Case("x == any.n", False),
    # Conversions
    Case("int(x) + int('+5') + int(u) + int(t)", 1 + 5 + 3 + 1772368215),
    Case("int(s + '5')", FAILS),
    Case("int(1e19 * x)", FAILS),
    Case("uint(j)", FAILS),
    Case("double('1e3') + double(i)", 1006.0),
    Case("string(x) + string(i) + string(b) + string(d)", "1.56true5400s"),
    Case("string(1000000.0 * x) + string(1e-7 * x) + string(100.0 * x)", "1.5e+061.5e-07150"),
    Case("string(raw)", FAILS),
    Case("bytes(s)", "h\u00e9llo".encode()),
    Case("bool('t') && !bool('False')", True),
    Case("bool(s)", FAILS),
    Case("type(i) == int && type(l) == list && type(type(i)) == type", True),
    Case("duration('1h30m') == d && d == duration(5400000000000)", True),
    Case("duration(s)", FAILS),
    # Texts
    Case("size(s) == 5 && s.size() == 5 && size(raw) == 2", True),
    Case("s.startsWith('h') && s.endsWith('lo') && s.contains('\u00e9l')", True),
    Case("s.matches('^h.l+o$')", True),
    Case("s.matches('[' + s)", FAILS),
    Case("s < 'i' && s > 'ha' && raw > b'\\x00'", True),
    # Times
    Case("t.getFullYear() * 100 + t.getMonth()", 202602),
    Case("t.getDayOfWeek() + t.getDayOfYear() + t.getDate() + t.getDayOfMonth()", 0 + 59 + 1 + 0),
    Case("t.getHours('America/New_York') * 100 + t.getMinutes('+05:45')", 715),
    Case("t.getHours('Nowhere/Land')", FAILS),
    Case("t.getHours('../etc/passwd')", FAILS),
    Case("t.getMilliseconds()", 250),
    Case("d.getHours() * 1000 + d.getMinutes()", 1090),
    Case("string(t + d)", "2026-03-01T14:00:15.25Z"),
    Case("t - d < t && t - t == duration('0')", True),
    Case("string(t + duration('24h') - duration('-1.5s'))", "2026-03-02T12:30:16.75Z"),
    Case("d + duration('2562047h')", FAILS),
    Case("timestamp('9999-12-31T23:59:59Z') + d", FAILS),
    Case("timestamp('2026-03-01T12:30:15.25+00:00') == t", True),
    Case("timestamp('2026-02-30T12:30:15Z' + s)", FAILS),
    # Lists and maps
    Case("l[0] + l[2]", 4),
    Case("l[3]", FAILS),
    Case("l[i - 7]", FAILS),
    Case("l + [4] == [1, 2, 3, 4]", True),
    Case("2 in l && !(4 in l) && 'a' in m && i in {6: 'x'}", True),
    Case("m['a'] + m.b", "x"),
    Case("m['c']", FAILS),
    Case("has(m.a) && !has(m.c)", True),
    Case("{'a': 1, 'a': i}", FAILS),
    Case("{true: 'b', 1: 'i'}[true] + {true: 'b', 1: 'i'}[1]", "bi"),
    Case("dyn(1) in {true: 'a'}", False),
    Case("flags[true] + flags[b]", "yesyes"),
    Case("flags.exists(k, k) && flags.all(k, flags[k] == 'yes')", True),
    Case("{1: 'a'}[dyn(1u)] + {1: 'a'}[dyn(1.0)]", "aa"),
    Case("{x: 'a'}", FAILS),
    Case("any.list == [1, 2, '3', null]", True),
    Case("any.list[0] + any.n", 2),
    Case("any.nope", FAILS),
    Case("any + 1", FAILS),
    Case("any.list[1] in any.list", True),
    # Logic absorbs errors
    Case("i / 0 == 1 || b", True),
    Case("b || i / 0 == 1", True),
    Case("!b && i / 0 == 1", False),
    Case("i / 0 == 1 && !b", False),
    Case("i / 0 == 1 || !b", FAILS),
    Case("b ? i : i / 0", 6),
    Case("i / 0 == 1 ? 1 : 2", FAILS),
    Case("any.n || b", True),
    Case("any.n && b", FAILS),
    # Loops
    Case("l.all(y, y > 0) && l.exists(y, y == 2) && l.exists_one(y, y > 2)", True),
    Case("l.all(y, 6 / (y - 2) > 100)", False),
    Case("l.exists(y, 6 / (y - 2) == 6)", True),
    Case("l.all(y, 6 / (y - 2) > -100)", FAILS),
    Case("l.exists_one(y, 6 / (y - 2) == 6)", FAILS),
    Case("l.map(y, y * i)", [6, 12, 18]),
    Case("l.map(y, y > 1, y * i)", [12, 18]),
    Case("l.filter(y, y != 2)", [1, 3]),
    Case("m.map(k, m[k])", ["x", ""]),
    Case("l.map(y, l.map(z, z * y)).map(r, r[1])", [2, 4, 6]),
    Case("l.map(y, l.filter(y, y > 2)[0] + y)", [4, 5, 6]),
    Case("[].all(y, y)", True),
    Case("l.exists(i, i == 3) && i == 6", True),
    # Objects
    Case("taint.key == 'k' && has(taint.key)", True),
    Case("taint.timeAdded < t", True),
    Case("has(taint.keys)", False),
    Case("taint.keys.size() == 0", FAILS),
    Case("app.Taint{key: 'z'}.key", "z"),
    Case("app.Taint{key: 'z'} == app.Taint{key: 'z'}", True),
    # Optionals
    Case("m[?'a'].orValue('none') + m[?'c'].orValue('none')", "xnone"),
    Case("m[?'a'].orValue(string(i / 0))", "x"),
    Case("taint.?keys[?0].hasValue()", False),
    Case("[?m[?'a'], ?m[?'c']]", ["x"]),
    Case("{?'k': m[?'a'], ?'n': m[?'c']}", {"k": "x"}),
    Case("m[?'a'].optMap(v, v + v).value()", "xx"),
    Case("l[?7].value()", FAILS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_expression_has_its_value(case: Case) -> None:
    program = ENV.compile(case.text)
    assert not program.issues
    value = both(program, BINDINGS)
    if isinstance(value, Timestamp):
        value = str(value)
    if isinstance(case.value, float) and math.isnan(case.value):
        assert math.isnan(value)
    else:
        assert value == case.value
        assert type(value) is type(case.value) or value is FAILS


@pytest.mark.parametrize("case", [each for each in CASES if "app.Taint{" not in each.text], ids=str)
def test_unchecked_expressions_give_the_same(case: Case) -> None:
    program = ENV.compile(case.text, check_types=False)
    assert not program.issues
    adapted = BINDINGS | {"flags": map_of_pairs([(True, "yes")])}
    adapted["taint"] = BINDINGS["taint"] | {"timeAdded": Timestamp.from_datetime(datetime(2026, 3, 1, 12, tzinfo=UTC))}
    value = both(program, adapted)
    if isinstance(case.value, float) and math.isnan(case.value):
        assert math.isnan(value)
    else:
        assert (str(value) if isinstance(value, Timestamp) else value) == case.value


OBJECTS: dict[str, Any] = {
    "a dict": {"key": "k", "keys": ["a"], "timeAdded": "2026-03-01T12:00:00Z"},
    "an object with attributes": SimpleNamespace(key="k", keys=["a"], time_added=datetime(2026, 3, 1, 12, tzinfo=UTC)),
}


@pytest.mark.parametrize("taint", OBJECTS.values(), ids=OBJECTS.keys())
def test_an_object_may_be_a_mapping_or_have_attributes(taint: Any) -> None:
    program = ENV.compile(
        "taint.key == 'k' && taint.keys == ['a'] && taint.keys.all(each, each in taint.keys) && "
        "taint.timeAdded == timestamp('2026-03-01T12:00:00Z') && has(taint.timeAdded)"
    )
    assert both(program, {"taint": taint}) is True


@pytest.mark.parametrize("taint", [{"key": "k"}, SimpleNamespace(key="k", time_added=None), SimpleNamespace(key="k")])
def test_an_absent_field_is_noticed(taint: Any) -> None:
    assert both(ENV.compile("has(taint.timeAdded)"), {"taint": taint}) is False
    assert both(ENV.compile("taint.timeAdded == t"), BINDINGS | {"taint": taint}) is FAILS
    assert both(ENV.compile("taint.keys == []"), BINDINGS | {"taint": taint}) is FAILS


@pytest.mark.parametrize(
    "bindings",
    [
        {"t": "2026-03-01T12:00:00Z", "d": "90m"},
        {"t": "2026-03-01T13:00:00.000+01:00", "d": "1.5h"},
        {"t": datetime(2026, 3, 1, 12, tzinfo=UTC), "d": timedelta(minutes=90)},
        {"t": datetime(2026, 3, 1, 12), "d": Duration(5_400 * 10**9)},  # noqa: DTZ001  without a zone it is UTC
    ],
)
def test_times_may_be_given_as_text_or_as_pythons_own(bindings: dict[str, Value]) -> None:
    assert both(ENV.compile("string(t + d)"), bindings) == "2026-03-01T13:30:00Z"


def test_numbers_may_be_given_as_plain_integers() -> None:
    assert both(ENV.compile("u + 1u == 4u && x + 0.5 == 3.5"), {"u": 3, "x": 3}) is True
    assert both(ENV.compile("u == 1u"), {"u": -1}) is FAILS


@pytest.mark.parametrize("bindings", [{}, {"s": None}, {"s": 1}, {"s": object()}, {"s": "\ud800"}])
def test_inputs_of_other_types_than_declared_are_evaluation_errors(bindings: dict[str, Value]) -> None:
    program = ENV.compile("bytes(s + 'x').size() > 100 || s.matches('a') || s.startsWith('b')")
    assert both(program, bindings) is FAILS


def test_a_program_with_issues_cannot_be_evaluated() -> None:
    program = ENV.compile("nope")
    with pytest.raises(CelError, match="undeclared reference"):
        program.evaluate({})
    with pytest.raises(CelError, match="undeclared reference"):
        program.evaluate_counted({})


def test_results_do_not_share_state_between_evaluations() -> None:
    program = ENV.compile("l.map(y, y)")
    program.evaluate(BINDINGS).append(99)
    program.evaluate_counted(BINDINGS).value.append(99)
    assert program.evaluate(BINDINGS) == program.evaluate_counted(BINDINGS).value == [1, 2, 3]


LEAVES = ["i", "j", "l[0]", "size(s)", "any.n", "0", "1", "-1", "9223372036854775807"]
NUMBERS = ["({} + {})", "({} - {})", "({} * {})", "({} / {})", "({} % {})", "({c} ? {} : {})", "l.map(y, y + {})[1]"]
NUMBERS += ["l.filter(y, y > {}).size()", "l[{}]", "int(string({}))", "{}"]
FACTS = ["has(m.a)", "'q' in m", "m['q'] == ''", "m['a'] == 'x'", "b", "s.contains('l')"]
CONDITIONS = ["({c} && {c})", "({c} || {c})", "!({c})", "{} < {}", "{} == {}", "{} >= {}", "{} != {}", "{} in l"]
CONDITIONS += ["l.exists(y, y == {})", "l.all(y, 6 / (y - {}) > 0)", "l.exists_one(y, y / {} > 0)"]


@st.composite
def expressions(draw: st.DrawFn, templates: list[str] = CONDITIONS, leaves: list[str] = FACTS, depth: int = 3) -> str:
    """Booleans from `CONDITIONS`, whose `{}` are numbers and whose `{c}` are booleans again."""
    if depth == 0:
        return draw(st.sampled_from(leaves))
    text = draw(st.sampled_from(templates))
    while "{c}" in text:
        text = text.replace("{c}", draw(expressions(depth=depth - 1)), 1)
    while "{}" in text:
        text = text.replace("{}", draw(expressions(NUMBERS, LEAVES, depth=depth - 1)), 1)
    return text


@given(expressions())
@settings(max_examples=100, deadline=None)
def test_fast_path_and_interpreter_agree(text: str) -> None:
    program = ENV.compile(text)
    if not program.issues:
        both(program, BINDINGS)
