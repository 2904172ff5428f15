"""Child processes that never outlive the cancelled task that started them.

Each process leads a process group, which is killed as a whole. Used by simulated nodes that run programs
(``controllers``) and for `kubectl exec` into such programs (``apiserver``).
"""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

_OUTPUT_SECONDS = 1.0


async def spawn(*words: str, stdin: int = asyncio.subprocess.DEVNULL, **settings: Any) -> asyncio.subprocess.Process:
    """Start a process as `asyncio.create_subprocess_exec` does; kill it if the caller is cancelled while it starts."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*words, stdin=stdin, start_new_session=True, **settings)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await kill_and_wait(await starting)
        raise


async def kill_and_wait(process: asyncio.subprocess.Process) -> None:
    """Kill the process group of a `spawn`ed process and wait until it is reaped, even if cancelled."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    waiting = asyncio.ensure_future(_wait_bounded(process))
    try:
        await asyncio.shield(waiting)
    finally:
        await waiting


async def _wait_bounded(process: asyncio.subprocess.Process) -> None:
    """Wait for the process, but not for descendants that left the group and hold its output open."""
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _OUTPUT_SECONDS)
