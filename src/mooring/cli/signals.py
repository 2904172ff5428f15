"""How commands that run until they are told to stop are told: SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import Callable


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

    def _on_signal(self) -> None:
        if self._told.is_set():
            self.at_once()
        self._told.set()
