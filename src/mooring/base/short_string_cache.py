"""`cache_short`: an `lru_cache` for functions of one string that does not retain long strings.

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
