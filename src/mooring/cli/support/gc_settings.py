"""Garbage collector settings of long-lived commands: off while loading, infrequent afterwards."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def defer_collection() -> Iterator[None]:
    """Disable the collector while loading, which creates no garbage and would take a tenth longer.

    Until `collect_garbage_less` is called, or the context ends.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def collect_garbage_less() -> None:
    """Freeze the objects created at start, which live forever, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()
