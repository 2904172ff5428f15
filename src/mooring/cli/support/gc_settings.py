"""How long-lived commands set the garbage collector: off while they load, seldom once they are ready."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_waits() -> Iterator[None]:
    """Loading makes much and throws nothing away: the collector, which would cost a tenth of it, waits.

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
    """What was made at start stays for ever: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()
