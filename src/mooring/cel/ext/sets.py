"""The sets library: compare lists as sets, by CEL equality."""

from typing import Final

from mooring.cel.costs import CallCost, arg, fixed, scaled
from mooring.cel.library import Library, Overload, function
from mooring.cel.types import BOOL, list_of, param
from mooring.cel.values import Value, contains


def sets_contains(items: list[Value], others: list[Value]) -> bool:
    return all(contains(items, other) for other in others)


def sets_intersects(items: list[Value], others: list[Value]) -> bool:
    return any(contains(items, other) for other in others)


def sets_equivalent(items: list[Value], others: list[Value]) -> bool:
    return sets_contains(items, others) and sets_contains(others, items)


_LISTS: Final = (list_of(param("T")), list_of(param("T")))
_ONE_WAY: Final = CallCost(arg(0) * arg(1) + fixed(1))
_BOTH_WAYS: Final = CallCost(scaled(arg(0) * arg(1), 2) + fixed(1))

SETS: Final = Library(
    "sets",
    functions=(
        function("sets.contains", Overload("list_sets_contains_list", _LISTS, BOOL, sets_contains, cost=_ONE_WAY)),
        function(
            "sets.intersects", Overload("list_sets_intersects_list", _LISTS, BOOL, sets_intersects, cost=_ONE_WAY)
        ),
        function(
            "sets.equivalent", Overload("list_sets_equivalent_list", _LISTS, BOOL, sets_equivalent, cost=_BOTH_WAYS)
        ),
    ),
)
