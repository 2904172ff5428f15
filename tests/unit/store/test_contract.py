"""What every store promises. A new backend joins by adding itself to `BACKENDS`.

Revisions in the tests begin at 0. Those of an etcd that many tests share begin anywhere, so `from_zero` subtracts that.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from etcd_servers import EtcdServers
from from_zero import FromZero
from mooring.store.errors import Closed, Compacted, FutureRevision, StoreError, TooLarge
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import (
    JUST_WRITTEN,
    MAX_VALUE_BYTES,
    Conflict,
    Delete,
    Event,
    KeyValue,
    Outcome,
    Put,
    Store,
    Write,
)
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore

pytestmark = pytest.mark.req("S.2")

Open = Callable[[pytest.FixtureRequest], Awaitable[Store]]


async def open_memory(request: pytest.FixtureRequest) -> Store:
    return await MemoryStore.open()


async def open_sqlite(request: pytest.FixtureRequest) -> Store:
    directory: Path = request.getfixturevalue("tmp_path")
    return await SqliteStore.open(directory)


async def open_etcd(request: pytest.FixtureRequest) -> Store:
    etcd: EtcdServers = request.getfixturevalue("etcd")
    return await FromZero.wrap(await EtcdStore.open(etcd.fresh()))


BACKENDS: dict[str, Open] = {"memory": open_memory, "sqlite": open_sqlite, "etcd": open_etcd}


@pytest.fixture(params=BACKENDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    store = await BACKENDS[request.param](request)
    yield store
    await store.close()


def reported(outcome: Outcome) -> str:
    """Return an outcome in short: what happened, and the value that is there now."""
    match outcome:
        case Conflict(current=None):
            return "conflict: absent"
        case Conflict(current=KeyValue(value=value)):
            return f"conflict: {value.decode()}"
        case Event(previous=None, current=KeyValue(value=value)):
            return f"{outcome.revision} created: {value.decode()}"
        case Event(previous=KeyValue(value=old), current=KeyValue(value=value)):
            return f"{outcome.revision} updated: {old.decode()} to {value.decode()}"
        case Event(previous=KeyValue(value=old)):
            return f"{outcome.revision} deleted: {old.decode()}"
    raise AssertionError(outcome)


async def filled(store: Store, *names: str) -> None:
    for name in names:
        await store.write(Put(f"/r/{name}", name.encode()))


async def names(store: Store, prefix: str = "/r/", after_key: str = "", limit: int = 0, revision: int = -1) -> str:
    page = await store.range(prefix, after_key=after_key, limit=limit, revision=None if revision < 0 else revision)
    return " ".join(kv.key.removeprefix("/r/") + "=" + kv.value.decode() for kv in page.items)


@dataclass(frozen=True)
class WriteCase:
    id: str
    writes: list[Write]
    outcomes: list[str]


WRITES = [
    WriteCase("a create of an absent key succeeds", [Put("/r/a", b"1", expect=0)], ["1 created: 1"]),
    WriteCase(
        "a create of a present key conflicts and shows what is there",
        [Put("/r/a", b"1"), Put("/r/a", b"2", expect=0)],
        ["1 created: 1", "conflict: 1"],
    ),
    WriteCase(
        "a swap of the revision that is there succeeds",
        [Put("/r/a", b"1"), Put("/r/a", b"2", expect=1)],
        ["1 created: 1", "2 updated: 1 to 2"],
    ),
    WriteCase(
        "a swap of an older revision conflicts and uses no revision",
        [Put("/r/a", b"1"), Put("/r/a", b"2"), Put("/r/a", b"3", expect=1), Put("/r/a", b"4")],
        ["1 created: 1", "2 updated: 1 to 2", "conflict: 2", "3 updated: 2 to 4"],
    ),
    WriteCase("a swap of an absent key conflicts", [Put("/r/a", b"1", expect=7)], ["conflict: absent"]),
    WriteCase(
        "a put without a precondition always succeeds",
        [Put("/r/a", b"1"), Put("/r/a", b"2"), Put("/r/a", b"3")],
        ["1 created: 1", "2 updated: 1 to 2", "3 updated: 2 to 3"],
    ),
    WriteCase(
        "a delete of the revision that is there succeeds",
        [Put("/r/a", b"1"), Delete("/r/a", expect=1)],
        ["1 created: 1", "2 deleted: 1"],
    ),
    WriteCase(
        "a delete of an older revision conflicts",
        [Put("/r/a", b"1"), Put("/r/a", b"2"), Delete("/r/a", expect=1)],
        ["1 created: 1", "2 updated: 1 to 2", "conflict: 2"],
    ),
    WriteCase("a delete of an absent key conflicts", [Delete("/r/a")], ["conflict: absent"]),
    WriteCase(
        "a key that was deleted can be created again",
        [Put("/r/a", b"1"), Delete("/r/a"), Put("/r/a", b"2", expect=0)],
        ["1 created: 1", "2 deleted: 1", "3 created: 2"],
    ),
]


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.id)
async def test_writes_one_by_one(store: Store, case: WriteCase) -> None:
    assert [reported(await store.write(write)) for write in case.writes] == case.outcomes


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.id)
async def test_writes_in_one_group_have_outcomes_of_their_own(store: Store, case: WriteCase) -> None:
    assert [reported(outcome) for outcome in await store.write_all(case.writes)] == case.outcomes


FOLLOWING = [
    WriteCase(
        "a delete follows on the put before it",
        [Put("/r/a", b"1"), Put("/r/a", b"2", expect=1), Delete("/r/a", expect=JUST_WRITTEN)],
        ["1 created: 1", "2 updated: 1 to 2", "3 deleted: 2"],
    ),
    WriteCase(
        "what follows on a write that was refused is refused",
        [Put("/r/a", b"1"), Put("/r/a", b"2", expect=7), Delete("/r/a", expect=JUST_WRITTEN), Put("/r/a", b"3")],
        ["1 created: 1", "conflict: 1", "conflict: 1", "2 updated: 1 to 3"],
    ),
    WriteCase(
        "a put follows on a put, and another on that",
        [Put("/r/a", b"1"), Put("/r/a", b"2", expect=JUST_WRITTEN), Put("/r/a", b"3", expect=JUST_WRITTEN)],
        ["1 created: 1", "2 updated: 1 to 2", "3 updated: 2 to 3"],
    ),
    WriteCase(
        "nothing follows on a write to another key",
        [Put("/r/a", b"1"), Delete("/r/b", expect=JUST_WRITTEN)],
        ["1 created: 1", "conflict: absent"],
    ),
    WriteCase(
        "nothing follows on a delete",
        [Put("/r/a", b"1"), Delete("/r/a"), Put("/r/a", b"2", expect=JUST_WRITTEN)],
        ["1 created: 1", "2 deleted: 1", "conflict: absent"],
    ),
    WriteCase("nothing follows on nothing", [Put("/r/a", b"1", expect=JUST_WRITTEN)], ["conflict: absent"]),
]


@pytest.mark.parametrize("case", FOLLOWING, ids=lambda case: case.id)
async def test_a_write_may_expect_what_was_just_written(store: Store, case: WriteCase) -> None:
    assert [reported(outcome) for outcome in await store.write_all(case.writes)] == case.outcomes


async def test_an_empty_group_is_no_write(store: Store) -> None:
    assert await store.write_all([]) == []
    assert await store.revision() == 0


@dataclass(frozen=True)
class TogetherCase:
    """Writes after /r/a and /r/b were written, at revisions 1 and 2."""

    id: str
    writes: list[Write]
    outcomes: list[str]
    after: str


TOGETHER = [
    TogetherCase(
        "all are done where every precondition holds",
        [Put("/r/a", b"2", expect=1), Delete("/r/b", expect=2), Put("/r/c", b"1", expect=0)],
        ["updated: a to 2", "deleted: b", "created: 1"],
        "a=2 c=1",
    ),
    TogetherCase(
        "none is done where one conflicts, and the others are not told of",
        [Put("/r/a", b"2", expect=1), Put("/r/b", b"2", expect=1), Put("/r/c", b"1", expect=0)],
        ["conflict: b"],
        "a=a b=b",
    ),
    TogetherCase(
        "all that conflict are told of",
        [Put("/r/a", b"2", expect=0), Put("/r/c", b"1"), Delete("/r/d"), Delete("/r/b", expect=1)],
        ["conflict: a", "conflict: absent", "conflict: b"],
        "a=a b=b",
    ),
    TogetherCase("nothing is no write", [], [], "a=a b=b"),
]


@pytest.mark.parametrize("case", TOGETHER, ids=lambda case: case.id)
async def test_writes_together_are_all_done_or_none(store: Store, case: TogetherCase) -> None:
    await filled(store, "a", "b")
    before = await store.revision()
    outcomes = await store.write_together(case.writes)
    assert [reported(outcome).lstrip("0123456789 ") for outcome in outcomes] == case.outcomes
    assert await names(store) == case.after
    with store.watch("/r/", after=before) as watcher:
        seen = (await watcher.next(timeout=0)).events
        assert [event.key for event in seen] == [event.key for event in outcomes if isinstance(event, Event)]


async def test_of_racing_groups_that_share_a_key_one_is_done_at_a_time(store: Store) -> None:
    await filled(store, "sum")

    async def add(number: int) -> None:
        while True:
            there = await store.get("/r/sum")
            assert there is not None
            total = Put("/r/sum", there.value + b"+", expect=there.mod_revision)
            if isinstance((await store.write_together([total, Put(f"/r/{number}", b"", expect=0)]))[0], Event):
                return

    await asyncio.gather(*map(add, range(12)))
    found = await store.get("/r/sum")
    assert found is not None
    assert found.value == b"sum" + b"+" * 12
    assert await store.count("/r/") == 13


async def test_an_update_keeps_the_revision_of_creation(store: Store) -> None:
    await filled(store, "a", "b")
    await store.write(Put("/r/a", b"2"))
    assert await store.get("/r/a") == KeyValue("/r/a", b"2", create_revision=1, mod_revision=3)


async def test_a_key_created_again_has_a_new_revision_of_creation(store: Store) -> None:
    await filled(store, "a")
    await store.write_all([Delete("/r/a"), Put("/r/a", b"2")])
    assert await store.get("/r/a") == KeyValue("/r/a", b"2", create_revision=3, mod_revision=3)


async def test_an_absent_key_is_none(store: Store) -> None:
    await filled(store, "a")
    assert await store.get("/r/") is None
    assert await store.get("/r/b") is None


async def test_one_of_many_racing_swaps_wins(store: Store) -> None:
    await filled(store, "a")
    outcomes = await asyncio.gather(*(store.write(Put("/r/a", b"%d" % i, expect=1)) for i in range(20)))
    assert [isinstance(outcome, Event) for outcome in outcomes].count(True) == 1


async def test_racing_writers_get_every_revision_once(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.write(Put(f"/r/{i}", b"")) for i in range(100)))
    assert sorted(outcome.revision for outcome in outcomes if isinstance(outcome, Event)) == list(range(1, 101))


async def test_a_cancelled_writer_does_not_disturb_the_others(store: Store) -> None:
    tasks = [asyncio.create_task(store.write(Put(f"/r/{i}", b""))) for i in range(10)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(result, Event) for result in results) >= 9
    assert isinstance(await store.write(Put("/r/a", b"")), Event)


@dataclass(frozen=True)
class BadCase:
    id: str
    write: Put
    message: str


BAD_WRITES = [
    BadCase("an empty key", Put("", b""), "must not be empty"),
    BadCase("a key that looks like a prefix", Put("/r/", b""), "end with '/'"),
    BadCase("a key with NUL", Put("/r/a\0b", b""), "contain NUL"),
    BadCase("a key that is no Unicode", Put("/r/\ud800", b""), "surrogates"),
    BadCase("a value that is no bytes", Put("/r/a", "text"), "must be bytes"),  # type: ignore[arg-type]  # the point
]


@pytest.mark.parametrize("case", BAD_WRITES, ids=lambda case: case.id)
async def test_bad_writes_are_refused_alone(store: Store, case: BadCase) -> None:
    good = asyncio.create_task(store.write(Put("/r/good", b"")))
    with pytest.raises((ValueError, TypeError), match=case.message):
        await store.write(case.write)
    assert isinstance(await good, Event)


async def test_a_value_that_is_too_large_is_refused_alone(store: Store) -> None:
    good = asyncio.create_task(store.write(Put("/r/good", b"")))
    with pytest.raises(TooLarge, match=f"limit is {MAX_VALUE_BYTES}"):
        await store.write(Put("/r/a", b" " * (MAX_VALUE_BYTES + 1)))
    assert isinstance(await good, Event)


async def test_a_prefix_must_end_with_a_slash(store: Store) -> None:
    with pytest.raises(ValueError, match="end with '/'"):
        await store.range("/r")
    with pytest.raises(ValueError, match="end with '/'"):
        await store.count("/r")


@dataclass(frozen=True)
class RangeCase:
    """A store after: 1 a=1, 2 b=1, 3 c=1, 4 a=2, 5 b deleted, 6 d=1, 7 x/y=1, and 8 a key beside the prefix."""

    id: str
    expected: str
    remaining: int = 0
    prefix: str = "/r/"
    after_key: str = ""
    limit: int = 0
    revision: int | None = None


RANGES = [
    RangeCase("everything under a prefix, in order", "a=2 c=1 d=1 x/y=1"),
    RangeCase("a longer prefix", "x/y=1", prefix="/r/x/"),
    RangeCase("a prefix that nothing has", "", prefix="/q/"),
    RangeCase("the empty prefix is everything", "a=2 c=1 d=1 x/y=1 /r2=1", prefix=""),
    RangeCase("a limit", "a=2 c=1", remaining=2, limit=2),
    RangeCase("a limit that is just enough", "a=2 c=1 d=1 x/y=1", limit=4),
    RangeCase("the next page", "d=1 x/y=1", after_key="/r/c", limit=2),
    RangeCase("behind a key that is not there", "c=1 d=1 x/y=1", after_key="/r/b"),
    RangeCase("behind the last key", "", after_key="/r/x/y"),
    RangeCase("behind a key that lies beyond the prefix", "", after_key="/s"),
    RangeCase("behind a key that lies before the prefix", "a=2 c=1 d=1 x/y=1", after_key="/q/z"),
    RangeCase("before the first write", "", revision=0),
    RangeCase("at an early revision", "a=1 b=1", revision=2),
    RangeCase("before an update", "a=1 b=1 c=1", revision=3),
    RangeCase("before a delete", "a=2 b=1 c=1", revision=4),
    RangeCase("after a delete", "a=2 c=1", revision=5),
    RangeCase("at the current revision", "a=2 c=1 d=1 x/y=1", revision=8),
    RangeCase("a page at an early revision", "a=1 b=1", remaining=1, limit=2, revision=3),
    RangeCase("the next page at an early revision", "c=1", after_key="/r/b", limit=2, revision=3),
    RangeCase("a page whose first key is gone by now", "b=1", remaining=1, after_key="/r/a", limit=1, revision=4),
    RangeCase("a page before keys that came later", "c=1", after_key="/r/a", limit=5, revision=5),
]


@pytest.mark.parametrize("case", RANGES, ids=lambda case: case.id)
async def test_ranges(store: Store, case: RangeCase) -> None:
    await filled_for_ranges(store)
    page = await store.range(case.prefix, after_key=case.after_key, limit=case.limit, revision=case.revision)
    shown = " ".join(f"{kv.key.removeprefix('/r/')}={kv.value.decode()}" for kv in page.items)
    assert (shown, page.remaining) == (case.expected, case.remaining)
    assert page.revision == (8 if case.revision is None else case.revision)


async def filled_for_ranges(store: Store) -> None:
    for name, value in (("a", b"1"), ("b", b"1"), ("c", b"1"), ("a", b"2")):
        await store.write(Put(f"/r/{name}", value))
    await store.write(Delete("/r/b"))
    for key in ("/r/d", "/r/x/y", "/r2"):
        await store.write(Put(key, b"1"))


async def test_keys_are_ordered_by_their_bytes(store: Store) -> None:
    await filled(store, "b", "a/x", "a-b/x", "a", "B", "é", "z")
    assert await names(store) == "B=B a=a a-b/x=a-b/x a/x=a/x b=b z=z é=é"


async def test_counts(store: Store) -> None:
    await filled(store, "a", "b", "x/y")
    assert [await store.count(prefix) for prefix in ("/r/", "/r/x/", "/q/", "")] == [3, 1, 0, 3]


async def test_paging_through_many_keys_shows_each_once(store: Store) -> None:
    await store.write_all([Put(f"/r/{i:05}", b"") for i in range(3000)])
    revision = await store.revision()
    await store.write_all([Delete(f"/r/{i:05}") for i in range(0, 3000, 7)])
    seen: list[str] = []
    while True:
        page = await store.range("/r/", after_key=seen[-1] if seen else "", limit=271, revision=revision)
        seen += [kv.key for kv in page.items]
        assert page.remaining == 3000 - len(seen)
        if not page.remaining:
            break
    assert seen == [f"/r/{i:05}" for i in range(3000)]
    assert await store.count("/r/") == 3000 - 429


@dataclass(frozen=True)
class RevisionCase:
    id: str
    revision: int
    error: type[StoreError]


REVISIONS = [
    RevisionCase("below the floor", 1, Compacted),
    RevisionCase("in the future", 9, FutureRevision),
]


@pytest.mark.parametrize("case", REVISIONS, ids=lambda case: case.id)
async def test_revisions_that_cannot_be_read_or_watched(store: Store, case: RevisionCase) -> None:
    await filled(store, "a", "b", "c")
    await store.compact(2)
    with pytest.raises(case.error):
        await store.range("/r/", revision=case.revision)
    with store.watch("/r/", after=case.revision) as watcher, pytest.raises(case.error):
        await watcher.next()


async def test_compaction_keeps_its_own_revision_and_the_present(store: Store) -> None:
    await filled_for_ranges(store)
    await store.compact(4)
    assert await names(store, revision=4) == "a=2 b=1 c=1"
    await store.compact(8)
    assert await names(store, revision=8) == await names(store) == "a=2 c=1 d=1 x/y=1"
    assert await store.revision() == 8


async def test_compaction_into_the_past_does_nothing(store: Store) -> None:
    await filled(store, "a", "b", "c")
    await store.compact(2)
    await store.compact(1)
    await store.compact(2)
    assert (await store.stats()).floor == 2


async def test_compaction_into_the_future_is_refused(store: Store) -> None:
    await filled(store, "a")
    with pytest.raises(FutureRevision, match="revision 2 is in the future: the current one is 1"):
        await store.compact(2)


@dataclass(frozen=True)
class WatchCase:
    """Over the same store as `RangeCase`."""

    id: str
    selection: str
    after: int
    revisions: list[int] = field(default_factory=list)


WATCHES = [
    WatchCase("a prefix from the start", "/r/", 0, [1, 2, 3, 4, 5, 6, 7]),
    WatchCase("a prefix from a revision", "/r/", 4, [5, 6, 7]),
    WatchCase("a longer prefix", "/r/x/", 0, [7]),
    WatchCase("everything", "", 6, [7, 8]),
    WatchCase("one key", "/r/a", 0, [1, 4]),
    WatchCase("one key, which others begin with", "/r", 0, []),
    WatchCase("nothing new", "/r/", 8, []),
]


@pytest.mark.parametrize("case", WATCHES, ids=lambda case: case.id)
async def test_a_watch_replays_what_it_missed(store: Store, case: WatchCase) -> None:
    await filled_for_ranges(store)
    with store.watch(case.selection, after=case.after) as watcher:
        batch = await watcher.next(timeout=0)
    assert [event.revision for event in batch.events] == case.revisions
    assert batch.revision == 8


@pytest.mark.parametrize("case", WATCHES, ids=lambda case: case.id)
async def test_a_watch_follows_what_happens(store: Store, case: WatchCase) -> None:
    seen: list[int] = []
    reached = 0
    with store.watch(case.selection, after=0) as watcher:
        writing = asyncio.create_task(filled_for_ranges(store))
        while reached < 8:
            batch = await watcher.next(timeout=0.01)
            reached = batch.revision
            seen += [event.revision for event in batch.events]
        await writing
    assert [revision for revision in seen if revision > case.after] == case.revisions


async def test_an_event_shows_before_and_after(store: Store) -> None:
    await store.write_all([Put("/r/a", b"1"), Put("/r/a", b"2"), Delete("/r/a")])
    first, second = KeyValue("/r/a", b"1", 1, 1), KeyValue("/r/a", b"2", 1, 2)
    with store.watch("/r/a", after=0) as watcher:
        assert (await watcher.next()).events == [
            Event(1, "/r/a", previous=None, current=first),
            Event(2, "/r/a", previous=first, current=second),
            Event(3, "/r/a", previous=second, current=None),
        ]


async def test_a_watch_waits_for_an_event_and_hears_of_a_whole_group(store: Store) -> None:
    with store.watch("/r/", after=0) as watcher:
        waiting = asyncio.create_task(watcher.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        await store.write_all([Put("/r/a", b""), Put("/q/a", b""), Put("/r/b", b"")])
        events = (await waiting).events + (await watcher.next(timeout=0)).events
        assert sorted(event.key for event in events) == ["/r/a", "/r/b"]


async def test_a_watch_that_times_out_sends_its_progress(store: Store) -> None:
    with store.watch("/r/", after=0) as watcher:
        await store.write(Put("/q/a", b""))
        batch = await watcher.next(timeout=0.01)
        assert (batch.events, batch.revision) == ([], 1)


async def test_a_batch_has_at_most_so_many_events(store: Store) -> None:
    await filled(store, *"abcde")
    with store.watch("/r/", after=0) as watcher:
        batches = [await watcher.next(timeout=0, limit=2) for _ in range(4)]
    assert [(len(batch.events), batch.revision) for batch in batches] == [(2, 2), (2, 4), (1, 5), (0, 5)]


async def test_watchers_of_one_prefix_do_not_disturb_each_other(store: Store) -> None:
    await filled(store, "a", "b")
    with store.watch("/r/", after=2) as late, store.watch("/r/", after=0) as early:
        await filled(store, "c")
        assert [event.revision for event in (await early.next()).events] == [1, 2, 3]
        assert [event.revision for event in (await late.next()).events] == [3]


async def test_a_slow_watcher_hears_that_it_fell_behind(store: Store) -> None:
    with store.watch("/r/", after=0) as slow:
        await filled(store, "a", "b", "c")
        await store.compact(2)
        with pytest.raises(Compacted):
            await slow.next()
        with pytest.raises(Compacted):
            await slow.next()


async def test_an_idle_watcher_does_not_mind_compaction_of_others_events(store: Store) -> None:
    with store.watch("/r/", after=0) as idle:
        await store.write_all([Put(f"/q/{i}", b"") for i in range(5)])
        await store.compact(5)
        await filled(store, "a")
        assert [event.revision for event in (await idle.next()).events] == [6]


async def test_a_closed_watcher_ends_its_reader(store: Store) -> None:
    watcher = store.watch("/r/", after=0)
    waiting = asyncio.create_task(watcher.next())
    await asyncio.sleep(0)
    watcher.close()
    with pytest.raises(Closed):
        await waiting
    assert (await store.stats()).watchers == 0


async def test_a_cancelled_reader_loses_no_event(store: Store) -> None:
    with store.watch("/r/", after=0) as watcher:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watcher.next(), 0.01)
        await filled(store, "a")
        assert [event.revision for event in (await watcher.next()).events] == [1]


async def test_a_closed_store_finishes_its_writes_and_ends_its_watches(store: Store) -> None:
    watcher = store.watch("/r/", after=0)
    waiting = asyncio.create_task(watcher.next())
    writes = [asyncio.create_task(store.write(Put(f"/r/{i}", b""))) for i in range(10)]
    await asyncio.sleep(0)
    await store.close()
    assert all(isinstance(outcome, Event) for outcome in await asyncio.gather(*writes))
    with pytest.raises(Closed):
        await waiting
    with pytest.raises(Closed):
        await watcher.next()
    for refused in (store.write(Put("/r/a", b"")), store.get("/r/a"), store.range("/r/"), store.revision()):
        with pytest.raises(Closed):
            await refused
    await store.close()
