"""The syntax tree: built by the parser, annotated by the checker and read by later phases.

Every node has an `id`, unique within its tree, and an `offset` into the source (in code points), where issues are
reported. The checker sets `type` and what names and calls refer to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from . import operators as op
from .types import DYN, Type
from .values import Value

if TYPE_CHECKING:
    from .library import Overload

ACCUMULATOR = "@result"
"""The accumulator variable of comprehensions; the name cannot be written in an expression."""


class _Typed(msgspec.Struct, eq=False, kw_only=True):
    type: Type = DYN


class Expr(_Typed, eq=False):
    """The base class of all nodes."""

    id: int
    offset: int


class Literal(Expr, eq=False):
    value: Value


class Ident(Expr, eq=False):
    """A name. The checker sets `variable` (its full name) or `constant`; for a local variable neither."""

    name: str
    variable: str | None = None
    constant: Literal | None = None


class Select(Expr, eq=False):
    """`operand.name`, or `has(operand.name)` when it only tests.

    The checker sets `resolved` when the dotted path turned out to be one name, such as a variable `a.b` or a type.
    """

    operand: Expr
    name: str
    test_only: bool = False
    resolved: Ident | None = None


class Call(Expr, eq=False):
    """`function(args)`, `target.function(args)`, and every operator (`_+_`, `_?_:_`, `_[_]`, see operators.py).

    The checker sets `overloads` to those that fit the types.
    """

    function: str
    args: Sequence[Expr]
    target: Expr | None = None
    overloads: Sequence[Overload] = ()

    @property
    def operands(self) -> list[Expr]:
        """The target, if there is one, and the arguments."""
        return [*self.args] if self.target is None else [self.target, *self.args]


class ListExpr(Expr, eq=False):
    """`optional` has the indices of elements written with `?`."""

    elements: Sequence[Expr]
    optional: frozenset[int] = frozenset()


class Entry(NamedTuple):
    """An entry of a map."""

    offset: int
    key: Expr
    value: Expr
    optional: bool = False


class MapExpr(Expr, eq=False):
    entries: Sequence[Entry]


class FieldInit(NamedTuple):
    """A field of a message under construction."""

    offset: int
    name: str
    value: Expr
    optional: bool = False


class StructExpr(Expr, eq=False):
    """`type_name{field: value}`."""

    type_name: str
    fields: Sequence[FieldInit]


class Quantifier(NamedTuple):
    """`all` or `exists`: the predicate, and the value that ends the loop."""

    predicate: Expr
    decisive: bool


class Comprehension(Expr, eq=False, kw_only=True):
    """A loop, as macros expand to: fold `step` over `iter_range` while `condition` holds, then return `result`.

    With a second variable the first is the index or key and the second the value.
    """

    iter_range: Expr
    iter_var: str
    iter_var2: str | None
    accu_var: str
    accu_init: Expr
    condition: Expr
    step: Expr
    result: Expr

    @property
    def quantifier(self) -> Quantifier | None:
        """The quantifier if this is `all` or `exists`, which later phases evaluate faster; otherwise None."""
        step, init, condition = self.step, self.accu_init, self.condition
        if not (isinstance(step, Call) and isinstance(init, Literal) and isinstance(condition, Call)):
            return None
        if (step.function, init.value) not in ((op.AND, True), (op.OR, False)):
            return None
        asked = condition.args[0]
        if init.value is False and isinstance(asked, Call) and asked.function == op.NOT:
            asked = asked.args[0]
        elif init.value is False:
            return None
        usual = condition.function == op.NOT_STRICTLY_FALSE
        if not (usual and all(map(is_accumulator, (asked, step.args[0], self.result)))):
            return None
        return Quantifier(step.args[1], decisive=not init.value)

    @property
    def is_bind(self) -> bool:
        """Whether this is an expanded `cel.bind`: no iteration, only a name for a value."""
        return (
            isinstance(self.iter_range, ListExpr)
            and not self.iter_range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accu_var != ACCUMULATOR
        )


def is_accumulator(expr: Expr) -> bool:
    return isinstance(expr, Ident) and expr.name == ACCUMULATOR


def dotted_name(expr: Expr) -> str | None:
    """Return the name that an identifier with selectors spells, such as `a.b.c`."""
    parts: list[str] = []
    while isinstance(expr, Select) and not expr.test_only:
        parts.append(expr.name)
        expr = expr.operand
    return ".".join([expr.name, *reversed(parts)]) if isinstance(expr, Ident) else None


def children(expr: Expr) -> list[Expr]:
    """Return the direct subexpressions of a node."""
    match expr:
        case Select():
            return [expr.operand]
        case Call():
            return expr.operands
        case ListExpr():
            return [*expr.elements]
        case MapExpr():
            return [each for entry in expr.entries for each in (entry.key, entry.value)]
        case StructExpr():
            return [field.value for field in expr.fields]
        case Comprehension():
            return [expr.iter_range, expr.accu_init, expr.condition, expr.step, expr.result]
    return []
