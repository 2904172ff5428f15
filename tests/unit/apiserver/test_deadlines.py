"""Requests that take too long are ended, and nothing else is."""

import asyncio

import pytest

from mooring.apiserver.deadlines import Deadlines

pytestmark = pytest.mark.req("S.6")


async def test_what_takes_too_long_is_ended() -> None:
    deadlines = Deadlines(0.05)
    with pytest.raises(TimeoutError), deadlines.begin():
        await asyncio.sleep(60)
    await asyncio.sleep(0)  # the task goes on as if nothing had happened
    with deadlines.begin():
        await asyncio.sleep(0.01)


async def test_what_is_within_goes_on_where_what_is_around_it_ends() -> None:
    outer, inner = Deadlines(0.05), Deadlines(60)
    with pytest.raises(TimeoutError), outer.begin(), inner.begin():
        await asyncio.sleep(60)


async def test_who_is_cancelled_by_others_is_not_told_of_time() -> None:
    deadlines = Deadlines(60)

    async def work() -> None:
        with deadlines.begin():
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_nothing_is_looked_at_where_nothing_is_open() -> None:
    deadlines = Deadlines(0.02)
    with deadlines.begin():
        pass
    await asyncio.sleep(0.01)
    assert deadlines._timer is None
