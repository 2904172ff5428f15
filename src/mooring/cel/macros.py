"""Macros: calls that the parser rewrites, mostly into comprehensions; and the `Expander` that builds their nodes.

The standard ones are here; libraries bring their own (`cel/ext/`). All nodes of an expansion get the offset of the
macro call, so issues point at the source. Read next: parser.py, which calls `expand`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from . import operators as op
from .library import Macro
from .syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Entry,
    Expr,
    FieldInit,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from .values import Value


class Expander:
    """Build nodes for a macro, at the offset of its call."""

    accumulator: Final = ACCUMULATOR

    def __init__(self, offset: int, next_id: Callable[[], int], report: Callable[[int, str], None]) -> None:
        self._offset = offset
        self._next_id = next_id
        self._report = report

    def literal(self, value: Value) -> Literal:
        return Literal(self._next_id(), self._offset, value)

    def ident(self, name: str) -> Ident:
        return Ident(self._next_id(), self._offset, name)

    def result(self) -> Ident:
        """Return a reference to the accumulator."""
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Expr) -> Call:
        return Call(self._next_id(), self._offset, function, args)

    def member(self, target: Expr, function: str, *args: Expr) -> Call:
        return Call(self._next_id(), self._offset, function, args, target)

    def select(self, operand: Expr, name: str, *, test_only: bool = False) -> Select:
        return Select(self._next_id(), self._offset, operand, name, test_only=test_only)

    def list(self, *elements: Expr) -> ListExpr:
        return ListExpr(self._next_id(), self._offset, elements)

    def map(self, *entries: tuple[Expr, Expr]) -> MapExpr:
        made = [Entry(self._offset, key, value) for key, value in entries]
        return MapExpr(self._next_id(), self._offset, made)

    def loop(
        self,
        iter_range: Expr,
        iter_var: str,
        *,
        init: Expr,
        step: Expr,
        condition: Expr | None = None,
        result: Expr | None = None,
        iter_var2: str | None = None,
        accu_var: str = ACCUMULATOR,
    ) -> Comprehension:
        """Build a fold; by default over all items, returning the accumulator."""
        return Comprehension(
            self._next_id(),
            self._offset,
            iter_range=iter_range,
            iter_var=iter_var,
            iter_var2=iter_var2,
            accu_var=accu_var,
            accu_init=init,
            condition=condition or self.literal(True),
            step=step,
            result=result or self.ident(accu_var),
        )

    def bind(self, name: str, value: Expr, body: Expr) -> Comprehension:
        """Build `body` with `name` bound to `value`, the expansion of `cel.bind` and `optMap`."""
        never, step = self.literal(False), self.ident(name)
        return self.loop(self.list(), "#unused", init=value, condition=never, step=step, result=body, accu_var=name)

    def copy(self, expr: Expr) -> Expr:
        """Copy an expression with new ids, for a macro that uses an argument twice."""
        new_id, offset = self._next_id, expr.offset
        match expr:
            case Ident():
                return Ident(new_id(), offset, expr.name)
            case Select():
                return Select(new_id(), offset, self.copy(expr.operand), expr.name, test_only=expr.test_only)
            case Call():
                target = self.copy(expr.target) if expr.target is not None else None
                return Call(new_id(), offset, expr.function, self._copies(expr.args), target)
            case ListExpr():
                return ListExpr(new_id(), offset, self._copies(expr.elements), expr.optional)
            case MapExpr():
                entries = [
                    Entry(each.offset, self.copy(each.key), self.copy(each.value), each.optional)
                    for each in expr.entries
                ]
                return MapExpr(new_id(), offset, entries)
            case StructExpr():
                fields = [
                    FieldInit(each.offset, each.name, self.copy(each.value), each.optional) for each in expr.fields
                ]
                return StructExpr(new_id(), offset, expr.type_name, fields)
            case Comprehension():
                return Comprehension(
                    new_id(),
                    offset,
                    iter_range=self.copy(expr.iter_range),
                    iter_var=expr.iter_var,
                    iter_var2=expr.iter_var2,
                    accu_var=expr.accu_var,
                    accu_init=self.copy(expr.accu_init),
                    condition=self.copy(expr.condition),
                    step=self.copy(expr.step),
                    result=self.copy(expr.result),
                )
            case Literal():
                return Literal(new_id(), offset, expr.value)
        raise TypeError(expr)

    def _copies(self, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(self.copy(each) for each in exprs)

    def error(self, where: Expr, message: str) -> None:
        """Report an issue at a node; return None from the macro afterwards."""
        self._report(where.offset, message)

    def variable(self, expr: Expr, message: str = "argument must be a simple name") -> str | None:
        """Return the name of an argument that must be a plain identifier; otherwise report it and return None."""
        if not isinstance(expr, Ident) or expr.name.startswith("."):
            self.error(expr, message)
            return None
        if expr.name == ACCUMULATOR:
            self.error(expr, "iteration variable overwrites accumulator variable")
            return None
        return expr.name


def _has(new: Expander, _target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    (field,) = args
    if isinstance(field, Select) and not field.test_only:
        return new.select(field.operand, field.name, test_only=True)
    new.error(field, "invalid argument to has() macro")
    return None


def _quantifier(make: Callable[[Expander, Expr, str, Expr], Expr]) -> Callable[..., Expr | None]:
    def expand(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
        variable = new.variable(args[0])
        if variable is None or target is None:
            return None
        return make(new, target, variable, args[1])

    return expand


def _all(new: Expander, target: Expr, variable: str, predicate: Expr) -> Expr:
    condition = new.call(op.NOT_STRICTLY_FALSE, new.result())
    step = new.call(op.AND, new.result(), predicate)
    return new.loop(target, variable, init=new.literal(True), condition=condition, step=step)


def _exists(new: Expander, target: Expr, variable: str, predicate: Expr) -> Expr:
    condition = new.call(op.NOT_STRICTLY_FALSE, new.call(op.NOT, new.result()))
    step = new.call(op.OR, new.result(), predicate)
    return new.loop(target, variable, init=new.literal(False), condition=condition, step=step)


def _exists_one(new: Expander, target: Expr, variable: str, predicate: Expr) -> Expr:
    one_more = new.call(op.ADD, new.result(), new.literal(1))
    step = new.call(op.CONDITIONAL, predicate, one_more, new.result())
    result = new.call(op.EQUALS, new.result(), new.literal(1))
    return new.loop(target, variable, init=new.literal(0), step=step, result=result)


def _filter(new: Expander, target: Expr, variable: str, predicate: Expr) -> Expr:
    keep = new.call(op.ADD, new.result(), new.list(new.ident(variable)))
    step = new.call(op.CONDITIONAL, predicate, keep, new.result())
    return new.loop(target, variable, init=new.list(), step=step)


def _map(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    variable = new.variable(args[0])
    if variable is None or target is None:
        return None
    step: Expr = new.call(op.ADD, new.result(), new.list(args[-1]))
    if len(args) == 3:
        step = new.call(op.CONDITIONAL, args[1], step, new.result())
    return new.loop(target, variable, init=new.list(), step=step)


STANDARD_MACROS: Final = (
    Macro("has", 1, receiver=False, expand=_has),
    Macro("all", 2, receiver=True, expand=_quantifier(_all)),
    Macro("exists", 2, receiver=True, expand=_quantifier(_exists)),
    Macro("exists_one", 2, receiver=True, expand=_quantifier(_exists_one)),
    Macro("existsOne", 2, receiver=True, expand=_quantifier(_exists_one)),
    Macro("filter", 2, receiver=True, expand=_quantifier(_filter)),
    Macro("map", 2, receiver=True, expand=_map),
    Macro("map", 3, receiver=True, expand=_map),
)
