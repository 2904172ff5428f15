"""What all stores share: reads, watches, expiry and compaction, out of memory.

`memory` adds nothing but a way to write; `sqlite` puts every write on disk before it is applied here; `etcd` applies
what etcd tells. Read `mvcc` next.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence

from mooring.base import logs, memory
from mooring.base.clock import Clock
from mooring.store.errors import Closed, FutureRevision, StorageError
from mooring.store.kv import Conflict, Event, KeyValue, Outcome, Page, Put, Stats, Write
from mooring.store.mvcc import Draft, HistoryLimits, Mvcc
from mooring.store.watch import LocalWatcher, WatchHub

log = logs.get(__name__)

_MAINTENANCE_SECONDS = 1.0
_EXPIRE_AT_ONCE = 1000
_GIVEN_BACK_BYTES = 16 * 1024 * 1024


class LocalStore(ABC):
    """A `kv.Store` but for the writing."""

    def __init__(self, clock: Clock, limits: HistoryLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._state = Mvcc(limits)
        self._hub = WatchHub(self._state)
        self._closed = False
        self._ages: deque[tuple[float, int]] = deque()  # (when, the revision then), at most one a second
        self._maintenance: asyncio.Task[None] | None = None
        self._given_back = 0  # of the bytes that history has freed; the process may still have the others

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
        known = self._state.few_under(prefix)
        if known is not None:
            return known
        check_prefix(prefix)
        return self._state.all_under(prefix)

    def watch(self, selection: str, *, after: int) -> LocalWatcher:
        self._check_open()
        return self._hub.watch(selection, after)

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._state.revision:
            raise FutureRevision(revision, self._state.revision)
        self._forget(revision)

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
        """Delete what has expired and forget what is old. The store calls this every second by itself."""
        while due := self._state.expired(self._clock.now().timestamp(), _EXPIRE_AT_ONCE):
            await self.write_all(due)
        self._forget_by_age()

    def _forget_by_age(self) -> None:
        now = self._clock.monotonic()
        if not self._ages or self._ages[-1][1] != self._state.revision:
            self._ages.append((now, self._state.revision))
        floor = 0
        while self._ages and self._ages[0][0] <= now - self._limits.seconds:
            floor = self._ages.popleft()[1]
        self._forget(floor)
        if not 0 <= self._state.freed_bytes - self._given_back < _GIVEN_BACK_BYTES:  # below: history has begun anew
            self._given_back = self._state.freed_bytes
            memory.give_back()

    def _start_maintenance(self) -> None:
        self._maintenance = asyncio.get_running_loop().create_task(self._maintain_regularly(), name="store maintenance")

    async def _maintain_regularly(self) -> None:
        while True:
            await self._clock.sleep(_MAINTENANCE_SECONDS)
            try:
                await self.maintain()
            except StorageError as error:
                if logs.once(("store maintenance", str(error))):
                    log.warning("the store could not be tidied up", extra={"fields": {"error": str(error)}})

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")

    def _draft(self) -> Draft:
        return Draft(self._state, self._clock)

    def _apply(self, events: list[Event]) -> None:
        """Make events visible to readers and watchers, all in one go."""
        for event in events:
            self._state.apply(event)
        self._publish(events)

    def _publish(self, events: list[Event]) -> None:
        self._hub.publish(events)
        self._state.fold(2 * len(events))  # so that what was there at the start is folded in time, too
        self._forget(self._state.wanted_floor())

    def _forget(self, floor: int) -> None:
        if floor > self._state.floor:
            self._discard(self._state.compact(floor))
            self._hub.forget(floor)

    @abstractmethod
    def _discard(self, revisions: list[int]) -> None:
        """Take note of revisions that need not be stored any longer."""


def check_writes(writes: Iterable[Write]) -> None:
    """Refuse what no backend could store, before it can harm the writes it would share a transaction with."""
    for write in writes:
        if not write.key or write.key.endswith("/") or "\0" in write.key:
            raise ValueError(f"a key must not be empty, end with '/' or contain NUL: {write.key!r}")
        if not write.key.isascii():
            write.key.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
        if isinstance(write, Put) and type(write.value) is not bytes:
            raise TypeError(f"the value of {write.key} must be bytes, not {type(write.value).__name__}")


def check_prefix(prefix: str) -> None:
    """Refuse what would select half a name."""
    if prefix and not prefix.endswith("/"):
        raise ValueError(f"a prefix must end with '/': {prefix!r}")
