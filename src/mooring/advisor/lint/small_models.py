"""Decide whether conditions on a node's labels, or on a taint, can be true, by trying all distinguishable inputs.

A condition that compares a label with `'a'` and `'b'` cannot distinguish any two other values. So a few values
represent all: each value in the conditions, one that is not in them, and an absent one; for numbers and versions also
the adjacent ones. If no combination makes the conditions true, nothing does. This is certain as long as the conditions
consist of supported operations (comparisons with constants, presence, prefixes, `int()`, versions, joined by `&&`,
`||`, `!` and `?:`); for others there is no result. Values that no label or taint can have are not tried, so that
`taint.effect == 'NoSchedul'` is found too. Called by ``expressions.py`` and ``terms.py``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from math import prod
from string import ascii_letters
from typing import NamedTuple

from mooring.advisor.lint import guards
from mooring.api import names
from mooring.cel import operators as op
from mooring.cel.syntax import Call, Expr, Ident, ListExpr, Literal, Select
from mooring.cel.types import BOOL, INT

_MAX_TRIALS = 10_000
_MAX_LENGTH = 50  # of mentioned texts, so that longer ones can be made of them that a label can still have
_VERSION = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")
_NO_PLAIN_VERSION = re.compile(r"\d-|\d{10}")
_ORDER = frozenset({op.LESS, op.LESS_EQUALS, op.GREATER, op.GREATER_EQUALS})
_VERSION_CALLS = frozenset({"semver.compare", "isGreaterThan", "isLessThan"})
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class TruthFrequency(Enum):
    """The share of inputs for which conditions are true: all, some, none, or unknown."""

    NEVER = "never"
    SOMETIMES = "sometimes"
    ALWAYS = "always"
    UNKNOWN = "unknown"


class Slot(NamedTuple):
    """An input of conditions: the value of a node's label, or of a field of a taint."""

    of_taint: bool
    name: str


Inputs = Mapping[Slot, str]
"""A value for each slot; absent labels are left out."""


@dataclass(slots=True)
class _MentionedValues:
    texts: set[str] = field(default_factory=lambda: {""})
    prefixes: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    versions: set[tuple[int, int, int]] = field(default_factory=set)

    def is_decisive(self) -> bool:
        """Return whether evaluating the mentioned values and one other suffices to decide if conditions can be true."""
        special = [kind for kind in (self.prefixes, self.numbers, self.versions) if kind]
        return not special or (len(special) == 1 and max(map(len, self.texts | self.prefixes)) <= _MAX_LENGTH)

    def add(self, other: "_MentionedValues") -> None:
        self.texts |= other.texts
        self.prefixes |= other.prefixes
        self.numbers |= other.numbers
        self.versions |= other.versions


class _NotUnderstoodError(Exception):
    """The analysis does not support a part of an expression, so that it has no result."""


class Model:
    """The labels and taint fields that conditions read, and the values that they compare each with."""

    def __init__(self) -> None:
        self._slots: dict[Slot, _MentionedValues] = {}

    @property
    def slots(self) -> frozenset[Slot]:
        return frozenset(self._slots)

    def merge(self, other: "Model") -> None:
        """Add the conditions of another model."""
        for slot, mentioned in other._slots.items():
            self._slots.setdefault(slot, _MentionedValues()).add(mentioned)

    # -- conditions of `matchExpressions`

    def add_label(self, key: str, texts: Sequence[str] = (), number: int | None = None, version: str = "") -> bool:
        """Add a condition that compares a label with strings, a number or a version; return False if not supported."""
        mentioned = self._slots.setdefault(Slot(of_taint=False, name=key), _MentionedValues())
        mentioned.texts.update(texts)
        if number is not None:
            mentioned.numbers.add(number)
        return not version or _add_versions(mentioned, version)

    # -- CEL

    def add_expression(self, expr: Expr) -> bool:
        """Add a CEL condition. Return False if it is not supported; the model must not be used then."""
        try:
            self._add_condition(expr)
        except _NotUnderstoodError:
            return False
        return True

    def _add_condition(self, expr: Expr) -> None:
        asked = guards.presence_check_of(expr)
        if asked is not None:
            self._slots.setdefault(_slot_of_variable(asked), _MentionedValues())
        elif isinstance(expr, Literal) and isinstance(expr.value, bool):
            return
        elif isinstance(expr, Call) and expr.function in (op.AND, op.OR, op.NOT, op.CONDITIONAL):
            for operand in expr.operands:
                self._add_condition(operand)
        elif isinstance(expr, Call):
            self._add_comparison(expr)
        else:
            raise _NotUnderstoodError

    def _add_comparison(self, call: Call) -> None:
        operands, function = call.operands, call.function
        if function in (op.EQUALS, op.NOT_EQUALS) and all(operand.type == BOOL for operand in operands):
            for operand in operands:
                self._add_condition(operand)
            return
        ordered = function in _ORDER and all(operand.type == INT for operand in operands)
        if not (ordered or function in (op.EQUALS, op.NOT_EQUALS, op.IN, "startsWith") or function in _VERSION_CALLS):
            raise _NotUnderstoodError
        mentioned, slots = _MentionedValues(), set[Slot]()
        for operand in operands:
            _record_operand(operand, mentioned, slots, is_version=function in _VERSION_CALLS)
        if function == "startsWith":
            if not isinstance(call.args[0], Literal):
                raise _NotUnderstoodError
            mentioned.prefixes.add(str(call.args[0].value))
        if len(slots) > 1:
            raise _NotUnderstoodError  # two labels compared with each other
        for slot in slots:
            self._slots.setdefault(slot, _MentionedValues()).add(mentioned)

    # -- trying

    def truth_frequency(self, holds: Callable[[Inputs], bool], conditions: int = 1) -> TruthFrequency:
        """Evaluate `holds` on all distinguishable inputs; return for which it is true, unknown for too many inputs."""
        if not all(mentioned.is_decisive() for mentioned in self._slots.values()):
            return TruthFrequency.UNKNOWN
        choices = [list(_values_to_try(slot, mentioned)) for slot, mentioned in self._slots.items()]
        if prod(map(len, choices)) * conditions > _MAX_TRIALS:
            return TruthFrequency.UNKNOWN
        seen = set()
        for given in self.enumerate_inputs():
            seen.add(holds(given))
            if len(seen) > 1:
                return TruthFrequency.SOMETIMES
        return TruthFrequency.ALWAYS if True in seen else TruthFrequency.NEVER

    def enumerate_inputs(self) -> Iterator[Inputs]:
        """Yield an input for each combination of values that the conditions distinguish; their number may be huge."""
        choices = [list(_values_to_try(slot, mentioned)) for slot, mentioned in self._slots.items()]
        for values in product(*choices):
            yield {slot: value for slot, value in zip(self._slots, values, strict=True) if value is not None}


def _slot_of_variable(asked: guards.Access) -> Slot:
    return Slot(of_taint=asked.path == ("taint",), name=asked.key)


def _slot_of(expr: Expr) -> Slot | None:
    if isinstance(expr, Select) and isinstance(expr.operand, Ident) and expr.operand.variable == "taint":
        return None if expr.name == "timeAdded" else Slot(of_taint=True, name=expr.name)
    read = guards.access_of(expr)
    return None if read is None else _slot_of_variable(read)


def _record_operand(expr: Expr, mentioned: _MentionedValues, slots: set[Slot], *, is_version: bool) -> None:
    """Record an operand of a comparison: a constant in `mentioned`, a label or field (an input) in `slots`."""
    slot = _slot_of(expr)
    if slot is not None:
        slots.add(slot)
        return
    match expr:
        case Literal(value=str() as text):
            mentioned.texts.add(text)
            if is_version and not _add_versions(mentioned, text):
                raise _NotUnderstoodError
        case Literal(value=bool()):
            return
        case Literal(value=int() as number):
            mentioned.numbers.add(number)
        case ListExpr() if not expr.optional:
            for element in expr.elements:
                _record_operand(element, mentioned, slots, is_version=is_version)
        case Call(function="int") if not isinstance(expr.args[0], Literal):
            _record_operand(expr.args[0], mentioned, slots, is_version=False)
        case Call(function="semver"):
            for operand in expr.args:
                _record_operand(operand, mentioned, slots, is_version=True)
        case Call(function="orValue"):
            for operand in expr.operands:
                _record_operand(operand, mentioned, slots, is_version=is_version)
        case _:
            raise _NotUnderstoodError


def _add_versions(mentioned: _MentionedValues, text: str) -> bool:
    """Add the versions of a version or range. Return False for an unsupported one.

    Unsupported are pre-releases, because there are infinitely many between any two, and huge numbers.
    """
    if _NO_PLAIN_VERSION.search(text):
        return False
    for numbers in _VERSION.findall(text):
        major, minor, patch = (int(number or 0) for number in numbers)
        mentioned.versions |= {(major, 0, 0), (major + 1, 0, 0), (major, minor, 0), (major, minor + 1, 0)}
        mentioned.versions |= {(major, minor, patch), (major, minor, patch + 1)}
    return True


def _values_to_try(slot: Slot, mentioned: _MentionedValues) -> Iterator[str | None]:
    if slot.of_taint and slot.name == "effect":
        yield from _EFFECTS
        return
    if slot.of_taint and slot.name == "timeAdded":
        yield from (None, "2026-01-01T00:00:00Z")
        return
    is_key = slot.of_taint and slot.name == "key"
    is_possible = names.label_key if is_key else names.label_value
    if not slot.of_taint:
        yield None
        if names.label_key(slot.name):
            return  # no node can have such a label
    for text in sorted(_strings_to_try(mentioned)):
        if not is_possible(text):
            yield text


def _strings_to_try(mentioned: _MentionedValues) -> set[str]:
    found = set(mentioned.texts) | mentioned.prefixes
    width = max(map(len, found)) + 1  # numbers padded to it are not mentioned in the expression
    for mentioned_number in mentioned.numbers:
        for number in range(mentioned_number - 1, mentioned_number + 2):
            found |= {str(number), str(number).zfill(width)}
    for major, minor, patch in mentioned.versions:
        rest = f"{minor}.{patch}"
        found |= {f"{major}.{rest}", f"{major}.{rest}-0", f"{str(major).zfill(width)}.{rest}"}
    return found | {_find_unmentioned_string(prefix, found) for prefix in ("", *mentioned.prefixes)}


def _find_unmentioned_string(prefix: str, texts: set[str]) -> str:
    """Return a string that starts with `prefix`, and with none of the longer `texts` of the conditions."""
    longer = [text for text in texts if len(text) > len(prefix)]
    endings = (prefix + "".join(letters) for length in (1, 2, 3) for letters in product(ascii_letters, repeat=length))
    return next(text for text in endings if not any(text.startswith(other) for other in longer))
