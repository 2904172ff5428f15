"""The syntax tree: built by the parser, annotated by the checker and read by later phases.

Every node has an `id`, unique within its tree, and an `offset` into the source (in code points), where issues are
reported. The checker sets `type` and what names and calls refer to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import operators as op
from .types import DYN, Type
from .values import Value

if TYPE_CHECKING:
    from .library import Overload

ACCUMULATOR = "@result"
"""The accumulator variable of comprehensions; the name cannot be written in an expression."""


class Expr:
    """The base class of all nodes."""

    __slots__ = ("id", "offset", "type")

    def __init__(self, id_: int, offset: int) -> None:
        self.id = id_
        self.offset = offset
        self.type: Type = DYN


class Literal(Expr):
    __slots__ = ("value",)

    def __init__(self, id_: int, offset: int, value: Value) -> None:
        super().__init__(id_, offset)
        self.value = value


class Ident(Expr):
    """A name. The checker sets `variable` (its full name) or `constant`; for a local variable neither."""

    __slots__ = ("constant", "name", "variable")

    def __init__(self, id_: int, offset: int, name: str) -> None:
        super().__init__(id_, offset)
        self.name = name
        self.variable: str | None = None
        self.constant: Literal | None = None


class Select(Expr):
    """`operand.name`, or `has(operand.name)` when it only tests.

    The checker sets `resolved` when the dotted path turned out to be one name, such as a variable `a.b` or a type.
    """

    __slots__ = ("name", "operand", "resolved", "test_only")

    def __init__(self, id_: int, offset: int, operand: Expr, name: str, *, test_only: bool = False) -> None:
        super().__init__(id_, offset)
        self.operand = operand
        self.name = name
        self.test_only = test_only
        self.resolved: Ident | None = None


class Call(Expr):
    """`function(args)`, `target.function(args)`, and every operator (`_+_`, `_?_:_`, `_[_]`, see operators.py).

    The checker sets `overloads` to those that fit the types.
    """

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(self, id_: int, offset: int, function: str, args: Sequence[Expr], target: Expr | None = None) -> None:
        super().__init__(id_, offset)
        self.function = function
        self.target = target
        self.args = args
        self.overloads: Sequence[Overload] = ()

    @property
    def operands(self) -> list[Expr]:
        """The target, if there is one, and the arguments."""
        return [*self.args] if self.target is None else [self.target, *self.args]


class ListExpr(Expr):
    """`optional` has the indices of elements written with `?`."""

    __slots__ = ("elements", "optional")

    def __init__(self, id_: int, offset: int, elements: Sequence[Expr], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(id_, offset)
        self.elements = elements
        self.optional = optional


class Entry(NamedTuple):
    """An entry of a map."""

    offset: int
    key: Expr
    value: Expr
    optional: bool = False


class MapExpr(Expr):
    __slots__ = ("entries",)

    def __init__(self, id_: int, offset: int, entries: Sequence[Entry]) -> None:
        super().__init__(id_, offset)
        self.entries = entries


class FieldInit(NamedTuple):
    """A field of a message under construction."""

    offset: int
    name: str
    value: Expr
    optional: bool = False


class StructExpr(Expr):
    """`type_name{field: value}`."""

    __slots__ = ("fields", "type_name")

    def __init__(self, id_: int, offset: int, type_name: str, fields: Sequence[FieldInit]) -> None:
        super().__init__(id_, offset)
        self.type_name = type_name
        self.fields = fields


class Quantifier(NamedTuple):
    """`all` or `exists`: the predicate, and the value that ends the loop."""

    predicate: Expr
    decisive: bool


class Comprehension(Expr):
    """A loop, as macros expand to: fold `step` over `iter_range` while `condition` holds, then return `result`.

    With a second variable the first is the index or key and the second the value.
    """

    __slots__ = ("accu_init", "accu_var", "condition", "iter_range", "iter_var", "iter_var2", "result", "step")

    def __init__(
        self,
        id_: int,
        offset: int,
        *,
        iter_range: Expr,
        iter_var: str,
        iter_var2: str | None,
        accu_var: str,
        accu_init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> None:
        super().__init__(id_, offset)
        self.iter_range = iter_range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result

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
