"""Pages of the past are those of then, whatever is written in between, and cost what is in them."""

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.store.kv import Delete, Event, KeyValue, Put
from mooring.store.memory import MemoryStore
from mooring.store.mvcc import Mvcc

pytestmark = pytest.mark.req("S.2")
_writes = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=12)


@given(_writes, st.lists(_writes, max_size=8), st.integers(1, 4), st.sampled_from(["/a/", "/a/1/", "/"]))
def test_pages_of_a_revision_together_are_all_that_was_there(
    before: list[tuple[int, bool]], between: list[list[tuple[int, bool]]], limit: int, prefix: str
) -> None:
    async def check() -> None:
        store = await MemoryStore.open()
        await _write(store, before)
        then = await store.range(prefix)
        found: list[KeyValue] = []
        for writes in [*between, *[[]] * 13]:
            after = found[-1].key if found else ""
            page = await store.range(prefix, after_key=after, limit=limit, revision=then.revision)
            found += page.items
            assert page.remaining == len(then.items) - len(found)
            await _write(store, writes)
        assert found == then.items
        assert (await store.range(prefix, revision=then.revision)).items == then.items
        await store.close()

    asyncio.run(check())


async def _write(store: MemoryStore, writes: list[tuple[int, bool]]) -> None:
    for number, is_put in writes:
        key = f"/a/{number}/{number}"
        await store.write_all([Put(key, b"%d" % random.getrandbits(32)) if is_put else Delete(key)])


async def test_a_page_costs_the_same_however_much_was_written_since_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await MemoryStore.open()
    await store.write_all([Put(f"/a/{number:04}", b"") for number in range(1000)])
    revision = await store.revision()
    followed: list[int] = []
    behind: Callable[[Mvcc, int], list[Event]] = Mvcc.events_after

    def counted(state: Mvcc, since: int) -> list[Event]:
        events = behind(state, since)
        followed.append(len(events))
        return events

    monkeypatch.setattr(Mvcc, "events_after", counted)
    for number in range(10):
        await store.write_all([Put(f"/a/{each:04}", b"x") for each in range(number, 1000, 10)])
        await store.range("/a/", after_key=f"/a/{number * 100:04}", limit=100, revision=revision)
    assert followed == [100] * 10
    await store.close()


async def test_of_readers_at_ever_other_revisions_the_last_are_remembered() -> None:
    store = await MemoryStore.open()
    await store.write(Put("/a/1", b""))
    for number in range(600):
        await store.write(Put("/b/1", b"%d" % number))  # nothing of what they read
        page = await store.range("/a/", limit=1, revision=await store.revision() - 1)
        assert [kv.key for kv in page.items] == ["/a/1"]
    assert len(store._state._pasts) == 256
    await store.close()
