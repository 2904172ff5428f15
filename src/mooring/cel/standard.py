"""CEL's standard library: the operators, conversions and functions of all environments.

The overload ids are those of cel-go. Operations on values are in arithmetic.py, conversions.py, timestamps.py
and values.py; this file has the signatures and costs. `STANDARD` is the first library of every environment;
`CROSS_TYPE_COMPARISONS` allows `1 < 1.5`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from . import arithmetic, conversions, timestamps, values
from . import operators as op
from .costs import REGEX, Argument, CallCost, CallEstimate, Range, arg, fixed, saturate, scaled, smaller
from .costs import STRING as PER_CHARACTER
from .errors import EvaluationError
from .fields import ABSENT
from .library import Constant, Function, Library, Overload, function
from .macros import STANDARD_MACROS
from .regex import compile_pattern, matches
from .types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    param,
    type_of,
)
from .validators import literal_validator
from .values import NANOS, NONE, Duration, Optional, Timestamp, TypeValue, Value, no_such_overload

_A: Final = param("A")
_B: Final = param("B")
_LIST: Final = list_of(_A)
_MAP: Final = map_of(_A, _B)
_OPTIONAL_LIST: Final = optional_of(_LIST)
_OPTIONAL_MAP: Final = optional_of(_MAP)

COMPARE: Final = CallCost(scaled(smaller(arg(0), arg(1)), PER_CHARACTER))
_CONCATENATE: Final = CallCost(scaled(arg(0) + arg(1), PER_CHARACTER), result=arg(0) + arg(1))
_CONCATENATE_LISTS: Final = CallCost(result=arg(0) + arg(1))
_AFFIX: Final = CallCost(scaled(arg(1), PER_CHARACTER))
_CONTAINS: Final = CallCost(scaled(arg(0), PER_CHARACTER) * scaled(arg(1), PER_CHARACTER))
MATCHES: Final = CallCost(scaled(arg(0) + fixed(1), PER_CHARACTER) * scaled(arg(1), REGEX))
_IN_LIST: Final = CallCost(arg(1))


def _estimate_string_to_bytes(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    return CallEstimate(size.scaled(PER_CHARACTER), Range(size.min, saturate(size.max * 4)))


def _estimate_bytes_to_string(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    return CallEstimate(size.scaled(PER_CHARACTER), Range(size.min // 4, size.max))


_TRAVERSE: Final = scaled(arg(0), PER_CHARACTER)
_STRING_TO_BYTES: Final = CallCost(_TRAVERSE, estimator=_estimate_string_to_bytes)
_BYTES_TO_STRING: Final = CallCost(_TRAVERSE, estimator=_estimate_bytes_to_string)


# Operators that codegen.py and interpreter.py evaluate themselves, because they do not evaluate all their arguments


def _evaluated_inline(*_args: Value) -> Value:
    raise AssertionError("the engine evaluates this operator without a call")


_LOGIC: Final = (
    function(op.CONDITIONAL, Overload("conditional", (BOOL, _A, _A), _A, _evaluated_inline)),
    function(op.AND, Overload("logical_and", (BOOL, BOOL), BOOL, _evaluated_inline)),
    function(op.OR, Overload("logical_or", (BOOL, BOOL), BOOL, _evaluated_inline)),
    function(op.NOT_STRICTLY_FALSE, Overload("not_strictly_false", (BOOL,), BOOL, lambda value: value)),
    function(op.NOT, Overload("logical_not", (BOOL,), BOOL, lambda value: not value, inline="(not {0})")),
)

# Equality and order


_EQUALITY: Final = (
    function(op.EQUALS, Overload("equals", (_A, _A), BOOL, values.equal, cost=COMPARE)),
    function(op.NOT_EQUALS, Overload("not_equals", (_A, _A), BOOL, lambda a, b: not values.equal(a, b), cost=COMPARE)),
)

_ORDERS: Final[Mapping[str, tuple[str, str, Callable[[Any, Any], bool]]]] = {
    op.LESS: ("less", "<", lambda a, b: a < b),
    op.LESS_EQUALS: ("less_equals", "<=", lambda a, b: a <= b),
    op.GREATER: ("greater", ">", lambda a, b: a > b),
    op.GREATER_EQUALS: ("greater_equals", ">=", lambda a, b: a >= b),
}
_ORDERED: Final = {
    "bool": BOOL,
    "int64": INT,
    "uint64": UINT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "timestamp": TIMESTAMP,
    "duration": DURATION,
}
_NUMBERS: Final = {"int64": INT, "uint64": UINT, "double": DOUBLE}


def _comparison(function: str, suffix: str, a: Type, b: Type) -> Overload:
    """Declare a comparison; between an integer and a double, the integer is converted and may lose digits."""
    name, symbol, impl = _ORDERS[function]
    cost = COMPARE if a in (STRING, BYTES) else CallCost()
    left, right = ("float({0})", "float({1})") if a != b and DOUBLE in (a, b) else ("{0}", "{1}")
    if a != b and DOUBLE in (a, b):
        compare = impl
        impl = lambda x, y: compare(float(x), float(y))  # noqa: E731  one line beats a name
    return Overload(f"{name}_{suffix}", (a, b), BOOL, impl, cost=cost, inline=f"({left} {symbol} {right})")


_ORDER: Final = tuple(
    Function(function, tuple(_comparison(function, suffix, type_, type_) for suffix, type_ in _ORDERED.items()))
    for function in _ORDERS
)
CROSS_TYPE_COMPARISONS: Final = Library(
    "cross-type comparisons",
    functions=tuple(
        Function(
            function,
            tuple(
                _comparison(function, f"{a}_{b}", _NUMBERS[a], _NUMBERS[b])
                for a in _NUMBERS
                for b in _NUMBERS
                if a != b
            ),
        )
        for function in _ORDERS
    ),
)

# Arithmetic


def _concatenate(a: Any, b: Any) -> Any:
    return a + b


_ARITHMETIC: Final = (
    function(
        op.ADD,
        Overload("add_bytes", (BYTES, BYTES), BYTES, _concatenate, cost=_CONCATENATE, inline="({0} + {1})"),
        Overload("add_double", (DOUBLE, DOUBLE), DOUBLE, _concatenate, inline="({0} + {1})"),
        Overload("add_duration_duration", (DURATION, DURATION), DURATION, arithmetic.add_durations),
        Overload("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP, arithmetic.shift_timestamp),
        Overload("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, arithmetic.shift_timestamp),
        Overload("add_int64", (INT, INT), INT, arithmetic.add_int),
        Overload("add_list", (_LIST, _LIST), _LIST, _concatenate, cost=_CONCATENATE_LISTS),
        Overload("add_string", (STRING, STRING), STRING, _concatenate, cost=_CONCATENATE, inline="({0} + {1})"),
        Overload("add_uint64", (UINT, UINT), UINT, arithmetic.add_uint),
    ),
    function(
        op.SUBTRACT,
        Overload("subtract_double", (DOUBLE, DOUBLE), DOUBLE, lambda a, b: a - b, inline="({0} - {1})"),
        Overload("subtract_duration_duration", (DURATION, DURATION), DURATION, arithmetic.subtract_nanos),
        Overload("subtract_int64", (INT, INT), INT, lambda a, b: arithmetic.int64(a - b)),
        Overload(
            "subtract_timestamp_duration",
            (TIMESTAMP, DURATION),
            TIMESTAMP,
            lambda moment, length: Timestamp.of(moment.nanos - length.nanos),
        ),
        Overload("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION, arithmetic.subtract_nanos),
        Overload("subtract_uint64", (UINT, UINT), UINT, lambda a, b: arithmetic.uint64(int(a) - int(b))),
    ),
    function(
        op.MULTIPLY,
        Overload("multiply_double", (DOUBLE, DOUBLE), DOUBLE, float.__mul__, inline="({0} * {1})"),
        Overload("multiply_int64", (INT, INT), INT, lambda a, b: arithmetic.int64(a * b)),
        Overload("multiply_uint64", (UINT, UINT), UINT, lambda a, b: arithmetic.uint64(int(a) * int(b))),
    ),
    function(
        op.DIVIDE,
        Overload("divide_double", (DOUBLE, DOUBLE), DOUBLE, arithmetic.divide_double),
        Overload("divide_int64", (INT, INT), INT, arithmetic.divide_int),
        Overload("divide_uint64", (UINT, UINT), UINT, arithmetic.divide_uint),
    ),
    function(
        op.MODULO,
        Overload("modulo_int64", (INT, INT), INT, arithmetic.modulo_int),
        Overload("modulo_uint64", (UINT, UINT), UINT, arithmetic.modulo_uint),
    ),
    function(
        op.NEGATE,
        Overload("negate_double", (DOUBLE,), DOUBLE, lambda a: -a, inline="(-{0})"),
        Overload("negate_int64", (INT,), INT, lambda a: arithmetic.int64(-a)),
        Overload("negate_duration", (DURATION,), DURATION, lambda length: Duration.of(-length.nanos)),
    ),
)

# Lists and maps


def index_list(items: Sequence[Value], index: Value) -> Value:
    """Return an item; whole numbers of any type are indices."""
    if index.__class__ is bool or not isinstance(index, int | float):
        raise EvaluationError(f"unsupported index type '{values.runtime_type(index).name}' in list")
    if index != int(index) or not 0 <= index < len(items):
        raise EvaluationError(f"index out of bounds: {index}")
    return items[int(index)]


def index_map(entries: Mapping[Value, Value], key: Value) -> Value:
    stored = values.to_key(key)
    if not values.is_key(key) or stored not in entries:
        raise EvaluationError(f"no such key: {key}")
    return entries[stored]


def index_any(container: Value, index: Value) -> Value:
    """Return `container[index]` by run-time types; indexing an optional gives an optional."""
    if isinstance(container, Optional):
        return optional_index(container, index)
    if isinstance(container, Mapping):
        return index_map(container, index)
    if isinstance(container, list | tuple):
        return index_list(container, index)
    raise no_such_overload()


def optional_index(container: Value, index: Value) -> Optional:
    """Return `container[?index]`: none if absent."""
    if isinstance(container, Optional):
        if not container.present:
            return NONE
        container = container.value
    found = find_index(container, index)
    return NONE if found is ABSENT else Optional.of(found)


def find_index(container: Value, index: Value) -> Value:
    """Return the value at an index, or `ABSENT`."""
    if isinstance(container, Mapping):
        stored = values.to_key(index)
        return container[stored] if values.is_key(index) and stored in container else ABSENT
    if not isinstance(container, list | tuple):
        raise no_such_overload()
    try:
        return index_list(container, index)
    except EvaluationError:
        return ABSENT


_COLLECTIONS: Final = (
    function(
        op.INDEX,
        Overload("index_list", (_LIST, INT), _A, index_list),
        Overload("index_map", (_MAP, _A), _B, index_map),
        Overload("optional_list_index_int", (_OPTIONAL_LIST, INT), optional_of(_A), optional_index),
        Overload("optional_map_index_value", (_OPTIONAL_MAP, _A), optional_of(_B), optional_index),
    ),
    function(
        op.OPTIONAL_INDEX,
        Overload("list_optindex_optional_int", (_LIST, INT), optional_of(_A), optional_index),
        Overload("optional_list_optindex_optional_int", (_OPTIONAL_LIST, INT), optional_of(_A), optional_index),
        Overload("map_optindex_optional_value", (_MAP, _A), optional_of(_B), optional_index),
        Overload("optional_map_optindex_optional_value", (_OPTIONAL_MAP, _A), optional_of(_B), optional_index),
    ),
    function(op.OPTIONAL_SELECT, Overload("select_optional_field", (DYN, STRING), optional_of(_A), _evaluated_inline)),
    function(
        op.IN,
        Overload("in_list", (_A, _LIST), BOOL, lambda value, items: values.contains(items, value), cost=_IN_LIST),
        Overload("in_map", (_A, _MAP), BOOL, lambda value, entries: values.contains(entries, value)),
    ),
    Function(
        "size",
        tuple(
            Overload(f"{name}_size" if member else f"size_{name}", (type_,), INT, len, member=member, inline="len({0})")
            for name, type_ in (("bytes", BYTES), ("list", _LIST), ("map", _MAP), ("string", STRING))
            for member in (False, True)
        ),
    ),
)

# Texts


def _text_test(name: str, overload: str, test: Callable[[str, str], bool], cost: CallCost, inline: str) -> Function:
    signature = (STRING, STRING)
    return function(name, Overload(overload, signature, BOOL, test, member=True, cost=cost, inline=inline))


_TEXTS: Final = (
    _text_test("contains", "contains_string", lambda text, part: part in text, _CONTAINS, "({1} in {0})"),
    _text_test("endsWith", "ends_with_string", str.endswith, _AFFIX, "{0}.endswith({1})"),
    _text_test("startsWith", "starts_with_string", str.startswith, _AFFIX, "{0}.startswith({1})"),
    function(
        "matches",
        Overload("matches", (STRING, STRING), BOOL, matches, cost=MATCHES, pattern=1),
        Overload("matches_string", (STRING, STRING), BOOL, matches, member=True, cost=MATCHES, pattern=1),
    ),
)

# Conversions


def _same(value: Value) -> Value:
    return value


def _conversion(target: str, result: Type, *overloads: tuple[str, Type, Callable[[Any], Any]]) -> Function:
    own = Overload(f"{target}_to_{target}", (result,), result, _same)
    return function(
        str(result.name),
        own,
        *(Overload(f"{source}_to_{target}", (type_,), result, impl) for source, type_, impl in overloads),
    )


_CONVERSIONS: Final = (
    function("type", Overload("type", (_A,), type_of(_A), values.runtime_type)),
    function("dyn", Overload("to_dyn", (_A,), DYN, _same)),
    _conversion("bool", BOOL, ("string", STRING, conversions.string_to_bool)),
    function(
        "bytes",
        Overload("bytes_to_bytes", (BYTES,), BYTES, _same),
        Overload("string_to_bytes", (STRING,), BYTES, str.encode, cost=_STRING_TO_BYTES),
    ),
    _conversion(
        "double",
        DOUBLE,
        ("int64", INT, float),
        ("string", STRING, conversions.string_to_double),
        ("uint64", UINT, float),
    ),
    _conversion(
        "duration",
        DURATION,
        ("int64", INT, Duration),
        ("string", STRING, conversions.string_to_duration),
    ),
    _conversion(
        "int64",
        INT,
        ("double", DOUBLE, conversions.double_to_int),
        ("duration", DURATION, lambda length: length.nanos),
        ("string", STRING, conversions.string_to_int),
        ("timestamp", TIMESTAMP, lambda moment: moment.nanos // NANOS),
        ("uint64", UINT, conversions.uint_to_int),
    ),
    function(
        "string",
        Overload("string_to_string", (STRING,), STRING, _same),
        Overload("bytes_to_string", (BYTES,), STRING, values.to_string, cost=_BYTES_TO_STRING),
        *(
            Overload(f"{source}_to_string", (type_,), STRING, values.to_string)
            for source, type_ in _ORDERED.items()
            if type_ not in (STRING, BYTES)
        ),
    ),
    _conversion(
        "timestamp",
        TIMESTAMP,
        ("int64", INT, lambda seconds: Timestamp.of(seconds * NANOS)),
        ("string", STRING, conversions.string_to_timestamp),
    ),
    _conversion(
        "uint64",
        UINT,
        ("double", DOUBLE, conversions.double_to_uint),
        ("int64", INT, conversions.int_to_uint),
        ("string", STRING, conversions.string_to_uint),
    ),
)

FOLDED: Final = frozenset({"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"})
"""Conversions of literals that are evaluated at compile time."""

# Times


def _accessor(name: str) -> Function:
    part = timestamps.PARTS[name]
    overloads = [
        Overload(f"timestamp_{name}", (TIMESTAMP,), INT, lambda moment: part(moment.to_datetime()), member=True),
        Overload(f"timestamp_{name}_with_tz", (TIMESTAMP, STRING), INT, timestamps.in_zone(part), member=True),
    ]
    if name in timestamps.DURATION_UNITS:
        of_duration = timestamps.in_units(timestamps.DURATION_UNITS[name])
        overloads.append(Overload(f"duration_{name}", (DURATION,), INT, of_duration, member=True))
    return Function(name, tuple(overloads))


_TIMES: Final = tuple(map(_accessor, timestamps.PARTS))

# Names of types

_TYPES: Final = {
    **{each.name: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES)},
    "null_type": NULL,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "type": TYPE,
}

STANDARD: Final = Library(
    "standard",
    functions=(*_LOGIC, *_EQUALITY, *_ORDER, *_ARITHMETIC, *_COLLECTIONS, *_TEXTS, *_CONVERSIONS, *_TIMES),
    macros=STANDARD_MACROS,
    constants={name: Constant(type_of(type_), TypeValue(name)) for name, type_ in _TYPES.items()},
)

LITERAL_VALIDATORS: Final = (
    literal_validator("duration", conversions.to_duration),
    literal_validator("timestamp", conversions.to_timestamp),
    literal_validator("matches", compile_pattern),
)
"""Reject literals that can never work. Global `matches(text, pattern)` is left to run time, as in cel-go."""
