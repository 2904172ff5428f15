"""The store in etcd against the one in memory: the same writes, one after the other, mean the same."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etcd_servers import EtcdServers
from from_zero import FromZero
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Delete, Event, Outcome, Page, Put, Store, Write
from mooring.store.memory import MemoryStore

pytestmark = pytest.mark.req("S.7")

KEYS = ("/r/a", "/r/b", "/r/b/c", "/r/b-c", "/s/a", "/t")
PREFIXES = ("", "/", "/r/", "/r/b/", "/none/")
keys = st.sampled_from(KEYS)
expects = st.none() | st.just(0) | st.integers(1, 12)
writes = st.builds(Put, keys, st.binary(max_size=3), expects) | st.builds(Delete, keys, expects)


@dataclass(frozen=True)
class Look:
    """Where to look: so many revisions after the first, at so many keys behind one."""

    past: int
    limit: int
    after_key: str


looks = st.builds(Look, st.integers(0, 15), st.integers(0, 3), st.sampled_from(("", *KEYS)))
shared = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@settings(shared, max_examples=40)
@given(done=st.lists(writes, max_size=15), look=looks)
def test_both_stores_tell_the_same(etcd: EtcdServers, runner: asyncio.Runner, done: list[Write], look: Look) -> None:
    async def reported(store: Store) -> tuple[list[Outcome], list[Page], list[Event]]:
        outcomes = [await store.write(write) for write in done]
        revision = min(look.past, await store.revision())
        pages = [
            await store.range(prefix, after_key=look.after_key, limit=look.limit, revision=at)
            for prefix in PREFIXES
            for at in (None, revision)
        ]
        with store.watch("/r/", after=revision) as watcher:
            events = (await watcher.next(timeout=0)).events
        await store.close()
        return outcomes, pages, events

    async def both() -> None:
        there = await FromZero.wrap(await EtcdStore.open(etcd.fresh()))
        assert await reported(there) == await reported(await MemoryStore.open())

    runner.run(both())


@settings(shared, max_examples=25)
@given(done=st.lists(writes, min_size=1, max_size=15), look=looks, prefix=st.sampled_from(PREFIXES))
def test_etcd_itself_remembers_the_same_past_as_memory(
    etcd: EtcdServers, runner: asyncio.Runner, done: list[Write], look: Look, prefix: str
) -> None:
    """A page at a revision that this server has forgotten is the page that it would have given."""

    async def compare() -> None:
        store = await EtcdStore.open(etcd.fresh())
        start = await store.revision()
        for write in done:
            await store.write(write)
        revision = min(start + look.past, await store.revision())
        expected = await store.range(prefix, after_key=look.after_key, limit=look.limit, revision=revision)
        assert await store._range_in_etcd(prefix, look.after_key, look.limit, revision) == expected
        await store.close()

    runner.run(compare())
