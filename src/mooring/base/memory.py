"""Return free heap memory to the operating system, which glibc keeps until asked; check how much is left."""

import ctypes
import mmap
import resource
from collections.abc import Callable
from functools import cache
from pathlib import Path


def release_free_memory() -> None:
    """Return free pages to the operating system. Takes some milliseconds in a process of a few hundred megabytes."""
    trim = _find_malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _find_malloc_trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # not glibc
        return None
    return found


def has_room_for(size: int) -> bool:
    """Return whether a number of bytes can be allocated; True where allocation cannot fail.

    Libraries written in C may crash when an allocation fails, as msgspec does: callers check before large work.
    """
    if not _can_fail():
        return True
    try:
        mmap.mmap(-1, size).close()  # touches no page
    except (OSError, ValueError, OverflowError):
        return False
    return True


@cache
def _can_fail() -> bool:
    """Whether the process has a limit on its address space; without one, Linux kills it instead."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    try:
        is_strict = Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    except OSError:
        is_strict = False
    return is_strict or any(limit != resource.RLIM_INFINITY for limit in limits)
