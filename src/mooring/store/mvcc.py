"""Multi-version state in memory: the current value of every key, and the events since the floor.

Every store keeps one; it knows nothing of tasks, threads or disks. History is one list of events in order:

    floor = 3, revision = 6        history = [event 4, event 5, event 6]

Events that are no longer recent are delta-compressed (`folding`).

To read at revision 4, take the current state and undo events 6 and 5 (`past`). To compact to 5, drop the first two
events; the values that they replaced can then no longer be read. In etcd a revision may have no event here (a write
under another prefix) or several (one transaction), so history is searched by revision.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from mooring.base.clock import Clock
from mooring.store import folding
from mooring.store.errors import Compacted, FutureRevision
from mooring.store.kv import JUST_WRITTEN, Conflict, Delete, Event, KeyValue, Outcome, Page, Write, resolve_just_written
from mooring.store.past import Past
from mooring.store.sorted_keys import SortedKeys

_revision_of = attrgetter("revision")
_MAX_CHANGED_KEYS = 100_000
"""Total changed keys remembered for paging readers (about 25 MB); beyond it the least recent reader is evicted."""
_MAX_PAGING_READERS = 256
"""Most paging readers remembered; the next page of an evicted one costs as much as its first."""
_AFTER_SLASH = "0"
"""The character after "/", with which the first key after those under a prefix ends."""
_RECENT_EVENTS = 1000
"""The most recent events are not folded: watchers are about to read them."""


@dataclass(frozen=True)
class HistoryLimits:
    """Bounds on history kept for slow watchers and paging readers. The first bound that is reached applies."""

    seconds: float = 300.0
    events: int = 100_000
    value_bytes: int = 48 * 1024 * 1024
    """Bytes of values that only history holds (replaced or deleted)."""


class Mvcc:
    """All keys at the current revision, and history back to the floor."""

    def __init__(self, limits: HistoryLimits) -> None:
        self.revision = 0
        self.floor = 0
        self.history_bytes = 0
        self.freed_bytes = 0
        """Bytes freed by compaction and folding since the start."""
        self._limits = limits
        self._live: dict[str, KeyValue] = {}
        self.get: Callable[[str], KeyValue | None] = self._live.get
        """Bound to the dictionary's own method: every request reads several keys."""
        self._keys = SortedKeys()
        self._history: list[Event] = []
        self._folded = 0  # how many events of history, the first ones, are folded
        self._expiring: list[tuple[float, int, str]] = []  # a heap; an entry may be out of date
        self._pasts: dict[tuple[str, int], Past] = {}
        """State for paging readers, by prefix and revision, least recently used first."""

    def __len__(self) -> int:
        return len(self._live)

    @property
    def history_events(self) -> int:
        return len(self._history)

    def count(self, prefix: str) -> int:
        return self._keys.between(prefix, _end_of(prefix), limit=1)[1]

    def items(self, prefix: str) -> list[KeyValue]:
        """Return the current values of all keys under a prefix."""
        live = self._live
        return [live[key] for key in self._keys.between(prefix, _end_of(prefix))[0]]

    def range(self, prefix: str, after_key: str, limit: int, revision: int | None) -> Page:
        """Return a page of the keys under a prefix, at the current or an earlier revision."""
        self.require(self.revision if revision is None else revision)
        low, high = max(prefix, after_key), _end_of(prefix)
        if revision is None or revision == self.revision:
            keys, count = self._keys.between(low, high, limit)
            items = [self._live[key] for key in keys]
            return Page(items, self.revision, count - len(items))
        items, count = self._past(prefix, revision).page(self._keys, self._live, low, high, limit)
        return Page(items, revision, count - len(items))

    def require(self, revision: int) -> None:
        """Raise `Compacted` or `FutureRevision` if a revision cannot be read."""
        if revision < self.floor:
            raise Compacted(revision, self.floor)
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def events_after(self, revision: int) -> list[Event]:
        """Return the events after a revision that is not below the floor."""
        return self._history[self._index_after(revision) :]

    def event_at(self, revision: int, key: str) -> Event | None:
        """Return the event of a key at a revision, if it is in history."""
        history = self._history
        place = revision - history[0].revision if history else 0
        if 0 <= place < len(history) and history[place].revision == revision and history[place].key == key:
            return history[place]  # the common case: every revision has one event
        found = history[self._index_after(revision - 1) : self._index_after(revision)]
        return next((event for event in found if event.key == key), None)

    def advance(self, revision: int) -> None:
        """Raise the revision to a later one that has no events here."""
        self.revision = max(self.revision, revision)

    def apply(self, event: Event) -> None:
        """Apply the next event to the current values, and add it to history."""
        self.revision = event.revision
        self._replace(event)
        self._history.append(event)
        self.history_bytes += _size(event)

    def fold(self, count: int) -> None:
        """Fold up to `count` events that are no longer recent."""
        until = min(len(self._history) - _RECENT_EVENTS, self._folded + count)
        while self._folded < until:
            event = self._history[self._folded]
            self._folded += 1
            if event.previous and event.current:
                self._shrink(folding.fold(event, self.event_at(event.previous.mod_revision, event.key)))

    def restore(self, event: Event) -> list[int]:
        """Apply an event from below the floor; return the revisions that need not be stored any longer."""
        self._replace(event)
        return list(_obsolete(event))

    def start_at(self, floor: int) -> None:
        """Set floor and revision to that of the log that is being loaded."""
        self.revision = self.floor = floor

    def compact(self, floor: int) -> list[int]:
        """Drop history before a revision; return the revisions that need not be stored any longer, in order."""
        place = self._index_after(floor)
        dropped = self._history[:place]
        del self._history[:place]
        self._folded = max(self._folded - place, 0)
        self.floor = floor
        self._pasts = {key: past for key, past in self._pasts.items() if key[1] >= floor}
        self._shrink(sum(map(_size, dropped)))
        return [revision for event in dropped for revision in _obsolete(event)]

    def wanted_floor(self) -> int:
        """Return the floor that the limits require. It is a tenth below the limits, so that it moves in strides."""
        if len(self._history) <= self._limits.events and self.history_bytes <= self._limits.value_bytes:
            return self.floor
        surplus_events = len(self._history) - self._limits.events * 9 // 10
        surplus_bytes = self.history_bytes - self._limits.value_bytes * 9 // 10
        dropped = 0
        for event in self._history:
            if dropped >= surplus_events and surplus_bytes <= 0:
                break
            surplus_bytes -= _size(event)
            dropped += 1
        return self._history[dropped - 1].revision if dropped else self.floor

    def due_deletes(self, now: float, limit: int) -> list[Delete]:
        """Return the deletes that are due. They stay due until they are applied."""
        due: list[tuple[float, int, str]] = []
        while self._expiring and self._expiring[0][0] <= now and len(due) < limit:
            entry = heapq.heappop(self._expiring)
            kv = self._live.get(entry[2])
            if kv and kv.mod_revision == entry[1]:
                due.append(entry)
        for entry in due:
            heapq.heappush(self._expiring, entry)
        return [Delete(key, expect=revision) for _, revision, key in due]

    def _shrink(self, size: int) -> None:
        self.history_bytes -= size
        self.freed_bytes += size

    def _index_after(self, revision: int) -> int:
        return bisect_right(self._history, revision, key=_revision_of)

    def _past(self, prefix: str, revision: int) -> Past:
        past = self._pasts.pop((prefix, revision), None) or Past(prefix, revision)
        past.follow(self.events_after(past.last_revision))
        self._pasts[prefix, revision] = past
        while len(self._pasts) > _MAX_PAGING_READERS or (
            len(self._pasts) > 1 and sum(map(len, self._pasts.values())) > _MAX_CHANGED_KEYS
        ):
            del self._pasts[next(iter(self._pasts))]
        return past

    def _replace(self, event: Event) -> None:
        current = event.current
        if current is None:
            if self._live.pop(event.key, None):
                self._keys.remove(event.key)
            return
        if event.key not in self._live:
            self._keys.add(event.key)
        self._live[event.key] = current
        if current.expires:
            heapq.heappush(self._expiring, (current.expires, current.mod_revision, current.key))
            if len(self._expiring) > 2 * len(self._live) + 1000:
                self._expiring = [(kv.expires, kv.mod_revision, key) for key, kv in self._live.items() if kv.expires]
                heapq.heapify(self._expiring)


class CheckedWrites:
    """Writes whose preconditions are checked, each as if those before it were done; nothing is applied."""

    def __init__(self, state: Mvcc, clock: Clock) -> None:
        self.events: list[Event] = []
        self._state = state
        self._clock = clock
        self._changed: dict[str, KeyValue | None] = {}

    def check(self, write: Write) -> Outcome:
        """Return the event that the write would produce, or the conflict."""
        key = write.key
        previous = self._changed[key] if key in self._changed else self._state.get(key)
        found = previous.mod_revision if previous else 0
        if write.expect is not None and write.expect != found:
            return Conflict(key, previous)
        if previous:
            key = previous.key  # versions share one string object
        revision = self._state.revision + len(self.events) + 1
        if isinstance(write, Delete):
            if previous is None:
                return Conflict(key, None)
            current = None
        else:
            expires = 0.0 if write.ttl is None else self._clock.now().timestamp() + write.ttl
            created = previous.create_revision if previous else revision
            value = bytes(memoryview(write.value))  # a copy without spare capacity: encoders leave up to a quarter
            current = KeyValue(key, value, created, revision, expires)
        event = Event(revision, key, previous, current)
        self._changed[key] = current
        self.events.append(event)
        return event

    def check_all(self, writes: Sequence[Write]) -> list[Outcome]:
        """Check each of several writes; return their outcomes."""
        outcomes: list[Outcome] = []
        before: Outcome | None = None
        for write in writes:
            before = self.check(write if write.expect != JUST_WRITTEN else resolve_just_written(write, before))
            outcomes.append(before)
        return outcomes

    def check_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        """Check an atomic batch; return all events, or all conflicts and discard the events."""
        begin, changed = len(self.events), dict(self._changed)
        outcomes = [self.check(write) for write in writes]
        conflicts = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        if not conflicts:
            return self.events[begin:]
        del self.events[begin:]
        self._changed = changed
        return conflicts


def _end_of(prefix: str) -> str | None:
    """Return the first string after everything that starts with a prefix ending in "/"."""
    return prefix[:-1] + _AFTER_SLASH if prefix else None


def _size(event: Event) -> int:
    """Return the bytes that history holds because of an event: the value that it replaced."""
    return folding.memory_size(event.previous) if event.previous else 0


def _obsolete(event: Event) -> Iterator[int]:
    """Yield the revisions that are unreadable once the floor has reached an event: the replaced one, and the event's
    own if it is a delete.

    In this order, so that a store on disk never holds a value without the delete that ended it.
    """
    if event.previous:
        yield event.previous.mod_revision
    if event.current is None:
        yield event.revision
