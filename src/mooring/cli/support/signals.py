"""How commands that run until they are told to stop are told: SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StopSignal:
    """The first signal asks to stop; every further one calls `at_once`. Make it before anything is started."""

    def __init__(self, at_once: Callable[[], None] = lambda: None) -> None:
        self.at_once = at_once
        self._told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    async def wait(self) -> None:
        """Until the first signal."""
        await self._told.wait()

    async def unless(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Work that has ended before the first signal; None if it was broken off by that. Raises what the work does."""
        working, told = asyncio.create_task(work), asyncio.create_task(self.wait())
        done, _ = await asyncio.wait([working, told], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, told):
            task.cancel()
        await asyncio.gather(working, told, return_exceptions=True)
        if working not in done:
            return None
        working.result()
        return working

    def _on_signal(self) -> None:
        if self._told.is_set():
            self.at_once()
        self._told.set()
