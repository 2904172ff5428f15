"""How much a function does, counted: calls of functions, and comparisons of texts and numbers, also those inside C.

    counted = count(lambda: admit_create(watched(pod), request))

Counting is exact and the same on every machine, as times are not: a search through a list inside a loop shows, however
fast a comparison is.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True)
class Work:
    """What was done."""

    calls: int
    comparisons: int


class _Tally:
    comparisons = 0


class WatchedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        _Tally.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def watched(value: T) -> T:
    """Return a value whose texts are watched; structs, lists and maps are changed in place."""
    return _watched(value)  # type: ignore[no-any-return] # what comes back has the type of what went in


def _watched(value: Any) -> Any:
    if isinstance(value, str):
        return WatchedText(value)
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            setattr(value, name, _watched(getattr(value, name)))
    elif isinstance(value, list):
        value[:] = [_watched(item) for item in value]
    elif isinstance(value, dict):
        items = [(_watched(key), _watched(item)) for key, item in value.items()]
        value.clear()
        value.update(items)
    return value


def count(work: Callable[[], object]) -> Work:
    """Do something and say how much it was."""
    before = _Tally.comparisons
    with _counted() as counted:
        work()
    return Work(counted.calls, _Tally.comparisons - before)


async def count_calls(work: Awaitable[object]) -> int:
    """How many functions were called until something had been done, by whomever in this thread."""
    with _counted() as counted:
        await work
    return counted.calls


@dataclass(slots=True)
class _Counted:
    calls: int = 0


@contextmanager
def _counted() -> Iterator[_Counted]:
    counted = _Counted()

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        if event in {"call", "c_call"}:
            counted.calls += 1

    sys.setprofile(profile)
    try:
        yield counted
    finally:
        sys.setprofile(None)
