"""What takes too long is ended, and nothing else is."""

import asyncio

import pytest

from mooring.base.deadlines import Deadlines

pytestmark = pytest.mark.req("S.6")


async def test_what_takes_too_long_is_ended() -> None:
    deadlines = Deadlines()
    with pytest.raises(TimeoutError), deadlines.begin(0.05):
        await asyncio.sleep(60)
    await asyncio.sleep(0)  # the task goes on as if nothing had happened
    with deadlines.begin(0.05):
        await asyncio.sleep(0.01)


async def test_what_is_within_goes_on_where_what_is_around_it_ends() -> None:
    deadlines = Deadlines()
    with pytest.raises(TimeoutError), deadlines.begin(0.05), deadlines.begin(60):
        await asyncio.sleep(60)


async def test_what_has_little_time_is_ended_in_time_though_others_have_much() -> None:
    deadlines = Deadlines()
    begun = asyncio.get_running_loop().time()
    with deadlines.begin(60), pytest.raises(TimeoutError), deadlines.begin(0.05):
        await asyncio.sleep(60)
    assert asyncio.get_running_loop().time() - begun < 30


@pytest.mark.parametrize(
    ("seconds", "is_cancelled", "expected"),
    [(0, False, TimeoutError), (60, True, asyncio.CancelledError), (0, True, asyncio.CancelledError)],
    ids=["too late", "cancelled from outside", "both at once"],
)
async def test_who_is_cancelled_from_outside_is_not_told_that_it_took_too_long(
    seconds: float, is_cancelled: bool, expected: type[BaseException]
) -> None:
    deadlines = Deadlines()

    async def wait() -> None:
        with deadlines.begin(seconds):
            await asyncio.sleep(60)

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    if is_cancelled:
        task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)
    assert (type(outcome), task.cancelling()) == (expected, int(is_cancelled))


async def test_nothing_is_looked_at_where_nothing_is_open() -> None:
    deadlines = Deadlines()
    with deadlines.begin(0.02):
        pass
    await asyncio.sleep(0.01)
    assert deadlines._timer is None


async def test_what_had_little_time_makes_nobody_look_often_when_it_is_over() -> None:
    deadlines = Deadlines()
    with deadlines.begin(60):
        with deadlines.begin(0.02):
            pass
        await asyncio.sleep(0.01)
        assert deadlines._timer is not None
        assert deadlines._timer.when() - asyncio.get_running_loop().time() > 0.5
