"""What is left to do when a body ends: an `ExitStack` for thousands of watches, of which each would take 1.9 KB.

``limits.py`` makes one for a request that keeps its place, ``app.py`` adds how the request is recorded, and whoever
sends the body closes it.
"""

from collections.abc import Callable
from typing import TypeVarTuple, Unpack

T = TypeVarTuple("T")


class CallbackStack:
    """Calls that are made once, the last first, and all of them whatever the others do."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: tuple[tuple[Callable[..., object], tuple[object, ...]], ...] = ()

    def callback(self, call: Callable[[Unpack[T]], object], *given: *T) -> None:
        self._calls = ((call, given), *self._calls)

    def pop_all(self) -> "CallbackStack":
        """Another one that has all calls; nothing is left here to be done."""
        other = CallbackStack()
        other._calls, self._calls = self._calls, ()
        return other

    def close(self) -> None:
        if self._calls:
            (call, given), self._calls = self._calls[0], self._calls[1:]
            try:
                call(*given)
            finally:
                self.close()

    def __enter__(self) -> "CallbackStack":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
