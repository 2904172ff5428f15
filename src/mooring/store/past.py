"""The keys under a prefix at an earlier revision, for readers that fetch page after page while others write.

`mvcc` keeps one per such reader. A page costs its own size plus the events since the previous page, however long ago
the first page was read.
"""

from collections.abc import Iterable, Mapping

from mooring.store.kv import Event, KeyValue
from mooring.store.sorted_keys import SortedKeys


class Past:
    """The keys under a prefix that have changed since a revision, with their earlier values."""

    def __init__(self, prefix: str, revision: int) -> None:
        self.last_revision = revision
        """The revision of the last event applied."""
        self._prefix = prefix
        self._first: dict[str, Event] = {}
        """The first event of each key since the revision; it holds the earlier value."""
        self._then = SortedKeys()
        """Changed keys that existed at the revision."""
        self._now = SortedKeys()
        """Changed keys that exist now."""
        self._now_set: set[str] = set()
        """The current keys as an unordered set."""

    def __len__(self) -> int:
        return len(self._first)

    def follow(self, events: Iterable[Event]) -> None:
        """Apply the events after `last_revision`."""
        for event in events:
            self.last_revision = event.revision
            if event.key.startswith(self._prefix):
                self._apply(event)

    def _apply(self, event: Event) -> None:
        key = event.key
        if key not in self._first:
            self._first[key] = event
            if event.previous:
                self._then.add(key)
        if event.current and key not in self._now_set:
            self._now_set.add(key)
            self._now.add(key)
        elif not event.current and key in self._now_set:
            self._now_set.remove(key)
            self._now.remove(key)

    def page(
        self, keys: SortedKeys, live: Mapping[str, KeyValue], low: str, high: str | None, limit: int
    ) -> tuple[list[KeyValue], int]:
        """Return the first `limit` keys (0: all) between two bounds as of the revision, and their total number."""
        count = keys.between(low, high, 1)[1] - self._now.between(low, high, 1)[1]
        changed, more = self._then.between(low, high, limit)
        last = changed[-1] if changed and len(changed) < more else None
        found = sorted([*changed, *self._unchanged_keys(keys, low, high, limit, last)])
        items = [self._value_then(key, live) for key in (found[:limit] if limit else found)]
        return items, count + more

    def _unchanged_keys(self, keys: SortedKeys, low: str, high: str | None, limit: int, last: str | None) -> list[str]:
        """Return at least the first `limit` unchanged keys, or all up to `last`: no page extends further."""
        found: list[str] = []
        while True:
            step, left = keys.between(low, high, limit)
            found += (key for key in step if key not in self._first)
            if len(step) == left or len(found) >= limit or (last is not None and step[-1] >= last):
                return found
            low = step[-1]

    def _value_then(self, key: str, live: Mapping[str, KeyValue]) -> KeyValue:
        event = self._first.get(key)
        return event.previous if event and event.previous else live[key]
