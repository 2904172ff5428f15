"""The lists library: `lists(version)` has the functions of cel-go's library of that version.

Version 0 has `slice`, 1 adds `flatten`, 2 adds `sort`, `sortBy`, `lists.range`, `reverse` and `distinct`, and 3
charges their actual cost instead of 1 each. Kubernetes uses 3. (`first` and `last` give optionals: see `optionals`.)
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from mooring.cel.costs import LIST, MAX, NOMINAL, STRING, Argument, CallCost, CallEstimate, Range, exactly
from mooring.cel.errors import EvaluationError
from mooring.cel.library import Function, Library, Macro, Overload, function
from mooring.cel.macros import Expander
from mooring.cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Select
from mooring.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, TIMESTAMP, UINT, Type, list_of, param
from mooring.cel.types import (
    STRING as TEXT,
)
from mooring.cel.values import Duration, Timestamp, UInt, Value, equal, size_of

LATEST: Final = 3
MAX_RANGE: Final = 1_000_000
"""The maximum of `lists.range`, so that an evaluation without a cost limit does not exhaust memory."""
COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, TEXT, BYTES)
"""The ordered types, whose lists can be sorted."""
_ORDERED: Final = frozenset({int, UInt, float, bool, Duration, Timestamp, str, bytes})
SORT_BY_KEYS: Final = "@sortByAssociatedKeys"
_SORT_INPUT: Final = "@__sortBy_input__"


def slice_(items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def flatten(items: list[Value], depth: int = 1) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat = items
    while depth and any(isinstance(item, list) for item in flat):
        flat = [inner for item in flat for inner in (item if isinstance(item, list) else [item])]
        depth -= 1
    return flat


def sort(items: list[Value]) -> list[Value]:
    return sort_by_keys(items, items)


def sort_by_keys(items: list[Value], keys: list[Value]) -> list[Value]:
    """Return the items in the order of their keys, which must all have the same type."""
    classes = {key.__class__ for key in keys}
    if len(classes) > 1:
        raise EvaluationError("list elements must have the same type")
    if not classes <= _ORDERED:
        raise EvaluationError("list elements must be comparable")
    return [items[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]


def range_(size: int) -> list[Value]:
    if size < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {size}")
    if size > MAX_RANGE:
        raise EvaluationError(f"lists.range: size {size} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(size))


def reverse(items: list[Value]) -> list[Value]:
    return items[::-1]


def distinct(items: list[Value]) -> list[Value]:
    """Return the items without duplicates by CEL equality; use hashing where possible."""
    try:
        hashed = dict.fromkeys(items)
    except TypeError:
        return _distinct_by_comparison(items)
    # Python's hashing equates True with 1, and NaN with itself; such rare lists are compared item by item.
    unsure = any(item.__class__ is bool or item != item for item in items)  # noqa: PLR0124 - only NaN differs from itself
    return _distinct_by_comparison(items) if unsure else list(hashed)


def _distinct_by_comparison(items: list[Value]) -> list[Value]:
    kept: list[Value] = []
    for item in items:
        if not any(equal(item, other) for other in kept):
            kept.append(item)
    return kept


# Costs: each call allocates a list and goes over its input; sorting and comparing go over it once for each item


def _allocating(size: Range, factor: float) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(exactly(1 + LIST)), size)


def _count_cost(size: int, factor: float) -> int:
    return int(size * factor) + 1 + LIST


def _literal_or(argument: Argument, default: int) -> int:
    return max(argument.literal, 0) if argument.is_literal else default


def _estimate_slice(args: Sequence[Argument]) -> CallEstimate:
    length = _literal_or(args[2], args[0].size.max) - _literal_or(args[1], 0)
    return _allocating(exactly(length % (MAX + 1)), 1)


def _quadratic_cost(index: int, factor: float) -> CallCost:
    def estimate(args: Sequence[Argument]) -> CallEstimate:
        size = args[index].size
        return _allocating(size.times(size), factor)

    def count(args: Sequence[Any], _result: Any) -> int:
        items = args[index]
        if not isinstance(items, list):
            return _count_cost(1, 2)
        reads_text = bool(items) and isinstance(items[0], str | bytes)
        return _count_cost(len(items) ** 2, 2 + STRING if reads_text else 2)

    return CallCost(estimator=estimate, counter=count)


def _count_flatten(args: Sequence[Any], _result: Any) -> int:
    depth = args[1] if len(args) > 1 and isinstance(args[1], int) else 1
    return _count_cost(size_of(args[0]), max(depth, 0))


def _sort_cost(element: Type, index: int) -> CallCost:
    return _quadratic_cost(index, 2 + STRING if element in (TEXT, BYTES) else 2)


_SLICE: Final = CallCost(
    estimator=_estimate_slice, counter=lambda _args, result: _count_cost(size_of(result), 1), counts_result=True
)
_FLATTEN: Final = CallCost(
    estimator=lambda args: _allocating(args[0].size, float(_literal_or(args[1], MAX) if len(args) > 1 else 1)),
    counter=_count_flatten,
)
_REVERSE: Final = CallCost(
    estimator=lambda args: _allocating(args[0].size, 1), counter=lambda args, _result: _count_cost(size_of(args[0]), 1)
)
_RANGE: Final = CallCost(
    estimator=lambda args: _allocating(exactly(_literal_or(args[0], MAX)), 1),
    counter=lambda args, _result: _count_cost(max(args[0], 0) if isinstance(args[0], int) else 1, 1),
)


# sortBy


def _expand_sort_by(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    """Expand `l.sortBy(e, key)`: bind the list to a name and sort it by the list of its keys."""
    if target is None:
        return None
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        new.error(target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression")
        return None
    variable = new.variable(args[0])
    if variable is None:
        return None
    step = new.call("_+_", new.result(), new.list(args[1]))
    keys = new.loop(new.ident(_SORT_INPUT), variable, init=new.list(), step=step)
    return new.bind(_SORT_INPUT, target, new.member(new.ident(_SORT_INPUT), SORT_BY_KEYS, keys))


# Declarations

_Signature = tuple[str, tuple[Type, ...], Type]
"""The id, argument types and result type of an overload."""


@lru_cache
def lists(version: int = LATEST) -> Library:
    """Return the library at a library version."""
    element = param("T")
    items, anything = list_of(element), list_of(DYN)

    def member(name: str, signature: _Signature, impl: Callable[..., Any], cost: CallCost) -> Function:
        overload, args, result = signature
        return function(name, Overload(overload, args, result, impl, True, cost if version >= 3 else NOMINAL))

    functions = [member("slice", ("list_slice", (items, INT, INT), items), slice_, _SLICE)]
    if version >= 1:
        functions.append(member("flatten", ("list_flatten", (list_of(items),), items), flatten, _FLATTEN))
        functions.append(member("flatten", ("list_flatten_int", (anything, INT), anything), flatten, _FLATTEN))
    if version < 2:
        return Library(f"lists.v{version}", functions=tuple(functions))
    for each in COMPARABLE:
        sorted_list = list_of(each)
        functions.append(member("sort", (f"list_{each}_sort", (sorted_list,), sorted_list), sort, _sort_cost(each, 0)))
        by_keys = (f"list_{each}_sortByAssociatedKeys", (items, sorted_list), items)
        functions.append(member(SORT_BY_KEYS, by_keys, sort_by_keys, _sort_cost(each, 1)))
    functions.append(member("reverse", ("list_reverse", (items,), items), reverse, _REVERSE))
    functions.append(member("distinct", ("list_distinct", (items,), items), distinct, _quadratic_cost(0, 2)))
    range_overload = Overload("lists_range", (INT,), list_of(INT), range_, cost=_RANGE if version >= 3 else NOMINAL)
    functions.append(function("lists.range", range_overload))
    macro = Macro("sortBy", 2, receiver=True, expand=_expand_sort_by)
    return Library(f"lists.v{version}", functions=tuple(functions), macros=(macro,))
