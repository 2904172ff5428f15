"""The clauses of ``"…%s…".format([…])`` in the two dialects that CEL has had.

`PLAIN` follows the current specification (strings library version 4 and later). `LITERAL` is the behaviour of earlier
versions and of Kubernetes: lists and maps print as CEL literals, decimals in American English format.
`mooring.cel.ext.strings` calls `render`, and `clauses` for the check at compile time.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from mooring.cel.errors import EvaluationError
from mooring.cel.types import Kind
from mooring.cel.values import Duration, Timestamp, TypeValue, Value, from_key, runtime_type, to_string

DEFAULT_PRECISION = 6
MAX_PRECISION = 1000  # digits; more only serve to build long strings
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_CLAUSE = re.compile(r"%(?:%|(?P<precision>\.[0-9]*)?(?P<verb>.)|(?P<end>(?:\.[0-9]*)?$))", re.DOTALL)
_SUPERSCRIPT = str.maketrans("+-0123456789", "\u207a\u207b⁰¹²³⁴⁵⁶⁷⁸⁹")
_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


class Clause(msgspec.Struct, frozen=True):
    """A placeholder in a format string."""

    verb: str
    precision: int | None


Printer = Callable[[Value, int], str]
"""Print a value, with a precision where the clause has one."""


def render(template: str, arguments: list[Value], printers: Mapping[str, Printer]) -> str:
    """Replace the clauses of `template` by the arguments, printed as the `printers` of their verbs do."""
    parts = []
    taken = 0
    for piece in clauses(template):
        if isinstance(piece, str):
            parts.append(piece)
            continue
        if taken >= len(arguments):
            raise EvaluationError(f"index {taken} out of range")
        precision = DEFAULT_PRECISION if piece.precision is None else piece.precision
        parts.append(printers[piece.verb](arguments[taken], precision))
        taken += 1
    return "".join(parts)


def clauses(template: str) -> Iterator[str | Clause]:
    """Yield the literal text and the clauses of a format string in order; raise EvaluationError if malformed."""
    position = 0
    for found in _CLAUSE.finditer(template):
        yield template[position : found.start()]
        position = found.end()
        if found["end"] is not None:
            raise EvaluationError("unexpected end of string")
        verb = found["verb"]
        if verb is None:
            yield "%"
            continue
        if verb not in "sdfeboxX":
            raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
        yield Clause(verb, _precision(found["precision"]))
    yield template[position:]


def quote(text: str) -> str:
    """Return a CEL literal in double quotes; lone surrogates are replaced."""
    return (
        '"' + "".join(_QUOTED.get(char) or ("\ufffd" if "\ud800" <= char <= "\udfff" else char) for char in text) + '"'
    )


def _precision(text: str | None) -> int | None:
    if text is None:
        return None
    digits = text[1:]
    if not digits:
        raise EvaluationError("could not parse formatting clause: error while parsing precision: no digits")
    if len(digits) > 4 or int(digits) > MAX_PRECISION:
        raise EvaluationError(
            f"could not parse formatting clause: a precision of {digits} is more than {MAX_PRECISION}"
        )
    return int(digits)


def _refuse(clause: str, value: Value) -> EvaluationError:
    return EvaluationError(f"error during formatting: {clause}, was given {runtime_type(value).name}")


def _is_integer(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(verb: str, refusal: str, *, takes_bools: bool = False) -> Printer:
    def print_integer(value: Value, _precision: int) -> str:
        if _is_integer(value) or (takes_bools and isinstance(value, bool)):
            return format(int(value), verb)
        raise _refuse(refusal, value)

    return print_integer


def _hexadecimal(value: Value) -> str:
    if _is_integer(value):
        return format(int(value), "x")
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    raise _refuse(_HEXADECIMAL_CLAUSE, value)


# The dialect of the specification


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return None


def _plain_string(value: Value) -> str:
    match value:
        case None:
            return "null"
        case list():
            return f"[{', '.join(map(_plain_string, value))}]"
        case dict():
            entries = sorted((_plain_string(from_key(key)), _plain_string(item)) for key, item in value.items())
            return f"{{{', '.join(f'{key}: {item}' for key, item in entries)}}}"
        case float():
            return _special(value) or _shortest_fixed(value)
        case TypeValue():
            return value.name
        case bool() | int() | str() | bytes() | Timestamp() | Duration():
            return to_string(value)
    raise _refuse(_STRING_CLAUSE, value)


def _plain_decimal(value: Value, precision: int) -> str:
    special = _special(value) if isinstance(value, float) else None
    return special or _SHARED["d"](value, precision)


def _plain_float(verb: str, refusal: str) -> Printer:
    def print_float(value: Value, precision: int) -> str:
        if isinstance(value, float) or _is_integer(value):
            number = float(value)
            return _special(number) or format(number, f".{precision}{verb}")
        raise _refuse(refusal, value)

    return print_float


def _shortest_fixed(value: float) -> str:
    """Print all significant digits without an exponent: 1e21 is written out."""
    mantissa, exponent_sign, exponent = repr(value).partition("e")
    if not exponent_sign:
        return mantissa.removesuffix(".0")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    shift = int(exponent)
    if shift >= 0:
        return sign + whole + fraction.ljust(shift, "0")
    return f"{sign}0.{'0' * (-shift - 1)}{whole}{fraction}"


# The dialect of CEL literals


def _literal_string(value: Value) -> str:
    match value:
        case None:
            return "null"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            entries = sorted((_literal_key(from_key(key)), _literal(item)) for key, item in value.items())
            return f"{{{', '.join(f'{key}:{item}' for key, item in entries)}}}"
        case TypeValue():
            return value.name
        case bool() | int() | float() | str() | bytes() | Timestamp() | Duration():
            return to_string(value)
    raise _refuse(_STRING_CLAUSE, value)


def _literal_key(key: Value) -> str:
    if isinstance(key, str | int):
        return _literal(key)
    raise EvaluationError(
        f"error during formatting: no formatting function for map key of type {runtime_type(key).name}"
    )


def _literal(value: Value) -> str:
    match value:
        case str():
            return quote(value)
        case bytes():
            return "b" + quote(to_string(value))
        case float():
            special = {"NaN": '"NaN"', "Infinity": '"+Inf"', "-Infinity": '"-Inf"'}
            return special.get(_special(value) or "") or format(value, f".{DEFAULT_PRECISION}f")
        case Timestamp():
            return f"timestamp({quote(to_string(value))})"
        case Duration():
            return f"duration({quote(to_string(value))})"
    return _literal_string(value)


def _localized_number(value: Value, refusal: str) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    raise _refuse(refusal, value)


def _literal_fixed(value: Value, precision: int) -> str:
    number = _localized_number(value, _FIXED_CLAUSE)
    return _localized_special(number) or format(number, f",.{precision}f")


def _literal_scientific(value: Value, precision: int) -> str:  # noqa: ARG001 - this dialect never used it
    number = _localized_number(value, _SCIENTIFIC_CLAUSE)
    special = _localized_special(number)
    if special:
        return special
    mantissa, _, exponent = format(number, f".{DEFAULT_PRECISION}e").partition("e")
    return f"{mantissa}\u202f\u00d7\u202f10{exponent.removeprefix('+').translate(_SUPERSCRIPT)}"


def _localized_special(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    return ("∞" if number > 0 else "-∞") if math.isinf(number) else None


_STRING_CLAUSE = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)
_DECIMAL_CLAUSE = "decimal clause can only be used on integers"
_BINARY_CLAUSE = "only integers and bools can be formatted as binary"
_OCTAL_CLAUSE = "octal clause can only be used on integers"
_HEXADECIMAL_CLAUSE = "only integers, byte buffers, and strings can be formatted as hex"
_FIXED_CLAUSE = "fixed-point clause can only be used on doubles"
_SCIENTIFIC_CLAUSE = "scientific clause can only be used on doubles"

_SHARED: Mapping[str, Printer] = {
    "d": _integer("d", _DECIMAL_CLAUSE),
    "b": _integer("b", _BINARY_CLAUSE, takes_bools=True),
    "o": _integer("o", _OCTAL_CLAUSE),
    "x": lambda value, _: _hexadecimal(value),
    "X": lambda value, _: _hexadecimal(value).upper(),
}
PLAIN: Mapping[str, Printer] = {
    **_SHARED,
    "s": lambda value, _: _plain_string(value),
    "d": _plain_decimal,
    "f": _plain_float("f", _FIXED_CLAUSE),
    "e": _plain_float("e", _SCIENTIFIC_CLAUSE),
}
LITERAL: Mapping[str, Printer] = {
    **_SHARED,
    "s": lambda value, _: _literal_string(value),
    "f": _literal_fixed,
    "e": _literal_scientific,
}

# Types that each clause takes, for the check at compile time.
_TEXTS = {Kind.STRING, Kind.BYTES}
_INTEGERS = {Kind.INT, Kind.UINT}
_PRINTABLE = {Kind.DOUBLE, Kind.BOOL, Kind.LIST, Kind.MAP, Kind.TIMESTAMP, Kind.DURATION, Kind.TYPE, Kind.NULL}
CLAUSE_KINDS: dict[str, tuple[set[Kind], str]] = {
    "s": (_TEXTS | _INTEGERS | _PRINTABLE, _STRING_CLAUSE),
    "d": (_INTEGERS, _DECIMAL_CLAUSE),
    "f": ({Kind.DOUBLE, Kind.STRING}, _FIXED_CLAUSE),
    "e": ({Kind.DOUBLE, Kind.STRING}, _SCIENTIFIC_CLAUSE),
    "b": (_INTEGERS | {Kind.BOOL}, _BINARY_CLAUSE),
    "o": (_INTEGERS, _OCTAL_CLAUSE),
    "x": (_INTEGERS | _TEXTS, _HEXADECIMAL_CLAUSE),
}
