"""Three members of etcd that die, hang and come back at random, under three stores that count: every count is exact."""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from etcd_servers import EtcdMember, EtcdServers, etcd_cluster
from mooring.store.errors import Unreachable
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Delete, Event, Put, Store

pytestmark = pytest.mark.req("S.7")

_COUNTERS = 5


class Ledger:
    """Hold the answers that writers got."""

    def __init__(self) -> None:
        self.stopping = False
        self.swapped: Counter[str] = Counter()
        self.created: set[str] = set()
        self.deleted: set[str] = set()
        self.unknown: Counter[str] = Counter()
        self.writes = 0


async def count(store: Store, ledger: Ledger, chance: random.Random) -> None:
    """Add one to a counter, again and again. Nothing in the value says who did so."""
    while not ledger.stopping:
        key = f"/r/counter-{chance.randrange(_COUNTERS)}"
        try:
            kv = await store.get(key)
            value = b"%d" % (counted(kv.value) + 1 if kv else 1)
            outcome = await store.write(Put(key, value, expect=kv.mod_revision if kv else 0))
        except Unreachable:
            ledger.unknown[key] += 1
            continue
        ledger.writes += 1
        if isinstance(outcome, Event):
            ledger.swapped[key] += 1


def counted(value: bytes) -> int:
    return int(value)


async def create_and_delete(store: Store, ledger: Ledger, chance: random.Random, name: str) -> None:
    """Create keys, and delete every other one."""
    number = 0
    while not ledger.stopping:
        number += 1
        key = f"/r/{name}-{number}"
        try:
            outcome = await store.write(Put(key, key.encode(), expect=0))
            assert isinstance(outcome, Event), f"nobody else creates {key}, but it was there: {outcome}"
            ledger.created.add(key)
            ledger.writes += 1
            if chance.random() < 0.5:
                deleted = await store.write(Delete(key, expect=outcome.revision))
                assert isinstance(deleted, Event), f"nobody else changes {key}, but somebody did: {deleted}"
                ledger.deleted.add(key)
        except Unreachable:
            ledger.unknown[key] += 1
        await asyncio.sleep(0)


async def disturb(etcd: EtcdServers, seconds: float, chance: random.Random) -> None:
    """One member at a time: kill it or let it hang, and bring it back."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        await asyncio.sleep(chance.uniform(0.2, 1.0))
        member = chance.choice(etcd.members)
        if chance.random() < 0.5:
            member.kill()
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            member.start()
        else:
            member.pause()
            await asyncio.sleep(chance.uniform(0.1, 3.0))
            member.resume()
        await until_healthy(member)


async def until_healthy(member: EtcdMember) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(member.healthy):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)


async def follow(store: Store, after: int, until: asyncio.Future[int]) -> list[Event]:
    """All events of a watch, up to a revision that is known in the end."""
    events: list[Event] = []
    with store.watch("/r/", after=after) as watcher:
        while True:
            batch = await watcher.next(timeout=0.1)
            events += batch.events
            if until.done() and batch.revision >= until.result():
                return events


@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.slow)])
async def test_every_acknowledged_write_happened_once(tmp_path: Path, seconds: float) -> None:
    seed = int(os.environ.get("MOORING_SEED", random.randrange(10**6)))
    print(f"MOORING_SEED={seed}")
    chance = random.Random(seed)
    with etcd_cluster(tmp_path, members=3, tls=True) as etcd:
        config = etcd.fresh(attempt_seconds=1.0)
        stores = [await EtcdStore.open(config) for _ in range(3)]
        ledger = Ledger()
        start = await stores[0].revision()
        end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        watches = [asyncio.create_task(follow(store, start, end)) for store in stores]
        writers = [
            asyncio.create_task(work)
            for number, store in enumerate(stores)
            for work in (
                count(store, ledger, chance),
                count(store, ledger, chance),
                create_and_delete(store, ledger, chance, f"{number}-a"),
                create_and_delete(store, ledger, chance, f"{number}-b"),
            )
        ]
        await disturb(etcd, seconds, chance)
        ledger.stopping = True
        async with asyncio.timeout(40):
            await asyncio.gather(*writers)
            end.set_result(await stores[0].revision())
            reported = await asyncio.gather(*watches)
        pages = [await store.range("/r/") for store in stores]
        for store in stores:
            await store.close()
    check(ledger, reported, {kv.key: kv.value for kv in pages[0].items})
    assert pages[0].items == pages[1].items == pages[2].items
    assert ledger.writes > 20 * seconds


def check(ledger: Ledger, reported: list[list[Event]], present: dict[str, bytes]) -> None:
    assert reported[0] == reported[1] == reported[2]
    replayed: dict[str, bytes] = {}
    revision = 0
    for event in reported[0]:
        assert event.revision > revision
        revision = event.revision
        before = replayed.pop(event.key, None)
        assert before == (event.previous.value if event.previous else None)
        if event.current:
            replayed[event.key] = event.current.value
    assert replayed == present
    for key, swaps in ledger.swapped.items():
        assert swaps <= counted(present[key]) <= swaps + ledger.unknown[key]
    sure = {key for key in ledger.created if not ledger.unknown[key]}
    assert sure - ledger.deleted <= present.keys()
    assert not ledger.deleted & present.keys()
    creations = Counter(event.key for event in reported[0] if event.previous is None)
    assert all(times == 1 for key, times in creations.items())


def test_the_check_notices_a_write_that_was_lost() -> None:
    ledger = Ledger()
    ledger.created.add("/r/a")
    with pytest.raises(AssertionError):
        check(ledger, [[], [], []], {})
