"""Environments and programs: declarations, libraries of one's own, what an expression reads."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from mooring.cel import (
    STANDARD,
    CallCost,
    Constant,
    DeclarationError,
    Environment,
    Field,
    Function,
    Library,
    Macro,
    ObjectType,
    Overload,
)
from mooring.cel.costs import STRING as PER_CHARACTER
from mooring.cel.costs import arg, fixed, scaled
from mooring.cel.macros import Expander
from mooring.cel.syntax import Expr
from mooring.cel.types import BOOL, DYN, INT, STRING, list_of, map_of, opaque

pytestmark = pytest.mark.req("5500.2")

NODE = ObjectType("Node", {"labels": Field(map_of(STRING, STRING)), "name": Field(STRING)})
ENV = Environment(variables={"node": NODE.type, "i": INT, "m": map_of(STRING, INT), "d": DYN}, types=(NODE,))


def expand_twice(new: Expander, _target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    return new.call("_+_", args[0], new.copy(args[0]))


def expand_refused(new: Expander, _target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    new.error(args[0], "not this one")
    return None


class Celsius:
    cel_type = opaque("weather.Celsius")

    def __init__(self, degrees: int) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and other.degrees == self.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)


WEATHER = Library(
    "weather",
    functions=(
        Function(
            "shout",
            (
                Overload(
                    "string_shout",
                    (STRING,),
                    STRING,
                    lambda text: text.upper() + "!",
                    member=True,
                    cost=CallCost(scaled(arg(0), PER_CHARACTER), result=arg(0) + fixed(1)),
                ),
            ),
        ),
        Function("celsius", (Overload("celsius_int", (INT,), Celsius.cel_type, Celsius),)),
        Function(
            "or",
            (
                Overload(
                    "celsius_or",
                    (Celsius.cel_type, INT),
                    INT,
                    lambda value, other: value.degrees or other(),
                    member=True,
                    lazy=True,
                ),
            ),
        ),
    ),
    macros=(
        Macro("twice", 1, receiver=False, expand=expand_twice),
        Macro("refused", None, receiver=True, expand=expand_refused),
    ),
    constants={"weather.FREEZING": Constant(INT, 0)},
    types=(Celsius.cel_type,),
    equality={Celsius.cel_type: CallCost(fixed(5))},
)
OWN = ENV.extend(libraries=(WEATHER,))


@dataclass(frozen=True)
class Case:
    text: str
    value: object


@pytest.mark.parametrize(
    "case",
    [
        Case("'a'.shout()", "A!"),
        Case("node.name.shout()", "N!"),
        Case("weather.FREEZING", 0),
        Case("twice(i + 1)", 8),
        Case("celsius(1) == celsius(i - 2)", True),
        Case("type(celsius(1)) == weather.Celsius", True),
        Case("celsius(i).or(i / 0)", 3),
        Case("celsius(i - 3).or(i)", 3),
    ],
    ids=lambda case: case.text,
)
def test_a_library_of_ones_own(case: Case) -> None:
    program = OWN.compile(case.text)
    assert not program.issues
    bindings = {"i": 3, "node": {"name": "n"}}
    assert program.evaluate(bindings) == program.evaluate_counted(bindings).value == case.value


def test_equality_has_its_own_cost_where_a_library_says_so() -> None:
    program = OWN.compile("celsius(i) == celsius(1)")
    assert program.max_cost == program.evaluate_counted({"i": 1}).cost == 1 + 1 + 1 + 5


def test_a_macro_may_refuse() -> None:
    (issue,) = OWN.compile("node.refused(1, 2)").issues
    assert issue.message == "not this one"


def test_a_macro_that_copies_again_and_again_is_stopped() -> None:
    text = "i"
    for _ in range(40):
        text = f"twice({text})"
    (issue,) = OWN.compile(text).issues
    assert "expression too large" in issue.message


def test_extending_leaves_the_original_alone() -> None:
    larger = ENV.extend(variables={"extra": BOOL})
    assert not larger.compile("extra").issues
    assert ENV.compile("extra").issues


def test_two_overloads_with_one_id_are_refused() -> None:
    twice = Library("twice", functions=(Function("shout", (Overload("string_shout", (INT,), INT, abs),)),))
    with pytest.raises(DeclarationError, match="string_shout"):
        OWN.extend(libraries=(twice,))


def test_the_same_library_may_be_given_twice() -> None:
    assert Environment(libraries=(STANDARD, STANDARD)).compile("1 + 1").evaluate({}) == 2


LABELS = ("node", "labels")


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("true", {}),
        ("node.labels['rack'] == 'a' && has(node.labels.zone)", {LABELS: {"rack", "zone"}}),
        ("'gpu' in node.labels || node.labels[?'x'].hasValue()", {LABELS: {"gpu", "x"}}),
        ("node.labels.rack.size() > 1", {LABELS: {"rack"}}),
        ("node.labels.exists(k, k == 'a')", {LABELS: None}),
        ("node.labels.size() > 1 && node.labels['a'] == ''", {LABELS: None}),
        ("node.labels[node.name] == ''", {LABELS: None, ("node", "name"): None}),
        ("node.labels[node.labels['a']] == ''", {LABELS: None}),
        ("['a'].exists(k, node.labels[k] == '')", {LABELS: None}),
        ("m['a'] + i > 1", {("m",): {"a"}, ("i",): None}),
        ("node == node", {("node",): None}),
        ("d.a.b == 1 && has(d.c)", {("d", "a", "b"): None, ("d", "c"): set()}),
        ("d.a != null", {("d", "a"): None}),
        ("d.all(x, x.y)", {("d", "*"): set(), ("d", "*", "y"): None}),
        (
            "d.a.exists(x, x.b.all(y, y.c == x.d))",
            {
                ("d", "a", "*"): set(),
                ("d", "a", "*", "b", "*"): set(),
                ("d", "a", "*", "b", "*", "c"): None,
                ("d", "a", "*", "d"): None,
            },
        ),
        (
            "d.a.all(x, d.b.exists(x, x.c) && x.e)",
            {("d", "a", "*"): set(), ("d", "b", "*"): set(), ("d", "b", "*", "c"): None, ("d", "a", "*", "e"): None},
        ),
        ("d.map(x, x)", {("d", "*"): None}),
        ("d['a'].b", {("d",): None}),
        ("[1].exists(node, node == 1)", {}),
    ],
)
def test_a_program_knows_what_it_reads(text: str, reads: dict[tuple[str, ...], set[str] | None]) -> None:
    program = ENV.extend(libraries=(_optional_has_value(),)).compile(text)
    assert not program.issues
    assert program.reads == reads


def _optional_has_value() -> Library:
    from mooring.cel.ext.optionals import OPTIONALS

    return OPTIONALS


def test_deep_callers_compile_the_same() -> None:
    text = "(" * 200 + "i" + ")" * 200 + " > 1" + " + 1" * 150

    def deep(levels: int) -> bool:
        return deep(levels - 1) if levels else not ENV.compile(text).issues

    assert deep(0)
    assert deep(500)


def test_programs_are_shared_between_threads() -> None:
    program = ENV.compile("node.labels['a'] + string(i) + node.labels['missing' + string(i)]")
    seen: list[str] = []

    def run(number: int) -> None:
        bindings = {"i": number, "node": {"labels": {"a": "x", f"missing{number}": "!"}}}
        seen.extend(program.evaluate(bindings) for _ in range(50))
        seen.extend(program.evaluate_counted(bindings).value for _ in range(50))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {text: seen.count(text) for text in seen} == {f"x{number}!": 100 for number in range(4)}


def test_lists_of_a_declared_type() -> None:
    env = Environment(variables={"l": list_of(NODE.type)}, types=(NODE,))
    program = env.compile("l.exists(n, n.labels['a'] == 'x' && n.name == 'n')")
    assert program.evaluate({"l": [{"labels": {"a": "y"}}, {"labels": {"a": "x"}, "name": "n"}]}) is True
