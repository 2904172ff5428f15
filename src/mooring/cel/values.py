"""CEL's values in Python, and the operations that are defined on all of them.

| CEL | Python | |
|---|---|---|
| int | `int` | always within 64 bits |
| uint | `UInt` | an `int`, so that `1u == 1` and both have the same hash, as cross-type comparison requires |
| double | `float` | |
| bool, string, bytes, null | `bool`, `str`, `bytes`, `None` | |
| list | `list` | never mutated once an expression has seen it |
| map | `dict` | a key `true` is a `BoolKey`, because Python equates `True` and `1`; build maps with `map_of_pairs` |
| timestamp, duration | `Timestamp`, `Duration` | nanoseconds in an int |
| type | `TypeValue` | `type(1)`, and the names `int`, `list`, … |
| optional | `Optional` | |
| opaque | an instance of a class with `cel_type: ClassVar[Type]` | has `__eq__`; and `cel_size()` if its size counts |
| object | a mapping, or any Python object with attributes | see `types.ObjectType`; a `Struct` for `T{a: 1}` |

Called by the generated code (codegen.py), the tracing evaluator (interpreter.py) and by libraries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from . import types
from .errors import EvaluationError
from .types import Kind, Type

Value = Any
"""Any CEL value; mypy cannot be more precise, because values are inputs."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
NANOS: Final = 1_000_000_000


class UInt(int):
    """An unsigned 64-bit integer. Arithmetic on it gives a plain int; the engine wraps results again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class BoolKey:
    """A boolean map key: `{true: 'a', 1: 'b'}` has two entries, but Python equates the keys."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoolKey) and other.value is self.value

    def __hash__(self) -> int:
        return hash((BoolKey, self.value))

    def __repr__(self) -> str:
        return "true" if self.value else "false"


_KEYS: Final = {False: BoolKey(False), True: BoolKey(True)}


def to_key(value: Value) -> Value:
    """Convert a value to a dict key."""
    return _KEYS[value] if value.__class__ is bool else value


def from_key(key: Value) -> Value:
    """Convert a dict key to a value."""
    return key.value if key.__class__ is BoolKey else key


class _Nanos:
    """The base of timestamps and durations: a number of nanoseconds, ordered and hashable."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return other.__class__ is self.__class__ and other.nanos == self.nanos

    def __hash__(self) -> int:
        return hash((self.__class__, self.nanos))

    def __lt__(self, other: _Nanos) -> bool:
        return self._of_same_class(other) and self.nanos < other.nanos

    def __le__(self, other: _Nanos) -> bool:
        return self._of_same_class(other) and self.nanos <= other.nanos

    def __gt__(self, other: _Nanos) -> bool:
        return self._of_same_class(other) and self.nanos > other.nanos

    def __ge__(self, other: _Nanos) -> bool:
        return self._of_same_class(other) and self.nanos >= other.nanos

    def _of_same_class(self, other: _Nanos) -> bool:
        if other.__class__ is not self.__class__:
            raise no_such_overload()
        return True


class Duration(_Nanos):
    """A length of time. Its text is that of `string(duration)`: seconds with up to nine decimals."""

    __slots__ = ()
    cel_type: ClassVar[Type] = types.DURATION

    @classmethod
    def of(cls, nanos: int) -> Duration:
        """Create from nanoseconds; raise on 64-bit overflow."""
        if not INT_MIN <= nanos <= INT_MAX:
            raise EvaluationError("duration overflow")
        return cls(nanos)

    @classmethod
    def from_timedelta(cls, delta: timedelta) -> Duration:
        return cls.of((delta.days * 86_400 + delta.seconds) * NANOS + delta.microseconds * 1_000)

    def __str__(self) -> str:
        sign = "-" if self.nanos < 0 else ""
        seconds, nanos = divmod(abs(self.nanos), NANOS)
        return f"{sign}{seconds}{_decimals(nanos)}s"

    def __repr__(self) -> str:
        return f"duration('{self}')"


class Timestamp(_Nanos):
    """A point in time, in nanoseconds since 1970 (UTC), between the years 1 and 9999."""

    __slots__ = ()
    cel_type: ClassVar[Type] = types.TIMESTAMP
    MIN: ClassVar[int] = -62_135_596_800 * NANOS
    MAX: ClassVar[int] = 253_402_300_799 * NANOS + NANOS - 1

    @classmethod
    def of(cls, nanos: int) -> Timestamp:
        """Create from nanoseconds; raise outside the years 1 to 9999."""
        if not cls.MIN <= nanos <= cls.MAX:
            raise EvaluationError("timestamp overflow")
        return cls(nanos)

    @classmethod
    def from_datetime(cls, moment: datetime) -> Timestamp:
        """Convert a datetime; without a zone it is UTC."""
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        delta = aware - _EPOCH
        return cls.of((delta.days * 86_400 + delta.seconds) * NANOS + delta.microseconds * 1_000)

    def to_datetime(self) -> datetime:
        """Convert to a datetime in UTC, truncated to microseconds."""
        return _EPOCH + timedelta(seconds=self.nanos // NANOS, microseconds=self.nanos % NANOS // 1_000)

    def __str__(self) -> str:
        return f"{self.to_datetime():%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + _decimals(self.nanos % NANOS) + "Z"

    def __repr__(self) -> str:
        return f"timestamp('{self}')"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _decimals(nanos: int) -> str:
    return f".{nanos:09d}".rstrip("0") if nanos else ""


class TypeValue:
    """A type as a value. Types are equal when their names are: `type([1]) == list`."""

    __slots__ = ("name",)
    cel_type: ClassVar[Type] = types.TYPE

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return other.__class__ is TypeValue and other.name == self.name

    def __hash__(self) -> int:
        return hash((TypeValue, self.name))

    def __repr__(self) -> str:
        return self.name


class Optional:
    """An optional value: `Optional.of(v)`, or `NONE`."""

    __slots__ = ("_value", "present")
    cel_type: ClassVar[Type] = types.optional_of(types.DYN)

    def __init__(self, present: bool, value: Value) -> None:
        self.present = present
        self._value = value

    @classmethod
    def of(cls, value: Value) -> Optional:
        return cls(True, value)

    @property
    def value(self) -> Value:
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional) or self.present is not other.present:
            return False
        return not self.present or equal(self._value, other._value)

    def __hash__(self) -> int:
        return hash((Optional, self.present, self._value))

    def __repr__(self) -> str:
        return f"optional.of({self._value!r})" if self.present else "optional.none()"


NONE: Final = Optional(False, None)


class Struct(dict[str, Value]):
    """The value of `some.Type{field: value}`: a dict with the name of its type."""

    __slots__ = ("cel_type",)

    def __init__(self, cel_type: Type, fields: Mapping[str, Value]) -> None:
        super().__init__(fields)
        self.cel_type = cel_type


def no_such_overload() -> EvaluationError:
    """Return the error for a function that does not accept values of these types."""
    return EvaluationError("no such overload")


def map_of_pairs(pairs: Iterable[tuple[Value, Value]]) -> dict[Value, Value]:
    """Build a map from its entries. Keys that are equal in CEL must not repeat."""
    result: dict[Value, Value] = {}
    for key, value in pairs:
        if key.__class__ not in _KEY_CLASSES:
            raise EvaluationError(f"unsupported key type: {runtime_type(key).name}")
        stored = to_key(key)
        if stored in result:
            raise EvaluationError(f"Failed with repeated key: {key}")
        result[stored] = value
    return result


_KEY_CLASSES: Final = frozenset({bool, int, UInt, str})

_TYPE_VALUES: Final[dict[type, TypeValue]] = {
    bool: TypeValue("bool"),
    int: TypeValue("int"),
    UInt: TypeValue("uint"),
    float: TypeValue("double"),
    str: TypeValue("string"),
    bytes: TypeValue("bytes"),
    type(None): TypeValue("null_type"),
    list: TypeValue("list"),
    dict: TypeValue("map"),
    Timestamp: TypeValue("google.protobuf.Timestamp"),
    Duration: TypeValue("google.protobuf.Duration"),
    TypeValue: TypeValue("type"),
    Optional: TypeValue(types.OPTIONAL_NAME),
}


def runtime_type(value: Value) -> TypeValue:
    """Return `type(value)`."""
    known = _TYPE_VALUES.get(value.__class__)
    if known is not None:
        return known
    declared = getattr(value, "cel_type", None)
    if isinstance(declared, Type):
        return TypeValue(declared.name)
    if isinstance(value, Mapping):
        return _TYPE_VALUES[dict]
    if isinstance(value, list | tuple):
        return _TYPE_VALUES[list]
    return TypeValue(value.__class__.__name__)


_CLASSES: Final[dict[Kind, type | tuple[type, ...]]] = {
    Kind.STRING: str,
    Kind.BYTES: bytes,
    Kind.DOUBLE: float,
    Kind.UINT: UInt,
    Kind.BOOL: bool,
    Kind.NULL: type(None),
    Kind.TIMESTAMP: Timestamp,
    Kind.DURATION: Duration,
    Kind.LIST: (list, tuple),
    Kind.MAP: Mapping,
    Kind.TYPE: TypeValue,
}


_ANYTHING: Final = frozenset({Kind.DYN, Kind.PARAM, Kind.ERROR})


def is_decided_by_class(declared: Type) -> bool:
    """Whether `is_of` gives the same result for all values of one class."""
    return declared.kind in _CLASSES or declared.kind in _ANYTHING or declared.kind is Kind.INT


def is_of(value: Value, declared: Type) -> bool:
    """Whether a value may be passed as `declared`; elements of lists and maps are not checked."""
    kind = declared.kind
    if kind in _ANYTHING:
        return True
    if kind is Kind.INT:
        return value.__class__ is int
    if kind is Kind.MAP:
        return isinstance(value, Mapping) and value.__class__ is not Struct
    expected = _CLASSES.get(kind)
    if expected is not None:
        return isinstance(value, expected)
    if kind is Kind.OBJECT:
        if value.__class__ in _TYPE_VALUES and value.__class__ is not dict:
            return False
        own = getattr(value, "cel_type", None)
        return own is None or not isinstance(own, Type) or own.name == declared.name
    own = getattr(value, "cel_type", None)
    return isinstance(own, Type) and own.name == declared.name


def equal(a: Value, b: Value) -> bool:
    """Compare with CEL's `==`: numbers compare across types, other values only within their own type."""
    class_a, class_b = a.__class__, b.__class__
    if class_a is class_b:
        if class_a is list:
            return len(a) == len(b) and all(map(equal, a, b))
        if class_a is dict:
            return _equal_maps(a, b)
        if class_a is Struct:
            return a.cel_type == b.cel_type and _equal_maps(a, b)
        return bool(a == b)
    if class_a in _NUMBERS and class_b in _NUMBERS:
        # with a double operand both are doubles, so large integers lose digits, as in cel-go
        return float(a) == float(b) if float in (class_a, class_b) else bool(a == b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return runtime_type(a) == runtime_type(b) and _equal_maps(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return False


def _equal_maps(a: Mapping[Value, Value], b: Mapping[Value, Value]) -> bool:
    return len(a) == len(b) and all(key in b and equal(value, b[key]) for key, value in a.items())


_NUMBERS: Final = frozenset({int, UInt, float})
_ORDERED: Final = frozenset({bool, str, bytes, Timestamp, Duration})


def compare(a: Value, b: Value) -> int:
    """Return -1, 0 or 1; raise for values without an order."""
    if (a.__class__ is b.__class__ and a.__class__ in _ORDERED) or (
        a.__class__ in _NUMBERS and b.__class__ in _NUMBERS
    ):
        return int(a > b) - int(a < b)
    raise no_such_overload()


def contains(container: Iterable[Value], value: Value) -> bool:
    """Return `value in container` for a list or the keys of a map, by CEL equality."""
    if isinstance(container, Mapping):
        return is_key(value) and to_key(value) in container
    return any(equal(value, each) for each in container)


def is_key(value: Value) -> bool:
    """Whether a value may be looked up in a map: a double finds the integer that it equals."""
    return value.__class__ in _KEY_CLASSES or value.__class__ is float


def size_of(value: Value) -> int:
    """Return the size for costs: characters, bytes, items, entries, and 1 for everything else."""
    known: type = value.__class__
    if known in _SIZED:
        return len(value)
    measure = getattr(value, "cel_size", None)
    if measure is not None:
        return int(measure())
    return len(value) if isinstance(value, Mapping | tuple) else 1


_SIZED: Final = frozenset({str, bytes, list, dict})


def to_string(value: Value) -> str:
    """Return `string(value)` for the types that have it."""
    if value.__class__ is str:
        return str(value)
    if value.__class__ is bool:
        return "true" if value else "false"
    if value.__class__ is float:
        return double_text(value)
    if value.__class__ is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if value.__class__ in (int, UInt):
        return int.__repr__(value)
    if value.__class__ in (Timestamp, Duration):
        return str(value)
    if value.__class__ is TypeValue:
        return str(value.name)
    raise no_such_overload()


def double_text(number: float) -> str:
    """Format a double as Go does, in the shortest form that parses to the same value: `1.5`, `100`, `1e+06`, `NaN`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    mantissa, _, exponent_text = f"{number:.17e}".partition("e")
    for precision in range(17):
        shorter = f"{number:.{precision}e}"
        if float(shorter) == number:
            mantissa, _, exponent_text = shorter.partition("e")
            break
    exponent = int(exponent_text)
    if -4 <= exponent < 6:
        decimals = max(len(mantissa.lstrip("-")) - 2 - exponent, 0)
        return f"{number:.{decimals}f}"
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def is_zero(value: Value) -> bool:
    """Whether `optional.ofNonZeroValue` treats the value as none."""
    if value.__class__ in (Timestamp, Duration):
        return bool(value.nanos == 0)
    if isinstance(value, Optional):
        return not value.present
    if value.__class__ is float and math.isnan(value):
        return False
    return not value
