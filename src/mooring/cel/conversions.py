"""Conversions between types: `int('42')`, `duration('1h30m')`, `timestamp('2026-03-01T12:00:00Z')` and the others.

Strings are parsed as Go parses them, because expressions are written for cel-go. Called through standard.py; the
environment also uses `adapter` to convert inputs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from .errors import EvaluationError
from .types import Kind, Type
from .values import INT_MAX, INT_MIN, NANOS, UINT_MAX, Duration, Timestamp, UInt, Value, to_key

_INT: Final = re.compile(r"[+-]?[0-9]+")
_UINT: Final = re.compile(r"[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX_FLOAT: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_SPECIAL: Final = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_DURATION: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3_600 * NANOS,
}
_MAX_DIGITS: Final = 400
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def _impossible(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _impossible("string", "bool")


def string_to_int(text: str) -> int:
    if len(text) <= _MAX_DIGITS and _INT.fullmatch(text):
        number = int(text)
        if INT_MIN <= number <= INT_MAX:
            return number
    raise _impossible("string", "int")


def string_to_uint(text: str) -> UInt:
    if len(text) <= _MAX_DIGITS and _UINT.fullmatch(text):
        number = int(text)
        if number <= UINT_MAX:
            return UInt(number)
    raise _impossible("string", "uint")


def string_to_double(text: str) -> float:
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
    elif _HEX_FLOAT.fullmatch(text):
        try:
            number = float.fromhex(text)
        except OverflowError:
            raise _impossible("string", "double") from None
    else:
        raise _impossible("string", "double")
    if math.isinf(number):
        raise _impossible("string", "double")
    return number


def double_to_int(number: float) -> int:
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


def double_to_uint(number: float) -> UInt:
    if not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(int(number))


def uint_to_int(number: UInt) -> int:
    if number > INT_MAX:
        raise EvaluationError("integer overflow")
    return int(number)


def int_to_uint(number: int) -> UInt:
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return UInt(number)


def string_to_timestamp(text: str) -> Timestamp:
    """Parse RFC 3339 with up to nine decimals."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise _impossible("string", "google.protobuf.Timestamp")
    *fields, fraction, sign, hours, minutes = match.groups()
    try:
        zone = UTC
        if sign is not None:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            zone = timezone(-offset if sign == "-" else offset)
        year, month, day, hour, minute, second = map(int, fields)
        moment = Timestamp.from_datetime(datetime(year, month, day, hour, minute, second, tzinfo=zone))
    except (ValueError, OverflowError):
        raise _impossible("string", "google.protobuf.Timestamp") from None
    return Timestamp.of(moment.nanos + int((fraction or "0")[:9].ljust(9, "0")))


def string_to_duration(text: str) -> Duration:
    """Parse a sequence of decimal numbers with units, such as `1h30m` or `-1.5s`; `0` needs no unit."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return Duration(0)
    nanos, position = 0, 0
    while position < len(unsigned):
        match = _DURATION.match(unsigned, position)
        if match is None or not (match[1] or match[2]) or len(match[0]) > _MAX_DIGITS:
            raise _impossible("string", "google.protobuf.Duration")
        whole, fraction, unit = match[1] or "0", match[2] or "0", _UNITS[match[3]]
        nanos += int(whole) * unit + int(fraction) * unit // 10 ** len(fraction)
        position = match.end()
    nanos = -nanos if text.startswith("-") else nanos
    if not unsigned or not INT_MIN <= nanos <= INT_MAX:
        raise _impossible("string", "google.protobuf.Duration")
    return Duration(nanos)


def to_timestamp(given: Value) -> Value:
    """Convert an input given as a string or `datetime` to a timestamp."""
    if isinstance(given, str):
        return string_to_timestamp(given)
    return Timestamp.from_datetime(given) if isinstance(given, datetime) else given


def to_duration(given: Value) -> Value:
    """Convert an input given as a string or `timedelta` to a duration."""
    if isinstance(given, str):
        return string_to_duration(given)
    return Duration.from_timedelta(given) if isinstance(given, timedelta) else given


def to_double(given: Value) -> Value:
    """Convert an input given as an int to a double."""
    return float(given) if given.__class__ is int else given


def to_bool_keys(given: Value) -> Value:
    """Convert a map whose keys are Python booleans."""
    return {to_key(key): value for key, value in given.items()} if isinstance(given, Mapping) else given


_ADAPTERS: Final[dict[Kind, Callable[[Value], Value]]] = {
    Kind.TIMESTAMP: to_timestamp,
    Kind.DURATION: to_duration,
    Kind.UINT: lambda given: int_to_uint(given) if given.__class__ is int else given,
    Kind.DOUBLE: to_double,
}


def adapter(declared: Type) -> Callable[[Value], Value] | None:
    """Return the conversion for inputs of this declared type; None if none is needed."""
    if declared.kind is Kind.MAP and declared.params[0].kind is Kind.BOOL:
        return to_bool_keys
    return _ADAPTERS.get(declared.kind)
