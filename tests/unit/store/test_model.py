"""Every backend against a model so plain that it cannot be wrong: a full copy of all keys for each revision."""

import asyncio
import copy
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.store.errors import Compacted
from mooring.store.kv import JUST_WRITTEN, Conflict, Delete, Event, KeyValue, Outcome, Put, Store, Write
from mooring.store.local import LocalStore
from mooring.store.memory import MemoryStore
from mooring.store.mvcc import HistoryLimits
from mooring.store.sqlite import SqliteStore
from mooring.store.watch import LocalWatcher
from mooring.testing.clock import MockClock

KEYS = ("/r/a", "/r/b", "/r/b/c", "/r/b-c", "/s/a", "/t")
PREFIXES = ("", "/", "/r/", "/r/b/", "/s/", "/none/")
keys = st.sampled_from(KEYS)
expects = st.none() | st.just(0) | st.just(JUST_WRITTEN) | st.integers(1, 30)
values = st.binary(max_size=4)
ttls = st.none() | st.sampled_from([5.0, 50.0])
writes = st.builds(Put, keys, values, expects, ttls) | st.builds(Delete, keys, expects)


class Model:
    """The promise of `kv`, spelled out."""

    def __init__(self) -> None:
        self.states: list[dict[str, KeyValue]] = [{}]
        self.events: list[Event] = []
        self.floor = 0

    @property
    def revision(self) -> int:
        return len(self.events)

    def write(self, write: Write, now: float, before: Outcome | None = None) -> Outcome:
        state = dict(self.states[-1])
        previous = state.pop(write.key, None)
        if write.expect == JUST_WRITTEN:
            if not isinstance(before, Event) or before.current is None or before.current != previous:
                return Conflict(write.key, previous)
        elif write.expect is not None and write.expect != (previous.mod_revision if previous else 0):
            return Conflict(write.key, previous)
        if isinstance(write, Delete) and previous is None:
            return Conflict(write.key, None)
        revision = self.revision + 1
        current = None
        if isinstance(write, Put):
            expires = now + write.ttl if write.ttl else 0.0
            created = previous.create_revision if previous else revision
            current = state[write.key] = KeyValue(write.key, write.value, created, revision, expires)
        self.states.append(state)
        self.events.append(Event(revision, write.key, previous, current))
        return self.events[-1]


def is_conflict(outcome: Outcome) -> bool:
    return isinstance(outcome, Conflict)


class StoreMachine(RuleBasedStateMachine):
    """Random writes, reads, watches, compactions and restarts, each compared with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = MockClock()
        self.model = Model()
        self.watchers: list[tuple[str, list[int], LocalWatcher]] = []
        self.store: LocalStore

    async def open(self) -> LocalStore:
        return await MemoryStore.open(clock=self.clock)

    @initialize()
    def start(self) -> None:
        self.store = self.loop.run_until_complete(self.open())

    @rule(group=st.lists(writes, min_size=1, max_size=6), together=st.booleans())
    def write(self, group: list[Write], together: bool) -> None:
        async def run() -> list[Outcome]:
            if together:
                return await self.store.write_all(group)
            return list(await asyncio.gather(*map(self.store.write, group)))

        now = self.clock.now().timestamp()
        expected: list[Outcome] = []
        for write in group:
            expected.append(self.model.write(write, now, expected[-1] if together and expected else None))
        assert self.loop.run_until_complete(run()) == expected

    @rule(group=st.lists(writes, min_size=1, max_size=4, unique_by=lambda write: write.key))
    def write_together(self, group: list[Write]) -> None:
        now = self.clock.now().timestamp()
        found = self.loop.run_until_complete(self.store.write_together(group))
        conflicts = [
            each for each in (copy.deepcopy(self.model).write(write, now) for write in group) if is_conflict(each)
        ]
        assert found == (conflicts or [self.model.write(write, now) for write in group])

    @rule(
        prefix=st.sampled_from(PREFIXES), after_key=st.just("") | keys, limit=st.integers(0, 3), back=st.integers(0, 9)
    )
    def range(self, prefix: str, after_key: str, limit: int, back: int) -> None:
        revision = max(self.model.revision - back, 0)
        if revision < self.model.floor:
            with pytest.raises(Compacted):
                self.loop.run_until_complete(self.store.range(prefix, revision=revision))
            return
        page = self.loop.run_until_complete(
            self.store.range(prefix, after_key=after_key, limit=limit, revision=revision if back else None)
        )
        state = self.model.states[revision]
        expected = [state[key] for key in sorted(state) if key.startswith(prefix) and key > after_key]
        shown = expected[: limit or None]
        assert (page.items, page.remaining, page.revision) == (shown, len(expected) - len(shown), revision)

    @rule(prefix=st.sampled_from(PREFIXES))
    def peek_all(self, prefix: str) -> None:
        state = self.model.states[-1]
        assert self.store.peek_all(prefix) == [state[key] for key in sorted(state) if key.startswith(prefix)]

    @rule(selection=st.sampled_from(PREFIXES + KEYS), back=st.integers(0, 9))
    def watch(self, selection: str, back: int) -> None:
        after = max(self.model.revision - back, self.model.floor)
        self.watchers.append((selection, [after], self.store.watch(selection, after=after)))

    @precondition(lambda self: self.watchers)
    @rule(data=st.data(), limit=st.integers(1, 5))
    def read_watch(self, data: st.DataObject, limit: int) -> None:
        selection, cursor, watcher = data.draw(st.sampled_from(self.watchers))
        prefix = selection in PREFIXES
        pending = [
            event
            for event in self.model.events[cursor[0] :]
            if (event.key.startswith(selection) if prefix else event.key == selection)
        ]
        if pending and pending[0].revision <= self.model.floor:
            with pytest.raises(Compacted):
                self.loop.run_until_complete(watcher.next(timeout=0))
            self.watchers.remove((selection, cursor, watcher))
            return
        batch = self.loop.run_until_complete(watcher.next(timeout=0, limit=limit))
        assert batch.events == pending[:limit]
        assert batch.revision == (batch.events[-1].revision if len(batch.events) == limit else self.model.revision)
        cursor[0] = batch.revision

    @rule(back=st.integers(0, 9))
    def compact(self, back: int) -> None:
        revision = max(self.model.revision - back, 0)
        self.loop.run_until_complete(self.store.compact(revision))
        self.model.floor = max(self.model.floor, revision)

    @rule(seconds=st.sampled_from([1.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.run_until_complete(self.store.maintain())
        now = self.clock.now().timestamp()
        due = [kv for kv in self.model.states[-1].values() if kv.expires and kv.expires <= now]
        for kv in sorted(due, key=lambda kv: (kv.expires, kv.mod_revision)):
            self.model.write(Delete(kv.key), now)

    @invariant()
    def present(self) -> None:
        if not hasattr(self, "store"):
            return
        current, page = self.loop.run_until_complete(self.read_present(self.store))
        assert (current, page) == (self.model.revision, self.model.states[-1])

    async def read_present(self, store: Store) -> tuple[int, dict[str, KeyValue]]:
        return await store.revision(), {key: kv for key in KEYS if (kv := await store.get(key))}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.loop.run_until_complete(self.store.close())
        self.loop.close()


class SqliteMachine(StoreMachine):
    """The same, with a file that is closed and opened again at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()

    async def open(self) -> LocalStore:
        limits = HistoryLimits(seconds=1e9)
        return await SqliteStore.open(Path(self.directory.name), clock=self.clock, limits=limits)

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.store = self.loop.run_until_complete(self.open())
        # Watchers resume where they were, if that is still known, as clients do.
        self.watchers = [
            (selection, cursor, self.store.watch(selection, after=cursor[0]))
            for selection, cursor, _ in self.watchers
            if cursor[0] >= self.model.floor
        ]

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


for machine in (StoreMachine, SqliteMachine):
    machine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

TestMemoryAgainstModel = pytest.mark.req("S.2")(StoreMachine.TestCase)
TestSqliteAgainstModel = pytest.mark.req("S.2")(SqliteMachine.TestCase)
