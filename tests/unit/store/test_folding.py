"""Folded history has the same events as before, in less memory."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.store import mvcc
from mooring.store.folding import Folded, memory_size
from mooring.store.kv import Delete, Event, KeyValue, Put
from mooring.store.memory import MemoryStore

pytestmark = pytest.mark.req("S.2", "S.4")

_KEYS = st.sampled_from(["/r/a", "/r/b"])
_SIZES = st.sampled_from([0, 1, 40, 200])
_VALUES = st.builds(
    lambda before, number, longer, between, size, noise: (
        b"so it begins " * before
        + b"%d " % number * longer
        + b"goes on " * between
        + b"%d " % number
        + b"the same again " * size
        + noise
    ),
    _SIZES,
    st.integers(0, 99),
    st.sampled_from([1, 1, 1, 50]),
    _SIZES,
    _SIZES,
    st.one_of(st.just(b""), st.binary(max_size=20)),
)
_PUTS = st.builds(Put, _KEYS, _VALUES)
_WRITES = st.lists(st.one_of(_PUTS, _PUTS, _PUTS, st.builds(Delete, _KEYS)), min_size=8, max_size=60)


@pytest.fixture
def folds_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mvcc, "_RECENT_EVENTS", 3)


def _reported(event: Event) -> tuple[Any, ...]:
    def of(kv: KeyValue | None) -> Any:
        return kv and (kv.key, kv.value, kv.create_revision, kv.mod_revision)

    return event.revision, event.key, of(event.previous), of(event.current)


@pytest.mark.usefixtures("folds_soon")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_WRITES, st.integers(0, 60))
async def test_the_past_is_the_same_after_it_was_folded(writes: list[Put | Delete], floor: int) -> None:
    store = await MemoryStore.open()
    reported: list[Any] = []
    pages: list[tuple[int, dict[str, bytes]]] = [(0, {})]
    for write in writes:
        outcome = await store.write(write)
        if isinstance(outcome, Event):
            reported.append(_reported(outcome))
            now = {kv.key: kv.value for kv in (await store.range("/r/")).items}
            pages.append((outcome.revision, now))
    floor = min(floor, len(reported))
    await store.compact(floor)
    with store.watch("/r/", after=floor) as watcher:
        assert [_reported(event) for event in watcher.take().events] == reported[floor:]
    for revision, page in pages[floor:]:
        assert {kv.key: kv.value for kv in (await store.range("/r/", revision=revision)).items} == page
    behind = store._state.events_after(floor)
    assert (await store.stats()).history_bytes == sum(memory_size(event.previous) for event in behind if event.previous)
    await store.close()


@pytest.mark.usefixtures("folds_soon")
async def test_a_hundred_versions_take_little_and_lean_on_few_others() -> None:
    store = await MemoryStore.open()
    for number in range(100):
        await store.write(Put("/r/a", b"%d " % number + b"the same again " * 200))
    assert (await store.stats()).history_bytes < 25_000  # ten versions are more
    versions = [event.previous for event in store._state.events_after(1)]
    assert max(version.chain_length for version in versions if isinstance(version, Folded)) == 15
    await store.close()


@pytest.mark.usefixtures("folds_soon")
async def test_a_version_that_differs_in_one_place_is_kept_as_that_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlib.compressobj", None)
    store = await MemoryStore.open()
    values = [b"so it begins " * 10 + b"%d " % number + b"the same again " * 200 for number in range(10)]
    for value in values:
        await store.write(Put("/r/a", value))
    folded = [kv for event in store._state.events_after(1) if isinstance(kv := event.previous, Folded)]
    assert [kv.value for kv in folded] == values[: len(folded)]
    assert 0 < max(map(memory_size, folded)) < 150
    await store.close()


@pytest.mark.usefixtures("folds_soon")
async def test_of_a_version_that_differs_in_its_first_half_alone_the_second_is_not_looked_at() -> None:
    store = await MemoryStore.open()
    second = b"".join(b"%x " % (number * number) for number in range(200))
    values = [b"so it begins " * 10 + b"%d " % n + b"and goes on " * 50 + b"%d " % n + second for n in range(10)]
    for value in values:
        await store.write(Put("/r/a", value))
    folded = [kv for event in store._state.events_after(1) if isinstance(kv := event.previous, Folded)]
    assert [kv.value for kv in folded] == values[: len(folded)]
    assert 0 < max(map(memory_size, folded)) < 40  # zlib needs more to say that all of the second half is the same
    await store.close()


@pytest.mark.usefixtures("folds_soon")
async def test_who_has_read_a_version_keeps_it_as_it_is_while_history_folds_it() -> None:
    store = await MemoryStore.open()
    await store.write(Put("/r/a", b"first " * 100))
    read = store.peek("/r/a")
    assert read is not None
    for number in range(10):
        await store.write(Put("/r/a", b"%d " % number * 100))
    assert not isinstance(read, Folded)
    assert read.value == b"first " * 100
    await store.close()
