"""Several servers on one etcd: each has a memory of its own, and all of them tell the same."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from etcd_servers import EtcdServers
from mooring.base.clock import SystemClock
from mooring.store.errors import Compacted, Foreign, NewerSchema, OpenError, TooLarge
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.config import EtcdConfig
from mooring.store.etcd.messages import message
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Conflict, Delete, Event, Put

pytestmark = pytest.mark.req("S.7")


@pytest.fixture
def config(etcd: EtcdServers) -> EtcdConfig:
    return etcd.fresh()


@pytest.fixture
async def stores(config: EtcdConfig) -> AsyncIterator[tuple[EtcdStore, EtcdStore]]:
    one, two = await EtcdStore.open(config), await EtcdStore.open(config)
    yield one, two
    await one.close()
    await two.close()


Stores = tuple[EtcdStore, EtcdStore]


async def test_a_read_shows_what_another_server_has_acknowledged(stores: Stores) -> None:
    one, two = stores
    for number in range(100):
        written = await one.write(Put("/r/a", b"%d" % number))
        assert isinstance(written, Event)
        kv = await two.get("/r/a")
        assert kv == written.current
        one, two = two, one


async def test_a_list_a_count_and_a_revision_show_it_too(stores: Stores) -> None:
    one, two = stores
    for number in range(1, 20):
        written = await one.write(Put(f"/r/{number}", b""))
        assert isinstance(written, Event)
        assert await two.count("/r/") == number
        written = await one.write(Put("/q/a", b""))
        assert isinstance(written, Event)
        assert await two.revision() >= written.revision
        written = await one.write(Put("/q/a", b"%d" % number))
        page = await two.range("/q/")
        assert [kv.value for kv in page.items] == [b"%d" % number]


async def test_a_counter_that_both_swap_counts_every_swap(stores: Stores) -> None:
    async def count(store: EtcdStore, times: int) -> None:
        for _ in range(times):
            while True:
                kv = await store.get("/r/counter")
                number = int(kv.value) if kv else 0
                swap = Put("/r/counter", b"%d" % (number + 1), expect=kv.mod_revision if kv else 0)
                if isinstance(await store.write(swap), Event):
                    break

    await asyncio.gather(*(count(store, 20) for store in stores for _ in range(2)))
    kv = await stores[0].get("/r/counter")
    assert kv
    assert kv.value == b"80"


async def test_both_tell_the_same_events_in_the_same_order(stores: Stores) -> None:
    chance = random.Random(4711)
    start = await stores[0].revision()

    async def write(store: EtcdStore) -> None:
        for number in range(100):
            key = f"/r/{chance.randrange(10)}"
            await store.write(Delete(key) if chance.random() < 0.2 else Put(key, b"%d" % number))

    with stores[0].watch("/r/", after=start) as here, stores[1].watch("/r/", after=start) as there:
        await asyncio.gather(*(write(store) for store in stores for _ in range(4)))
        reported: list[list[Event]] = []
        end = await stores[0].revision()
        for watcher in (here, there):
            events: list[Event] = []
            reached = start
            while reached < end:
                batch = await watcher.next(timeout=0.1, limit=50)
                events += batch.events
                reached = batch.revision
            reported.append(events)
    assert reported[0] == reported[1]
    revisions = [event.revision for event in reported[0]]
    assert revisions == sorted(set(revisions))
    present: dict[str, bytes] = {}
    for event in reported[0]:
        before = present.pop(event.key, None)
        assert before == (event.previous.value if event.previous else None)
        if event.current:
            present[event.key] = event.current.value
    assert {kv.key: kv.value for kv in (await stores[1].range("/r/")).items} == present


async def test_a_page_may_be_continued_at_another_server_that_started_later(
    stores: Stores, config: EtcdConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = stores
    await one.write_all([Put(f"/r/{number:03}", b"old") for number in range(100)])
    first = await one.range("/r/", limit=40)
    await one.write_all([Put(f"/r/{number:03}", b"new") for number in range(0, 120, 3)])
    monkeypatch.setattr("mooring.store.etcd.store._HISTORY_AT_START", 0)
    late = await EtcdStore.open(config)
    try:
        assert (await late.stats()).floor > first.revision
        rest = await late.range("/r/", after_key=first.items[-1].key, limit=100, revision=first.revision)
        assert [kv.key for kv in rest.items] == [f"/r/{number:03}" for number in range(40, 100)]
        assert {kv.value for kv in rest.items} == {b"old"}
        assert (first.remaining, rest.remaining) == (60, 0)
        assert (await late.range("/q/", revision=first.revision)).items == []
        await one.compact(await one.revision())
        with pytest.raises(Compacted):
            await late.range("/r/", revision=first.revision)
    finally:
        await late.close()


async def test_a_server_that_starts_later_knows_what_happened_before(stores: Stores, config: EtcdConfig) -> None:
    one, _ = stores
    start = await one.revision()
    for number in range(5):
        await one.write(Put("/r/a", b"%d" % number))
    late = await EtcdStore.open(config)
    try:
        with late.watch("/r/", after=start + 2) as watcher:
            events = (await watcher.next()).events
        assert [event.revision for event in events] == [start + 3, start + 4, start + 5]
        assert events[0].previous
        assert events[0].previous.value == b"1"
    finally:
        await late.close()


async def test_writes_of_others_in_the_same_etcd_delay_no_write(stores: Stores, etcd: EtcdServers) -> None:
    one, two = stores
    stranger = await EtcdStore.open(etcd.fresh())
    try:
        await one.write(Put("/r/a", b"1"))
        await stranger.write(Put("/r/a", b"2"))
        async with asyncio.timeout(2):
            assert [kv.value for kv in (await two.range("")).items] == [b"1"]
            await stranger.write(Put("/r/a", b"3"))
            written = await one.write(Put("/r/b", b"4"))
            assert isinstance(written, Event)
            assert [kv.value for kv in (await two.range("")).items] == [b"1", b"4"]
    finally:
        await stranger.close()


async def test_keys_with_a_lease_are_deleted_by_etcd_and_share_a_batch(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.store.etcd.leases._WINDOW_FRACTION", 2.0)  # so that all of them share a lease
    one, two = stores
    await one.write_all([Put(f"/events/{number}", b"", ttl=1.0) for number in range(5)])
    await one.write(Put("/events/stays", b"", ttl=100.0))
    start = await one.revision()
    with two.watch("/events/", after=start) as watcher:
        async with asyncio.timeout(20):
            batch = await watcher.next(limit=1)
            assert [event.current for event in batch.events] == [None] * 5
    assert [kv.key for kv in (await one.range("/events/")).items] == ["/events/stays"]


async def test_one_of_two_servers_compacts(stores: Stores) -> None:
    one, two = stores
    await one.write(Put("/r/a", b"1"))
    assert [await one._compactor.try_compaction(), await two._compactor.try_compaction()] == [False, False]
    old = await one.revision()
    for number in range(10):
        await one.write(Put("/r/a", b"%d" % number))
    assert [await one._compactor.try_compaction(), await two._compactor.try_compaction()] == [True, False]
    assert [await two._compactor.try_compaction(), await one._compactor.try_compaction()] == [True, False]
    await one.compact(old)  # which has long been done
    await one.write(Put("/r/a", b"2"))


async def test_an_object_larger_than_etcd_takes_is_refused(stores: Stores) -> None:
    with pytest.raises(TooLarge, match="larger than etcd takes"):
        await stores[0].write(Put("/r/a", bytes(1_700_000)))
    with pytest.raises(TooLarge, match="larger than etcd takes"):
        await stores[0].write(Put("/r/a", bytes(4_000_000)))
    assert isinstance(await stores[0].write(Put("/r/a", bytes(1_500_000))), Event)
    kv = await stores[1].get("/r/a")
    assert kv
    assert len(kv.value) == 1_500_000


async def test_a_swap_that_lost_shows_what_won(stores: Stores) -> None:
    one, two = stores
    await one.write(Put("/r/a", b"1"))
    lost = await two.write(Put("/r/a", b"2", expect=0))
    assert isinstance(lost, Conflict)
    assert lost.current == two.peek("/r/a")
    assert lost.current == await one.get("/r/a")


@dataclass(frozen=True)
class StrangeCase:
    id: str
    key: str
    value: str
    error: type[OpenError]
    message: str


STRANGE = [
    StrangeCase("another program's keys", "/pods/a", "x", Foreign, "holds .*/pods/a already, which is not Mooring's"),
    StrangeCase("Kubernetes' keys", "/pods/a", "k8s\0\n\x0b", Foreign, "already, which is Kubernetes'"),
    StrangeCase("another program's mark", "/.mooring/store", "x", Foreign, "holds something else at"),
    StrangeCase(
        "a newer Mooring's mark",
        "/.mooring/store",
        '{"kind": "MooringStore", "schemaVersion": 2}',
        NewerSchema,
        "has schema version 2, and this Mooring knows up to 1",
    ),
]


@pytest.mark.parametrize("case", STRANGE, ids=lambda case: case.id)
async def test_a_prefix_that_is_not_ours_is_left_alone(case: StrangeCase, etcd: EtcdServers) -> None:
    config = etcd.fresh()
    await _put(config, f"{config.prefix}{case.key}", case.value)
    with pytest.raises(case.error, match=case.message):
        await EtcdStore.open(config)


async def _put(config: EtcdConfig, key: str, value: str) -> None:
    """Write what the store itself never would."""
    client = EtcdClient(config, SystemClock())
    request = message("TxnRequest")()
    put = request.success.add().request_put
    put.key, put.value = key.encode(errors="surrogateescape"), value.encode()
    await client.call_with_retry("Txn", request)
    await client.close()


@pytest.mark.parametrize("history", [0, 1000], ids=["that was there before", "that came later"])
async def test_a_key_that_is_no_text_is_reported_and_ignored(
    history: int,
    stores: Stores,
    config: EtcdConfig,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await stores[0].write(Put("/r/a", b"1"))
    await _put(config, f"{config.prefix}/r/\udcff", "x")
    assert await stores[1].count("/r/") == 1
    monkeypatch.setattr("mooring.store.etcd.store._HISTORY_AT_START", history)
    late = await EtcdStore.open(config)
    assert await late.count("/r/") == 1
    await late.close()
    assert "ignoring a key in etcd that Mooring never wrote" in caplog.text


async def test_everything_is_there_after_a_restart(config: EtcdConfig) -> None:
    first = await EtcdStore.open(config)
    await first.write_all([Put(f"/r/{number}", b"%d" % number) for number in range(50)])
    await first.write(Delete("/r/7"))
    before = await first.range("")
    await first.close()
    second = await EtcdStore.open(config)
    assert await second.range("") == before
    await second.close()


async def test_values_are_stored_as_they_are(etcd: EtcdServers, config: EtcdConfig, tmp_path: Path) -> None:
    prefix = "/somewhere-else"
    store = await EtcdStore.open(etcd.config(prefix))
    await store.write(Put("/registry/pods/default/web", b'{"kind":"Pod"}'))
    await store.close()
    assert etcd.etcdctl("get", f"{prefix}/pods/default/web").splitlines() == [
        f"{prefix}/pods/default/web",
        '{"kind":"Pod"}',
    ]
