"""A store without durability: for tests, simulation and `mooring up --ephemeral`."""

from collections.abc import Sequence
from typing import Self

from mooring.base.clock import Clock, SystemClock
from mooring.store.kv import Conflict, Event, Outcome, Write
from mooring.store.local import LocalStore, check_writes
from mooring.store.mvcc import HistoryLimits


class MemoryStore(LocalStore):
    """A `kv.Store` in memory. `await MemoryStore.open()` starts it, `await store.close()` ends it."""

    @classmethod
    async def open(cls, *, clock: Clock | None = None, limits: HistoryLimits | None = None) -> Self:
        store = cls(clock or SystemClock(), limits or HistoryLimits())
        store._start_maintenance()
        return store

    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        self._check_open()
        check_writes(writes)
        checked = self._start_check()
        outcomes = checked.check_all(writes)
        self._apply(checked.events)
        return outcomes

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        self._check_open()
        check_writes(writes)
        checked = self._start_check()
        outcomes = checked.check_together(writes)
        self._apply(checked.events)
        return outcomes

    def _discard(self, revisions: list[int]) -> None:
        """Do nothing: the memory is free already."""
