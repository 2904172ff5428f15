"""Kubernetes' regex library: `find` and `findAll`, with RE2's syntax and its linear time."""

from collections.abc import Callable
from typing import Any, Final

from mooring.cel.costs import REGEX, STRING, CallCost, arg, fixed, scaled, up_to
from mooring.cel.library import Library, Overload, function
from mooring.cel.regex import compile_pattern
from mooring.cel.types import INT, Type, list_of
from mooring.cel.types import STRING as TEXT


def find(text: str, pattern: str) -> str:
    found = compile_pattern(pattern).search(text)
    return str(found.group()) if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the matches from left to right; like Go, skip an empty match right after another match."""
    matches: list[str] = []
    end = -1
    for found in compile_pattern(pattern).finditer(text):
        if len(matches) == limit:
            break
        if found.end() > end or found.start() > end:
            matches.append(found.group())
        end = found.end()
    return matches


# Length plus one: an empty string still costs compiling the pattern.
_COST: Final = CallCost(scaled(arg(0) + fixed(1), STRING) * scaled(arg(1), REGEX), result=up_to(arg(0)))


def _member(overload: str, args: tuple[Type, ...], result: Type, impl: Callable[..., Any]) -> Overload:
    """Declare a method whose literal patterns are compiled, and rejected, with the expression."""
    return Overload(overload, args, result, impl, member=True, cost=_COST, pattern=1)


REGEX_LIBRARY: Final = Library(
    "kubernetes.regex",
    functions=(
        function("find", _member("string_find_string", (TEXT, TEXT), TEXT, find)),
        function(
            "findAll",
            _member("string_find_all_string", (TEXT, TEXT), list_of(TEXT), find_all),
            _member("string_find_all_string_int", (TEXT, TEXT, INT), list_of(TEXT), find_all),
        ),
    ),
)
