"""Static types: what expressions are of, and what is refused where."""

from dataclasses import dataclass

import pytest

from mooring.cel import STANDARD, Environment, Field, Function, Library, ObjectType, Overload
from mooring.cel.standard import LITERAL_VALIDATORS
from mooring.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    list_of,
    map_of,
    object_type,
    opaque,
    optional_of,
    param,
)
from mooring.cel.validators import HOMOGENEOUS_LITERALS

pytestmark = pytest.mark.req("5500.2")

T, U = param("T"), param("U")
PAIRS = Library(
    "pairs",
    functions=(
        Function("pair", (Overload("pair", (T, U), opaque("pair", T, U), lambda a, b: (a, b)),)),
        Function("first", (Overload("pair_first", (opaque("pair", T, U),), T, lambda pair: pair[0], member=True),)),
        Function("same", (Overload("same", (T, T), BOOL, lambda a, b: a == b),)),
        Function("some.name.f", (Overload("f", (INT,), STRING, str),)),
        Function("maybe", (Overload("maybe", (T,), optional_of(T), lambda value: value),)),
    ),
)
TAINT = ObjectType(
    "app.Taint", {"key": Field(STRING), "added": Field(TIMESTAMP), "owner": Field(object_type("app.Owner"))}
)
OWNER = ObjectType("app.Owner", {"name": Field(STRING)})
ENV = Environment(
    variables={
        "i": INT,
        "s": STRING,
        "d": DYN,
        "m": map_of(STRING, INT),
        "l": list_of(STRING),
        "taint": TAINT.type,
        "a.b.x": BOOL,
    },
    libraries=(STANDARD, PAIRS),
    types=(TAINT, OWNER),
)
STRICT = ENV.extend(libraries=(Library("validators", validators=(HOMOGENEOUS_LITERALS, *LITERAL_VALIDATORS)),))


@dataclass(frozen=True)
class TypeCase:
    id: str
    text: str
    type: str


TYPES = [
    TypeCase("a variable", "i", "int"),
    TypeCase("a dotted variable", "a.b.x", "bool"),
    TypeCase("a field", "taint.owner.name", "string"),
    TypeCase("a map's value by field", "m.k", "int"),
    TypeCase("a map's value by index", "m['k']", "int"),
    TypeCase("a list's element", "l[0]", "string"),
    TypeCase("dyn spreads", "d.x.y", "dyn"),
    TypeCase("dyn fits an overload", "d + 1", "int"),
    TypeCase("several overloads give dyn", "d + d", "dyn"),
    TypeCase("comparison of dyn", "d < d", "bool"),
    TypeCase("an empty list", "[]", "list(dyn)"),
    TypeCase("nested lists find their element", "[[], [1]]", "list(list(int))"),
    TypeCase("mixed elements are dyn", "[1, 'a']", "list(dyn)"),
    TypeCase("a map literal", "{'a': [1]}", "map(string, list(int))"),
    TypeCase("a condition takes the more general branch", "i > 0 ? d : 1", "dyn"),
    TypeCase("type parameters", "pair(1, 'a').first()", "int"),
    TypeCase("generic opaque type", "pair(1, [s])", "pair(int, list(string))"),
    TypeCase("a namespaced function", "some.name.f(1)", "string"),
    TypeCase("map macro", "l.map(x, x.size())", "list(int)"),
    TypeCase("filter over a map gives keys", "m.filter(k, m[k] > 1)", "list(string)"),
    TypeCase("exists", "l.exists(x, x == 'a')", "bool"),
    TypeCase("the type of a type", "type(i)", "type(int)"),
    TypeCase("the name of a type", "type(i) == int", "bool"),
    TypeCase("optional selection", "taint.?key", "optional_type(string)"),
    TypeCase("a path behind an optional stays optional", "taint.?owner.name", "optional_type(string)"),
    TypeCase("optional index", "m[?'k']", "optional_type(int)"),
    TypeCase("an optional element", "[?maybe(1)]", "list(int)"),
    TypeCase("time minus time", "taint.added - taint.added", "duration"),
    TypeCase("numbers compare across types", "i < 1.5 && i > 1u", "bool"),
    TypeCase("a message", "app.Owner{name: 'a'}", "app.Owner"),
    TypeCase("null fits an object", "taint == null", "bool"),
]


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case.id)
def test_an_expression_has_its_type(case: TypeCase) -> None:
    program = ENV.compile(case.text)
    assert not program.issues
    assert str(program.output_type) == case.type


@dataclass(frozen=True)
class RefusalCase:
    id: str
    text: str
    column: int
    message: str


REFUSALS = [
    RefusalCase("an unknown variable", "i + nope", 5, "undeclared reference to 'nope' (in container '')"),
    RefusalCase("an unknown function", "nope(1)", 5, "undeclared reference to 'nope' (in container '')"),
    RefusalCase("an unknown method", "s.nope()", 7, "undeclared reference to 'nope' (in container '')"),
    RefusalCase("an unknown field", "taint.nope", 6, "undefined field 'nope'"),
    RefusalCase("a field of a scalar", "s.x", 2, "type 'string' does not support field selection"),
    RefusalCase("has of a scalar's field", "has(s.x)", 4, "type 'string' does not support field selection"),
    RefusalCase("operands", "s + 1", 3, "found no matching overload for '_+_' applied to '(string, int)'"),
    RefusalCase(
        "equality of different types", "i == s", 3, "found no matching overload for '_==_' applied to '(int, string)'"
    ),
    RefusalCase("a receiver", "i.size()", 7, "found no matching overload for 'size' applied to 'int.()'"),
    RefusalCase(
        "a function called as a method", "s.dyn()", 6, "found no matching overload for 'dyn' applied to 'string.()'"
    ),
    RefusalCase(
        "a key of the wrong type",
        "m[1]",
        2,
        "found no matching overload for '_[_]' applied to '(map(string, int), int)'",
    ),
    RefusalCase(
        "a type parameter bound twice",
        "same(1, 'a')",
        5,
        "found no matching overload for 'same' applied to '(int, string)'",
    ),
    RefusalCase(
        "a predicate that is no boolean",
        "l.all(x, x)",
        6,
        "found no matching overload for '_&&_' applied to '(bool, string)'",
    ),
    RefusalCase(
        "a loop over a scalar",
        "i.exists(x, true)",
        1,
        "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    RefusalCase("a message of unknown type", "Nope{a: 1}", 5, "undeclared reference to 'Nope' (in container '')"),
    RefusalCase("an unknown field of a message", "app.Owner{nope: 1}", 15, "undefined field 'nope'"),
    RefusalCase(
        "a message's field of the wrong type",
        "app.Owner{name: 1}",
        15,
        "expected type of field 'name' is 'string' but provided type is 'int'",
    ),
    RefusalCase("an optional element that is none", "[?1]", 3, "expected type 'optional_type(int)' but found 'int'"),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
def test_a_wrong_type_is_refused_where_it_is(case: RefusalCase) -> None:
    (first, *_others) = ENV.compile(case.text).issues
    assert (first.line, first.column, first.message) == (1, case.column, case.message)


def test_one_mistake_is_one_issue() -> None:
    assert len(ENV.compile("nope.x + 1 > 2 && s == nope2").issues) == 2


VALIDATED = [
    RefusalCase("a regular expression", "s.matches('[')", 11, "invalid matches argument"),
    RefusalCase("a duration", "duration('1 hour') > duration('1h')", 10, "invalid duration argument"),
    RefusalCase("a timestamp", "timestamp('yesterday') == taint.added", 11, "invalid timestamp argument"),
    RefusalCase("elements of several types", "[1, 'a'].size() > 0", 5, "expected type 'int' but found 'string'"),
    RefusalCase(
        "values of several types", "{'a': 1, 'b': 'c'}.size() > 0", 15, "expected type 'int' but found 'string'"
    ),
]


@pytest.mark.parametrize("case", VALIDATED, ids=lambda case: case.id)
def test_validators_refuse_what_can_never_work(case: RefusalCase) -> None:
    (issue,) = STRICT.compile(case.text).issues
    assert (issue.column, issue.message) == (case.column, case.message)


def test_names_are_looked_up_from_the_container_outwards() -> None:
    env = Environment(variables={"x.y.v": INT, "x.v": STRING, "v": BOOL}, container="x.y")
    assert [str(env.compile(name).output_type) for name in ("v", "x.v", ".v")] == ["int", "string", "bool"]


def test_loop_variables_hide_names_of_the_container() -> None:
    env = Environment(variables={"x.y": STRING}, container="x")
    assert str(env.compile("[1].map(y, y)").output_type) == "list(int)"


def test_comparison_across_types_can_be_switched_off() -> None:
    assert Environment(cross_type_numeric=False).compile("1 < 1.5").issues


def test_a_constant_conversion_that_fails_is_an_issue_of_the_program() -> None:
    (issue,) = ENV.compile("int('x') == 1").issues
    assert str(issue) == "program: type conversion error from 'string' to 'int'"


def test_without_optimization_it_fails_only_when_it_is_reached() -> None:
    program = Environment(optimize=False).compile("true || int('x') == 1")
    assert program.evaluate({}) is True
