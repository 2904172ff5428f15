"""The default store: durable on one machine, in one SQLite file, with every read from memory.

The path of a write, which is acknowledged at the end:

    caller ── write_all ──► queue ── committer ──► preconditions checked (`mvcc.CheckedWrites`)
                                                     │ writer thread: `sqlite_file`, one transaction, to the disk
                             readers and watchers ◄── applied (`local`) ── outcomes to the callers

Group commit: the committer takes all writes that queued up during the previous transaction and waits for no more, so
one writer waits for one fsync and a hundred share one. Readers see only durable writes.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, ParamSpec, Self, TypeVar, cast

import msgspec

from mooring.base.clock import Clock, SystemClock
from mooring.store.errors import DiskFull, StorageError, StorageFailed
from mooring.store.kv import Conflict, Delete, Event, Outcome, Stats, Write
from mooring.store.local import LocalStore, check_writes
from mooring.store.mvcc import CheckedWrites, HistoryLimits
from mooring.store.sqlite_file import SqliteFile

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Worker:
    """The daemon thread that executes calls in order. `stop` ends it after those that are queued.

    A ThreadPoolExecutor costs a tenth of the distinct pods created a second (docs/decisions/store.md).
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        Thread(target=self._run_calls, name=name, daemon=True).start()

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function in the thread; return its result or raise its exception."""
        future: asyncio.Future[_T] = self._loop.create_future()
        self._calls.put((future, lambda: function(*args, **kwargs)))
        return await future

    def stop(self) -> None:
        self._calls.put(None)

    def _run_calls(self) -> None:
        while call := self._calls.get():
            future, function = call
            try:
                settle, outcome = _succeed, function()
            except BaseException as error:
                settle, outcome = _fail, error
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                self._loop.call_soon_threadsafe(settle, future, outcome)
            del call, future, function, outcome  # drop references while waiting for the next call


def _succeed(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():  # else its caller was cancelled
        future.set_result(outcome)


def _fail(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():
        future.set_exception(outcome)


# Obsolete rows that a transaction drops beside its own work: few enough not to delay waiting callers.
_MAX_DISCARDED_PER_COMMIT = 500
_MAX_GROWTH_WHEN_FULL_BYTES = 1024
"""Bytes by which a value may grow while the disk is full."""


class _QueuedWrites(msgspec.Struct, frozen=True, eq=False):
    """Writes whose caller waits for their outcomes."""

    writes: Sequence[Write]
    together: bool
    """Whether the writes are atomic."""
    done: asyncio.Future[Sequence[Outcome]]

    def check(self, checked: CheckedWrites) -> Sequence[Outcome]:
        return checked.check_together(self.writes) if self.together else checked.check_all(self.writes)


class SqliteStore(LocalStore):
    """A `kv.Store` in a data directory. `await SqliteStore.open(path)` starts it, `await store.close()` ends it."""

    def __init__(self, clock: Clock, limits: HistoryLimits, writer: Worker, file: SqliteFile) -> None:
        super().__init__(clock, limits)
        self._writer = writer
        self._file = file
        self._queue: list[_QueuedWrites] = []
        self._committer: asyncio.Task[None] | None = None
        self._discarded: list[int] = []  # obsolete revisions that are still in the file
        self._failure: StorageError | None = None
        self.is_full = False
        """Whether the disk was full at the last write; only deletes and updates that barely grow are accepted then."""

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        clock: Clock | None = None,
        limits: HistoryLimits | None = None,
        accept_loss: bool = False,
    ) -> Self:
        """Open or create a store. Raise `OpenError`, `StorageError`, or (without `accept_loss`) `Damaged`."""
        writer = Worker("store-writer")
        try:
            file = await writer.run(SqliteFile.open, directory, accept_loss=accept_loss)
            store = cls(clock or SystemClock(), limits or HistoryLimits(), writer, file)
            await writer.run(store._load)
            store.is_full = not await writer.run(file.keep_reserve)
        except BaseException:
            writer.stop()
            raise
        store._start_maintenance()
        return store

    @property
    def failure(self) -> StorageError | None:
        """Why the store no longer writes; None while it does."""
        return self._failure

    async def write(self, write: Write) -> Outcome:
        return (await self._enqueue((write,), together=False))[0]

    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        return cast("list[Outcome]", await self._enqueue(writes, together=False))

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        return cast("list[Event] | list[Conflict]", await self._enqueue(writes, together=True))

    def _enqueue(self, writes: Sequence[Write], *, together: bool) -> "asyncio.Future[Sequence[Outcome]]":
        """Queue writes; return a future for the outcomes of the next transaction."""
        self._check_open()
        check_writes(writes)
        loop = asyncio.get_running_loop()
        waiting = _QueuedWrites(writes, together, loop.create_future())
        self._queue.append(waiting)
        if self._committer is None:
            self._committer = loop.create_task(self._commit_queue(), name="store committer")
        return waiting.done

    async def compact(self, revision: int) -> None:
        await super().compact(revision)
        await self._compact_file()

    async def maintain(self) -> None:
        await super().maintain()
        await self._compact_file()
        if self.is_full:
            self.is_full = not await self._writer.run(self._file.keep_reserve)
        await self._writer.run(self._file.sync_mark)

    async def stats(self) -> Stats:
        stats = await super().stats()
        return msgspec.structs.replace(stats, file_bytes=await self._writer.run(self._file.size))

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        if self._committer:
            await asyncio.wait([self._committer])
        await self._writer.run(self._file.close)
        self._writer.stop()

    async def _commit_queue(self) -> None:
        try:
            while self._queue:
                queue, self._queue = self._queue, []
                await self._commit(queue)
        finally:
            self._committer = None

    async def _commit(self, queue: list[_QueuedWrites]) -> None:
        if self.is_full:
            self.is_full = not await self._writer.run(self._file.keep_reserve)
            if self.is_full:
                await self._commit_relief(queue)
                return
        checked = self._start_check()
        outcomes = [waiting.check(checked) for waiting in queue]
        error = await self._persist(checked.events)
        if isinstance(error, DiskFull):
            self.is_full = True
            await self._writer.run(self._file.release_reserve)
            await self._commit_relief(queue, error)
            return
        self._settle(queue, checked, outcomes, error)

    async def _commit_relief(self, queue: list[_QueuedWrites], error: StorageError | None = None) -> None:
        """Commit the writes that do not need space on a full disk, and fail the others."""
        error = error or DiskFull("the disk is full; nothing was written")
        relief = [waiting for waiting in queue if all(map(self._needs_no_space, waiting.writes))]
        kept = set(relief)
        for waiting in queue:
            if waiting not in kept and not waiting.done.done():
                waiting.done.set_exception(type(error)(*error.args))
        if relief:
            checked = self._start_check()
            outcomes = [waiting.check(checked) for waiting in relief]
            self._settle(relief, checked, outcomes, await self._persist(checked.events))

    def _needs_no_space(self, write: Write) -> bool:
        """Whether a write is a delete, or an update that barely grows (such as setting a deletion timestamp)."""
        if isinstance(write, Delete):
            return True
        there = self._state.get(write.key)
        return there is not None and len(write.value) <= len(there.value) + _MAX_GROWTH_WHEN_FULL_BYTES

    def _settle(
        self,
        queue: list[_QueuedWrites],
        checked: CheckedWrites,
        outcomes: list[Sequence[Outcome]],
        error: StorageError | None,
    ) -> None:
        if error is None:
            self._apply(checked.events)
        for waiting, result in zip(queue, outcomes, strict=True):
            if waiting.done.done():  # its caller was cancelled
                continue
            if error:
                waiting.done.set_exception(type(error)(*error.args))
            else:
                waiting.done.set_result(result)

    async def _persist(self, events: list[Event]) -> StorageError | None:
        """Write events to disk; return the error if that fails. Any error but a full disk stops writing for good."""
        discarded = self._discarded[:_MAX_DISCARDED_PER_COMMIT]
        if self._failure or not (events or self._is_file_behind):
            return self._failure
        try:
            await self._writer.run(self._file.commit, events, discarded, self._state.floor)
        except DiskFull as error:
            return error
        except StorageError as error:
            self._failure = error
        except (Exception, asyncio.CancelledError) as error:  # every waiting caller must get the error
            self._failure = StorageFailed(f"the store was interrupted while it wrote: {error!r}")
        else:
            del self._discarded[: len(discarded)]
        return self._failure

    def _discard(self, revisions: list[int]) -> None:
        self._discarded += revisions

    @property
    def _is_file_behind(self) -> bool:
        """Whether the file holds revisions or a floor that memory has compacted already."""
        return bool(self._discarded) or self._file.floor < self._state.floor

    async def _compact_file(self) -> None:
        while self._is_file_behind:
            await self.write_all(())

    def _load(self) -> None:
        """Read the file into memory; close it if that fails."""
        try:
            floor = self._file.floor
            self._state.start_at(floor)
            for revision, key, kv in self._file.rows():
                event = Event(revision, key, self._state.get(key), kv)
                if revision <= floor:
                    self._discarded += self._state.restore(event)
                else:
                    self._state.apply(event)
        except BaseException:
            self._file.close()
            raise
        self._compact_to(self._state.wanted_floor())
