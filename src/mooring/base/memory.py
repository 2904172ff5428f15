"""Memory that is free goes back to the system: glibc keeps what lies between other things until it is asked."""

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Give back whole pages that are free. It takes some milliseconds for a process of some hundred megabytes."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library, which has ways of its own
        return None
    return found
