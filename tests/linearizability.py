"""Whether a history of reads and writes can be explained by one register that everybody used in turn.

Wing and Gong's search: of the operations that began before any other ended, one must have come first; try each, with
what the register would hold then. States that were tried are remembered, so that short histories take milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """Hold a client's request and its answer. A write without an answer never ends, and may have been done."""

    began: float
    ended: float
    expected: int | None
    """What a compare-and-swap wanted to find; None for a read."""
    value: int
    """What was read, or written."""
    succeeded: bool | None
    """None: the client got no answer."""


def is_linearizable(history: Sequence[Operation], first: int) -> bool:
    """Whether some order of the operations, which respects who ended before whom began, gives all these answers."""
    operations = sorted(history, key=lambda operation: operation.began)
    tried: set[tuple[int, int]] = set()
    stack = [((1 << len(operations)) - 1, first)]
    while stack:
        left, value = stack.pop()
        if not any(left >> place & 1 and each.succeeded is not None for place, each in enumerate(operations)):
            return True
        if (left, value) in tried:
            continue
        tried.add((left, value))
        open_ = [(place, each) for place, each in enumerate(operations) if left >> place & 1]
        soonest = min(each.ended for _, each in open_)
        for place, each in open_:
            if each.began > soonest:
                break
            stack += ((left & ~(1 << place), after) for after in _after(each, value))
    return False


def _after(operation: Operation, value: int) -> list[int]:
    """Return what the register may hold after an operation that found a value; nothing if it is impossible."""
    if operation.expected is None:
        return [value] if operation.value == value else []
    fits = operation.expected == value
    if operation.succeeded is None:
        return [operation.value] if fits else [value]
    if operation.succeeded != fits:
        return []
    return [operation.value] if fits else [value]
