"""The store of several servers: all reads from memory, all writes in etcd, one watch between them.

    write ──► transaction in etcd ──► acknowledged at revision r ─┐
                                                                  ├─► applied in order ──► readers and watchers
    other servers' writes ──► etcd's watch (`feed`) ──────────────┘

A write of our own is applied as soon as everything before it is, usually without waiting for the watch to tell it; what
the watch tells later is skipped by its revision. A read asks etcd for its revision first, and waits until memory has
reached it, so it shows every write that anybody was told of, through whichever server. Readers that come while such a
question is under way share the next one.

Revisions are etcd's own. Two differences to the other stores: a group of writes is several transactions in flight, so
only writes to one key keep their order, unless they are written together; and what etcd does together, that or letting
keys expire, shares a revision.
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
from mooring.store.etcd.arrivals import Arrivals
from mooring.store.etcd.client import EtcdClient, InDoubt, LeaseGone, NotDone, RevisionGone
from mooring.store.etcd.compaction import Compactor, compact
from mooring.store.etcd.config import EtcdConfig
from mooring.store.etcd.feed import Feed
from mooring.store.etcd.fence import Fence
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.leases import Leases
from mooring.store.etcd.marks import Mark, Marks
from mooring.store.etcd.messages import DELETE, message
from mooring.store.etcd.transactions import Step, conflicts, event_of, fence_found, transaction
from mooring.store.kv import Conflict, Event, KeyValue, Outcome, Page, Put, Stats, Write, behind
from mooring.store.local import LocalStore, check_prefix, check_writes
from mooring.store.mvcc import HistoryLimits, Mvcc

log = logs.get(__name__)

_PAGE = 2000
_HISTORY_AT_START = 10_000
"""How many revisions back a server that starts can tell of, for watches and pages that began elsewhere."""
_TICK_SECONDS = 0.05
_STALLED_SECONDS = 1.5
_STATUS_SECONDS = 1.0
_IN_FLIGHT = 256


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
            read_again=self._read_again,
            give_up=self._give_up,
        )
        self._arrivals = Arrivals(clock, config.request_seconds, soon=self._feed.hurry, late=self._is_late)
        self._tasks: list[asyncio.Task[None]] = []
        self._acknowledged: dict[int, Sequence[Write]] = {}  # writes of ours that wait for those before them
        self._question: asyncio.Future[int] | None = None  # whose answer is not being fetched yet
        self._asking: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._restored: StorageFailed | None = None
        self._file_bytes = 0
        self._writing = 0
        self.is_full = False
        """Whether etcd was full at the last write: then it deletes only."""
        self._idle: asyncio.Event | None = None
        self._slots = asyncio.Semaphore(_IN_FLIGHT)

    @classmethod
    async def open(cls, config: EtcdConfig, *, clock: Clock | None = None, limits: HistoryLimits | None = None) -> Self:
        """Connect, and read everything under the prefix. Raises `OpenError` or `StorageError`."""
        store = cls(config, clock or SystemClock(), limits or HistoryLimits())
        try:
            is_new = await identity.claim(store._client, store._keys)
            await store._fence.find()
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
        """Something that all servers must have in common: the value of the one that was first to call this."""
        return await identity.agree(self._client, self._keys.common(name), value)

    @property
    def failure(self) -> StorageError | None:
        """Why the store cannot be used now; None while it can."""
        trouble = self._feed.trouble()
        return self._restored or (Unreachable(trouble) if trouble else None)

    # -- writing

    async def write(self, write: Write) -> Outcome:
        self._check_open()
        check_writes((write,))
        with self._busy():
            return (await self._write((write,)))[0]

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        self._check_open()
        check_writes(writes)
        if not writes:
            return []
        with self._busy():
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
                [outcomes[place]] = await self._write((behind(writes[place], outcomes.get(place - 1)),))

        with self._busy():
            results = await asyncio.gather(*map(follow, chains.values()), return_exceptions=True)
        for error in results:
            if error is not None:
                raise error
        return [outcomes[place] for place in range(len(writes))]

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Something that `close` waits for."""
        self._writing += 1
        try:
            yield
        finally:
            self._writing -= 1
            if not self._writing and self._idle:
                self._idle.set()

    async def _write(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        """One transaction, sent again until it is certain what became of it."""
        with self._marks.taken() as mark:
            return await self._write_marked(writes, mark)

    async def _write_marked(self, writes: Sequence[Write], mark: Mark) -> list[Event] | list[Conflict]:
        tries, marked = 0, True
        deadline = self._client.deadline()
        while True:
            if self._clock.monotonic() >= deadline:
                raise Unreachable("etcd did not answer in time; nothing was written")
            steps = [Step(write, self._keys.stored(write.key), await self._lease(write)) for write in writes]
            fence = self._fence.required()
            left = (mark, self._marks.lease) if marked else None
            request = transaction(steps, (self._keys.store, fence), left)
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
                marked = False  # a full etcd still deletes, if nothing is put beside it
                continue
            except InDoubt:
                if not marked:
                    raise Unreachable("the outcome of the delete is not known: a full etcd did not answer") from None
                await self._fence.above(fence)  # from here on it is either done or never will be
                if revision := await self._marks.revision_of(mark):
                    return await self._done(writes, revision)
                continue
            except NotDone as error:
                tries += 1
                await self._client.pause(tries, deadline, error)
                continue
            if response.succeeded:
                self.is_full = self.is_full and not marked
                return await self._done(writes, response.header.revision)
            self._fence.seen(fence_found(response))
            if self._fence.revision == fence:
                await self._reach(response.header.revision)  # lest whoever reads memory again finds what was there
                return conflicts(writes, response, self._keys)

    async def _lease(self, write: Write) -> int:
        return await self._leases.lease(write.ttl) if isinstance(write, Put) else 0

    async def _done(self, writes: Sequence[Write], revision: int) -> list[Event]:
        """Writes that etcd has acknowledged, as soon as readers see them."""
        if revision > self._state.revision:
            self._acknowledged[revision] = writes
            self._apply_acknowledged()
            await self._reach(revision)
        events = [self._state.event_at(revision, write.key) for write in writes]
        found = [event for event in events if event is not None]
        if len(found) < len(writes):  # memory was read anew meanwhile, or has forgotten it already
            raise Unreachable(f"the write is done, at revision {revision}, but it is not known what it replaced")
        return found

    # -- reading

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
        if self._question is None:
            self._question = loop.create_future()
            self._question.add_done_callback(_heard)
            if self._asking is None:
                self._asking = loop.create_task(self._ask(), name="etcd revision")
        revision = await asyncio.shield(self._question)
        await self._reach(revision)
        return self._state.revision

    async def _ask(self) -> None:
        """Ask etcd how far it is, one question after the other, until nobody waits."""
        try:
            while question := self._question:
                self._question = None
                try:
                    question.set_result(await self._client.revision(self._keys.store))
                except asyncio.CancelledError:
                    for each in filter(None, (question, self._question)):
                        each.set_exception(Closed("the store is closed"))
                    raise
                except Exception as error:  # whatever it is, those who wait must hear of it
                    question.set_exception(error)
        finally:
            self._asking = None

    async def _reach(self, revision: int) -> None:
        """Wait until memory has everything up to a revision."""
        if revision > self._state.revision:
            await self._arrivals.wait(revision)

    def _is_late(self) -> None:
        """What others have written, or what we have, does not come: find out why."""
        if self._feed.resume_elsewhere(_STALLED_SECONDS):
            return
        is_quiet = self._clock.monotonic() - self._feed.heard >= _TICK_SECONDS
        if is_quiet and self._feed.settled() and self._ticking is None:
            self._ticking = asyncio.create_task(self._tick(), name="etcd tick")

    async def _tick(self) -> None:
        """Write something, so that the watch tells how far it is although the last writes were in other prefixes."""
        request = message("TxnRequest")()
        request.success.add().request_put.key = self._keys.tick
        try:
            await self._client.ask("Txn", request)
            await asyncio.sleep(_TICK_SECONDS)
        except StorageError as error:
            log.info("etcd could not be written", extra={"fields": {"error": str(error)}})
        finally:
            self._ticking = None

    async def _range_in_etcd(self, prefix: str, after_key: str, limit: int, revision: int) -> Page:
        """A page at a revision that memory does not know, but etcd perhaps does."""
        if revision <= 0:
            raise Compacted(revision, self._state.floor)
        begin, end = self._keys.between(prefix, after_key)
        if begin >= end:
            return Page([], revision, 0)
        request = message("RangeRequest")(key=begin, range_end=end, limit=limit, revision=revision)
        try:
            response = await self._client.ask("Range", request)
        except RevisionGone:
            raise Compacted(revision, self._state.floor) from None
        items = list(self._entries(response))
        return Page(items, revision, response.count - len(response.kvs))

    # -- memory

    async def _load(self, history: int) -> None:
        """Fill an empty memory: everything as it was a while ago, so that the watch brings history with it."""
        now = await self._client.revision(self._keys.store)
        start = max(now - history, 1)
        try:
            self._state = await self._snapshot(start)
        except RevisionGone:
            self._state = await self._snapshot(await self._feed.oldest(start))
        self._hub.restart(self._state)

    async def _read_again(self) -> None:
        """History has a hole: begin anew with the present, and let every watcher do the same."""
        state = await self._snapshot(await self._client.revision(self._keys.store))
        await self._fence.find()
        self._state = state
        self._acknowledged.clear()
        self._ages.clear()
        self._hub.restart(self._state)
        self._arrivals.reached(self._state.revision)

    def _give_up(self) -> None:
        """Etcd was restored to an earlier time, and its revisions mean something else from now on.

        Whoever has cached anything by revision, in this process or behind it, would be wrong: so nothing is answered.
        """
        self._restored = StorageFailed("etcd is behind what it has told, as after a restore: restart this server")
        log.error(str(self._restored))
        self._arrivals.close(self._restored)
        self._hub.restart(self._state)

    def _check_open(self) -> None:
        super()._check_open()
        if self._restored:
            raise StorageFailed(*self._restored.args)

    async def _snapshot(self, revision: int) -> Mvcc:
        """All keys as they were at a revision. Raises `RevisionGone`."""
        state = Mvcc(self._limits)
        begin = self._keys.begin
        while True:
            request = message("RangeRequest")(key=begin, range_end=self._keys.end, limit=_PAGE, revision=revision)
            response = await self._client.ask("Range", request)
            for kv in self._entries(response):
                state.restore(Event(kv.mod_revision, kv.key, None, kv))
            if not response.more:
                state.start_at(revision)
                return state
            begin = response.kvs[-1].key + b"\0"

    def _entries(self, response: Any) -> Iterator[KeyValue]:
        """What a range of etcd holds that readers are to see."""
        for entry in response.kvs:
            kv = self._keys.entry(entry)
            if kv is not None:
                yield kv

    def _receive(self, response: Any) -> None:
        """Apply what the watch tells."""
        known, told = self._state.revision, []
        for event in response.events:
            revision = event.kv.mod_revision
            if revision <= known:  # a write of our own
                continue
            self._acknowledged.pop(revision, None)
            if event.kv.key == self._keys.store and event.type != DELETE:
                self._fence.seen([event.kv])
            entry = self._entry(event)
            if entry is not None:
                told.append(entry)
            self._state.advance(revision)
        self._publish(told)
        self._apply_acknowledged()
        self._arrivals.reached(self._state.revision)

    def _entry(self, event: Any) -> Event | None:
        """Apply one event of etcd; None if readers are not to see it."""
        key = self._keys.key_of(event.kv.key)
        previous = self._state.get(key) if key else None
        if key is None or (event.type == DELETE and previous is None):
            return None
        current = None if event.type == DELETE else self._keys.entry(event.kv)
        applied = Event(event.kv.mod_revision, key, previous, current)
        self._state.apply(applied)
        return applied

    def _apply_acknowledged(self) -> None:
        """Apply writes of our own that follow on what is in memory."""
        told: list[Event] = []
        while writes := self._acknowledged.pop(self._state.revision + 1, None):
            events = [event_of(write, self._state.revision + 1, self._state.get(write.key)) for write in writes]
            for event in events:
                self._state.apply(event)
            told += events
        if told:
            self._publish(told)
            self._arrivals.reached(self._state.revision)

    # -- the rest

    async def compact(self, revision: int) -> None:
        if revision > await self.revision():
            raise FutureRevision(revision, self._state.revision)
        await compact(self._client, revision)
        self._forget(revision)

    async def maintain(self) -> None:
        """Forget what is old; keys that have expired are deleted by etcd."""
        self._forget_by_age()
        await self._marks.renew()
        if self.is_full:
            await self._look_for_room()

    async def _look_for_room(self) -> None:
        request = message("TxnRequest")()
        request.success.add().request_put.key = self._keys.tick
        with suppress(DiskFull):
            await self._client.ask("Txn", request)
            self.is_full = False

    async def stats(self) -> Stats:
        stats = await super().stats()
        with suppress(NotDone, InDoubt):  # the rest is known here, and whoever draws it wants no gap
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
        self._arrivals.close(Closed("the store is closed"))
        tasks = [task for task in (*self._tasks, self._asking, self._ticking) if task]
        self._fence.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def _run(self, work: Any, name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _discard(self, revisions: Iterable[int]) -> None:
        """Etcd is compacted for all servers together."""


def _heard(question: asyncio.Future[int]) -> None:
    """An answer that everybody who asked has stopped waiting for is no mistake."""
    if not question.cancelled():
        question.exception()
