"""Checks on an expression that has the right types but can never work, such as `matches('[')`.

They run after the checker, when it found nothing. Libraries bring them in `Library.validators`; environment.py runs
them. Three forms: over a literal argument, over a call, over the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from .errors import EvaluationError
from .syntax import Call, Expr, ListExpr, Literal, MapExpr, children
from .types import Kind, Type
from .values import Value

Finding = tuple[Expr, str]
"""Where, and what."""


class LiteralValidator(NamedTuple):
    """Refuses calls whose argument is a literal that `validate` raises an `EvaluationError` for."""

    function: str
    argument: int
    """Among the written arguments; a receiver does not count."""
    validate: Callable[[Value], object]

    def findings(self, root: Expr) -> Iterator[Finding]:
        for call in calls_of(self.function, root):
            if self.argument >= len(call.args):
                continue
            literal = call.args[self.argument]
            if isinstance(literal, Literal):
                try:
                    self.validate(literal.value)
                except EvaluationError:
                    yield literal, f"invalid {self.function} argument"


class CallValidator(NamedTuple):
    """Looks at every call of a function."""

    function: str
    validate: Callable[[Call], Iterable[Finding]]

    def findings(self, root: Expr) -> Iterator[Finding]:
        for call in calls_of(self.function, root):
            yield from self.validate(call)


class TreeValidator(NamedTuple):
    """Looks at the whole expression."""

    validate: Callable[[Expr], Iterable[Finding]]

    def findings(self, root: Expr) -> Iterator[Finding]:
        yield from self.validate(root)


Validator = LiteralValidator | CallValidator | TreeValidator


def nodes(root: Expr) -> Iterator[Expr]:
    """Every node, parents before children, in the order of the text."""
    stack = [root]
    while stack:
        expr = stack.pop()
        yield expr
        stack.extend(reversed(children(expr)))


def calls_of(function: str, root: Expr) -> Iterator[Call]:
    return (each for each in nodes(root) if isinstance(each, Call) and each.function == function)


def _mixed_literals(root: Expr) -> Iterator[Finding]:
    """Lists and maps written with elements of several types. `format` takes such lists, so its arguments are exempt."""
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        expr, exempt = stack.pop()
        if isinstance(expr, Call):
            exempt = expr.function == "format"
        elif isinstance(expr, ListExpr) and not exempt:
            yield from _first_mismatch(
                (each, each.type.params[0] if index in expr.optional and each.type.params else each.type)
                for index, each in enumerate(expr.elements)
            )
        elif isinstance(expr, MapExpr) and not exempt:
            yield from _first_mismatch((entry.key, entry.key.type) for entry in expr.entries)
            yield from _first_mismatch(
                (
                    entry.value,
                    entry.value.type.params[0] if entry.optional and entry.value.type.params else entry.value.type,
                )
                for entry in expr.entries
            )
        elif not isinstance(expr, ListExpr | MapExpr):
            exempt = False
        stack.extend((child, exempt) for child in reversed(children(expr)))


def _first_mismatch(elements: Iterable[tuple[Expr, Type]]) -> Iterator[Finding]:
    expected: Type | None = None
    for expr, found in elements:
        if expected is None:
            expected = found
        elif _unwrapped(found) != _unwrapped(expected):
            yield expr, f"expected type '{expected}' but found '{found}'"
            return


HOMOGENEOUS_LITERALS: Final = TreeValidator(_mixed_literals)


def _unwrapped(type_: Type) -> Type:
    """A wrapper message is as good as what it wraps."""
    return type_.params[0] if type_.kind is Kind.WRAPPER else type_
