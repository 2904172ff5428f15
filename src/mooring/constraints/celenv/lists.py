"""Kubernetes' lists library: isSorted, sum, min, max, indexOf, lastIndexOf and, from version 1, includes."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from itertools import pairwise
from typing import Any, Final

from mooring.cel.arithmetic import add_durations, add_int, add_uint
from mooring.cel.costs import STRING, Argument, CallCost, CallEstimate, exactly
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.lists import COMPARABLE
from mooring.cel.ext.traversal import traversal_cost
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import BOOL, DOUBLE, DURATION, DYN, INT, UINT, Kind, Type, list_of, param
from mooring.cel.values import Duration, UInt, Value, compare, equal

_SUMS: Final[dict[Type, tuple[Callable[[Any, Any], Any], Value]]] = {
    INT: (add_int, 0),
    UINT: (add_uint, UInt(0)),
    DOUBLE: (float.__add__, 0.0),
    DURATION: (add_durations, Duration(0)),
}


def is_sorted(items: list[Value]) -> bool:
    return all(compare(a, b) <= 0 for a, b in pairwise(items))


def _select_extreme(name: str, wanted: int, items: list[Value]) -> Value:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    best = items[0]
    for item in items:
        if compare(best, item) == wanted:
            best = item
    return best


def index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


def last_index_of(items: list[Value], wanted: Value) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], wanted)), -1)


def includes(target: Value, wanted: Value) -> bool:
    """Whether a list contains an item; for a value that is not a list, whether it equals the item."""
    return index_of(target, wanted) >= 0 if isinstance(target, list) else equal(target, wanted)


def _estimate(args: Sequence[Argument]) -> CallEstimate:
    """Charge 1 per item plus the traversal of each string; other targets of `includes` cost 1 per character."""
    target = args[0]
    if not target.type.params:
        return CallEstimate(target.size)
    each = exactly(1)
    if target.type.params[0].kind in (Kind.STRING, Kind.BYTES):
        each = each.plus(target.element_size.scaled(STRING))
    return CallEstimate(target.size.times(each))


_COST: Final = CallCost(estimator=_estimate, counter=lambda args, _result: traversal_cost(args[0]))


def _member(overload: str, args: tuple[Type, ...], result: Type, impl: Callable[..., Any]) -> Overload:
    return Overload(overload, args, result, impl, member=True, cost=_COST)


@lru_cache
def lists_library(version: int) -> Library:
    """Return the library at a library version: 1 adds `includes`."""
    item = param("A")

    def for_each(name: str, overload: str, impl: Callable[..., Any], result: Type | None = None) -> Function:
        overloads = (_member(overload.format(t), (list_of(t),), result or t, impl) for t in COMPARABLE)
        return Function(name, tuple(overloads))

    def sum_of(element: Type) -> Overload:
        add, zero = _SUMS[element]
        return _member(
            f"list_{element}_sum_{element}", (list_of(element),), element, lambda items: reduce(add, items, zero)
        )

    functions = [
        for_each("isSorted", "list_{0}_is_sorted_bool", is_sorted, BOOL),
        for_each("min", "list_{0}_min_{0}", partial(_select_extreme, "min", 1)),
        for_each("max", "list_{0}_max_{0}", partial(_select_extreme, "max", -1)),
        Function("sum", tuple(map(sum_of, _SUMS))),
        function("indexOf", _member("list_a_index_of_int", (list_of(item), item), INT, index_of)),
        function("lastIndexOf", _member("list_a_last_index_of_int", (list_of(item), item), INT, last_index_of)),
    ]
    if version >= 1:
        functions.append(function("includes", _member("list_includes_dyn_dyn", (DYN, DYN), BOOL, includes)))
    return Library(f"kubernetes.lists.v{version}", functions=tuple(functions))
