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
from typing import Any, ClassVar

import msgspec

from mooring.api.quoting import go_quote
from mooring.base.short_string_cache import cache_short_or_error
from mooring.cel.types import Type, object_type

MAX_NUMBER = 2**64 - 1
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

    def __str__(self) -> str:
        return self.canonical


@cache_short_or_error(8192, SemverError)
def parse_tolerant(text: str) -> Version:
    """Parse a version that may have surrounding spaces, one ``v``, no minor or patch, and leading zeros."""
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        return _of_numbers(plain)
    parts = text.strip(_SPACE).removeprefix("v").split(".", 2)
    if len(parts) < 3:
        if "-" in parts[-1] or "+" in parts[-1]:
            raise SemverError("Short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    if parts[2][:1] in {"-", "+"} and len(parts[2]) > 1:
        parts[2] = "0" + parts[2]  # Kubernetes reads `1.2.-3` as the pre-release 3 of 1.2.0
    return _version(parts[0], parts[1], parts[2], leading_zeros=True)


def parse_tolerant_or_none(text: str) -> Version | None:
    """Parse tolerantly; return None for an invalid version, which is an ordinary result in matching."""
    try:
        return parse_tolerant(text)
    except SemverError:
        return None


@cache_short_or_error(8192, SemverError)
def parse(text: str) -> Version:
    """Parse a version written exactly as semver.org defines it."""
    plain = _PLAIN.fullmatch(text)
    if plain is not None and not plain[1]:
        return _of_numbers(plain)
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    return _version(parts[0], parts[1], parts[2], leading_zeros=False)


def _of_numbers(plain: re.Match[str]) -> Version:
    v, major, minor, patch = plain.groups()
    return Version((int(major), int(minor), int(patch), True, ()), plain[0][1:] if v else plain[0])


def _version(major_text: str, minor_text: str, rest: str, *, leading_zeros: bool) -> Version:
    rest, plus, build = rest.partition("+")
    patch_text, dash, pre_release_text = rest.partition("-")
    major = _number("major", major_text, leading_zeros)
    minor = _number("minor", minor_text, leading_zeros)
    patch = _number("patch", patch_text, leading_zeros)
    pre_release = _pre_release(pre_release_text) if dash else ()
    if plus:
        _check_build(build)
    canonical = f"{major}.{minor}.{patch}{dash}{pre_release_text}{plus}{build}"
    return Version((major, minor, patch, not pre_release, pre_release), canonical)


def _number(component: str, text: str, leading_zeros: bool) -> int:
    if not _DIGITS.fullmatch(text):
        raise SemverError(f"Invalid character(s) found in {component} number {go_quote(text)}")
    if not leading_zeros and len(text) > 1 and text[0] == "0":
        raise SemverError(f"{component.capitalize()} number must not contain leading zeroes {go_quote(text)}")
    return _parse_unsigned(text)


def _parse_unsigned(text: str) -> int:
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    significant = text.lstrip("0")
    if len(significant) > 20 or int(significant or "0") > MAX_NUMBER:
        raise SemverError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(significant or "0")


def _pre_release(text: str) -> PreRelease:
    identifiers = []
    for identifier in text.split("."):
        if not identifier:
            raise SemverError("Prerelease is empty")
        if _DIGITS.fullmatch(identifier):
            if len(identifier) > 1 and identifier[0] == "0":
                raise SemverError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(identifier)}")
            identifiers.append((0, _parse_unsigned(identifier), ""))
        elif _IDENTIFIER.fullmatch(identifier):
            identifiers.append((1, 0, identifier))
        else:
            raise SemverError(f"Invalid character(s) found in prerelease {go_quote(identifier)}")
    return tuple(identifiers)


def _check_build(text: str) -> None:
    for identifier in text.split("."):
        if not identifier:
            raise SemverError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(identifier):
            raise SemverError(f"Invalid character(s) found in build meta data {go_quote(identifier)}")


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


@cache_short_or_error(1024, SemverError)
def parse_range(text: str) -> Range:
    """Parse a range: comparators joined by spaces for AND and ``||`` for OR; operands are parsed tolerantly."""
    words = _split_range(text)
    if words and words[0] == "||":
        raise SemverError("First element in range is '||'")
    if not words or words[-1] == "||":
        raise SemverError("Last element in range is '||'")
    alternatives: list[list[tuple[Compare, Version]]] = [[]]
    for word in words:
        if word == "||":
            alternatives.append([])
        else:
            alternatives[-1] += _comparisons(word)
    if not all(alternatives):
        raise SemverError("Two '||' in range without a comparator between them")
    return Range(tuple(tuple(every) for every in alternatives))


def _split_range(text: str) -> list[str]:
    """Split a range into comparators; spaces between a comparator and its operand do not separate."""
    words = re.sub(r"([<>=]) +", r"\1", text).split(" ")
    # Kubernetes' parser ignores tokens of one character (`1.0.0 - 2.0.0` has two), except that a lone digit is a
    # version when operands are parsed tolerantly.
    return [word for word in words if len(word) > 1 or word.isdecimal()]


def _comparisons(word: str) -> list[tuple[Compare, Version]]:
    digit = _FIRST_DIGIT.search(word)
    if digit is None:
        raise SemverError(f"Could not get version from string: {go_quote(word)}")
    comparator, operand = word[: digit.start()], word[digit.start() :]
    comparator = comparator.removesuffix("v")
    whole = go_quote(word)
    problem = f"Could not parse Range {whole}:"
    if comparator not in _COMPARATORS:
        raise SemverError(f"{problem} Could not parse comparator {go_quote(comparator)} in {whole}")
    has_wildcard = "x" in operand.split(".")
    try:
        if has_wildcard:
            bounds = _wildcard_bounds(operand)
            return [(compare, bounds[after]) for compare, after in _WILDCARDS[comparator]]
        return [(_COMPARATORS[comparator], parse_tolerant(operand))]
    except SemverError as error:
        place = "" if has_wildcard else f"Could not parse version {go_quote(operand)} in {whole}: "
        raise SemverError(f"{problem} {place}{error}") from None


def _wildcard_bounds(operand: str) -> tuple[Version, Version]:
    """Return the first version that `operand` covers and the first one after (unused if a number follows the ``x``)."""
    parts = operand.split(".")
    first = parse_tolerant(".".join("0" if part == "x" else part for part in parts))
    major, minor, *_ = first.precedence
    # Only the number of parts decides where the wildcard is, as in Kubernetes' parser: `1.x.x` is `1.0.x`.
    after = (major + 1, 0) if len(parts) == 2 else (major, minor + 1)
    return first, Version((*after, 0, True, ()), f"{after[0]}.{after[1]}.0")
