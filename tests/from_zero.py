"""A store whose revisions are counted from the moment it is wrapped, so that tests can name them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from mooring.store.errors import Compacted, FutureRevision
from mooring.store.kv import Batch, Conflict, Event, KeyValue, Outcome, Page, Stats, Store, Watcher, Write


class FromZero:
    """A `kv.Store` around another one, with its own revision 0."""

    def __init__(self, store: Store, zero: int) -> None:
        self.store = store
        self.zero = zero

    @classmethod
    async def wrap(cls, store: Store) -> Self:
        return cls(store, await store.revision())

    async def write(self, write: Write) -> Outcome:
        return (await self.write_all([write]))[0]

    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        there = list(map(self._there, writes))
        return [self._outcome(outcome) for outcome in await self.store.write_all(there)]

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        there = list(map(self._there, writes))
        outcomes = [self._outcome(outcome) for outcome in await self.store.write_together(there)]
        conflicts = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        return conflicts or [outcome for outcome in outcomes if isinstance(outcome, Event)]

    def _there(self, write: Write) -> Write:
        is_revision = write.expect is not None and write.expect > 0
        return replace(write, expect=(write.expect or 0) + self.zero) if is_revision else write

    async def get(self, key: str) -> KeyValue | None:
        return self._kv(await self.store.get(key))

    async def range(self, prefix: str, *, after_key: str = "", limit: int = 0, revision: int | None = None) -> Page:
        there = None if revision is None else revision + self.zero
        page = await self.store.range(prefix, after_key=after_key, limit=limit, revision=there)
        items = [here for kv in page.items if (here := self._kv(kv))]
        return Page(items, page.revision - self.zero, page.remaining)

    async def count(self, prefix: str) -> int:
        return await self.store.count(prefix)

    async def revision(self) -> int:
        return await self.store.revision() - self.zero

    def peek(self, key: str) -> KeyValue | None:
        return self._kv(self.store.peek(key))

    def peek_all(self, prefix: str) -> list[KeyValue]:
        return [here for kv in self.store.peek_all(prefix) if (here := self._kv(kv))]

    def watch(self, selection: str, *, after: int) -> "WatcherFromZero":
        return WatcherFromZero(self, self.store.watch(selection, after=after + self.zero))

    async def compact(self, revision: int) -> None:
        try:
            await self.store.compact(revision + self.zero)
        except FutureRevision as error:
            raise FutureRevision(error.requested - self.zero, error.current - self.zero) from None

    async def stats(self) -> Stats:
        stats = await self.store.stats()
        return replace(stats, revision=stats.revision - self.zero, floor=stats.floor - self.zero)

    async def close(self) -> None:
        await self.store.close()

    def event(self, event: Event) -> Event:
        return Event(event.revision - self.zero, event.key, self._kv(event.previous), self._kv(event.current))

    def _outcome(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Event):
            return self.event(outcome)
        return Conflict(outcome.key, self._kv(outcome.current))

    def _kv(self, kv: KeyValue | None) -> KeyValue | None:
        if kv is None:
            return None
        revisions = {"create_revision": kv.create_revision - self.zero, "mod_revision": kv.mod_revision - self.zero}
        return replace(kv, **revisions)


class WatcherFromZero:
    """The `kv.Watcher` of such a store."""

    def __init__(self, store: FromZero, watcher: Watcher) -> None:
        self._store = store
        self._watcher = watcher

    async def next(self, *, timeout: float | None = None, limit: int = 1000) -> Batch:  # noqa: ASYNC109 - as in `kv`
        with self._counted():
            return self._batch(await self._watcher.next(timeout=timeout, limit=limit))

    def take(self, limit: int = 1000) -> Batch:
        with self._counted():
            return self._batch(self._watcher.take(limit))

    def listen(self, reported: Callable[[], None]) -> None:
        self._watcher.listen(reported)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except Compacted as error:
            raise Compacted(error.requested - self._store.zero, error.floor - self._store.zero) from None

    def _batch(self, batch: Batch) -> Batch:
        events = [self._store.event(event) for event in batch.events]
        return Batch(events, batch.revision - self._store.zero)

    def close(self) -> None:
        self._watcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
