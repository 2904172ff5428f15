"""Reads, watches, expiry and compaction from memory, shared by all stores.

`memory` adds writes only; `sqlite` commits every write to disk before it is applied here; `etcd` applies the events of
etcd's watch. Read `mvcc` next.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence

from mooring.base import logs, memory
from mooring.base.clock import Clock
from mooring.store.errors import Closed, FutureRevision, StorageError, TooLarge
from mooring.store.kv import MAX_VALUE_BYTES, Conflict, Event, KeyValue, Outcome, Page, Put, Stats, Write
from mooring.store.mvcc import CheckedWrites, HistoryLimits, Mvcc
from mooring.store.watch import LocalWatcher, WatchHub

log = logs.get(__name__)

_MAINTENANCE_SECONDS = 1.0
_MAX_EXPIRED_PER_BATCH = 1000
_MIN_RELEASE_BYTES = 16 * 1024 * 1024


class LocalStore(ABC):
    """The part of a `kv.Store` that all backends share: everything but writing."""

    def __init__(self, clock: Clock, limits: HistoryLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._state = Mvcc(limits)
        self._hub = WatchHub(self._state)
        self._closed = False
        self._ages: deque[tuple[float, int]] = deque()  # (time, revision at that time), at most one a second
        self._maintenance: asyncio.Task[None] | None = None
        self._returned_bytes = 0  # the part of freed_bytes that was returned to the system

    async def write(self, write: Write) -> Outcome:
        return (await self.write_all((write,)))[0]

    @abstractmethod
    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]: ...

    @abstractmethod
    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]: ...

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        return self._state.get(key)

    async def range(self, prefix: str, *, after_key: str = "", limit: int = 0, revision: int | None = None) -> Page:
        self._check_open()
        check_prefix(prefix)
        return self._state.range(prefix, after_key, limit, revision)

    async def count(self, prefix: str) -> int:
        self._check_open()
        check_prefix(prefix)
        return self._state.count(prefix)

    async def revision(self) -> int:
        self._check_open()
        return self._state.revision

    def peek(self, key: str) -> KeyValue | None:
        self._check_open()
        return self._state.get(key)

    def peek_all(self, prefix: str) -> list[KeyValue]:
        self._check_open()
        check_prefix(prefix)
        return self._state.items(prefix)

    def watch(self, selection: str, *, after: int) -> LocalWatcher:
        self._check_open()
        return self._hub.watch(selection, after)

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._state.revision:
            raise FutureRevision(revision, self._state.revision)
        self._compact_to(revision)

    async def stats(self) -> Stats:
        self._check_open()
        state = self._state
        return Stats(
            revision=state.revision,
            floor=state.floor,
            keys=len(state),
            history_events=state.history_events,
            history_bytes=state.history_bytes,
            watchers=len(self._hub),
            file_bytes=0,
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._maintenance:
            self._maintenance.cancel()
        self._hub.close()

    async def maintain(self) -> None:
        """Delete expired keys and compact by age. The store calls this every second."""
        while due := self._state.due_deletes(self._clock.now().timestamp(), _MAX_EXPIRED_PER_BATCH):
            await self.write_all(due)
        self._compact_by_age()

    def _compact_by_age(self) -> None:
        now = self._clock.monotonic()
        if not self._ages or self._ages[-1][1] != self._state.revision:
            self._ages.append((now, self._state.revision))
        floor = 0
        while self._ages and self._ages[0][0] <= now - self._limits.seconds:
            floor = self._ages.popleft()[1]
        self._compact_to(floor)
        if not 0 <= self._state.freed_bytes - self._returned_bytes < _MIN_RELEASE_BYTES:  # negative: history was reset
            self._returned_bytes = self._state.freed_bytes
            memory.release_free_memory()

    def _start_maintenance(self) -> None:
        self._maintenance = asyncio.get_running_loop().create_task(self._maintain_regularly(), name="store maintenance")

    async def _maintain_regularly(self) -> None:
        while True:
            await self._clock.sleep(_MAINTENANCE_SECONDS)
            try:
                await self.maintain()
            except StorageError as error:
                if logs.once(("store maintenance", str(error))):
                    log.warning("store maintenance failed", extra={"fields": {"error": str(error)}})

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")

    def _start_check(self) -> CheckedWrites:
        return CheckedWrites(self._state, self._clock)

    def _apply(self, events: list[Event]) -> None:
        for event in events:
            self._state.apply(event)
        self._publish(events)

    def _publish(self, events: list[Event]) -> None:
        self._hub.publish(events)
        self._state.fold(2 * len(events))  # twice, so that events loaded at start get folded too
        self._compact_to(self._state.wanted_floor())

    def _compact_to(self, floor: int) -> None:
        if floor > self._state.floor:
            self._discard(self._state.compact(floor))
            self._hub.compact(floor)

    @abstractmethod
    def _discard(self, revisions: list[int]) -> None: ...


def check_writes(writes: Iterable[Write]) -> None:
    """Reject writes that no backend could store, before they join a shared transaction."""
    for write in writes:
        if not write.key or write.key.endswith("/") or "\0" in write.key:
            raise ValueError(f"a key must not be empty, end with '/' or contain NUL: {write.key!r}")
        if not write.key.isascii():
            write.key.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
        if isinstance(write, Put) and type(write.value) is not bytes:
            raise TypeError(f"the value of {write.key} must be bytes, not {type(write.value).__name__}")
        if isinstance(write, Put) and len(write.value) > MAX_VALUE_BYTES:
            raise TooLarge(f"the object would take {len(write.value)} bytes in the store; limit is {MAX_VALUE_BYTES}")


def check_prefix(prefix: str) -> None:
    """Reject a prefix that would match half a name."""
    if prefix and not prefix.endswith("/"):
        raise ValueError(f"a prefix must end with '/': {prefix!r}")
