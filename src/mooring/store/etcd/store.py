"""A store that several servers share: reads from memory, writes to etcd, one watch between them.

    write ──► transaction in etcd ──► acknowledged at revision r ─┐
                                                                  ├─► applied in order ──► readers and watchers
    other servers' writes ──► etcd's watch (`feed`) ──────────────┘

An acknowledged write of our own is applied to memory once all earlier revisions are, usually before the watch delivers
it; the watch's copy is then skipped by its revision. A read first asks etcd for its revision and waits until memory has
reached it, so reads are linearizable across servers. Concurrent readers share one such request.

Revisions are etcd's own. Two differences from the other stores: `write_all` sends several concurrent transactions, so
only writes to one key keep their order; and the events of one etcd transaction (`write_together`, keys that expire
together) share a revision.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import msgspec

from mooring.base import logs
from mooring.base.clock import Clock, SystemClock
from mooring.store.errors import (
    Closed,
    Compacted,
    DiskFull,
    FutureRevision,
    OpenError,
    StorageError,
    StorageFailed,
    Unreachable,
)
from mooring.store.etcd import identity
from mooring.store.etcd.client import EtcdClient, InDoubt, LeaseGone, NotDone, RevisionGone
from mooring.store.etcd.compaction import Compactor, compact
from mooring.store.etcd.config import EtcdConfig
from mooring.store.etcd.feed import Feed
from mooring.store.etcd.fence import Fence, Mark, Marks
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.leases import Leases
from mooring.store.etcd.messages import DELETE, message
from mooring.store.etcd.revision_waiters import RevisionWaiters
from mooring.store.etcd.transactions import Step, build_transaction, conflicts, event_of, read_fence
from mooring.store.kv import Conflict, Event, KeyValue, Outcome, Page, Put, Stats, Write, resolve_just_written
from mooring.store.local import LocalStore, check_prefix, check_writes
from mooring.store.mvcc import HistoryLimits, Mvcc

log = logs.get(__name__)

_PAGE = 2000
_HISTORY_AT_START = 10_000
"""Revisions of history to load at start, so that watches and paged lists that began at another server can resume."""
_TICK_SECONDS = 0.05
_STALLED_SECONDS = 1.5
_STATUS_SECONDS = 1.0
_MAX_CONCURRENT_WRITES = 256


class EtcdStore(LocalStore):
    """A `kv.Store` in etcd. `await EtcdStore.open(config)` starts it, `await store.close()` ends it."""

    def __init__(self, config: EtcdConfig, clock: Clock, limits: HistoryLimits) -> None:
        super().__init__(clock, limits)
        self._keys = Keys(config)
        self._client = EtcdClient(config, clock)
        self._fence = Fence(self._client, self._keys)
        self._leases = Leases(self._client, clock)
        self._marks = Marks(self._client, self._keys, clock)
        self._compactor = Compactor(self._client, self._keys, clock, config.compaction_seconds)
        self._feed = Feed(
            self._client,
            self._keys,
            clock,
            revision=lambda: self._state.revision,
            receive=self._receive,
            read_again=self._reload,
            give_up=self._fail_after_restore,
        )
        self._waiters = RevisionWaiters(
            clock, config.request_seconds, soon=self._feed.hurry, late=self._handle_late_events
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._acknowledged: dict[int, Sequence[Write]] = {}  # our acknowledged writes that wait for earlier revisions
        self._revision_request: asyncio.Future[int] | None = None  # not sent yet
        self._revision_task: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._restored: StorageFailed | None = None
        self._file_bytes = 0
        self._writing = 0
        self.is_full = False
        """Whether etcd was full at the last write; only deletes succeed then."""
        self._idle: asyncio.Event | None = None
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_WRITES)

    @classmethod
    async def open(cls, config: EtcdConfig, *, clock: Clock | None = None, limits: HistoryLimits | None = None) -> Self:
        """Connect and read everything under the prefix. Raise `OpenError` or `StorageError`."""
        store = cls(config, clock or SystemClock(), limits or HistoryLimits())
        try:
            is_new = await identity.claim(store._client, store._keys)
            await store._fence.read()
            await store._marks.renew()
            await store._load(0 if is_new else _HISTORY_AT_START)
            store._run(store._feed.run(), "etcd watch")
            await store.revision()
        except (RevisionGone, NotDone, InDoubt, TimeoutError) as error:
            await store.close()
            raise OpenError(f"etcd could not be read as a whole; try again ({error})") from None
        except BaseException:
            await store.close()
            raise
        store._run(store._compactor.run(), "etcd compaction")
        store._start_maintenance()
        return store

    async def agree(self, name: str, value: bytes) -> bytes:
        """Return a value that all servers share: that of the first server to call this."""
        return await identity.agree(self._client, self._keys.shared_key(name), value)

    @property
    def failure(self) -> StorageError | None:
        """Why the store cannot be used now; None while it can."""
        trouble = self._feed.failure_reason()
        return self._restored or (Unreachable(trouble) if trouble else None)

    async def write(self, write: Write) -> Outcome:
        self._check_open()
        check_writes((write,))
        with self._track_write():
            return (await self._write((write,)))[0]

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        self._check_open()
        check_writes(writes)
        if not writes:
            return []
        with self._track_write():
            return await self._write(writes)

    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        self._check_open()
        check_writes(writes)
        chains: dict[str, list[int]] = {}
        for place, write in enumerate(writes):
            chains.setdefault(write.key, []).append(place)
        outcomes: dict[int, Outcome] = {}

        async def follow(places: list[int]) -> None:
            for place in places:
                [outcomes[place]] = await self._write((resolve_just_written(writes[place], outcomes.get(place - 1)),))

        with self._track_write():
            results = await asyncio.gather(*map(follow, chains.values()), return_exceptions=True)
        for error in results:
            if error is not None:
                raise error
        return [outcomes[place] for place in range(len(writes))]

    @contextmanager
    def _track_write(self) -> Iterator[None]:
        self._writing += 1
        try:
            yield
        finally:
            self._writing -= 1
            if not self._writing and self._idle:
                self._idle.set()

    async def _write(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        """Run one transaction; retry until its outcome is certain."""
        with self._marks.reserve() as mark:
            return await self._write_marked(writes, mark)

    async def _write_marked(self, writes: Sequence[Write], mark: Mark) -> list[Event] | list[Conflict]:
        tries, marked = 0, True
        deadline = self._client.deadline()
        while True:
            if self._clock.monotonic() >= deadline:
                raise Unreachable("etcd did not answer in time; nothing was written")
            steps = [Step(write, self._keys.etcd_key(write.key), await self._lease(write)) for write in writes]
            fence = self._fence.require()
            left = (mark, self._marks.lease) if marked else None
            request = build_transaction(steps, (self._keys.store, fence), left)
            try:
                async with self._slots:
                    response = await self._client.call("Txn", request, deadline)
            except LeaseGone:
                for step in steps:
                    self._leases.forget(step.lease)
                await self._marks.renew(now=True)
                continue
            except DiskFull:
                self.is_full = True
                if not marked or any(isinstance(write, Put) for write in writes):
                    raise
                marked = False  # a full etcd still deletes if the transaction has no put
                continue
            except InDoubt:
                if not marked:
                    raise Unreachable("the outcome of the delete is not known: a full etcd did not answer") from None
                await self._fence.raise_above(fence)  # from here on the write either happened or never will
                if revision := await self._marks.revision_of(mark):
                    return await self._apply_and_wait(writes, revision)
                continue
            except NotDone as error:
                tries += 1
                await self._client.back_off(tries, deadline, error)
                continue
            if response.succeeded:
                self.is_full = self.is_full and not marked
                return await self._apply_and_wait(writes, response.header.revision)
            self._fence.record(read_fence(response))
            if self._fence.revision == fence:
                await self._wait_for_revision(
                    response.header.revision
                )  # so that the caller's next read shows the conflicting value
                return conflicts(writes, response, self._keys)

    async def _lease(self, write: Write) -> int:
        return await self._leases.get_or_grant(write.ttl) if isinstance(write, Put) else 0

    async def _apply_and_wait(self, writes: Sequence[Write], revision: int) -> list[Event]:
        """Apply acknowledged writes to memory, wait until readers see them, and return their events."""
        if revision > self._state.revision:
            self._acknowledged[revision] = writes
            self._apply_acknowledged()
            await self._wait_for_revision(revision)
        events = [self._state.event_at(revision, write.key) for write in writes]
        found = [event for event in events if event is not None]
        if len(found) < len(writes):  # memory was reloaded meanwhile, or history was compacted
            raise Unreachable(f"the write is done, at revision {revision}, but it is not known what it replaced")
        return found

    async def get(self, key: str) -> KeyValue | None:
        await self.revision()
        return self._state.get(key)

    async def range(self, prefix: str, *, after_key: str = "", limit: int = 0, revision: int | None = None) -> Page:
        self._check_open()
        check_prefix(prefix)
        if revision is None or revision > self._state.revision:
            await self.revision()
        elif revision < self._state.floor:
            return await self._range_in_etcd(prefix, after_key, limit, revision)
        return self._state.range(prefix, after_key, limit, revision)

    async def count(self, prefix: str) -> int:
        await self.revision()
        return await super().count(prefix)

    async def revision(self) -> int:
        self._check_open()
        loop = asyncio.get_running_loop()
        if self._revision_request is None:
            self._revision_request = loop.create_future()
            self._revision_request.add_done_callback(_mark_retrieved)
            if self._revision_task is None:
                self._revision_task = loop.create_task(self._read_revisions(), name="etcd revision")
        revision = await asyncio.shield(self._revision_request)
        await self._wait_for_revision(revision)
        return self._state.revision

    async def _read_revisions(self) -> None:
        """Read etcd's revision for waiting readers, one request at a time, until no reader waits."""
        try:
            while question := self._revision_request:
                self._revision_request = None
                try:
                    question.set_result(await self._client.revision(self._keys.store))
                except asyncio.CancelledError:
                    for each in filter(None, (question, self._revision_request)):
                        each.set_exception(Closed("the store is closed"))
                    raise
                except Exception as error:  # every waiting reader must get the error
                    question.set_exception(error)
        finally:
            self._revision_task = None

    async def _wait_for_revision(self, revision: int) -> None:
        if revision > self._state.revision:
            await self._waiters.wait(revision)

    def _handle_late_events(self) -> None:
        """React to missing events: fail over if the watch is silent, or write the tick key."""
        if self._feed.fail_over_if_silent(_STALLED_SECONDS):
            return
        is_quiet = self._clock.monotonic() - self._feed.last_response_at >= _TICK_SECONDS
        if is_quiet and self._feed.is_settled() and self._ticking is None:
            self._ticking = asyncio.create_task(self._tick(), name="etcd tick")

    async def _tick(self) -> None:
        """Write a key, so that the watch reports its revision although the last writes were under other prefixes."""
        request = message("TxnRequest")()
        request.success.add().request_put.key = self._keys.tick
        try:
            await self._client.call_with_retry("Txn", request)
            await asyncio.sleep(_TICK_SECONDS)
        except StorageError as error:
            log.info("etcd could not be written", extra={"fields": {"error": str(error)}})
        finally:
            self._ticking = None

    async def _range_in_etcd(self, prefix: str, after_key: str, limit: int, revision: int) -> Page:
        if revision <= 0:
            raise Compacted(revision, self._state.floor)
        begin, end = self._keys.between(prefix, after_key)
        if begin >= end:
            return Page([], revision, 0)
        request = message("RangeRequest")(key=begin, range_end=end, limit=limit, revision=revision)
        try:
            response = await self._client.call_with_retry("Range", request)
        except RevisionGone:
            raise Compacted(revision, self._state.floor) from None
        items = list(self._visible_entries(response))
        return Page(items, revision, response.count - len(response.kvs))

    async def _load(self, history: int) -> None:
        """Fill memory with the state some revisions ago, so that the watch then replays recent history."""
        now = await self._client.revision(self._keys.store)
        start = max(now - history, 1)
        try:
            self._state = await self._snapshot(start)
        except RevisionGone:
            self._state = await self._snapshot(await self._feed.oldest(start))
        self._hub.restart(self._state)

    async def _reload(self) -> None:
        """Reload the current state after a gap in history and make every watcher list again."""
        state = await self._snapshot(await self._client.revision(self._keys.store))
        await self._fence.read()
        self._state = state
        self._acknowledged.clear()
        self._ages.clear()
        self._hub.restart(self._state)
        self._waiters.resolve_up_to(self._state.revision)

    def _fail_after_restore(self) -> None:
        """Fail permanently: etcd was restored to an earlier revision.

        Caches keyed by revision, in this process and in clients, would be wrong, so no request is served until a
        restart.
        """
        self._restored = StorageFailed(
            "etcd is at an older revision than before, as after a restore: restart this server"
        )
        log.error(str(self._restored))
        self._waiters.close(self._restored)
        self._hub.restart(self._state)

    def _check_open(self) -> None:
        super()._check_open()
        if self._restored:
            raise StorageFailed(*self._restored.args)

    async def _snapshot(self, revision: int) -> Mvcc:
        state = Mvcc(self._limits)
        begin = self._keys.begin
        while True:
            request = message("RangeRequest")(key=begin, range_end=self._keys.end, limit=_PAGE, revision=revision)
            response = await self._client.call_with_retry("Range", request)
            for kv in self._visible_entries(response):
                state.restore(Event(kv.mod_revision, kv.key, None, kv))
            if not response.more:
                state.start_at(revision)
                return state
            begin = response.kvs[-1].key + b"\0"

    def _visible_entries(self, response: Any) -> Iterator[KeyValue]:
        for entry in response.kvs:
            kv = self._keys.convert_entry(entry)
            if kv is not None:
                yield kv

    def _receive(self, response: Any) -> None:
        known, published = self._state.revision, []
        for event in response.events:
            revision = event.kv.mod_revision
            if revision <= known:  # our own write, applied already
                continue
            self._acknowledged.pop(revision, None)
            if event.kv.key == self._keys.store and event.type != DELETE:
                self._fence.record([event.kv])
            entry = self._apply_event(event)
            if entry is not None:
                published.append(entry)
            self._state.advance(revision)
        self._publish(published)
        self._apply_acknowledged()
        self._waiters.resolve_up_to(self._state.revision)

    def _apply_event(self, event: Any) -> Event | None:
        """Apply one etcd event; return None if it is hidden from readers."""
        key = self._keys.key_of(event.kv.key)
        previous = self._state.get(key) if key else None
        if key is None or (event.type == DELETE and previous is None):
            return None
        current = None if event.type == DELETE else self._keys.convert_entry(event.kv)
        applied = Event(event.kv.mod_revision, key, previous, current)
        self._state.apply(applied)
        return applied

    def _apply_acknowledged(self) -> None:
        published: list[Event] = []
        while writes := self._acknowledged.pop(self._state.revision + 1, None):
            events = [event_of(write, self._state.revision + 1, self._state.get(write.key)) for write in writes]
            for event in events:
                self._state.apply(event)
            published += events
        if published:
            self._publish(published)
            self._waiters.resolve_up_to(self._state.revision)

    async def compact(self, revision: int) -> None:
        if revision > await self.revision():
            raise FutureRevision(revision, self._state.revision)
        await compact(self._client, revision)
        self._compact_to(revision)

    async def maintain(self) -> None:
        """Compact memory by age and renew the lease of marks; etcd itself deletes expired keys."""
        self._compact_by_age()
        await self._marks.renew()
        if self.is_full:
            await self._check_space()

    async def _check_space(self) -> None:
        request = message("TxnRequest")()
        request.success.add().request_put.key = self._keys.tick
        with suppress(DiskFull):
            await self._client.call_with_retry("Txn", request)
            self.is_full = False

    async def stats(self) -> Stats:
        stats = await super().stats()
        with suppress(NotDone, InDoubt):  # the other numbers are still valid
            deadline = self._clock.monotonic() + _STATUS_SECONDS
            self._file_bytes = (await self._client.call("Status", message("StatusRequest")(), deadline)).dbSize
        return msgspec.structs.replace(stats, file_bytes=self._file_bytes)

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        if self._writing:
            self._idle = asyncio.Event()
            await self._idle.wait()
        self._waiters.close(Closed("the store is closed"))
        tasks = [task for task in (*self._tasks, self._revision_task, self._ticking) if task]
        self._fence.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def _run(self, work: Any, name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _discard(self, revisions: Iterable[int]) -> None:
        """Do nothing: the compactor compacts etcd for all servers."""


def _mark_retrieved(request: asyncio.Future[int]) -> None:
    if not request.cancelled():
        request.exception()
