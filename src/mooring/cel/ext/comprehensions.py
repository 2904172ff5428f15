"""Comprehensions over two variables: index and item of a list, key and value of a map.

`all`, `exists` and `existsOne` as with one variable; `transformList`, `transformMap` and `transformMapEntry` build a
new list or map, with an optional condition before the transformation.
"""

from collections.abc import Callable, Sequence
from typing import Final

from mooring.cel import operators as op
from mooring.cel.errors import EvaluationError
from mooring.cel.library import Library, Macro, Overload, function
from mooring.cel.macros import Expander
from mooring.cel.syntax import Expr
from mooring.cel.types import map_of, param
from mooring.cel.values import Value, map_of_pairs

MAP_INSERT: Final = "cel.@mapInsert"
_VARIABLES = "iteration variable must be a simple name"


def insert(entries: dict[Value, Value], key: Value, value: Value) -> dict[Value, Value]:
    """Insert one entry into the accumulator of a loop, in place: no other reference to it exists."""
    return insert_all(entries, map_of_pairs([(key, value)]))


def insert_all(entries: dict[Value, Value], others: dict[Value, Value]) -> dict[Value, Value]:
    """Insert the entries of another map in place; no key may exist yet."""
    for key in others:
        if key in entries:
            raise EvaluationError(f"insert failed: key {key} already exists")
    entries.update(others)
    return entries


_KEY, _VALUE = param("K"), param("V")
_MAP: Final = map_of(_KEY, _VALUE)


def _loop(make: Callable[[Expander, Expr, tuple[str, str], Sequence[Expr]], Expr]) -> Callable[..., Expr | None]:
    """Build a macro `target.name(variable, variable, …)`; `make` gets the arguments after the variables."""

    def expand(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
        first, second = new.variable(args[0], _VARIABLES), new.variable(args[1], _VARIABLES)
        if target is None or first is None or second is None:
            return None
        if first == second:
            new.error(args[1], f"duplicate variable name: {second}")
            return None
        return make(new, target, (first, second), args[2:])

    return expand


def _all(new: Expander, target: Expr, names: tuple[str, str], args: Sequence[Expr]) -> Expr:
    condition = new.call(op.NOT_STRICTLY_FALSE, new.result())
    step = new.call(op.AND, new.result(), args[0])
    return new.loop(target, names[0], iter_var2=names[1], init=new.literal(True), condition=condition, step=step)


def _exists(new: Expander, target: Expr, names: tuple[str, str], args: Sequence[Expr]) -> Expr:
    condition = new.call(op.NOT_STRICTLY_FALSE, new.call(op.NOT, new.result()))
    step = new.call(op.OR, new.result(), args[0])
    return new.loop(target, names[0], iter_var2=names[1], init=new.literal(False), condition=condition, step=step)


def _exists_one(new: Expander, target: Expr, names: tuple[str, str], args: Sequence[Expr]) -> Expr:
    step = new.call(op.CONDITIONAL, args[0], new.call(op.ADD, new.result(), new.literal(1)), new.result())
    result = new.call(op.EQUALS, new.result(), new.literal(1))
    return new.loop(target, names[0], iter_var2=names[1], init=new.literal(0), step=step, result=result)


def _transform_list(new: Expander, target: Expr, names: tuple[str, str], args: Sequence[Expr]) -> Expr:
    step = _where(new, args, new.call(op.ADD, new.result(), new.list(args[-1])))
    return new.loop(target, names[0], iter_var2=names[1], init=new.list(), step=step)


def _transform_map(new: Expander, target: Expr, names: tuple[str, str], args: Sequence[Expr]) -> Expr:
    step = _where(new, args, new.call(MAP_INSERT, new.result(), new.ident(names[0]), args[-1]))
    return new.loop(target, names[0], iter_var2=names[1], init=new.map(), step=step)


def _transform_map_entry(new: Expander, target: Expr, names: tuple[str, str], args: Sequence[Expr]) -> Expr:
    step = _where(new, args, new.call(MAP_INSERT, new.result(), args[-1]))
    return new.loop(target, names[0], iter_var2=names[1], init=new.map(), step=step)


def _where(new: Expander, args: Sequence[Expr], step: Expr) -> Expr:
    """Wrap the step in the filter condition, if one was given before the transformation."""
    return step if len(args) == 1 else new.call(op.CONDITIONAL, args[0], step, new.result())


TWO_VARIABLES: Final = Library(
    "comprehensions",
    functions=(
        function(
            MAP_INSERT,
            Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, insert_all),
            Overload("@mapInsert_map_key_value", (_MAP, _KEY, _VALUE), _MAP, insert),
        ),
    ),
    macros=(
        Macro("all", 3, receiver=True, expand=_loop(_all)),
        Macro("exists", 3, receiver=True, expand=_loop(_exists)),
        Macro("existsOne", 3, receiver=True, expand=_loop(_exists_one)),
        Macro("exists_one", 3, receiver=True, expand=_loop(_exists_one)),
        Macro("transformList", 3, receiver=True, expand=_loop(_transform_list)),
        Macro("transformList", 4, receiver=True, expand=_loop(_transform_list)),
        Macro("transformMap", 3, receiver=True, expand=_loop(_transform_map)),
        Macro("transformMap", 4, receiver=True, expand=_loop(_transform_map)),
        Macro("transformMapEntry", 3, receiver=True, expand=_loop(_transform_map_entry)),
        Macro("transformMapEntry", 4, receiver=True, expand=_loop(_transform_map_entry)),
    ),
)
