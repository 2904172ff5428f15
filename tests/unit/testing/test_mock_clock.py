import asyncio

from mooring.testing.clock import MockClock, settle


async def test_sleepers_wake_in_order_when_time_passes() -> None:
    clock, woken = MockClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (30, 10, 20)]
    await settle()
    clock.advance(25)
    await settle()
    assert woken == [10, 20]
    clock.advance(5)
    await asyncio.gather(*tasks)
    assert woken == [10, 20, 30]


async def test_run_wakes_one_who_sleeps_again() -> None:
    clock, times = MockClock(), []

    async def ticker() -> None:
        while True:
            await clock.sleep(10)
            times.append(clock.monotonic())

    task = asyncio.create_task(ticker())
    await clock.run(35)
    task.cancel()
    assert times == [10, 20, 30]
