"""`kill -9` under many writers: what was acknowledged is there, and watches go on without gap or duplicate."""

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from raw_client import RawClient
from running_server import RunningServer, start_server

pytestmark = pytest.mark.req("S.2")

WRITERS = 64
GROUPERS = 4
ROUNDS = 5 if os.environ.get("MOORING_FULL") else 2
SEEDS = range(10 if os.environ.get("MOORING_FULL") else 1)
MAPS = "/api/v1/namespaces/default/configmaps"
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)


@dataclass
class Ledger:
    """Hold what the server has acknowledged, and what a watcher has received."""

    written: dict[int, str] = field(default_factory=dict)
    """The name that each acknowledged revision wrote."""
    latest: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Revision and value of each object, as last acknowledged."""
    reported: list[int] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the server has acknowledged something in this round."""

    def acknowledge(self, name: str, body: Any) -> None:
        revision = int(body["metadata"]["resourceVersion"])
        assert revision not in self.written, f"revision {revision} was given twice"
        self.written[revision] = name
        self.begun.set()
        self.latest[name] = (revision, body["data"]["n"])


async def write(server: RunningServer, ledger: Ledger, number: int, turn: int) -> None:
    """Create an object and change it, again and again, until the server is gone."""
    try:
        async with await RawClient.connect(server) as client:
            for count in range(100_000):
                name = f"w{number}-{turn}-{count // 4}"
                value = str(count)
                if count % 4 == 0:
                    body = {"metadata": {"name": name}, "data": {"n": value}}
                    code, answer = await client.request("POST", MAPS, body)
                    assert code == 201, answer
                else:
                    patch = {"data": {"n": value}}
                    code, answer = await client.request(
                        "PATCH", f"{MAPS}/{name}", patch, "application/merge-patch+json"
                    )
                    assert code == 200, answer
                ledger.acknowledge(name, answer)
    except BROKEN:
        return


async def batch_writes(server: RunningServer, ledger: Ledger, number: int, turn: int) -> None:
    """Create objects ten at a time in one request, again and again, until the server is gone."""
    try:
        async with await RawClient.connect(server) as client:
            for count in range(100_000):
                names = [f"g{number}-{turn}-{count}-{place}" for place in range(10)]
                bodies = [{"metadata": {"name": name}, "data": {"n": str(count)}} for name in names]
                items = [{"method": "POST", "path": MAPS, "body": body} for body in bodies]
                code, answer = await client.request("POST", "/writes", {"items": items})
                assert code == 200, answer
                for name, item in zip(names, answer["items"], strict=True):
                    assert item["code"] == 201, item
                    ledger.acknowledge(name, item["body"])
    except BROKEN:
        return


async def follow(server: RunningServer, ledger: Ledger, seconds: float | None = None) -> None:
    """Watch from the last event on, until the server is gone or the time is over."""
    after = ledger.reported[-1] if ledger.reported else 1
    limit = f"&timeoutSeconds={seconds:.0f}" if seconds else ""
    try:
        async with await RawClient.connect(server) as client:
            async for event in client.watch(f"{MAPS}?watch=1&resourceVersion={after}{limit}"):
                assert event["type"] != "ERROR", event
                ledger.reported.append(int(event["object"]["metadata"]["resourceVersion"]))
    except BROKEN:
        return


async def check(server: RunningServer, ledger: Ledger) -> None:
    async with await RawClient.connect(server) as client:
        _, listed = await client.request("GET", MAPS)
    found = {item["metadata"]["name"]: item for item in listed["items"]}
    for name, (revision, value) in ledger.latest.items():
        item = found[name]
        there = int(item["metadata"]["resourceVersion"])
        assert there >= revision, f"{name} was acknowledged at {revision} and is at {there}"
        if there == revision:
            assert item["data"]["n"] == value
    async with asyncio.timeout(60):
        while max(ledger.reported, default=0) < max(ledger.written, default=0):
            await follow(server, ledger, seconds=1)
    assert ledger.reported == sorted(set(ledger.reported)), "an event came twice or out of order"
    assert not set(ledger.written) - set(ledger.reported), "an acknowledged write was never told"
    assert int(listed["metadata"]["resourceVersion"]) >= max(ledger.written, default=0)


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    ledger = Ledger()
    generator = random.Random(seed)
    for turn in range(ROUNDS):
        server = start_server(tmp_path, "--client-qps", "100000")
        try:
            ledger.begun.clear()
            tasks = [asyncio.create_task(write(server, ledger, number, turn)) for number in range(WRITERS)]
            tasks += [asyncio.create_task(batch_writes(server, ledger, number, turn)) for number in range(GROUPERS)]
            tasks.append(asyncio.create_task(follow(server, ledger)))
            await asyncio.wait_for(ledger.begun.wait(), 30)
            await asyncio.sleep(generator.uniform(0.05, 0.8))
        finally:
            server.kill()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        server = start_server(tmp_path)
        try:
            await check(server, ledger)
        finally:
            assert server.stop() == 0
    assert len(ledger.written) > ROUNDS * WRITERS
