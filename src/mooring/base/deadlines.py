"""Ends what takes too long: a look at all that is under way now and then, in place of a timer for each.

A timer that is set and cancelled again costs as much as a good part of a small request. Called by the API server for
the requests that it answers, and by the client for those that it sends.
"""

import asyncio
from types import TracebackType
from typing import Any

_LOOKS = 20
"""How often is looked within the time that something has: so it may last that much longer."""
_LONGEST_PAUSE = 1.0


class Deadlines:
    """What must be done within some seconds each. It belongs to one event loop."""

    def __init__(self) -> None:
        self._open: set[Deadline] = set()
        self._shortest = float("inf")
        """The shortest time that anything has which is under way, as of the last look: it says how often is looked."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float) -> "Deadline":
        """For a `with` around the work of the present task, which raises TimeoutError when its time is over."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("only a task can be ended")
        if seconds < self._shortest:
            self._shortest = seconds
            self._look_later(loop)
        return Deadline(self._open, seconds, loop.time() + seconds, task)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(min(_LONGEST_PAUSE, self._shortest / _LOOKS), self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._open:
            self._shortest = float("inf")
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._shortest = min(each.seconds for each in self._open)
        for each in self._open:
            if each.at <= now:
                each.expire()
        self._look_later(loop)


class Deadline:
    """The time by which something must be done."""

    __slots__ = ("_before", "_expired", "_open", "_task", "at", "seconds")

    def __init__(self, open_ones: "set[Deadline]", seconds: float, at: float, task: asyncio.Task[Any]) -> None:
        self._open = open_ones
        self._expired = False
        self._task = task
        self._before = task.cancelling()
        self.seconds = seconds
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
