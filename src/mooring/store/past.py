"""How the keys under a prefix were at a revision, for readers who take page after page while others write.

`mvcc` keeps one for each such reader. A page costs what is in it, and what has happened since the page before, however
long ago the first page was taken.
"""

from collections.abc import Iterable, Mapping

from mooring.store.kv import Event, KeyValue
from mooring.store.sorted_keys import SortedKeys


class Past:
    """The keys under a prefix that have changed since a revision, and what they were."""

    def __init__(self, prefix: str, revision: int) -> None:
        self.told = revision
        """The revision of the last event that was followed."""
        self._prefix = prefix
        self._first: dict[str, Event] = {}
        """The first change of each key, which says what it was before."""
        self._then = SortedKeys()
        """The changed keys that were there then."""
        self._now = SortedKeys()
        """The changed keys that are there now."""
        self._is_there: set[str] = set()
        """The same, without order."""

    def __len__(self) -> int:
        return len(self._first)

    def follow(self, events: Iterable[Event]) -> None:
        """Take in the events behind `told`."""
        for event in events:
            self.told = event.revision
            if event.key.startswith(self._prefix):
                self._take(event)

    def _take(self, event: Event) -> None:
        key = event.key
        if key not in self._first:
            self._first[key] = event
            if event.previous:
                self._then.add(key)
        if event.current and key not in self._is_there:
            self._is_there.add(key)
            self._now.add(key)
        elif not event.current and key in self._is_there:
            self._is_there.remove(key)
            self._now.remove(key)

    def page(
        self, keys: SortedKeys, live: Mapping[str, KeyValue], low: str, high: str | None, limit: int
    ) -> tuple[list[KeyValue], int]:
        """The first `limit` keys (0 is all) of then between two, with what they held, and how many there were.

        `keys` and `live` are those of now.
        """
        count = keys.between(low, high, 1)[1] - self._now.between(low, high, 1)[1]
        changed, more = self._then.between(low, high, limit)
        last = changed[-1] if changed and len(changed) < more else None
        found = sorted([*changed, *self._unchanged(keys, low, high, limit, last)])
        items = [self._held(key, live) for key in (found[:limit] if limit else found)]
        return items, count + more

    def _unchanged(self, keys: SortedKeys, low: str, high: str | None, limit: int, last: str | None) -> list[str]:
        """At least the first `limit` of the keys that have not changed, or all up to `last`: no page goes further."""
        found: list[str] = []
        while True:
            step, left = keys.between(low, high, limit)
            found += (key for key in step if key not in self._first)
            if len(step) == left or len(found) >= limit or (last is not None and step[-1] >= last):
                return found
            low = step[-1]

    def _held(self, key: str, live: Mapping[str, KeyValue]) -> KeyValue:
        event = self._first.get(key)
        return event.previous if event and event.previous else live[key]
