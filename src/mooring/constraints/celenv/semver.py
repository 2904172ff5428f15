"""Kubernetes' semver library, and `semver.compare(version, range)`, which KEP-5500 adds to it.

`semver(text)` is strict; `semver(text, true)` drops a `v`, fills in what is missing and strips leading zeros, but
unlike the operators of KEP-5721 and `semver.compare` it does not trim spaces.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from mooring.base.short_string_cache import MAX_CACHED_LENGTH
from mooring.cel.costs import NOMINAL, STRING, CallCost, arg, fixed, scaled
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.traversal import READ
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import BOOL, INT, Type
from mooring.cel.types import STRING as TEXT
from mooring.constraints.semver import SemverError, Version, parse, parse_range, parse_tolerant

Semver = Version
"""A version is used directly as a CEL value."""


def _parse_or_error(text: str, normalize: bool) -> Semver | str:
    """Parse a version, cached for short strings; return the error message on failure."""
    return (
        _parse_cached(text, normalize) if len(text) <= MAX_CACHED_LENGTH else _parse_cached.__wrapped__(text, normalize)
    )


@lru_cache(maxsize=8192)
def _parse_cached(text: str, normalize: bool) -> Semver | str:
    try:
        return parse_tolerant(text) if normalize and text.strip() == text else parse(text)
    except SemverError as error:
        return str(error)


def semver(text: str, normalize: bool = False) -> Semver:
    outcome = _parse_or_error(text, normalize)
    if outcome.__class__ is str:
        raise EvaluationError(outcome)
    return outcome  # type: ignore[return-value]  # mypy does not follow __class__, which is faster than isinstance


def is_semver(text: str, normalize: bool = False) -> bool:
    return isinstance(_parse_or_error(text, normalize), Semver)


@lru_cache(maxsize=8192)
def _compare_cached(text: str, range_text: str) -> bool | str:
    try:
        return parse_range(range_text).matches(parse_tolerant(text))
    except SemverError as error:
        return str(error)


def compare(text: str, range_text: str) -> bool:
    """Whether a version, parsed tolerantly, is in a range such as `>=3.25 <4.0`."""
    outcome = (_compare_cached if len(text) <= MAX_CACHED_LENGTH else _compare_cached.__wrapped__)(text, range_text)
    if isinstance(outcome, str):
        raise EvaluationError(outcome)
    return outcome


def compare_to(a: Semver, b: Semver) -> int:
    return (a.precedence > b.precedence) - (a.precedence < b.precedence)


_S: Final = Semver.cel_type


def _member(name: str, overload: str, others: tuple[Type, ...], result: Type, impl: Callable[..., Any]) -> Function:
    return function(name, Overload(overload, (_S, *others), result, impl, member=True))


SEMVER_LIBRARY: Final = Library(
    "kubernetes.semver",
    functions=(
        function(
            "semver",
            Overload("string_to_semver", (TEXT,), _S, semver, cost=READ),
            Overload("string_bool_to_semver", (TEXT, BOOL), _S, semver, cost=READ),
        ),
        function(
            "isSemver",
            Overload("is_semver_string", (TEXT,), BOOL, is_semver, cost=READ),
            Overload("is_semver_string_bool", (TEXT, BOOL), BOOL, is_semver, cost=READ),
        ),
        _member("major", "semver_major", (), INT, lambda version: version.precedence[0]),
        _member("minor", "semver_minor", (), INT, lambda version: version.precedence[1]),
        _member("patch", "semver_patch", (), INT, lambda version: version.precedence[2]),
        _member("isGreaterThan", "semver_is_greater_than", (_S,), BOOL, lambda a, b: a.precedence > b.precedence),
        _member("isLessThan", "semver_is_less_than", (_S,), BOOL, lambda a, b: a.precedence < b.precedence),
        _member("compareTo", "semver_compare_to", (_S,), INT, compare_to),
    ),
    equality={_S: NOMINAL},
)

# The cost of `semver()` on both arguments, plus one.
_COMPARE_COST: Final = CallCost(scaled(arg(0), STRING) + scaled(arg(1), STRING) + fixed(1))
_COMPARE: Final = Overload("semver_compare_string_string", (TEXT, TEXT), BOOL, compare, cost=_COMPARE_COST)
COMPARE_LIBRARY: Final = Library("kubernetes.semver.compare", functions=(function("semver.compare", _COMPARE),))
