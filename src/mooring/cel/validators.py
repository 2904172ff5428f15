"""Validators for well-typed expressions that can never work, such as `matches('[')`.

They run after a successful type check. Libraries bring them in `Library.validators`; environment.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from .errors import EvaluationError
from .syntax import Call, Expr, ListExpr, Literal, MapExpr, children
from .types import Kind, Type
from .values import Value

Finding = tuple[Expr, str]
"""A node and a message."""


Validator = Callable[[Expr], Iterable[Finding]]
"""Yield what is wrong with a checked expression."""


def literal_validator(function: str, validate: Callable[[Value], object]) -> Validator:
    """Reject calls of a function whose first written argument is a literal for which `validate` raises."""

    def find(root: Expr) -> Iterator[Finding]:
        for call in calls_of(function, root):
            literal = call.args[0] if call.args else None
            if isinstance(literal, Literal):
                try:
                    validate(literal.value)
                except EvaluationError:
                    yield literal, f"invalid {function} argument"

    return find


def nodes(root: Expr) -> Iterator[Expr]:
    """Yield every node in source order, parents before children."""
    stack = [root]
    while stack:
        expr = stack.pop()
        yield expr
        stack.extend(reversed(children(expr)))


def calls_of(function: str, root: Expr) -> Iterator[Call]:
    return (each for each in nodes(root) if isinstance(each, Call) and each.function == function)


def _mixed_literals(root: Expr) -> Iterator[Finding]:
    """Yield list and map literals with elements of several types. Arguments of `format` are exempt."""
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
        elif _unwrap(found) != _unwrap(expected):
            yield expr, f"expected type '{expected}' but found '{found}'"
            return


HOMOGENEOUS_LITERALS: Final[Validator] = _mixed_literals


def _unwrap(type_: Type) -> Type:
    return type_.params[0] if type_.kind is Kind.WRAPPER else type_
