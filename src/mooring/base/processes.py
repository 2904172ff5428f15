"""Processes that others wait for: whoever is cancelled leaves none behind.

Each is the first of a group of its own, with which it ends. Called where simulated nodes run programs (``controllers``)
and where people run commands beside these (``apiserver``).
"""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

_OUTPUT_SECONDS = 1.0


async def spawned(*words: str, stdin: int = asyncio.subprocess.DEVNULL, **settings: Any) -> asyncio.subprocess.Process:
    """As asyncio has it; when whoever waits for it is cancelled, no process is left behind."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*words, stdin=stdin, start_new_session=True, **settings)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await end(await starting)
        raise


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill what was `spawned`, with all that it has started, and be there until it is gone, even if cancelled."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    gone = asyncio.ensure_future(_gone(process))
    try:
        await asyncio.shield(gone)
    finally:
        await gone


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Who has left the group may live on and keep the output open, for which asyncio would wait."""
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _OUTPUT_SECONDS)
