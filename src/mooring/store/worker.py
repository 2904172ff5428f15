"""A thread that runs calls for an event loop, one at a time.

An executor would do, but its bookkeeping per call (two futures, locks and callbacks) costs as much as several small
writes. Used by ``sqlite.py``.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Worker:
    """The thread. `stop` ends it after the queued calls.

    It is a daemon thread and does not keep the process alive: unfinished calls have not been acknowledged.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        Thread(target=self._run_calls, name=name, daemon=True).start()

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function in the thread; return its result or raise its exception."""
        future: asyncio.Future[_T] = self._loop.create_future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return await future

    def stop(self) -> None:
        self._calls.put(None)

    def _run_calls(self) -> None:
        while call := self._calls.get():
            future, function = call
            try:
                settle, outcome = _succeed, function()
            except BaseException as error:
                settle, outcome = _fail, error
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                self._loop.call_soon_threadsafe(settle, future, outcome)
            del call, future, function, outcome  # drop references while waiting for the next call


def _succeed(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():  # else its caller was cancelled
        future.set_result(outcome)


def _fail(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():
        future.set_exception(outcome)
