"""Many watchers, hostile bytes and slow clients: the server goes on for everybody else."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from raw_client import RawClient
from running_server import RunningServer, running_server

pytestmark = pytest.mark.req("S.1")

MAPS = "/api/v1/namespaces/default/configmaps"
WATCHERS = 1000 if os.environ.get("MOORING_FULL") else 200
INITIAL_EVENTS = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
LABEL_VALUES = 10_000 if os.environ.get("MOORING_FULL") else 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def memory_of(server: RunningServer) -> int:
    """Return the server's resident memory in bytes."""
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_every_one_of_many_watchers_hears_of_a_change(server: RunningServer) -> None:
    gate = asyncio.Semaphore(20)
    all_watch = asyncio.Barrier(WATCHERS + 1)

    async def listen() -> str:
        """Return what the watch sends after its first line, which shows that it is open."""
        async with gate:
            client = await RawClient.connect(server)
            watch = client.watch(f"{MAPS}?watch=1&fieldSelector=metadata.name%3Dloud&{INITIAL_EVENTS}")
            assert (await anext(watch))["type"] == "BOOKMARK"
        await all_watch.wait()
        async with client:
            event = await anext(watch)
            return f"{event['type']} {event['object']['metadata']['name']}"

    tasks = [asyncio.create_task(listen()) for _ in range(WATCHERS)]
    await asyncio.wait_for(all_watch.wait(), 90)
    async with await RawClient.connect(server) as writer:
        await writer.request("POST", MAPS, {"metadata": {"name": "quiet"}})
        await writer.request("POST", MAPS, {"metadata": {"name": "loud"}})
    reported = await asyncio.wait_for(asyncio.gather(*tasks), 30)
    assert reported == ["ADDED loud"] * WATCHERS


async def test_watchers_that_come_and_go_leave_nothing_behind(server: RunningServer) -> None:
    async def once() -> None:
        async with await RawClient.connect(server) as client:
            async for _ in client.watch(f"{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true"):
                return

    for _ in range(3):
        await asyncio.gather(*(once() for _ in range(20)))
    before = memory_of(server)
    for _ in range(10):
        await asyncio.gather(*(once() for _ in range(20)))
    assert memory_of(server) - before < 30 * 2**20


async def test_random_bytes_do_no_harm(server: RunningServer) -> None:
    generator = random.Random(7)
    host, port = server.address
    for number in range(40):
        tls = server.tls() if number % 2 else None
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        writer.write(generator.randbytes(generator.randrange(1, 5000)))
        with suppress(TimeoutError, OSError):
            await asyncio.wait_for(reader.read(100), 0.2)
        writer.transport.abort()
    async with await RawClient.connect(server) as client:
        assert (await client.request("GET", MAPS))[0] == 200
    assert "Traceback" not in server.log.read_text()


async def test_odd_requests_are_answered_with_a_status(server: RunningServer) -> None:
    generator = random.Random(11)
    values = ["", "0", "-1", "9" * 30, "true", "\x00", "é", "a,b", "%", "../..", "{}", "x" * 2000]
    names = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch"]
    names += ["timeoutSeconds", "sendInitialEvents", "dryRun", "fieldManager", "fieldValidation", "pretty"]
    async with await RawClient.connect(server) as client:
        for _ in range(300):
            method = generator.choice(["GET", "POST", "PUT", "PATCH", "DELETE"])
            path = generator.choice([MAPS, f"{MAPS}/none", "/api/v1/pods/x", "/apis/apps/v1/deployments"])
            given = {name: generator.choice(values) for name in generator.sample(names, 3)}
            query = urlencode(given)
            body: Any = generator.choice([None, [], {}, {"metadata": 5}, {"metadata": {"name": "a/b"}}, "text"])
            media_type = generator.choice(["", "application/merge-patch+json", "application/json-patch+json"])
            code, _ = await client.request(method, f"{path}?{query}", body, media_type)
            assert code < 500, (method, path, query, body)


async def test_many_label_values_are_listed_and_watched(server: RunningServer) -> None:
    async def create(client: RawClient, number: int) -> None:
        metadata = {"name": f"label-{number}", "labels": {"value": f"v{number}"}}
        assert (await client.request("POST", MAPS, {"metadata": metadata}))[0] == 201

    last = LABEL_VALUES - 1
    async with await RawClient.connect(server) as watcher:
        watch = watcher.watch(f"{MAPS}?watch=1&labelSelector=value%3Dv{last}")
        reported = asyncio.ensure_future(anext(watch))
        await for_each_label(server, create)
        assert (await asyncio.wait_for(reported, 10))["object"]["metadata"]["name"] == f"label-{last}"
    async with await RawClient.connect(server) as client:
        begun = time.monotonic()
        code, listed = await client.request("GET", f"{MAPS}?labelSelector=value%3Dv{last}")
        assert (code, [item["metadata"]["name"] for item in listed["items"]]) == (200, [f"label-{last}"])
        assert time.monotonic() - begun < 5


async def test_many_selectors_are_not_all_remembered(server: RunningServer) -> None:
    async def ask(client: RawClient, number: int) -> None:
        values = ",".join(f"v{number}-{each}" for each in range(50))
        query = urlencode({"labelSelector": f"value in ({values})"})
        code, listed = await client.request("GET", f"/api/v1/namespaces/none/configmaps?{query}")
        assert (code, listed["items"]) == (200, [])

    await for_each_label(server, ask)
    before = memory_of(server)
    await for_each_label(server, ask, LABEL_VALUES)
    assert memory_of(server) - before < 30 * 2**20


async def for_each_label(
    server: RunningServer, ask: Callable[[RawClient, int], Awaitable[None]], first: int = 0, clients: int = 8
) -> None:
    """Ask once with each label value, over several connections."""

    async def some(start: int) -> None:
        async with await RawClient.connect(server) as client:
            for number in range(start, first + LABEL_VALUES, clients):
                await ask(client, number)

    await asyncio.gather(*(some(first + start) for start in range(clients)))


async def test_a_client_that_sends_slowly_delays_no_other(server: RunningServer) -> None:
    host, port = server.address
    _, slow = await asyncio.open_connection(host, port, ssl=server.tls())
    slow.write(f"POST {MAPS} HTTP/1.1\r\nhost: test\r\ncontent-length: 1000\r\n\r\n".encode())
    await slow.drain()
    async with await RawClient.connect(server) as client:
        for _ in range(20):
            slow.write(b" ")
            await slow.drain()
            code, _ = await asyncio.wait_for(client.request("GET", f"{MAPS}?limit=10"), 5)
            assert code == 200
    slow.transport.abort()
