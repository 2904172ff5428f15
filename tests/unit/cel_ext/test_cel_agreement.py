"""The engine agrees with Google's C++ implementation (cel-expr-python) on expressions over the common subset.

And with itself: the fast evaluation and the one that counts costs give the same.
"""

import math
from collections.abc import Callable
from typing import Any

from cel_expr_python import cel as other
from cel_expr_python.ext import ext_strings
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.cel.environment import Environment
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.strings import strings as strings_library
from mooring.cel.standard import STANDARD
from mooring.cel.types import BOOL, DOUBLE, INT, STRING, UINT, Kind, Type, list_of, map_of
from mooring.cel.values import UInt

# Expressions that have the right types, over these variables

VARIABLES: dict[str, Type] = {
    "b": BOOL,
    "i": INT,
    "j": INT,
    "u": UINT,
    "d": DOUBLE,
    "s": STRING,
    "t": STRING,
    "l": list_of(INT),
    "k": list_of(STRING),
    "m": map_of(STRING, STRING),
}

_WORDS = st.sampled_from(["", "a", "b", "ab", "-", "zone", "us-west-2a", "1.30.0", "é", "😀", "\\n", "x y"])
_INTS = st.sampled_from([0, 1, -1, 2, 3, 7, 10, 63, -9223372036854775808, 9223372036854775807, 4611686018427387904])


def _text(word: str) -> str:
    return f"'{word}'"


def strings(depth: int) -> st.SearchStrategy[str]:
    leaves = st.one_of(_WORDS.map(_text), st.sampled_from(["s", "t", "k[0]", "m['a']", "m['zone']"]))
    if depth == 0:
        return leaves
    inner = strings(depth - 1)
    return st.one_of(
        leaves,
        st.builds("({} + {})".format, inner, inner),
        st.builds("string({})".format, ints(depth - 1)),
        st.builds("string({})".format, bools(depth - 1)),
        st.builds("({} ? {} : {})".format, bools(depth - 1), inner, inner),
        st.builds("{}[{}]".format, string_lists(depth - 1), ints(0)),
        st.builds("{}.replace({}, {})".format, inner, leaves, leaves),
        st.builds("{}.lowerAscii()".format, inner),
        st.builds("{}.substring({})".format, inner, ints(0)),
        st.builds("{}.join('-')".format, string_lists(depth - 1)),
    )


def ints(depth: int) -> st.SearchStrategy[str]:
    leaves = st.one_of(
        _INTS.map(lambda number: f"({number})" if number < 0 else str(number)), st.sampled_from(["i", "j", "l[0]"])
    )
    if depth == 0:
        return leaves
    inner = ints(depth - 1)
    return st.one_of(
        leaves,
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("-({})".format, inner),
        st.builds("size({})".format, strings(depth - 1)),
        st.builds("{}.size()".format, int_lists(depth - 1)),
        st.builds("int({})".format, strings(depth - 1)),
        st.builds("int({})".format, doubles(depth - 1)),
        st.builds("int({})".format, uints(depth - 1)),
        st.builds("{}.indexOf({})".format, strings(depth - 1), strings(0)),
        st.builds("({} ? {} : {})".format, bools(depth - 1), inner, inner),
    )


def uints(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["u", "0u", "1u", "7u", "18446744073709551615u"])
    if depth == 0:
        return leaves
    inner = uints(depth - 1)
    return st.one_of(
        leaves,
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("uint({})".format, ints(depth - 1)),
    )


def doubles(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["d", "0.0", "1.5", "-2.5", "1e300", "9223372036854775807.0"])
    if depth == 0:
        return leaves
    inner = doubles(depth - 1)
    return st.one_of(
        leaves,
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner),
        st.builds("double({})".format, ints(depth - 1)),
        st.builds("double({})".format, strings(depth - 1)),
    )


def int_lists(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["l", "[1, 2, 3]", "[i]", "[i, j, 7]"])
    if depth == 0:
        return leaves
    inner = int_lists(depth - 1)
    return st.one_of(
        leaves,
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.map(x, x {} {})".format, inner, st.sampled_from("+-*/%"), ints(0)),
        st.builds("{}.filter(x, x {} {})".format, inner, st.sampled_from(["<", "==", ">="]), ints(0)),
        st.builds("{}.map(x, x > 1, {})".format, inner, ints(depth - 1)),
    )


def string_lists(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["k", "['a', 'b']", "[s]", "[s, t, '']"])
    if depth == 0:
        return leaves
    inner = string_lists(depth - 1)
    return st.one_of(
        leaves,
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.split({})".format, strings(depth - 1), _WORDS.map(_text)),
        st.builds("{}.filter(x, x {} {})".format, inner, st.sampled_from(["<", "!="]), strings(0)),
        st.builds("{}.map(x, x + {})".format, inner, strings(0)),
    )


def bools(depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["true", "false", "b", "'a' in m", "'zone' in m", "has(m.a)", "(1 / i == 1)"])
    if depth == 0:
        return leaves
    inner = bools(depth - 1)
    compare = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        leaves,
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} {} {})".format, ints(depth - 1), compare, ints(depth - 1)),
        st.builds("({} {} {})".format, strings(depth - 1), compare, strings(depth - 1)),
        st.builds("({} {} {})".format, doubles(depth - 1), compare, doubles(depth - 1)),
        st.builds("({} == {})".format, int_lists(depth - 1), int_lists(depth - 1)),
        st.builds("({} in {})".format, ints(depth - 1), int_lists(depth - 1)),
        st.builds(
            "{}.{}({})".format, strings(depth - 1), st.sampled_from(["contains", "startsWith", "endsWith"]), strings(0)
        ),
        st.builds(
            "{}.matches({})".format, strings(depth - 1), st.sampled_from(["'^a+$'", "'[0-9]+'", "'(?i)ZONE'", "''"])
        ),
        st.builds("{}.{}(x, x {} {})".format, int_lists(depth - 1), _QUANTIFIERS, compare, ints(0)),
        st.builds("{}.{}(x, x {} {})".format, string_lists(depth - 1), _QUANTIFIERS, compare, strings(0)),
        st.builds("m.{}(x, m[x] == {})".format, _QUANTIFIERS, strings(0)),
        st.builds("l.{}(x, 10 / x {} {})".format, _QUANTIFIERS, compare, ints(0)),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    )


_TESTS = st.sampled_from(["contains", "startsWith", "endsWith"])
_PATTERNS = st.sampled_from(["'^a+$'", "'[0-9]+'", "'(?i)ZONE'", "''"])
_QUANTIFIERS = st.sampled_from(["all", "exists", "exists_one"])


def expressions(depth: int = 3) -> st.SearchStrategy[str]:
    return st.one_of(bools(depth), ints(depth), strings(depth), doubles(depth), uints(depth), int_lists(depth))


WORDS = st.sampled_from(["", "a", "b", "zone", "us-west-2a", "é", "😀", "12", "-3", "1.5", "x" * 40])
BINDINGS = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
        "j": st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
        "u": st.integers(0, 2**64 - 1) | st.integers(0, 5),
        "d": st.floats(allow_nan=False, allow_subnormal=False),
        "s": WORDS,
        "t": WORDS,
        "l": st.lists(st.integers(-5, 5), max_size=5),
        "k": st.lists(WORDS, max_size=5),
        "m": st.dictionaries(st.sampled_from(["a", "b", "zone"]), WORDS, max_size=3),
    }
)


# The two engines

OURS = Environment(variables=VARIABLES, libraries=(STANDARD, strings_library()), optimize=False)


def their_type(declared: Type) -> Any:
    params = [their_type(each) for each in declared.params]
    match declared.kind:
        case Kind.LIST:
            return other.Type.List(*params)
        case Kind.MAP:
            return other.Type.Map(*params)
    return other.Type(declared.name)


THEIRS = other.NewEnv(
    variables={name: their_type(declared) for name, declared in VARIABLES.items()},
    extensions=[ext_strings.ExtStrings()],
)


def ours(expression: str, bindings: dict[str, Any]) -> Any:
    program = OURS.compile(expression)
    assert program.issues == (), expression
    given_values = bindings | {"u": UInt(bindings["u"])}
    fast = outcome(lambda: program.evaluate(given_values))
    counted = outcome(lambda: program.evaluate_counted(given_values).value)
    assert same(fast, counted), (expression, bindings, fast, counted)
    return fast


def outcome(evaluate: Callable[[], Any]) -> Any:
    try:
        return evaluate()
    except EvaluationError:
        return EvaluationError


def theirs(expression: str, bindings: dict[str, Any]) -> Any:
    value = THEIRS.compile(expression).eval(data=bindings)
    return EvaluationError if value.type() == other.Type.ERROR else value.plain_value()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b)


@settings(max_examples=100, deadline=None)
@given(st.deferred(expressions), st.lists(BINDINGS, min_size=3, max_size=3))
def test_both_engines_agree(expression: str, inputs: list[dict[str, Any]]) -> None:
    for bindings in inputs:
        mine, yours = ours(expression, bindings), theirs(expression, bindings)
        assert same(mine, yours), (expression, bindings, mine, yours)
