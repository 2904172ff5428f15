"""Field selectors: `metadata.name=x,spec.nodeName!=y` in queries.

`parse` returns an AND of terms; the server decides which fields a resource supports. Values may contain `,` and `=`
after a backslash. Used by the API server and clients; label selectors are in ``label_selector.py``.
"""

import re
from collections.abc import Mapping

import msgspec

from mooring.api.label_selector import SelectorError
from mooring.base.short_string_cache import cache_short

_SPLIT = re.compile(r"((?:\\.|[^\\,])*\\?)(?:,|$)", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")


class Term(msgspec.Struct, frozen=True):
    """A field that must have a value, or, if negated, must not. A missing field is empty."""

    field: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields match the term."""
        return (fields.get(self.field, "") == self.value) is not self.negated

    def __str__(self) -> str:
        value = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'!=' if self.negated else '='}{value}"


class FieldSelector(msgspec.Struct, frozen=True):
    """Terms that must all match."""

    terms: tuple[Term, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields match every term."""
        return all(term.matches(fields) for term in self.terms)

    def is_empty(self) -> bool:
        """Whether the selector restricts nothing."""
        return not self.terms

    def requires_exactly(self, field: str) -> str | None:
        """Return the value that a field must have, if the selector requires one."""
        for term in self.terms:
            if term.field == field and not term.negated:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


EVERYTHING = FieldSelector()


def one_field(field: str, value: str) -> FieldSelector:
    """Return the selector for one field and value."""
    return FieldSelector((Term(field, value),))


@cache_short(1024)
def parse(text: str) -> FieldSelector:
    """Parse a field selector; raise SelectorError."""
    parts = sorted(match[1] for match in _SPLIT.finditer(text))
    return FieldSelector(tuple(_term(part, text) for part in parts if part))


def _term(part: str, text: str) -> Term:
    operator = _OPERATOR.search(part)
    if operator is None:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    return Term(part[: operator.start()], _unescape(part[operator.end() :]), operator[0] == "!=")


def _unescape(value: str) -> str:
    chars = iter(value)
    result = []
    for char in chars:
        if char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        if char != "\\":
            result.append(char)
            continue
        escaped = next(chars, "")
        if escaped not in {"\\", ",", "="}:
            raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
        result.append(escaped)
    return "".join(result)
