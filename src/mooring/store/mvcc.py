"""The store in memory: what every key holds now, and the events since the floor, from which the past is worked out.

Every store keeps one; it knows nothing of tasks, threads or disks. History is one list of events in order:

    floor = 3, revision = 6        history = [event 4, event 5, event 6]

Events that are not new any more are folded (`folding`): they tell the same in less memory.

To read at revision 4, take the present and undo events 6 and 5 (`past`). To compact to 5, drop the first two; what
event 4 and event 5 replaced can then no longer be asked for. In etcd a revision may have no event here (somebody wrote
elsewhere) or several (one transaction), so places in history are looked up by revision.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from mooring.base.clock import Clock
from mooring.store import folding
from mooring.store.errors import Compacted, FutureRevision
from mooring.store.kv import JUST_WRITTEN, Conflict, Delete, Event, KeyValue, Outcome, Page, Write, behind
from mooring.store.past import Past
from mooring.store.sorted_keys import SortedKeys

_revision_of = attrgetter("revision")
_FEW, _PREFIXES = 64, 4096
_CHANGED = 100_000
"""Of so many changed keys it is remembered what they were for readers of pages: 25 MB."""
_READERS = 256
"""So many of them are remembered; the next page of another takes as long as its first."""
_NEW = 1000
"""So many events are not folded: watchers are about to read them."""


@dataclass(frozen=True)
class HistoryLimits:
    """How much of the past is kept, for slow watchers and paging readers. Whichever is reached first counts."""

    seconds: float = 300.0
    events: int = 100_000
    value_bytes: int = 48 * 1024 * 1024
    """Of values that only history holds: what was replaced or deleted. The others are there anyway."""


class Mvcc:
    """All keys at the current revision, and the way back to the floor."""

    def __init__(self, limits: HistoryLimits) -> None:
        self.revision = 0
        self.floor = 0
        self.history_bytes = 0
        self.freed_bytes = 0
        """Of values that history has forgotten or folded, since the start."""
        self._limits = limits
        self._live: dict[str, KeyValue] = {}
        self.get: Callable[[str], KeyValue | None] = self._live.get
        """The dictionary's own, as every request asks for several keys."""
        self._keys = SortedKeys()
        self._history: list[Event] = []
        self._folded = 0  # how many events of history, the first ones, are folded
        self._expiring: list[tuple[float, int, str]] = []  # a heap; an entry may be out of date
        self._pasts: dict[tuple[str, int], Past] = {}
        """Of readers who go on, by prefix and revision; who asked last comes last."""
        self._few: dict[str, list[str]] = {}
        """The keys under prefixes that were asked for, where there are few; forgotten when one comes or goes."""

    def __len__(self) -> int:
        return len(self._live)

    @property
    def history_events(self) -> int:
        return len(self._history)

    def count(self, prefix: str) -> int:
        return self._keys.between(prefix, _end_of(prefix), limit=1)[1]

    def few_under(self, prefix: str) -> list[KeyValue] | None:
        """All keys under a prefix, now, if it was asked for before. Writers ask for the same few (quotas, limits)."""
        keys = self._few.get(prefix)
        return None if keys is None else list(map(self._live.__getitem__, keys))

    def all_under(self, prefix: str) -> list[KeyValue]:
        """The same of whatever prefix; where there are few keys, they are remembered."""
        found = self.range(prefix, "", 0, None).items
        if prefix and len(found) <= _FEW:
            if len(self._few) >= _PREFIXES:
                self._few.clear()
            self._few[prefix] = [kv.key for kv in found]
        return found

    def range(self, prefix: str, after_key: str, limit: int, revision: int | None) -> Page:
        """A page of the keys under a prefix, now or at an earlier revision."""
        self.require(self.revision if revision is None else revision)
        low, high = max(prefix, after_key), _end_of(prefix)
        if revision is None or revision == self.revision:
            keys, count = self._keys.between(low, high, limit)
            items = [self._live[key] for key in keys]
            return Page(items, self.revision, count - len(items))
        items, count = self._past(prefix, revision).page(self._keys, self._live, low, high, limit)
        return Page(items, revision, count - len(items))

    def require(self, revision: int) -> None:
        """Raise unless the store can still, and can already, tell how it looked at a revision."""
        if revision < self.floor:
            raise Compacted(revision, self.floor)
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def events_behind(self, revision: int) -> list[Event]:
        """The events after a revision that is not below the floor."""
        return self._history[self._place(revision) :]

    def event_at(self, revision: int, key: str) -> Event | None:
        """What a revision did to a key, if that is in history."""
        history = self._history
        place = revision - history[0].revision if history else 0
        if 0 <= place < len(history) and history[place].revision == revision and history[place].key == key:
            return history[place]  # as it is where every revision has one event
        found = history[self._place(revision - 1) : self._place(revision)]
        return next((event for event in found if event.key == key), None)

    def advance(self, revision: int) -> None:
        """Nothing has happened here up to a revision."""
        self.revision = max(self.revision, revision)

    def apply(self, event: Event) -> None:
        """Take over an event, which follows on all that were applied."""
        self.revision = event.revision
        self._replace(event)
        self._history.append(event)
        self.history_bytes += _size(event)

    def fold(self, count: int) -> None:
        """Fold up to so many events that are not new any more."""
        until = min(len(self._history) - _NEW, self._folded + count)
        while self._folded < until:
            event = self._history[self._folded]
            self._folded += 1
            if event.previous and event.current:
                self._shrink(folding.fold(event, self.event_at(event.previous.mod_revision, event.key)))

    def restore(self, event: Event) -> list[int]:
        """Take over an event from below the floor; returns the revisions that need not be stored any longer."""
        self._replace(event)
        return list(_obsolete(event))

    def start_at(self, floor: int) -> None:
        """Everything below the floor has been restored; what follows is history."""
        self.revision = self.floor = floor

    def compact(self, floor: int) -> list[int]:
        """Forget the past before a revision; returns the revisions that need not be stored any longer, in order."""
        place = self._place(floor)
        dropped = self._history[:place]
        del self._history[:place]
        self._folded = max(self._folded - place, 0)
        self.floor = floor
        self._pasts = {key: past for key, past in self._pasts.items() if key[1] >= floor}
        self._shrink(sum(map(_size, dropped)))
        return [revision for event in dropped for revision in _obsolete(event)]

    def wanted_floor(self) -> int:
        """The floor that the limits on events and bytes ask for: a tenth below them, so that it moves in strides."""
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

    def expired(self, now: float, limit: int) -> list[Delete]:
        """The deletes that are due. They stay due until they are applied."""
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

    def _place(self, revision: int) -> int:
        """Where in history the events behind a revision begin."""
        return bisect_right(self._history, revision, key=_revision_of)

    def _past(self, prefix: str, revision: int) -> Past:
        """What has changed under a prefix since a revision."""
        past = self._pasts.pop((prefix, revision), None) or Past(prefix, revision)
        past.follow(self.events_behind(past.told))
        self._pasts[prefix, revision] = past
        while len(self._pasts) > _READERS or (len(self._pasts) > 1 and sum(map(len, self._pasts.values())) > _CHANGED):
            del self._pasts[next(iter(self._pasts))]
        return past

    def _replace(self, event: Event) -> None:
        current = event.current
        if current is None:
            if self._live.pop(event.key, None):
                self._keys.remove(event.key)
                self._forget_prefixes_of(event.key)
            return
        if event.key not in self._live:
            self._keys.add(event.key)
            self._forget_prefixes_of(event.key)
        self._live[event.key] = current
        if current.expires:
            heapq.heappush(self._expiring, (current.expires, current.mod_revision, current.key))
            if len(self._expiring) > 2 * len(self._live) + 1000:
                self._expiring = [(kv.expires, kv.mod_revision, key) for key, kv in self._live.items() if kv.expires]
                heapq.heapify(self._expiring)

    def _forget_prefixes_of(self, key: str) -> None:
        if self._few:
            for prefix in prefixes_of(key):
                self._few.pop(prefix, None)


class Draft:
    """Writes judged one after the other, each as if those before it were done. Nothing is applied."""

    def __init__(self, state: Mvcc, clock: Clock) -> None:
        self.events: list[Event] = []
        self._state = state
        self._clock = clock
        self._changed: dict[str, KeyValue | None] = {}

    def judge(self, write: Write) -> Outcome:
        """The event that the write amounts to, or why it may not be done."""
        key = write.key
        previous = self._changed[key] if key in self._changed else self._state.get(key)
        found = previous.mod_revision if previous else 0
        if write.expect is not None and write.expect != found:
            return Conflict(key, previous)
        if previous:
            key = previous.key  # which all versions share, and not one each
        revision = self._state.revision + len(self.events) + 1
        if isinstance(write, Delete):
            if previous is None:
                return Conflict(key, None)
            current = None
        else:
            expires = 0.0 if write.ttl is None else self._clock.now().timestamp() + write.ttl
            created = previous.create_revision if previous else revision
            current = KeyValue(key, _exact(write.value), created, revision, expires)
        event = Event(revision, key, previous, current)
        self._changed[key] = current
        self.events.append(event)
        return event

    def judge_all(self, writes: Sequence[Write]) -> list[Outcome]:
        """The same for each of several."""
        outcomes: list[Outcome] = []
        before: Outcome | None = None
        for write in writes:
            before = self.judge(write if write.expect != JUST_WRITTEN else behind(write, before))
            outcomes.append(before)
        return outcomes

    def judge_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        """The events that writes to different keys amount to, or why they may not be done; then none is."""
        begin, changed = len(self.events), dict(self._changed)
        outcomes = [self.judge(write) for write in writes]
        conflicts = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        if not conflicts:
            return self.events[begin:]
        del self.events[begin:]
        self._changed = changed
        return conflicts


def prefixes_of(key: str) -> tuple[str, ...]:
    """Every prefix of a key that ends with "/"."""
    return _prefixes_in(key[: key.rfind("/") + 1])


@lru_cache(maxsize=1024)
def _prefixes_in(folder: str) -> tuple[str, ...]:
    """Those of all keys in a folder, of which there are few."""
    return tuple(folder[: end + 1] for end, char in enumerate(folder) if char == "/")


def _end_of(prefix: str) -> str | None:
    """The first string behind everything that starts with a prefix ending in "/"."""
    return prefix[:-1] + chr(ord("/") + 1) if prefix else None


def _exact(value: bytes) -> bytes:
    """A value without the room that encoders leave behind what they have written: a quarter as much again."""
    return bytes(memoryview(value))


def _size(event: Event) -> int:
    """What history holds because of an event; its new value is current, or counts with the event that replaced it."""
    return folding.held(event.previous) if event.previous else 0


def _obsolete(event: Event) -> Iterator[int]:
    """The revisions nobody can ask for once the floor has reached an event: what it replaced, and itself if a delete.

    In this order, so that no store ever holds a value without the delete that ended it.
    """
    if event.previous:
        yield event.previous.mod_revision
    if event.current is None:
        yield event.revision
