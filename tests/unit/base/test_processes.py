"""Processes are waited for until they are gone, also when the caller is cancelled."""

import asyncio
import os
import signal

import pytest

from mooring.base import processes
from mooring.base.processes import kill_and_wait, spawn
from running_up import is_alive

pytestmark = pytest.mark.req("S.4")


async def test_who_is_cancelled_while_a_process_ends_waits_until_it_is_gone() -> None:
    process = await spawn("sleep", "60")
    ending = asyncio.create_task(kill_and_wait(process))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert process.returncode is not None


async def test_who_is_cancelled_while_a_process_begins_leaves_none_behind() -> None:
    begun: list[asyncio.subprocess.Process] = []
    go_on = asyncio.Event()
    make = asyncio.create_subprocess_exec

    async def slow(*words: str, **settings: object) -> asyncio.subprocess.Process:
        begun.append(await make(*words, **settings))  # type: ignore[arg-type] # handed on as they come
        await go_on.wait()
        return begun[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "create_subprocess_exec", slow)
        beginning = asyncio.create_task(spawn("sleep", "60"))
        while not begun:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)
        beginning.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await beginning
    assert begun[0].returncode is not None


async def test_what_a_process_has_started_ends_with_it() -> None:
    process = await spawn("sh", "-c", "sleep 60 & echo $!; wait", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    await kill_and_wait(process)
    async with asyncio.timeout(20):
        while is_alive(child):  # noqa: ASYNC110 - of another process, without an event
            await asyncio.sleep(0.01)


async def test_what_has_left_the_group_and_keeps_the_output_open_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "_OUTPUT_SECONDS", 0.05)
    leaving = "setsid sh -c 'echo $$; exec sleep 60' & wait"
    process = await spawn("sh", "-c", leaving, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    left = int(await process.stdout.readline())
    async with asyncio.timeout(20):
        await kill_and_wait(process)
    assert process.returncode is not None
    assert is_alive(left)
    os.kill(left, signal.SIGKILL)
    await process.stdout.read()
