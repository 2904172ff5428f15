"""A thread that does one thing after the other for an event loop.

An executor would do as well, but what it makes for every call (a future of threads, a future of the loop, locks and
callbacks between them) costs as much as several small writes. Used by ``sqlite.py``.
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
    """The thread. `stop` ends it when it has done what it was asked to do.

    It does not keep a process from ending: nobody has been told yet that what it still does is done.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        Thread(target=self._run, name=name, daemon=True).start()

    async def do(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """What a function returns, or raises, in the thread."""
        future: asyncio.Future[_T] = self._loop.create_future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return await future

    def stop(self) -> None:
        self._calls.put(None)

    def _run(self) -> None:
        while call := self._calls.get():
            future, function = call
            try:
                settle, outcome = _succeed, function()
            except BaseException as error:
                settle, outcome = _fail, error
            with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
                self._loop.call_soon_threadsafe(settle, future, outcome)
            del call, future, function, outcome  # and nobody is kept while the next is waited for


def _succeed(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():  # else its caller was cancelled
        future.set_result(outcome)


def _fail(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():
        future.set_exception(outcome)
