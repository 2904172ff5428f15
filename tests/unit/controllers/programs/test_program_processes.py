"""A program that is ended leaves no process, whichever callers are cancelled meanwhile."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from mooring.base import processes
from mooring.base.clock import SystemClock
from mooring.controllers.programs.process import LogFile, start
from running_up import is_alive

pytestmark = pytest.mark.req("S.4")


async def test_a_caller_cancelled_while_a_child_keeps_the_output_open_leaves_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_OUTPUT_SECONDS", 0.05)
    path = tmp_path / "log"
    words = ["sh", "-c", "setsid sh -c 'echo $$; exec sleep 60' & wait"]
    process = await start(words, os.environ, "", LogFile(path, SystemClock()), None)
    async with asyncio.timeout(20):
        while not path.read_text():  # noqa: ASYNC110 - of another process, without an event
            await asyncio.sleep(0.01)
    child = int(path.read_text().split()[1])
    ending = asyncio.create_task(process.end())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await asyncio.sleep(0)
    try:
        assert is_alive(child)
        assert asyncio.all_tasks() == {asyncio.current_task()}
    finally:
        os.kill(child, signal.SIGKILL)
        while is_alive(child):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
        for _ in range(10):  # in which asyncio notices that the output has ended, and closes it
            await asyncio.sleep(0)
