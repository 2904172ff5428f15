"""Semantic versions as Kubernetes parses them: tolerant and strict parsing, precedence, ranges.

Called by `tolerations` and `node_selector` for the ``Semver*`` operators, by the CEL semver library and by validation.
Error messages are those of Kubernetes' parser, because users see them in API responses; they quote the input. Results
are cached for short strings; the caches are bounded.

    >>> parse_tolerant("v1.31").canonical
    '1.31.0'
    >>> parse_range(">=5.10 <6 || 7.x").matches(parse_tolerant("7.2.1"))
    True
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from mooring.api.quoting import go_quote
from mooring.cel.types import Type, object_type

MAX_NUMBER = 2**64 - 1
_MAX_CACHED_STRINGS = 8192
_MAX_CACHED_LENGTH = 256  # twice the longest valid label or taint value, with room for build metadata
_SPACE = (  # Unicode's White_Space; `str.strip()` alone would also strip the separators \x1c to \x1f
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005"
    "\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_DIGITS = re.compile(r"[0-9]*")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_PLAIN = re.compile(r"(v?)(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})")
"""The most common form: three numbers, parsed with one match."""


class SemverError(ValueError):
    """The string is not a version or range; the message is meant for the user who wrote it."""


# The identifiers of a pre-release in comparable form: numbers sort before strings (semver.org, 11.4.3).
PreRelease = tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version. Order and equality are semver.org's precedence, so build metadata is ignored."""

    cel_type: ClassVar[Type] = object_type("kubernetes.Semver")
    precedence: tuple[int, int, int, bool, PreRelease] = field(repr=False)
    canonical: str = field(compare=False)

    @property
    def major(self) -> int:
        return self.precedence[0]

    @property
    def minor(self) -> int:
        return self.precedence[1]

    @property
    def patch(self) -> int:
        return self.precedence[2]

    def __str__(self) -> str:
        return self.canonical


def parse_tolerant(text: str) -> Version:
    """Parse a version that may have surrounding spaces, one ``v``, no minor or patch, and leading zeros."""
    outcome = (
        _parse_tolerant_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_tolerant_cached.__wrapped__(text)
    )
    if isinstance(outcome, str):
        raise SemverError(outcome)
    return outcome


def parse(text: str) -> Version:
    """Parse a version written exactly as semver.org defines it."""
    outcome = _parse_strict_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_strict_cached.__wrapped__(text)
    if isinstance(outcome, str):
        raise SemverError(outcome)
    return outcome


def parse_tolerant_or_none(text: str) -> Version | None:
    """Parse tolerantly; return None for an invalid version, which is an ordinary result in matching."""
    outcome = (
        _parse_tolerant_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_tolerant_cached.__wrapped__(text)
    )
    return None if isinstance(outcome, str) else outcome


@lru_cache(maxsize=_MAX_CACHED_STRINGS)
def _parse_tolerant_cached(text: str) -> Version | str:
    """Parse a version; return the error message on failure, so that both can be cached."""
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        return _of_numbers(plain)
    parts = text.strip(_SPACE).removeprefix("v").split(".", 2)
    if len(parts) < 3:
        if "-" in parts[-1] or "+" in parts[-1]:
            return "Short version cannot contain PreRelease/Build meta data"
        parts += ["0"] * (3 - len(parts))
    if parts[2][:1] in {"-", "+"} and len(parts[2]) > 1:
        parts[2] = "0" + parts[2]  # Kubernetes reads `1.2.-3` as the pre-release 3 of 1.2.0
    return _version(parts[0], parts[1], parts[2], leading_zeros=True)


@lru_cache(maxsize=_MAX_CACHED_STRINGS)
def _parse_strict_cached(text: str) -> Version | str:
    plain = _PLAIN.fullmatch(text)
    if plain is not None and not plain[1]:
        return _of_numbers(plain)
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    return _version(parts[0], parts[1], parts[2], leading_zeros=False)


def _of_numbers(plain: re.Match[str]) -> Version:
    v, major, minor, patch = plain.groups()
    return Version((int(major), int(minor), int(patch), True, ()), plain[0][1:] if v else plain[0])


def _version(major_text: str, minor_text: str, rest: str, *, leading_zeros: bool) -> Version | str:
    rest, plus, build = rest.partition("+")
    patch_text, dash, pre_release_text = rest.partition("-")
    major = _number("major", major_text, leading_zeros)
    if isinstance(major, str):
        return major
    minor = _number("minor", minor_text, leading_zeros)
    if isinstance(minor, str):
        return minor
    patch = _number("patch", patch_text, leading_zeros)
    if isinstance(patch, str):
        return patch
    pre_release = _pre_release(pre_release_text) if dash else ()
    if isinstance(pre_release, str):
        return pre_release
    problem = _build_problem(build) if plus else ""
    if problem:
        return problem
    canonical = f"{major}.{minor}.{patch}{dash}{pre_release_text}{plus}{build}"
    return Version((major, minor, patch, not pre_release, pre_release), canonical)


def _number(component: str, text: str, leading_zeros: bool) -> int | str:
    if not _DIGITS.fullmatch(text):
        return f"Invalid character(s) found in {component} number {go_quote(text)}"
    if not leading_zeros and len(text) > 1 and text[0] == "0":
        return f"{component.capitalize()} number must not contain leading zeroes {go_quote(text)}"
    return _parse_unsigned(text)


def _parse_unsigned(text: str) -> int | str:
    if not text:
        return 'strconv.ParseUint: parsing "": invalid syntax'
    significant = text.lstrip("0")
    if len(significant) > 20 or int(significant or "0") > MAX_NUMBER:
        return f"strconv.ParseUint: parsing {go_quote(text)}: value out of range"
    return int(significant or "0")


def _pre_release(text: str) -> PreRelease | str:
    identifiers = []
    for identifier in text.split("."):
        if not identifier:
            return "Prerelease is empty"
        if _DIGITS.fullmatch(identifier):
            if len(identifier) > 1 and identifier[0] == "0":
                return f"Numeric PreRelease version must not contain leading zeroes {go_quote(identifier)}"
            number = _parse_unsigned(identifier)
            if isinstance(number, str):
                return number
            identifiers.append((0, number, ""))
        elif _IDENTIFIER.fullmatch(identifier):
            identifiers.append((1, 0, identifier))
        else:
            return f"Invalid character(s) found in prerelease {go_quote(identifier)}"
    return tuple(identifiers)


def _build_problem(text: str) -> str:
    for identifier in text.split("."):
        if not identifier:
            return "Build meta data is empty"
        if not _IDENTIFIER.fullmatch(identifier):
            return f"Invalid character(s) found in build meta data {go_quote(identifier)}"
    return ""


Compare = Callable[[Any, Any], bool]

OPERATORS: dict[str, Compare] = {"SemverLt": operator.lt, "SemverGt": operator.gt, "SemverEq": operator.eq}
"""The operators of tolerations and node selector requirements; the node's version is the first operand."""

_COMPARATORS: dict[str, Compare] = {
    "": operator.eq,
    "=": operator.eq,
    "==": operator.eq,
    "!": operator.ne,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
# The expansion of `OP 1.x`, given the first version of 1.x and the first after it. All comparisons must hold: so
# `!=1.x` matches nothing, as in Kubernetes' parser.
_WILDCARDS: dict[str, tuple[tuple[Compare, bool], ...]] = {
    "": ((operator.ge, False), (operator.lt, True)),
    "=": ((operator.ge, False), (operator.lt, True)),
    "==": ((operator.ge, False), (operator.lt, True)),
    "!": ((operator.lt, False), (operator.ge, True)),
    "!=": ((operator.lt, False), (operator.ge, True)),
    ">": ((operator.ge, True),),
    ">=": ((operator.ge, False),),
    "<": ((operator.lt, False),),
    "<=": ((operator.lt, True),),
}
_FIRST_DIGIT = re.compile(r"[0-9]")


class Range(msgspec.Struct, frozen=True):
    """Alternatives, each a list of comparisons that must all hold."""

    alternatives: tuple[tuple[tuple[Compare, Version], ...], ...]

    def matches(self, version: Version) -> bool:
        precedence = version.precedence
        for every in self.alternatives:
            for compare, bound in every:
                if not compare(precedence, bound.precedence):
                    break
            else:
                return True
        return False


def parse_range(text: str) -> Range:
    """Parse a range: comparators joined by spaces for AND and ``||`` for OR; operands are parsed tolerantly."""
    outcome = _parse_range_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_range_cached.__wrapped__(text)
    if isinstance(outcome, str):
        raise SemverError(outcome)
    return outcome


@lru_cache(maxsize=1024)
def _parse_range_cached(text: str) -> Range | str:
    words = _split_range(text)
    if words and words[0] == "||":
        return "First element in range is '||'"
    if not words or words[-1] == "||":
        return "Last element in range is '||'"
    alternatives: list[list[tuple[Compare, Version]]] = [[]]
    for word in words:
        if word == "||":
            alternatives.append([])
            continue
        comparisons = _comparisons(word)
        if isinstance(comparisons, str):
            return comparisons
        alternatives[-1] += comparisons
    if not all(alternatives):
        return "Two '||' in range without a comparator between them"
    return Range(tuple(tuple(every) for every in alternatives))


def _split_range(text: str) -> list[str]:
    """Split a range into comparators; spaces between a comparator and its operand do not separate."""
    words = re.sub(r"([<>=]) +", r"\1", text).split(" ")
    # Kubernetes' parser ignores tokens of one character (`1.0.0 - 2.0.0` has two), except that a lone digit is a
    # version when operands are parsed tolerantly.
    return [word for word in words if len(word) > 1 or word.isdecimal()]


def _comparisons(word: str) -> list[tuple[Compare, Version]] | str:
    digit = _FIRST_DIGIT.search(word)
    if digit is None:
        return f"Could not get version from string: {go_quote(word)}"
    comparator, operand = word[: digit.start()], word[digit.start() :]
    comparator = comparator.removesuffix("v")
    whole = go_quote(word)
    if comparator not in _COMPARATORS:
        return f"Could not parse Range {whole}: Could not parse comparator {go_quote(comparator)} in {whole}"
    if "x" in operand.split("."):
        bounds = _wildcard_bounds(operand)
        if isinstance(bounds, str):
            return f"Could not parse Range {whole}: {bounds}"
        return [(compare, bounds[after]) for compare, after in _WILDCARDS[comparator]]
    version = _parse_tolerant_cached(operand)
    if isinstance(version, str):
        return f"Could not parse Range {whole}: Could not parse version {go_quote(operand)} in {whole}: {version}"
    return [(_COMPARATORS[comparator], version)]


def _wildcard_bounds(operand: str) -> tuple[Version, Version] | str:
    """Return the first version that `operand` covers and the first one after (unused if a number follows the ``x``)."""
    parts = operand.split(".")
    first = _parse_tolerant_cached(".".join("0" if part == "x" else part for part in parts))
    if isinstance(first, str):
        return first
    major, minor, *_ = first.precedence
    # Only the number of parts decides where the wildcard is, as in Kubernetes' parser: `1.x.x` is `1.0.x`.
    after = (major + 1, 0) if len(parts) == 2 else (major, minor + 1)
    return first, Version((*after, 0, True, ()), f"{after[0]}.{after[1]}.0")
