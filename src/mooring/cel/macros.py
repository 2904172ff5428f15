"""Macros: calls that the parser rewrites, mostly into comprehensions; and the `Expander` that builds their nodes.

The standard ones are here; libraries bring their own (`cel/ext/`). All nodes of an expansion get the offset of the
macro call, so issues point at the source. Read next: parser.py, which calls `expand`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from . import operators as op
from . import syntax
from .library import Macro
from .values import Value


class Expander(msgspec.Struct):
    """Build nodes for a macro, at the offset of its call."""

    _offset: int
    _next_id: Callable[[], int]
    _report: Callable[[int, str], None]

    def literal(self, value: Value) -> syntax.Literal:
        return syntax.Literal(self._next_id(), self._offset, value)

    def ident(self, name: str) -> syntax.Ident:
        return syntax.Ident(self._next_id(), self._offset, name)

    def result(self) -> syntax.Ident:
        """Return a reference to the accumulator."""
        return self.ident(syntax.ACCUMULATOR)

    def call(self, function: str, *args: syntax.Expr) -> syntax.Call:
        return syntax.Call(self._next_id(), self._offset, function, args)

    def member(self, target: syntax.Expr, function: str, *args: syntax.Expr) -> syntax.Call:
        return syntax.Call(self._next_id(), self._offset, function, args, target)

    def select(self, operand: syntax.Expr, name: str, *, test_only: bool = False) -> syntax.Select:
        return syntax.Select(self._next_id(), self._offset, operand, name, test_only=test_only)

    def list(self, *elements: syntax.Expr) -> syntax.ListExpr:
        return syntax.ListExpr(self._next_id(), self._offset, elements)

    def map(self, *entries: tuple[syntax.Expr, syntax.Expr]) -> syntax.MapExpr:
        made = [syntax.Entry(self._offset, key, value) for key, value in entries]
        return syntax.MapExpr(self._next_id(), self._offset, made)

    def loop(
        self,
        iter_range: syntax.Expr,
        iter_var: str,
        iter_var2: str | None = None,
        *,
        init: syntax.Expr,
        step: syntax.Expr,
        condition: syntax.Expr | None = None,
        result: syntax.Expr | None = None,
        accu_var: str = syntax.ACCUMULATOR,
    ) -> syntax.Comprehension:
        """Build a fold; by default over all items, returning the accumulator."""
        return syntax.Comprehension(
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

    def bind(self, name: str, value: syntax.Expr, body: syntax.Expr) -> syntax.Comprehension:
        """Build `body` with `name` bound to `value`, the expansion of `cel.bind` and `optMap`."""
        never, step = self.literal(False), self.ident(name)
        return self.loop(self.list(), "#unused", init=value, condition=never, step=step, result=body, accu_var=name)

    def copy(self, expr: syntax.Expr) -> syntax.Expr:
        """Copy an unchecked expression with new ids, for a macro that uses an argument twice."""
        changed: dict[str, Any] = {}
        for name in expr.__struct_fields__:
            value = getattr(expr, name)
            if isinstance(value, syntax.Expr):
                changed[name] = self.copy(value)
            elif isinstance(value, tuple | list):
                changed[name] = tuple(map(self._copy_part, value))
        return structs.replace(expr, id=self._next_id(), **changed)

    def _copy_part(
        self, part: syntax.Expr | syntax.Entry | syntax.FieldInit
    ) -> syntax.Expr | syntax.Entry | syntax.FieldInit:
        if isinstance(part, syntax.Expr):
            return self.copy(part)
        part = part._replace(value=self.copy(part.value))
        return part._replace(key=self.copy(part.key)) if isinstance(part, syntax.Entry) else part

    def error(self, where: syntax.Expr, message: str) -> None:
        """Report an issue at a node; return None from the macro afterwards."""
        self._report(where.offset, message)

    def variable(self, expr: syntax.Expr, message: str = "argument must be a simple name") -> str | None:
        """Return the name of an argument that must be a plain identifier; otherwise report it and return None."""
        if not isinstance(expr, syntax.Ident) or expr.name.startswith("."):
            self.error(expr, message)
            return None
        if expr.name == syntax.ACCUMULATOR:
            self.error(expr, "iteration variable overwrites accumulator variable")
            return None
        return expr.name


def _has(new: Expander, _target: syntax.Expr | None, args: Sequence[syntax.Expr]) -> syntax.Expr | None:
    (field,) = args
    if isinstance(field, syntax.Select) and not field.test_only:
        return new.select(field.operand, field.name, test_only=True)
    new.error(field, "invalid argument to has() macro")
    return None


Make = Callable[[Expander, syntax.Expr, Sequence[str], Sequence[syntax.Expr]], syntax.Expr]
"""Build the expansion of a macro on a list or map, from its variables and the arguments after them."""


def over_items(name: str, args: int, make: Make, *, variables: int = 1) -> Macro:
    """Declare the macro `target.name(variable, …)`, whose first arguments are the names of one or two variables."""
    wrong = "argument must be a simple name" if variables == 1 else "iteration variable must be a simple name"

    def expand(new: Expander, target: syntax.Expr | None, given: Sequence[syntax.Expr]) -> syntax.Expr | None:
        names = [name for each in given[:variables] if (name := new.variable(each, wrong)) is not None]
        if target is None or len(names) < variables:
            return None
        if len(set(names)) < variables:
            new.error(given[1], f"duplicate variable name: {names[1]}")
            return None
        return make(new, target, names, given[variables:])

    return Macro(name, args, receiver=True, expand=expand)


def expand_all(new: Expander, target: syntax.Expr, names: Sequence[str], args: Sequence[syntax.Expr]) -> syntax.Expr:
    condition = new.call(op.NOT_STRICTLY_FALSE, new.result())
    step = new.call(op.AND, new.result(), args[0])
    return new.loop(target, *names, init=new.literal(True), condition=condition, step=step)


def expand_exists(new: Expander, target: syntax.Expr, names: Sequence[str], args: Sequence[syntax.Expr]) -> syntax.Expr:
    condition = new.call(op.NOT_STRICTLY_FALSE, new.call(op.NOT, new.result()))
    step = new.call(op.OR, new.result(), args[0])
    return new.loop(target, *names, init=new.literal(False), condition=condition, step=step)


def expand_exists_one(
    new: Expander, target: syntax.Expr, names: Sequence[str], args: Sequence[syntax.Expr]
) -> syntax.Expr:
    step = new.call(op.CONDITIONAL, args[0], new.call(op.ADD, new.result(), new.literal(1)), new.result())
    result = new.call(op.EQUALS, new.result(), new.literal(1))
    return new.loop(target, *names, init=new.literal(0), step=step, result=result)


def expand_map(new: Expander, target: syntax.Expr, names: Sequence[str], args: Sequence[syntax.Expr]) -> syntax.Expr:
    """Expand `map` and `transformList`: a list of the transformed items that meet the condition, if there is one."""
    step = only_if(new, args, new.call(op.ADD, new.result(), new.list(args[-1])))
    return new.loop(target, *names, init=new.list(), step=step)


def _expand_filter(
    new: Expander, target: syntax.Expr, names: Sequence[str], args: Sequence[syntax.Expr]
) -> syntax.Expr:
    return expand_map(new, target, names, (args[0], new.ident(names[0])))


def only_if(new: Expander, args: Sequence[syntax.Expr], step: syntax.Expr) -> syntax.Expr:
    """Make the step of a loop conditional, if a condition was given before the transformation."""
    return step if len(args) == 1 else new.call(op.CONDITIONAL, args[0], step, new.result())


STANDARD_MACROS: Final = (
    Macro("has", 1, receiver=False, expand=_has),
    over_items("all", 2, expand_all),
    over_items("exists", 2, expand_exists),
    over_items("exists_one", 2, expand_exists_one),
    over_items("existsOne", 2, expand_exists_one),
    over_items("filter", 2, _expand_filter),
    over_items("map", 2, expand_map),
    over_items("map", 3, expand_map),
)
