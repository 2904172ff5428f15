"""The work queue: each item once, in one worker's hands at a time, later after each failure."""

import asyncio
import random

import pytest

from mooring.client import Backoff, WorkQueue
from mooring.testing.clock import MockClock, settle


def queue_of(clock: MockClock, **options: float) -> WorkQueue[str]:
    return WorkQueue(clock, Backoff(initial=options.get("initial", 1.0), maximum=options.get("maximum", 60.0)))


async def test_an_item_that_waits_is_not_added_twice() -> None:
    queue = queue_of(MockClock())
    for item in ("a", "b", "a"):
        queue.add(item)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_an_item_added_while_it_is_worked_on_comes_back_when_that_is_done() -> None:
    queue = queue_of(MockClock())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert (len(queue), queue.in_progress) == (0, 1)
    queue.done("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    assert (len(queue), queue.in_progress) == (0, 0)


async def test_a_delayed_item_comes_when_it_is_due() -> None:
    clock = MockClock()
    queue = queue_of(clock)
    queue.add_after("late", 10)
    queue.add_after("soon", 5)
    queue.add_after("now", 0)
    assert len(queue) == 1
    await clock.run(5)
    assert [await queue.get(), await queue.get()] == ["now", "soon"]
    await clock.run(4.9)
    assert len(queue) == 0
    await clock.run(0.1)
    assert await queue.get() == "late"


async def test_of_several_delays_the_earliest_counts() -> None:
    clock = MockClock()
    queue = queue_of(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 20)
    await clock.run(3)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.run(30)
    assert len(queue) == 0


async def test_each_failure_doubles_the_delay_and_success_forgets_them() -> None:
    clock = MockClock()
    queue = queue_of(clock, initial=1.0, maximum=5.0)
    delays = []
    for _ in range(5):
        delays.append(queue.add_rate_limited("a"))
        await clock.run(5)
        assert await queue.get() == "a"
        queue.done("a")
    assert delays == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert queue.failures("a") == 5
    queue.forget("a")
    assert queue.add_rate_limited("a") == 1.0


async def test_failures_of_one_item_do_not_delay_another() -> None:
    queue = queue_of(MockClock())
    for _ in range(4):
        queue.add_rate_limited("a")
    assert queue.add_rate_limited("b") == 1.0


async def test_shutting_down_hands_out_what_is_ready_and_then_nothing() -> None:
    queue = queue_of(MockClock())
    queue.add("a")
    queue.add_after("never", 5)
    queue.shut_down()
    queue.add("too late")
    assert [await queue.get(), await queue.get()] == ["a", None]


async def test_shutting_down_wakes_those_who_wait() -> None:
    queue = queue_of(MockClock())
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await settle()
    queue.shut_down()
    assert await asyncio.gather(*waiting) == [None, None, None]


async def test_an_item_is_not_lost_when_the_one_who_was_woken_for_it_is_cancelled() -> None:
    queue = queue_of(MockClock())
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await settle()
    queue.add("a")
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_many_workers_never_share_an_item_and_leave_nothing() -> None:
    clock, chosen = MockClock(), random.Random(1)
    queue = queue_of(clock)
    working: set[str] = set()
    wanted, served = dict.fromkeys("abcde", 0), dict.fromkeys("abcde", 0)

    async def work() -> None:
        while (item := await queue.get()) is not None:
            assert item not in working
            working.add(item)
            served[item] = wanted[item]
            await clock.sleep(chosen.choice([0, 0.5, 1]))
            working.remove(item)
            queue.done(item)

    workers = [asyncio.ensure_future(work()) for _ in range(3)]
    for _ in range(200):
        item = chosen.choice("abcde")
        wanted[item] += 1
        match chosen.randrange(3):
            case 0:
                queue.add(item)
            case 1:
                queue.add_after(item, 0.7)
            case 2:
                queue.add_rate_limited(item)
        if chosen.random() < 0.3:
            await clock.run(0.4)
    await clock.run(300)
    assert served == wanted, "the last wish of each item was seen"
    queue.shut_down()
    await asyncio.gather(*workers)


@pytest.mark.parametrize(
    ("backoff", "failures", "low", "high"),
    [
        pytest.param(Backoff(1, 30), 0, 0, 0, id="no failure, no delay"),
        pytest.param(Backoff(1, 30), 3, 4, 4, id="doubles"),
        pytest.param(Backoff(1, 30), 5000, 30, 30, id="does not overflow"),
        pytest.param(Backoff(1, 30, factor=3), 2, 3, 3, id="another factor"),
        pytest.param(Backoff(1, 30, jitter=0.5), 2, 2, 3, id="jitter adds up to its part"),
        pytest.param(Backoff(1, 30, jitter=0.5), 9, 30, 30, id="jitter stays below the maximum"),
    ],
)
def test_backoff(backoff: Backoff, failures: int, low: float, high: float) -> None:
    assert all(low <= backoff.delay(failures) <= high for _ in range(20))
