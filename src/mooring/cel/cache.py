"""A bounded cache of compiled programs that compiles each expression once, however many threads request it.

Tolerations and node affinity have one each. It takes a compile function that raises
for an invalid expression. Errors are not cached: all threads that waited for that compilation get the error, and the
next request compiles again.

    >>> cache = ProgramCache(compile_for_taint, size=1024)
    >>> program = cache.get("taint.key == 'maintenance'")
    >>> cache.hits, cache.misses
    (0, 1)
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

P = TypeVar("P")


class ProgramCache(Generic[P]):
    """The most recently used programs, by expression; safe to share between threads."""

    def __init__(self, compile_expression: Callable[[str], P], size: int = 1024) -> None:
        if size < 1:
            raise ValueError(f"a cache holds at least one program, not {size}")
        self.size = size
        self.hits = 0
        self.misses = 0
        self._compile = compile_expression
        self._programs: OrderedDict[str, P] = OrderedDict()
        self._compiling: dict[str, Future[P]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, expression: str) -> P:
        """Return the program for `expression`, compiling it on a miss; raise what compiling raises."""
        with self._lock:
            program = self._programs.get(expression)
            if program is not None:
                self._programs.move_to_end(expression)
                self.hits += 1
                return program
            self.misses += 1
            compiling = self._compiling.get(expression)
            is_mine = compiling is None
            if compiling is None:
                compiling = self._compiling[expression] = Future[P]()
        return self._compile_for_all(expression, compiling) if is_mine else compiling.result()

    def clear(self) -> None:
        """Drop all programs; keep the counters."""
        with self._lock:
            self._programs.clear()

    def _compile_for_all(self, expression: str, waiting: Future[P]) -> P:
        try:
            program = self._compile(expression)
        except BaseException as error:
            with self._lock:
                del self._compiling[expression]
            waiting.set_exception(error)
            raise
        with self._lock:
            del self._compiling[expression]
            self._programs[expression] = program
            if len(self._programs) > self.size:
                self._programs.popitem(last=False)
        waiting.set_result(program)
        return program
