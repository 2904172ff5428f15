"""Run coroutines side by side."""

import asyncio
from collections.abc import Coroutine
from typing import Any


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
