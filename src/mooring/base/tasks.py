"""Run coroutines side by side, and work on large inputs in a thread."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")
LARGE = 50_000
"""Inputs of more bytes are processed in the thread."""
_THREAD = ThreadPoolExecutor(1, "large objects")


async def run_until_one_ends(*work: Coroutine[Any, Any, object]) -> list[object]:
    """Run coroutines until the first ends and cancel the others; return the result or the exception of each."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended: list[object] = await asyncio.gather(*tasks, return_exceptions=True)
    return ended


async def run_by_size(work: Callable[[], T], size: int) -> T:
    """Call a function on an input of `size` bytes: directly or, if it is large, in a thread, so that others go on."""
    if size <= LARGE:
        return work()
    context = copy_context()  # of the budget of a validation
    return await asyncio.get_running_loop().run_in_executor(_THREAD, context.run, work)
