"""Ends requests that take too long: a look at all of them now and then in place of a timer for each.

A timer that is set and cancelled again costs as much as a good part of a small request. Called by ``app.py``.
"""

import asyncio
from types import TracebackType
from typing import Any

_LOOKS = 20
"""How often they are looked at within the time that they have: so a request may last that much longer."""
_LONGEST_PAUSE = 1.0


class Deadlines:
    """Requests that must be done within some seconds each."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._pause = min(_LONGEST_PAUSE, seconds / _LOOKS)
        self._open: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> "Deadline":
        """For a `with` around the work of the present task, which raises TimeoutError when its time is over."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(self._pause, self._look)
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("only a task can be ended")
        return Deadline(self._open, loop.time() + self.seconds, task)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for each in self._open:
            if each.at <= now:
                each.expire()
        self._timer = loop.call_later(self._pause, self._look) if self._open else None


class Deadline:
    """The time by which something must be done."""

    __slots__ = ("_before", "_expired", "_open", "_task", "at")

    def __init__(self, open_ones: "set[Deadline]", at: float, task: asyncio.Task[Any]) -> None:
        self._open = open_ones
        self._expired = False
        self._task = task
        self._before = task.cancelling()
        self.at = at

    def __enter__(self) -> None:
        self._open.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.discard(self)
        if self._expired and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        if not self._expired:
            self._expired = True
            self._task.cancel()
