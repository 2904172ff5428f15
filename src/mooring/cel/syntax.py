"""The syntax tree: what the parser builds, the checker annotates and the later phases read.

Every node has an `id`, unique within its tree, and an `offset` into the source (in code points), which is where issues
about it are reported. The checker fills in `type`, and `reference` on identifiers and calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .types import DYN, Type
from .values import Value

if TYPE_CHECKING:
    from .library import Overload

ACCUMULATOR = "@result"
"""The variable in which comprehensions gather; nobody can write this name in an expression."""


@dataclass(slots=True, eq=False)
class Expr:
    """The base of all nodes."""

    id: int
    offset: int
    type: Type = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expr):
    value: Value


@dataclass(slots=True, eq=False)
class Ident(Expr):
    name: str
    variable: str | None = field(default=None, init=False)
    """The full name of the declared variable that this resolved to; None for a local or a constant."""
    constant: Literal | None = field(default=None, init=False)
    """The value, when the name stands for a constant or a type."""


@dataclass(slots=True, eq=False)
class Select(Expr):
    """`operand.name`, or `has(operand.name)` when it only tests."""

    operand: Expr
    name: str
    test_only: bool = False
    resolved: Ident | None = field(default=None, init=False)
    """Set when the whole dotted path turned out to be one name, such as a variable `a.b` or a type."""


@dataclass(slots=True, eq=False)
class Call(Expr):
    """`function(args)`, `target.function(args)`, and every operator (`_+_`, `_?_:_`, `_[_]`, see operators.py)."""

    function: str
    target: Expr | None
    args: Sequence[Expr]
    overloads: Sequence[Overload] = field(default=(), init=False)

    @property
    def operands(self) -> list[Expr]:
        """The target, if there is one, and the arguments."""
        return [*self.args] if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    elements: Sequence[Expr]
    optional: frozenset[int] = frozenset()
    """The indices of elements written with `?`."""


@dataclass(slots=True, eq=False)
class Entry:
    """An entry of a map."""

    id: int
    offset: int
    key: Expr
    value: Expr
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    entries: Sequence[Entry]


@dataclass(slots=True, eq=False)
class FieldInit:
    """A field of a message under construction."""

    id: int
    offset: int
    name: str
    value: Expr
    optional: bool = False


@dataclass(slots=True, eq=False)
class StructExpr(Expr):
    """`type_name{field: value}`."""

    type_name: str
    fields: Sequence[FieldInit]


@dataclass(slots=True, eq=False)
class Comprehension(Expr):
    """A loop, as macros write it: fold `step` over `iter_range` while `condition` holds, then give `result`."""

    iter_range: Expr
    iter_var: str
    iter_var2: str | None
    """With two variables the first is the index or key and the second the value."""
    accu_var: str
    accu_init: Expr
    condition: Expr
    step: Expr
    result: Expr

    @property
    def is_bind(self) -> bool:
        """Whether this is `cel.bind` in disguise: no iteration, only a name for a value."""
        return (
            isinstance(self.iter_range, ListExpr)
            and not self.iter_range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accu_var != ACCUMULATOR
        )


def children(expr: Expr) -> list[Expr]:
    """The direct subexpressions of a node."""
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
