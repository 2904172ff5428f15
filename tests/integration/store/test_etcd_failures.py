"""What happens to the store when etcd, or the way there, breaks."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from etcd_servers import EtcdServers, etcd_cluster
from mooring.apiserver.access.pki import Pki
from mooring.base.clock import SystemClock
from mooring.store.errors import (
    Closed,
    Compacted,
    Damaged,
    DiskFull,
    OpenError,
    Refused,
    StorageError,
    StorageFailed,
    Unreachable,
)
from mooring.store.etcd.config import EtcdConfig, parse_servers
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Batch, Conflict, Delete, Event, Put, Watcher, Write
from tcp_proxy import TcpProxy

pytestmark = pytest.mark.req("S.7")


@pytest.fixture
async def proxy(etcd: EtcdServers) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(etcd.members[0].client_url) as proxy:
        yield proxy


@dataclass
class Proxied:
    """A store whose way to etcd can be broken, and one whose way cannot."""

    store: EtcdStore
    other: EtcdStore
    proxy: TcpProxy
    config: EtcdConfig


@pytest.fixture
async def proxied(etcd: EtcdServers, proxy: TcpProxy) -> AsyncIterator[Proxied]:
    config = etcd.fresh()
    other = await EtcdStore.open(config)
    through = replace(config, servers=parse_servers(proxy.url), attempt_seconds=0.5, request_seconds=4.0)
    store = await EtcdStore.open(through)
    yield Proxied(store, other, proxy, through)
    proxy.heal()
    await store.close()
    await other.close()


async def events_until(watcher: Watcher, key: str) -> list[Event]:
    """Return the events that a watcher gets, up to one on a key."""
    events: list[Event] = []
    while not events or events[-1].key != key:
        events += (await watcher.next()).events
    return events


async def test_a_watch_that_breaks_goes_on_without_gap_or_duplicate(proxied: Proxied) -> None:
    store, other = proxied.store, proxied.other
    start = await store.revision()
    written: list[int] = []

    async def write() -> None:
        for number in range(150):
            outcome = await other.write(Put(f"/r/{number % 7}", b"%d" % number))
            assert isinstance(outcome, Event)
            written.append(outcome.revision)
        await other.write(Put("/r/end", b""))

    async def cut() -> None:
        for _ in range(5):
            proxied.proxy.cut()
            await asyncio.sleep(0.05)

    with store.watch("/r/", after=start) as watcher:
        async with asyncio.timeout(20):
            events, _, _ = await asyncio.gather(events_until(watcher, "/r/end"), write(), cut())
    assert [event.revision for event in events[:-1]] == written


async def test_a_watch_that_missed_compacted_revisions_gets_an_error(proxied: Proxied) -> None:
    store, other, proxy = proxied.store, proxied.other, proxied.proxy
    await other.write(Put("/r/a", b"1"))
    start = await store.revision()
    with store.watch("/r/", after=start) as watcher:
        proxy.refuse = True
        proxy.cut()
        await other.write_all([Put("/r/b", b"2"), Put("/r/c", b"3"), Delete("/r/a")])
        await other.compact(await other.revision())
        proxy.heal()
        with pytest.raises(Compacted):
            async with asyncio.timeout(10):
                await watcher.next()
    page = await store.range("/r/")
    assert {kv.key: kv.value for kv in page.items} == {"/r/b": b"2", "/r/c": b"3"}
    with store.watch("/r/", after=page.revision) as watcher:
        await other.write(Put("/r/d", b"4"))
        assert [event.key for event in (await watcher.next()).events] == ["/r/d"]


@dataclass(frozen=True)
class DoubtCase:
    id: str
    write: Write
    """`expect` is 0 or, if it is 1, the revision of `/r/a` as it is."""
    meanwhile: Write | None
    found: bytes | None


DOUBTS = [
    DoubtCase("a swap that was done", Put("/r/a", b"new", expect=1), None, b"new"),
    DoubtCase("a create that was done", Put("/r/b", b"new", expect=0), None, b"new"),
    DoubtCase("a put without a precondition that was done", Put("/r/a", b"new"), None, b"new"),
    DoubtCase("a delete that was done", Delete("/r/a", expect=1), None, None),
    DoubtCase(
        "a swap that was done, and somebody has changed the key since",
        Put("/r/a", b"new", expect=1),
        Put("/r/a", b"newer"),
        b"newer",
    ),
    DoubtCase(
        "a create that was done, and somebody has deleted the key since",
        Put("/r/b", b"new", expect=0),
        Delete("/r/b"),
        None,
    ),
]


@pytest.mark.parametrize("case", DOUBTS, ids=lambda case: case.id)
async def test_a_write_whose_answer_was_lost_gets_a_true_answer(case: DoubtCase, proxied: Proxied) -> None:
    store, other, proxy = proxied.store, proxied.other, proxied.proxy
    first = await other.write(Put("/r/a", b"old"))
    assert isinstance(first, Event)
    await store.revision()
    wanted = replace_expect(case.write, first.revision) if case.write.expect else case.write
    with other.watch(case.write.key, after=first.revision) as watcher:
        proxy.hold_answers = True
        writing = asyncio.create_task(store.write(wanted))
        async with asyncio.timeout(5):
            done = (await watcher.next()).events
        if case.meanwhile:
            assert isinstance(await other.write(case.meanwhile), Event)
        proxy.cut()
        proxy.heal()
        async with asyncio.timeout(10):
            outcome = await writing
    assert outcome == done[0]
    kv = await other.get(case.write.key)
    assert (kv.value if kv else None) == case.found


def replace_expect(write: Write, expect: int) -> Write:
    return Put(write.key, write.value, expect) if isinstance(write, Put) else Delete(write.key, expect)


async def test_a_write_that_never_arrived_and_came_too_late_is_a_conflict(proxied: Proxied) -> None:
    store, other, proxy = proxied.store, proxied.other, proxied.proxy
    first = await other.write(Put("/r/a", b"old"))
    assert isinstance(first, Event)
    await store.revision()
    proxy.hold_requests = True
    writing = asyncio.create_task(store.write(Put("/r/a", b"mine", expect=first.revision)))
    await asyncio.sleep(0.1)
    await other.write(Put("/r/a", b"theirs"))
    proxy.cut()
    proxy.heal()
    async with asyncio.timeout(10):
        outcome = await writing
    assert isinstance(outcome, Conflict)
    assert outcome.current
    assert outcome.current.value == b"theirs"


async def test_a_write_that_arrives_after_its_time_changes_nothing(proxied: Proxied) -> None:
    """A member hung for a while: what it was sent was sent again elsewhere, and another client has deleted it since."""
    store, other, proxy = proxied.store, proxied.other, proxied.proxy
    async with TcpProxy(proxy.target) as second:
        both = replace(proxied.config, servers=parse_servers(f"{proxy.url},{second.url}"), attempt_seconds=0.3)
        store = await EtcdStore.open(both)
        store._client._current = 0
        proxy.hold_requests = True
        async with asyncio.timeout(10):
            outcome = await store.write(Put("/r/a", b"mine", expect=0))
        assert isinstance(outcome, Event)
        assert isinstance(await other.write(Delete("/r/a")), Event)
        proxy.heal()
        await asyncio.sleep(0.3)
        assert await other.get("/r/a") is None
        await store.close()


async def test_a_store_in_which_nothing_happens_is_well(proxied: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.store.etcd.feed._PATIENCE_SECONDS", 0.1)
    await proxied.store.write(Put("/r/a", b"1"))
    await asyncio.sleep(0.3)
    assert not is_failing(proxied.store)


async def test_without_etcd_everything_fails_in_time_and_recovers(proxied: Proxied) -> None:
    store, proxy = proxied.store, proxied.proxy
    await store.write(Put("/r/a", b"1"))
    assert not is_failing(store)
    proxy.refuse = True
    proxy.cut()
    async with asyncio.timeout(12):
        refused = await asyncio.gather(
            store.get("/r/a"), store.write(Put("/r/a", b"2", expect=0)), return_exceptions=True
        )
    assert [type(error) for error in refused] == [Unreachable, Unreachable]
    assert is_failing(store)
    assert store.peek("/r/a") is not None
    proxy.heal()
    async with asyncio.timeout(10):
        assert await store.get("/r/a") is not None
        while is_failing(store):  # noqa: ASYNC110 - a property, which cannot be waited for
            await asyncio.sleep(0.05)


async def test_readers_that_wait_hear_that_the_store_is_closed(proxied: Proxied) -> None:
    proxied.proxy.hold_answers = True
    reading = [asyncio.create_task(proxied.store.get("/r/a"))]
    await asyncio.sleep(0.1)
    reading.append(asyncio.create_task(proxied.store.get("/r/b")))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(2):
        await proxied.store.close()
        results = await asyncio.gather(*reading, return_exceptions=True)
    assert [type(result) for result in results] == [Closed, Closed]


def is_failing(store: EtcdStore) -> bool:
    return store.failure is not None


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    with etcd_cluster(tmp_path_factory.mktemp("three"), members=3, tls=True) as servers:
        yield servers


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_member_that_dies_loses_nothing_that_was_acknowledged(three: EtcdServers, how: str) -> None:
    config = three.fresh(attempt_seconds=1.0)
    one, two = await EtcdStore.open(config), await EtcdStore.open(config)
    start = await one.revision()
    acknowledged: dict[str, bytes] = {}

    async def write(store: EtcdStore, name: str) -> None:
        for number in range(40):
            key = f"/r/{name}-{number}"
            outcome = await store.write(Put(key, b"%d" % number, expect=0))
            assert isinstance(outcome, Event)
            acknowledged[key] = b"%d" % number
            await asyncio.sleep(0.02)

    async def disturb() -> None:
        await asyncio.sleep(0.2)
        victim = three.members[one._client._current]
        if how == "killed":
            victim.kill()
            await asyncio.sleep(1.0)
            victim.start()
        else:
            victim.pause()
            await asyncio.sleep(3.0)
            victim.resume()

    with two.watch("/r/", after=start) as watcher:
        async with asyncio.timeout(40):
            await asyncio.gather(
                disturb(), *(write(store, f"{i}") for i in range(4) for store in (one,)), write(two, "x")
            )
            end = await two.revision()
            events: list[Event] = []
            batch = Batch([], start)
            while batch.revision < end:
                batch = await watcher.next(timeout=0.1)
                events += batch.events
    assert {event.key: event.current.value for event in events if event.current} == acknowledged
    assert len(events) == len(acknowledged) == 200
    assert {kv.key: kv.value for kv in (await one.range("/r/")).items} == acknowledged
    await one.close()
    await two.close()
    three.wait()


async def test_one_server_of_etcd_that_was_never_there_does_not_matter(three: EtcdServers) -> None:
    config = three.fresh()
    for _ in range(4):  # the member to begin with is drawn at random
        config = replace(config, servers=(*parse_servers("https://127.0.0.1:1"), *config.servers[-3:]))
        store = await EtcdStore.open(config)
        assert isinstance(await store.write(Put("/r/a", b"")), Event)
        await store.close()


@dataclass(frozen=True)
class TlsCase:
    id: str
    changes: dict[str, Any]
    message: str


TLS = [
    TlsCase("without the authority", {"ca_file": None}, "did not answer within"),
    TlsCase("without a certificate", {"cert_file": None, "key_file": None}, "did not answer within"),
    TlsCase("with a file that is not there", {"ca_file": Path("/none")}, "/none: No such file"),
]


@pytest.mark.parametrize("case", TLS, ids=lambda case: case.id)
async def test_etcd_refuses_every_client(three: EtcdServers, case: TlsCase) -> None:
    with pytest.raises((OpenError, StorageError), match=case.message):
        await EtcdStore.open(three.fresh(request_seconds=1.0, **case.changes))


async def test_a_certificate_of_another_authority_is_not_accepted(three: EtcdServers, tmp_path: Path) -> None:
    stranger = Pki(tmp_path, SystemClock()).authority.certificate_file
    with pytest.raises(StorageError, match="did not answer within"):
        await EtcdStore.open(three.fresh(request_seconds=1.0, ca_file=stranger))


async def test_users_and_passwords(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path) as etcd:
        etcd.etcdctl("user", "add", "root:secret")
        etcd.etcdctl("user", "grant-role", "root", "root")
        etcd.etcdctl("role", "add", "mooring")
        etcd.etcdctl("role", "grant-permission", "mooring", "--prefix=true", "readwrite", "/registry/")
        etcd.etcdctl("user", "add", "mooring:password")
        etcd.etcdctl("user", "grant-role", "mooring", "mooring")
        with pytest.raises(Refused, match="authentication is not enabled"):
            await EtcdStore.open(etcd.config(user="mooring", password="password"))
        etcd.etcdctl("auth", "enable")
        with pytest.raises(Refused, match="wants a user and a password"):
            await EtcdStore.open(etcd.config())
        with pytest.raises(Refused, match="does not know this user and password"):
            await EtcdStore.open(etcd.config(user="mooring", password="wrong"))
        with pytest.raises(Refused, match="does not permit this user to use the prefix"):
            await EtcdStore.open(etcd.config("/elsewhere", user="mooring", password="password"))
        store = await EtcdStore.open(etcd.config(user="mooring", password="password"))
        assert isinstance(await store.write(Put("/registry/a", b"1", ttl=100)), Event)
        await store.compact(await store.revision())
        assert (await store.stats()).file_bytes > 0
        etcd.members[0].kill()  # which forgets the tokens that it gave
        etcd.members[0].start()
        etcd.wait()
        assert await store.get("/registry/a")
        with store.watch("/registry/", after=await store.revision()) as watcher:
            assert isinstance(await store.write(Put("/registry/a", b"2", expect=None)), Event)
            assert len((await watcher.next()).events) == 1
        await store.close()


def config_of(text: str, **settings: Any) -> EtcdConfig:
    return EtcdConfig(servers=parse_servers(text), **settings)


async def test_an_etcd_that_was_restored_is_noticed(tmp_path: Path) -> None:
    """Its revisions start again, below those that the server has sent."""
    with etcd_cluster(tmp_path / "old") as etcd:
        store = await EtcdStore.open(etcd.config(request_seconds=4.0))
        for number in range(20):
            await store.write(Put("/registry/a", b"%d" % number))
        with store.watch("/registry/", after=await store.revision()) as watcher:
            member = etcd.members[0]
            member.kill()
            member.directory = tmp_path / "new"
            member.start()
            etcd.wait()
            with pytest.raises(Compacted):
                async with asyncio.timeout(10):
                    await watcher.next()
        assert is_failing(store)
        for refused in (store.get("/registry/a"), store.range("/registry/"), store.write(Put("/registry/a", b""))):
            with pytest.raises(StorageFailed, match="restart this server"):
                await refused
        await store.close()


async def test_a_store_that_was_deleted_is_not_written(etcd: EtcdServers) -> None:
    config = etcd.fresh()
    store = await EtcdStore.open(config)
    await store.write(Put("/r/a", b"1"))
    etcd.etcdctl("del", "--prefix", f"{config.prefix}/")
    with pytest.raises(Damaged, match="is gone from etcd: the store was deleted"):
        await store.write(Put("/r/b", b"2"))
    assert await store.count("/r/") == 0
    await store.close()


async def fill(store: EtcdStore) -> None:
    """Write more than there is room for. etcd finds out ten times a second, and takes what comes meanwhile."""
    for number in range(1000):
        await store.write(Put("/registry/a", bytes(100_000 + number)))


async def test_an_etcd_that_is_full_says_so_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, flags=["--quota-backend-bytes=2000000"]) as etcd:
        store = await EtcdStore.open(etcd.config())
        with pytest.raises(DiskFull, match="etcd is full: compact and defragment it, then disarm its alarm"):
            await fill(store)
        kv = await store.get("/registry/a")
        assert kv
        await store.compact(await store.revision())
        etcd.etcdctl("defrag")
        etcd.etcdctl("alarm", "disarm")
        assert isinstance(await store.write(Put("/registry/a", b"small", expect=kv.mod_revision)), Event)
        await store.close()
