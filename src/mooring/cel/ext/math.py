"""The math library: greatest and least of numbers of any kind, rounding, signs, floating-point tests, bits."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from mooring.cel.errors import EvaluationError
from mooring.cel.library import Function, Library, Macro, Overload
from mooring.cel.macros import Expander
from mooring.cel.syntax import Expr, Ident, ListExpr, Literal, MapExpr, StructExpr
from mooring.cel.types import BOOL, DOUBLE, DYN, INT, UINT, Type, list_of
from mooring.cel.values import INT_MAX, UINT_MAX, UInt, Value, compare

_NUMBERS: Final = (INT, UINT, DOUBLE)
_BITS: Final = 64


def _select_extreme(name: str, wanted: int, *numbers: Value) -> Value:
    """Return the first greatest or least number; a single list argument stands for its items."""
    items = numbers[0] if len(numbers) == 1 and isinstance(numbers[0], list) else numbers
    if not items:
        raise EvaluationError(f"math.{name}() list argument must not be empty")
    best = items[0]
    for number in items:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise EvaluationError(f"no such overload: math.{name}()")
        if compare(best, number) == wanted:
            best = number
    return best


def _whole(operation: Callable[[float], int]) -> Callable[[float], float]:
    return lambda number: float(operation(number)) if math.isfinite(number) else number


def round_(number: float) -> float:
    """Round to the nearest integer, halves away from zero."""
    if not math.isfinite(number):
        return number
    truncated = math.trunc(number)
    away = abs(number - truncated) >= 0.5
    return math.copysign(float(truncated + math.copysign(1, number) if away else truncated), number)


def absolute(number: Value) -> Value:
    if not isinstance(number, UInt | float) and -number > INT_MAX:
        raise EvaluationError("integer overflow")
    return number if isinstance(number, UInt) else abs(number)


def sign(number: Value) -> Value:
    if isinstance(number, float):
        return number if math.isnan(number) or number == 0 else math.copysign(1.0, number)
    one = (number > 0) - (number < 0)
    return UInt(one) if isinstance(number, UInt) else one


def _bitwise(operation: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    def apply(a: Value, b: Value) -> Value:
        result = operation(int(a), int(b))
        return UInt(result) if isinstance(a, UInt) else result

    return apply


def bit_not(number: Value) -> Value:
    return UInt(number ^ UINT_MAX) if isinstance(number, UInt) else ~number


def shift_left(number: Value, by: int) -> Value:
    _check_shift("Left", by)
    return _of_bits(number, (number << by) & UINT_MAX if by < _BITS else 0)


def shift_right(number: Value, by: int) -> Value:
    """Shift right with zero fill, for signed numbers too."""
    _check_shift("Right", by)
    return _of_bits(number, (number & UINT_MAX) >> by if by < _BITS else 0)


def _check_shift(direction: str, by: int) -> None:
    if by < 0:
        raise EvaluationError(f"math.bitShift{direction}() negative offset: {by}")


def _of_bits(like: Value, bits: int) -> Value:
    if isinstance(like, UInt):
        return UInt(bits)
    return bits - (UINT_MAX + 1) if bits > INT_MAX else bits


# math.greatest and math.least take any number of arguments, so they are macros over calls with one or two


def _extreme(name: str, function: str) -> Macro:
    def expand(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
        if not isinstance(target, Ident) or target.name != "math":
            return None
        if not args:
            new.error(target, f"math.{name}() requires at least one argument")
            return None
        for each in args:
            if not _may_be_number(each, alone=len(args) == 1):
                new.error(each, f"math.{name}() invalid single argument value" if len(args) == 1 else _WRONG_ARGUMENT)
                return None
        return new.call(function, *args) if len(args) <= 2 else new.call(function, new.list(*args))

    return Macro(name, None, receiver=True, expand=expand)


_WRONG_ARGUMENT: Final = "simple literal arguments must be numeric"


def _may_be_number(expr: Expr, *, alone: bool) -> bool:
    """Whether an argument could be a number."""
    if isinstance(expr, Literal):
        return isinstance(expr.value, int | float) and not isinstance(expr.value, bool)
    if isinstance(expr, ListExpr):
        return alone and bool(expr.elements) and all(_may_be_number(each, alone=False) for each in expr.elements)
    return not isinstance(expr, MapExpr | StructExpr)


def _extreme_overloads(name: str, impl: Callable[..., Any]) -> tuple[Overload, ...]:
    overloads = [Overload(f"math_@{name}_list_{each}", (list_of(each),), each, impl) for each in (*_NUMBERS, DYN)]
    for a in _NUMBERS:
        overloads.append(Overload(f"math_@{name}_{a}", (a,), a, impl))
        overloads += [Overload(f"math_@{name}_{a}_{b}", (a, b), a if a == b else DYN, impl) for b in _NUMBERS]
    return tuple(overloads)


def _numeric(name: str, impl: Callable[..., Any], types: Sequence[Type], result: Type | None = None) -> Function:
    overloads = (Overload(f"math_{name}_{each}", (each,), result or each, impl) for each in types)
    return Function(f"math.{name}", tuple(overloads))


def _bits(name: str, impl: Callable[..., Any], second: Type | None = None) -> Function:
    overloads = (Overload(f"math_{name}_{each}", (each, second or each), each, impl) for each in (INT, UINT))
    return Function(f"math.{name}", tuple(overloads))


MATH: Final = Library(
    "math",
    functions=(
        Function("math.@max", _extreme_overloads("max", partial(_select_extreme, "greatest", -1))),
        Function("math.@min", _extreme_overloads("min", partial(_select_extreme, "least", 1))),
        _numeric("ceil", _whole(math.ceil), (DOUBLE,)),
        _numeric("floor", _whole(math.floor), (DOUBLE,)),
        _numeric("round", round_, (DOUBLE,)),
        _numeric("trunc", _whole(math.trunc), (DOUBLE,)),
        _numeric("abs", absolute, _NUMBERS),
        _numeric("sign", sign, _NUMBERS),
        _numeric("sqrt", lambda number: math.sqrt(number) if number >= 0 else math.nan, _NUMBERS, DOUBLE),
        _numeric("isNaN", math.isnan, (DOUBLE,), BOOL),
        _numeric("isInf", math.isinf, (DOUBLE,), BOOL),
        _numeric("isFinite", math.isfinite, (DOUBLE,), BOOL),
        _bits("bitAnd", _bitwise(int.__and__)),
        _bits("bitOr", _bitwise(int.__or__)),
        _bits("bitXor", _bitwise(int.__xor__)),
        _numeric("bitNot", bit_not, (INT, UINT)),
        _bits("bitShiftLeft", shift_left, INT),
        _bits("bitShiftRight", shift_right, INT),
    ),
    macros=(_extreme("greatest", "math.@max"), _extreme("least", "math.@min")),
)
