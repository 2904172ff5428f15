"""How the stores of one process forget: by age, by size, and keys with a time to live."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.base import memory
from mooring.store import local
from mooring.store.errors import Compacted
from mooring.store.kv import Delete, Put
from mooring.store.local import LocalStore
from mooring.store.memory import MemoryStore
from mooring.store.mvcc import HistoryLimits
from mooring.store.sqlite import SqliteStore
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.2")

LIMITS = HistoryLimits(seconds=60, events=100, value_bytes=10_000)


@pytest.fixture
def clock() -> MockClock:
    return MockClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, clock: MockClock, tmp_path: Path) -> AsyncIterator[LocalStore]:
    store: LocalStore
    if request.param == "memory":
        store = await MemoryStore.open(clock=clock, limits=LIMITS)
    else:
        store = await SqliteStore.open(tmp_path, clock=clock, limits=LIMITS)
    yield store
    await store.close()


async def test_history_older_than_the_limit_is_forgotten(store: LocalStore, clock: MockClock) -> None:
    await store.write(Put("/r/a", b"1"))
    await store.maintain()
    clock.advance(59)
    await store.write(Put("/r/a", b"2"))
    await store.maintain()
    assert (await store.stats()).floor == 0
    clock.advance(1)
    await store.maintain()
    assert (await store.stats()).floor == 1


async def test_history_of_too_many_events_is_forgotten(store: LocalStore) -> None:
    for i in range(1000):
        await store.write(Put("/r/a", b"%d" % i))
        assert (await store.stats()).history_events <= 100
    assert (await store.stats()).floor >= 900


async def test_history_of_too_many_bytes_is_forgotten(store: LocalStore) -> None:
    for _ in range(50):
        await store.write(Put("/r/a", bytes(1000)))
        assert (await store.stats()).history_bytes <= 10_000
    assert (await store.stats()).history_events >= 8


async def test_values_that_were_deleted_count_and_those_that_are_there_do_not(store: LocalStore) -> None:
    await store.write_all([Put(f"/r/{number}", bytes(1000)) for number in range(50)])
    assert ((await store.stats()).history_events, (await store.stats()).history_bytes) == (50, 0)
    for number in range(50):
        await store.write(Delete(f"/r/{number}"))
        assert (await store.stats()).history_bytes <= 10_000
    assert (await store.stats()).history_events >= 8


async def test_memory_of_what_was_forgotten_by_age_is_given_back(
    store: LocalStore, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    monkeypatch.setattr(local, "_MIN_RELEASE_BYTES", 5_000)
    monkeypatch.setattr(memory, "release_free_memory", lambda: given.append(1))
    for _ in range(9):
        await store.write(Put("/r/a", bytes(1000)))
    await store.maintain()
    assert given == []
    clock.advance(60)
    await store.maintain()
    await store.maintain()
    assert given == [1]


async def test_a_watcher_too_slow_for_the_limits_is_dropped(store: LocalStore) -> None:
    with store.watch("/r/", after=0) as watcher:
        await store.write_all([Put(f"/r/{i}", b"") for i in range(200)])
        with pytest.raises(Compacted, match="revision 0 has been compacted: the oldest one still known is"):
            await watcher.next()


async def test_a_key_lives_as_long_as_it_was_given(store: LocalStore, clock: MockClock) -> None:
    await store.write(Put("/events/a", b"1", ttl=60))
    with store.watch("/events/", after=1) as watcher:
        clock.advance(59)
        await store.maintain()
        assert await store.get("/events/a")
        clock.advance(1)
        await store.maintain()
        assert await store.get("/events/a") is None
        assert [event.current for event in (await watcher.next()).events] == [None]


async def test_a_later_write_restarts_the_time_to_live(store: LocalStore, clock: MockClock) -> None:
    await store.write(Put("/events/a", b"1", ttl=60))
    await store.write(Put("/events/b", b"1", ttl=60))
    clock.advance(30)
    await store.write(Put("/events/a", b"2", ttl=60))
    await store.write(Put("/events/b", b"2"))
    clock.advance(30)
    await store.maintain()
    assert await store.count("/events/") == 2
    clock.advance(30)
    await store.maintain()
    assert [kv.key for kv in (await store.range("/events/")).items] == ["/events/b"]


async def test_more_keys_may_expire_than_go_into_one_group(store: LocalStore, clock: MockClock) -> None:
    await store.write_all([Put(f"/events/{i}", b"", ttl=1) for i in range(2500)])
    clock.advance(1)
    await store.maintain()
    assert await store.count("/events/") == 0


async def test_the_store_maintains_itself(store: LocalStore, clock: MockClock) -> None:
    await store.write(Put("/events/a", b"1", ttl=3))
    await asyncio.sleep(0)
    with store.watch("/events/", after=1) as watcher:
        async with asyncio.timeout(20):
            while not (await watcher.next(timeout=0.01)).events:
                clock.advance(1)


async def test_a_key_written_again_and_again_does_not_pile_up_expiry_dates(store: LocalStore) -> None:
    for _ in range(30):
        await store.write_all([Put("/events/a", b"", ttl=60) for _ in range(100)])
    assert len(store._state._expiring) <= 1100
