"""The default store: durable on one machine, in one file, with every read from memory.

A write takes this way, and is acknowledged at the end of it:

    caller ── write_all ──► queue ── committer ──► judged against the present (`mvcc.Draft`)
                                                     │ writer thread: `sqlite_file`, one transaction, to the disk
                             readers and watchers ◄── applied (`local`) ── outcomes to the callers

The committer takes whatever queued up during the previous transaction and never lingers for more, so one writer waits
for one trip to the disk and a hundred share one. Readers see nothing that could still be lost.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Self, cast

import msgspec

from mooring.base.clock import Clock, SystemClock
from mooring.store.errors import DiskFull, StorageError, StorageFailed
from mooring.store.kv import Conflict, Delete, Event, Outcome, Stats, Write
from mooring.store.local import LocalStore, check_writes
from mooring.store.mvcc import Draft, HistoryLimits
from mooring.store.sqlite_file import SqliteFile
from mooring.store.worker import Worker

# How many obsolete rows a transaction drops beside its own work: few enough not to hold up those who wait for it.
_DISCARD_AT_ONCE = 500
_LITTLE = 1024
"""How much longer a value may get while the disk is full."""


class _Waiting(msgspec.Struct, frozen=True, eq=False):
    """Writes whose caller waits for their outcomes."""

    writes: Sequence[Write]
    together: bool
    """Whether all of them are done or none."""
    done: asyncio.Future[Sequence[Outcome]]

    def judged(self, draft: Draft) -> Sequence[Outcome]:
        return draft.judge_together(self.writes) if self.together else draft.judge_all(self.writes)


class SqliteStore(LocalStore):
    """A `kv.Store` in a data directory. `await SqliteStore.open(path)` starts it, `await store.close()` ends it."""

    def __init__(self, clock: Clock, limits: HistoryLimits, writer: Worker, file: SqliteFile) -> None:
        super().__init__(clock, limits)
        self._writer = writer
        self._file = file
        self._queue: list[_Waiting] = []
        self._committer: asyncio.Task[None] | None = None
        self._discarded: list[int] = []  # revisions that are still in the file and need not be
        self._failure: StorageError | None = None
        self.is_full = False
        """Whether the disk was full at the last write: then things are deleted and shortened only."""

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        clock: Clock | None = None,
        limits: HistoryLimits | None = None,
        accept_loss: bool = False,
    ) -> Self:
        """Open the store of a data directory, or make one. Raises `OpenError` or `StorageError`.

        A log whose end is missing is `Damaged`, unless whoever opens it says with `accept_loss` to go on without.
        """
        writer = Worker("store-writer")
        try:
            file = await writer.do(SqliteFile.open, directory, accept_loss=accept_loss)
            store = cls(clock or SystemClock(), limits or HistoryLimits(), writer, file)
            await writer.do(store._load)
            store.is_full = not await writer.do(file.keep_reserve)
        except BaseException:
            writer.stop()
            raise
        store._start_maintenance()
        return store

    @property
    def failure(self) -> StorageError | None:
        """Why the store does not write any longer; None while it does."""
        return self._failure

    async def write(self, write: Write) -> Outcome:
        return (await self._outcomes((write,), together=False))[0]

    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        return cast("list[Outcome]", await self._outcomes(writes, together=False))

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        return cast("list[Event] | list[Conflict]", await self._outcomes(writes, together=True))

    def _outcomes(self, writes: Sequence[Write], *, together: bool) -> "asyncio.Future[Sequence[Outcome]]":
        """What the transaction after the one that is under way will come to."""
        self._check_open()
        check_writes(writes)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(writes, together, loop.create_future())
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
            self.is_full = not await self._writer.do(self._file.keep_reserve)
        await self._writer.do(self._file.sync_mark)

    async def stats(self) -> Stats:
        stats = await super().stats()
        return msgspec.structs.replace(stats, file_bytes=await self._writer.do(self._file.size))

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        if self._committer:
            await asyncio.wait([self._committer])
        await self._writer.do(self._file.close)
        self._writer.stop()

    async def _commit_queue(self) -> None:
        """One transaction after the other, until nobody waits."""
        try:
            while self._queue:
                queue, self._queue = self._queue, []
                await self._commit(queue)
        finally:
            self._committer = None

    async def _commit(self, queue: list[_Waiting]) -> None:
        if self.is_full:
            self.is_full = not await self._writer.do(self._file.keep_reserve)
            if self.is_full:
                await self._commit_relief(queue)
                return
        draft = self._draft()
        outcomes = [waiting.judged(draft) for waiting in queue]
        error = await self._persist(draft.events)
        if isinstance(error, DiskFull):
            self.is_full = True
            await self._writer.do(self._file.release_reserve)
            await self._commit_relief(queue, error)
            return
        self._settle(queue, draft, outcomes, error)

    async def _commit_relief(self, queue: list[_Waiting], error: StorageError | None = None) -> None:
        """Do what makes no use of a full disk, and refuse the rest."""
        error = error or DiskFull("the disk is full; nothing was written")
        relief = [waiting for waiting in queue if all(map(self._relieves, waiting.writes))]
        kept = set(relief)
        for waiting in queue:
            if waiting not in kept and not waiting.done.done():
                waiting.done.set_exception(type(error)(*error.args))
        if relief:
            draft = self._draft()
            outcomes = [waiting.judged(draft) for waiting in relief]
            self._settle(relief, draft, outcomes, await self._persist(draft.events))

    def _relieves(self, write: Write) -> bool:
        """Whether a write deletes something, or changes it without making it much longer, as a deletion begins."""
        if isinstance(write, Delete):
            return True
        there = self._state.get(write.key)
        return there is not None and len(write.value) <= len(there.value) + _LITTLE

    def _settle(
        self, queue: list[_Waiting], draft: Draft, outcomes: list[Sequence[Outcome]], error: StorageError | None
    ) -> None:
        """Make what was written visible, and tell those who wait."""
        if error is None:
            self._apply(draft.events)
        for waiting, result in zip(queue, outcomes, strict=True):
            if waiting.done.done():  # its caller was cancelled
                continue
            if error:
                waiting.done.set_exception(type(error)(*error.args))
            else:
                waiting.done.set_result(result)

    async def _persist(self, events: list[Event]) -> StorageError | None:
        """Put events on disk, or say why not. Unless the disk was merely full, nothing is written after that."""
        discarded = self._discarded[:_DISCARD_AT_ONCE]
        if self._failure or not (events or self._file_lags):
            return self._failure
        try:
            await self._writer.do(self._file.commit, events, discarded, self._state.floor)
        except DiskFull as error:
            return error
        except StorageError as error:
            self._failure = error
        except (Exception, asyncio.CancelledError) as error:  # whatever it is, those who wait must hear of it
            self._failure = StorageFailed(f"the store was interrupted while it wrote: {error!r}")
        else:
            del self._discarded[: len(discarded)]
        return self._failure

    def _discard(self, revisions: list[int]) -> None:
        self._discarded += revisions

    @property
    def _file_lags(self) -> bool:
        """Whether the file still holds, or promises, what is below the floor."""
        return bool(self._discarded) or self._file.floor < self._state.floor

    async def _compact_file(self) -> None:
        while self._file_lags:
            await self.write_all(())

    def _load(self) -> None:
        """Read the file. It is closed again if that fails."""
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
        self._forget(self._state.wanted_floor())
