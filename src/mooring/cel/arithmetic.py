"""Exact 64-bit arithmetic: overflow is an error, never wraps around. Called through standard.py."""

from __future__ import annotations

import math

from .errors import EvaluationError
from .values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt, Value, no_such_overload


def int64(number: int) -> int:
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError("integer overflow")


def uint64(number: int) -> UInt:
    if 0 <= number <= UINT_MAX:
        return UInt(number)
    raise EvaluationError("unsigned integer overflow")


def add_int(a: int, b: int) -> int:
    return int64(a + b)


def divide_int(a: int, b: int) -> int:
    """Divide, rounding towards zero."""
    if b == 0:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return int64(quotient if (a < 0) == (b < 0) else -quotient)


def modulo_int(a: int, b: int) -> int:
    """Return the remainder; its sign is that of the dividend."""
    if b == 0:
        raise EvaluationError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def add_uint(a: int, b: int) -> UInt:
    return uint64(int(a) + int(b))


def divide_uint(a: int, b: int) -> UInt:
    if b == 0:
        raise EvaluationError("division by zero")
    return UInt(int(a) // int(b))


def modulo_uint(a: int, b: int) -> UInt:
    if b == 0:
        raise EvaluationError("modulus by zero")
    return UInt(int(a) % int(b))


def divide_double(a: float, b: float) -> float:
    """Divide by IEEE 754: division by zero gives an infinity or NaN."""
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def add_durations(a: Duration, b: Duration) -> Duration:
    return Duration.of(a.nanos + b.nanos)


def subtract_nanos(a: Duration | Timestamp, b: Duration | Timestamp) -> Duration:
    """Return the duration between two timestamps, or the difference of two durations."""
    return Duration.of(a.nanos - b.nanos)


def shift_timestamp(a: Timestamp | Duration, b: Timestamp | Duration) -> Timestamp:
    """Add a timestamp and a duration, in any order."""
    return Timestamp.of(a.nanos + b.nanos)


def add(a: Value, b: Value) -> Value:
    """Add two numbers or durations of the same type, determined at run time."""
    if a.__class__ is not b.__class__:
        raise no_such_overload()
    if a.__class__ is int:
        return add_int(a, b)
    if a.__class__ is UInt:
        return add_uint(a, b)
    if a.__class__ is float:
        return a + b
    if a.__class__ is Duration:
        return add_durations(a, b)
    raise no_such_overload()
