"""The writer thread works in order, and every caller gets the outcome."""

import asyncio
import threading

import pytest

from mooring.store.sqlite import Worker


async def test_a_worker_answers_or_fails_as_the_function_does() -> None:
    worker = Worker("tested")
    assert await worker.run(divmod, 7, 2) == (3, 1)
    assert await worker.run(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        await worker.run(divmod, 7, 0)
    worker.stop()


async def test_a_worker_finishes_in_order_also_what_no_caller_waits_for() -> None:
    worker, go, done = Worker("tested"), threading.Event(), list[int]()
    first = asyncio.create_task(worker.run(go.wait))
    second = asyncio.create_task(worker.run(done.append, 2))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    await second
    assert await worker.run(list, done) == [2]
    assert first.cancelled()
    worker.stop()


async def test_a_worker_that_is_stopped_ends_when_all_is_done() -> None:
    worker = Worker("tested to its end")
    asked = asyncio.create_task(worker.run(threading.current_thread))
    await asyncio.sleep(0)
    worker.stop()
    thread = await asked
    thread.join(10)
    assert not thread.is_alive()


def test_a_worker_outlives_its_loop() -> None:
    go, ended = threading.Event(), threading.Event()

    async def ask() -> None:
        worker = Worker("tested without a loop")
        asyncio.get_running_loop().create_task(worker.run(go.wait))
        asyncio.get_running_loop().create_task(worker.run(ended.set))
        await asyncio.sleep(0)

    asyncio.run(ask())
    go.set()
    assert ended.wait(10)
