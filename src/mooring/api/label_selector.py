"""Label selectors: the string form of queries (`a in (b,c),!d`) and the structured form inside objects.

Both become a `Selector`, an AND of `Requirement`s, whose `matches` the store, informers, the scheduler and controllers
call. `parse` parses the string form; `from_label_selector` compiles the structured one, which `validate`
checks with Kubernetes' messages.

    >>> parse("tier in (web, db), !canary").matches({"tier": "web"})
    True
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from mooring.api import field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector, LabelSelectorRequirement
from mooring.base.short_string_cache import cache_short

_FEW = 16


class SelectorError(ValueError):
    """The string is not a selector; the message says what was found and what was expected."""


class Operator(StrEnum):
    """The operator of a requirement."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


REQUIRES_A_VALUE = _AMONG = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
REQUIRES_A_LABEL = frozenset({Operator.EXISTS, Operator.GREATER_THAN, Operator.LESS_THAN})
_NOT_AMONG = frozenset({Operator.NOT_IN, Operator.NOT_EQUALS})


def _among(value: str, values: tuple[str, ...]) -> bool:
    """Whether a value is one of sorted values; linear search is faster for few."""
    if len(values) <= _FEW:
        return value in values
    place = bisect_left(values, value)
    return place < len(values) and values[place] == value


class Requirement(msgspec.Struct, frozen=True):
    """A condition on one label: key, operator and values, which are sorted and without duplicates."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels match the requirement."""
        value = labels.get(self.key)
        operator = self.operator
        if operator in _AMONG:
            return value is not None and _among(value, self.values)
        if operator in _NOT_AMONG:
            return value is None or not _among(value, self.values)
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        found = None if value is None else parse_lax_int64(value)
        limit = parse_lax_int64(self.values[0])
        if found is None or limit is None:
            return False
        return found > limit if operator is Operator.GREATER_THAN else found < limit

    def __str__(self) -> str:
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        values = ",".join(self.values)
        if self.operator in {Operator.IN, Operator.NOT_IN}:
            return f"{self.key} {self.operator} ({values})"
        sign = {Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}.get(self.operator, self.operator.value)
        return f"{self.key}{sign}{values}"


class Selector(msgspec.Struct, frozen=True):
    """Requirements that must all match, sorted by key; with `selectable` false it matches nothing."""

    requirements: tuple[Requirement, ...] = ()
    selectable: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels match every requirement."""
        for requirement in self.requirements:
            if not requirement.matches(labels):
                return False
        return self.selectable

    def is_empty(self) -> bool:
        """Whether the selector restricts nothing."""
        return self.selectable and not self.requirements

    def requires_exactly(self, key: str) -> str | None:
        """Return the only value that a label may have, if there is one."""
        for requirement in self.requirements:
            if requirement.key == key:
                exact = requirement.operator in _AMONG and len(requirement.values) == 1
                return requirement.values[0] if exact else None
        return None

    def plus(self, requirements: Iterable[Requirement]) -> "Selector":
        """Return the selector with additional requirements."""
        return Selector(_by_key([*self.requirements, *requirements]), self.selectable)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(selectable=False)


@cache_short(16_384)
def parse_lax_int64(text: str) -> int | None:
    """Parse a signed 64-bit integer with optional sign and leading zeros (as in node affinity's `Gt` and `Lt`)."""
    if not re.fullmatch("[+-]?[0-9]+", text) or len(text) > 1000:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def from_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector that requires each of these labels."""
    return Selector(_by_key(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items()))


_STRUCTURED = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def from_label_selector(selector: LabelSelector | None) -> Selector:
    """Compile a valid structured selector: None matches nothing, an empty one everything. Raise SelectorError."""
    if selector is None:
        return NOTHING
    requirements = [Requirement(key, Operator.EQUALS, (value,)) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        operator = _STRUCTURED.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(Requirement(expression.key, operator, tuple(sorted(set(expression.values)))))
    return Selector(_by_key(requirements)) if requirements else EVERYTHING


def validate(selector: LabelSelector | None, path: Path, *, allow_invalid_values: bool = False) -> Errors:
    """Validate the structured form. Objects stored before values were validated may keep theirs."""
    if selector is None:
        return []
    errors = names.validate_labels(selector.match_labels, path.child("matchLabels"))
    for index, expression in enumerate(selector.match_expressions):
        here = path.child("matchExpressions").index(index)
        errors += validate_requirement(expression, here, allow_invalid_values=allow_invalid_values)
    return errors


def validate_requirement(
    requirement: LabelSelectorRequirement, path: Path, *, allow_invalid_values: bool = False
) -> Errors:
    errors: Errors = []
    match requirement.operator:
        case "In" | "NotIn":
            if not requirement.values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(field_errors.required(path.child("values"), detail))
        case "Exists" | "DoesNotExist":
            if requirement.values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(field_errors.forbidden(path.child("values"), detail))
        case operator:
            errors.append(field_errors.invalid(path.child("operator"), operator, "not a valid selector operator"))
    errors += names.validate_label_key(requirement.key, path.child("key"))
    if not allow_invalid_values:
        for index, value in enumerate(requirement.values):
            errors += names.validate(path.child("values").index(index), value, names.label_value(value))
    return errors


_TOKENS = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+)|$)")
_END = ""
_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", _END})


@cache_short(1024)
def parse(text: str) -> Selector:
    """Parse a label selector; raise SelectorError."""
    return Selector(_by_key(_Parser(text).requirements()))


class _Parser:
    """Parse comma-separated requirements. `in` and `notin` are ordinary words in values."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] or match[2] or _END for match in _TOKENS.finditer(text)]
        self._tokens.append(_END)
        self._position = 0

    def requirements(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if self._peek() == _END:
            return requirements
        if not self._at_requirement():
            raise SelectorError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while True:
            requirements.append(self._requirement())
            found = self._take()
            if found == _END:
                return requirements
            if found != ",":
                raise SelectorError(f"found '{found}', expected: ',' or 'end of string'")
            if not self._at_requirement():
                raise SelectorError(f"found '{self._peek()}', expected: identifier after ','")

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        found = self._tokens[self._position]
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return found

    def _at_requirement(self) -> bool:
        return self._peek() == "!" or self._peek() not in _SYMBOLS

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._word()
        wrong = names.label_key(key)
        if wrong:
            raise SelectorError(f"unable to parse requirement: {field_errors.invalid(None, key, '; '.join(wrong))}")
        if negated:
            return Requirement(key, Operator.DOES_NOT_EXIST)
        if self._peek() in {_END, ","}:
            return Requirement(key, Operator.EXISTS)
        found = self._take()
        operator = _BINARY.get(found)
        if operator is None:
            expected = "in, notin, =, ==, !=, gt, lt"
            raise SelectorError(f"unable to parse requirement: found '{found}', expected: {expected}")
        values = self._values() if operator in {Operator.IN, Operator.NOT_IN} else self._value()
        _check_values(key, operator, values)
        return Requirement(key, operator, values)

    def _word(self) -> str:
        found = self._take()
        if found in _SYMBOLS:
            raise SelectorError(f"unable to parse requirement: found '{found}', expected: identifier")
        return found

    def _value(self) -> tuple[str, ...]:
        return ("",) if self._peek() in {_END, ","} else (self._word(),)

    def _values(self) -> tuple[str, ...]:
        found = self._take()
        if found != "(":
            raise SelectorError(f"unable to parse requirement: found '{found}' expected: '('")
        values = set()
        while True:
            if self._peek() in {",", ")"}:
                values.add("")
            else:
                values.add(self._word())
            found = self._take()
            if found == ")":
                return tuple(sorted(values))
            if found != ",":
                raise SelectorError(f"unable to parse requirement: found '{found}', expected: ',' or ')'")


def _check_values(key: str, operator: Operator, values: tuple[str, ...]) -> None:
    path = Path("values")
    for index, value in enumerate(values):
        here = path.index(index)
        if operator in {Operator.GREATER_THAN, Operator.LESS_THAN} and parse_lax_int64(value) is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise SelectorError(f"unable to parse requirement: {field_errors.invalid(here, value, detail)}")
        wrong = names.label_value(value)
        if wrong:
            error = field_errors.invalid(here.key(key), value, "; ".join(wrong))
            raise SelectorError(f"unable to parse requirement: {error}")


def _by_key(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda requirement: requirement.key))
