"""What long-lived commands need of their process: stop signals, a lazy garbage collector, the core count."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar

T = TypeVar("T")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def defer_collection() -> Iterator[None]:
    """Disable the garbage collector while a command loads objects, until the end or `collect_garbage_less`."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            if not gc.get_freeze_count():  # otherwise this would thaw what the process has frozen
                gc.freeze()  # with `unfreeze`: what was loaded counts as old, and is not visited at once
                gc.unfreeze()
            gc.enable()


def collect_garbage_less() -> None:
    """Freeze the objects created at start, which live forever, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


async def read_until_end(pipe: IO[Any]) -> None:
    """Read a pipe until its end, and discard the data."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    await reader.read()


class StopSignal:
    """Handles SIGTERM and SIGINT: the first one requests a stop, each further one calls `at_once`.

    Create it before anything is started.
    """

    def __init__(self) -> None:
        self.at_once: Callable[[], None] = lambda: None
        self.stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    async def wait(self) -> None:
        """Wait for the first signal."""
        await self.stopped.wait()

    async def run_until_stopped(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Run a coroutine until it ends or the first signal arrives. Return its finished task, or None after a signal.
        Raise what the coroutine raises.
        """
        working, stopped = asyncio.create_task(work), asyncio.create_task(self.wait())
        done, _ = await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, stopped):
            task.cancel()
        await asyncio.gather(working, stopped, return_exceptions=True)
        if working not in done:
            return None
        working.result()
        return working

    def _on_signal(self) -> None:
        if self.stopped.is_set():
            self.at_once()
        self.stopped.set()
