"""Comprehensions over two variables: index and item of a list, key and value of a map.

`all`, `exists` and `existsOne` as with one variable; `transformList`, `transformMap` and `transformMapEntry` build a
new list or map, with an optional condition before the transformation.
"""

from collections.abc import Sequence
from typing import Final

from mooring.cel.errors import EvaluationError
from mooring.cel.library import Library, Overload, function
from mooring.cel.macros import (
    Expander,
    expand_all,
    expand_exists,
    expand_exists_one,
    expand_map,
    only_if,
    over_items,
)
from mooring.cel.syntax import Expr
from mooring.cel.types import map_of, param
from mooring.cel.values import Value, map_of_pairs

MAP_INSERT: Final = "cel.@mapInsert"


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


def _transform_map(new: Expander, target: Expr, names: Sequence[str], args: Sequence[Expr]) -> Expr:
    step = only_if(new, args, new.call(MAP_INSERT, new.result(), new.ident(names[0]), args[-1]))
    return new.loop(target, *names, init=new.map(), step=step)


def _transform_map_entry(new: Expander, target: Expr, names: Sequence[str], args: Sequence[Expr]) -> Expr:
    step = only_if(new, args, new.call(MAP_INSERT, new.result(), args[-1]))
    return new.loop(target, *names, init=new.map(), step=step)


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
        over_items("all", 3, expand_all, variables=2),
        over_items("exists", 3, expand_exists, variables=2),
        over_items("existsOne", 3, expand_exists_one, variables=2),
        over_items("exists_one", 3, expand_exists_one, variables=2),
        over_items("transformList", 3, expand_map, variables=2),
        over_items("transformList", 4, expand_map, variables=2),
        over_items("transformMap", 3, _transform_map, variables=2),
        over_items("transformMap", 4, _transform_map, variables=2),
        over_items("transformMapEntry", 3, _transform_map_entry, variables=2),
        over_items("transformMapEntry", 4, _transform_map_entry, variables=2),
    ),
)
