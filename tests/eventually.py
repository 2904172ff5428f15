"""Waits for something that other processes bring about."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(question: Callable[[], T], seconds: float = 20.0) -> T:
    """Return the first true answer to a question that is asked again and again, but rests longer than it works."""
    deadline = time.monotonic() + seconds
    asked = time.monotonic()
    while not (answer := question()):
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} seconds"
        time.sleep(max(0.1, time.monotonic() - asked))
        asked = time.monotonic()
    return answer


def never(question: Callable[[], object], seconds: float = 1.5) -> None:
    """Assert that a condition stays false for a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = question()
        assert not answer, f"unexpectedly {answer!r}"
        time.sleep(0.1)
