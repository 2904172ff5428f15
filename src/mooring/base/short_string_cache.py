"""`cache_short` and `cache_short_or_error`: an `lru_cache` for functions of one string that does not retain long ones.

``functools.lru_cache`` bounds the number of entries, not their size. Clients could fill memory with long strings in
objects that are rejected anyway: four thousand labels of three megabytes each.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")

MAX_CACHED_LENGTH = 320
"""The longest string that is cached; no label key is longer."""


def cache_short(max_entries: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Cache up to `max_entries` results like `lru_cache`; compute the result for a long string every time."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        kept = lru_cache(max_entries)(function)

        @wraps(function)
        def call(text: str, /) -> T:
            return kept(text) if len(text) <= MAX_CACHED_LENGTH else function(text)

        return call

    return decorate


def cache_short_or_error(
    max_entries: int, error: type[Exception]
) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Cache like `cache_short`, and exceptions of the class `error` (no subclass): each call raises a new one."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        def attempt(text: str) -> T | Exception:
            try:
                return function(text)
            except error as problem:
                return problem

        kept = lru_cache(max_entries)(attempt)

        @wraps(function)
        def call(text: str, /) -> T:
            outcome = kept(text) if len(text) <= MAX_CACHED_LENGTH else attempt(text)
            if outcome.__class__ is error:
                raise error(*outcome.args)
            return outcome  # type: ignore[return-value]

        return call

    return decorate
