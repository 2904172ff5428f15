"""How long-lived commands set the garbage collector, once they are ready."""

import gc


def collect_garbage_less() -> None:
    """What was made at start stays for ever: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
