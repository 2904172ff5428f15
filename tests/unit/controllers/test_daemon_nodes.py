"""Which nodes get the pods of a DaemonSet, and how long finding that out keeps other controllers waiting."""

import asyncio
from itertools import count

import pytest

from mooring.api.core_v1 import PodSpec
from mooring.constraints.options import ConstraintOptions
from mooring.controllers.workloads.daemon_nodes import DaemonPlacement
from mooring.testing.builders import node


@pytest.mark.req("S.6")
async def test_other_controllers_run_while_a_template_is_evaluated_on_many_nodes() -> None:
    nodes = [node(f"n{number}") for number in range(40)]
    placement = DaemonPlacement(PodSpec(), ConstraintOptions())
    ticks = count()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await placement.evaluate_all(nodes, clock=lambda: next(ticks) * 0.01)  # each look at the clock takes 10 ms
    running.cancel()
    assert turns >= 10
    assert all(placement.evaluate(each).should_run for each in nodes)
