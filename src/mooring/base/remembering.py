"""`remembered`: what functions of texts came to, without the long texts.

``functools.lru_cache`` keeps so many texts of any length. Those that strangers write, in objects that may well be
refused, would fill the memory that way: four thousand labels of three megabytes each.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")

LONGEST = 320
"""No key of a label is longer."""


def remembered(most: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """As `lru_cache`, of so many short texts; what a long one comes to is worked out every time."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        kept = lru_cache(most)(function)

        @wraps(function)
        def call(text: str, /) -> T:
            return kept(text) if len(text) <= LONGEST else function(text)

        return call

    return decorate
