"""How a server stops behind a balancer: it says so, serves on for a while, and only then goes."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raw_client import RawClient
from running_server import RunningServer, start_server

pytestmark = pytest.mark.req("S.3")
PODS = "/api/v1/namespaces/default/pods"


async def test_a_server_that_is_asked_to_stop_serves_on_until_balancers_know(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--shutdown-delay-duration", "4s")
    async with await RawClient.connect(server) as kept, await RawClient.connect(server) as watching:
        events = watching.watch(f"{PODS}?watch=true")
        ended = asyncio.ensure_future(_drained(events))
        assert (await kept.request("GET", PODS))[0] == 200
        server.process.send_signal(signal.SIGTERM)
        reported = time.monotonic()
        while await _is_ready(server):
            assert time.monotonic() - reported < 3, "it goes on as if nothing had been said"
        async with await RawClient.connect(server) as late:
            assert (await late.request("GET", PODS))[0] == 200, "clients who have not noticed are served"
        assert (await kept.request("GET", PODS))[0] == 200
        with pytest.raises((OSError, EOFError)):
            await kept.request("GET", PODS)  # the answer before asked the client to use another connection
        assert not ended.done(), "watches go on until the end of the delay"
        async with asyncio.timeout(10):
            await ended  # cleanly: a watch that was cut off would raise
    assert await asyncio.to_thread(server.process.wait, 10) == 0
    assert time.monotonic() - reported > 3.9
    server.stop()


async def test_a_second_signal_does_not_wait_for_the_delay(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--shutdown-delay-duration", "1m")
    server.process.send_signal(signal.SIGTERM)
    while await _is_ready(server):
        pass
    server.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(server.process.wait, 10) == 0
    server.stop()


async def _is_ready(server: RunningServer) -> bool:
    async with await RawClient.connect(server) as probe:
        return await probe.status("/readyz") == 200


async def _drained(events: AsyncIterator[dict[str, Any]]) -> None:
    async for _ in events:
        pass
