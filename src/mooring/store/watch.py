"""Deliver events to watchers: events are sorted into topics when committed, and watchers have a cursor in a topic.

Shared by all stores. A topic is one watched prefix or key, with its events that are still in history. It holds
references only, so a thousand watchers of one topic cost one cursor each, and a slow watcher costs no more than a fast
one: when history is compacted past its cursor, its next read raises `Compacted`.

A watcher is woken once per commit and takes all events since its cursor.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Self

from mooring.store.errors import Closed, Compacted, RevisionError
from mooring.store.kv import Batch, Event
from mooring.store.mvcc import Mvcc

_revision_of = attrgetter("revision")


class Topic:
    """The events of one prefix or key, complete after revision `since`."""

    def __init__(self, selection: str, since: int) -> None:
        self.selection = selection
        self.since = since
        self.events: list[Event] = []
        self.watchers: set[LocalWatcher] = set()

    def events_after(self, revision: int, limit: int) -> list[Event]:
        """Return the next `limit` events, plus those that share the last one's revision."""
        if len(self.events) > 1 and self.events[-2].revision <= revision < self.events[-1].revision:
            return self.events[-1:]  # the common case: one new event
        start = bisect_right(self.events, revision, key=_revision_of)
        end = start + limit
        while start < end < len(self.events) and self.events[end].revision == self.events[end - 1].revision:
            end += 1
        return self.events[start:end]

    def extend_back(self, events: list[Event], since: int) -> None:
        """Prepend older events from history."""
        self.events[:0] = [event for event in events if event.revision <= self.since and self.covers(event.key)]
        self.since = since

    def covers(self, key: str) -> bool:
        prefix = not self.selection or self.selection.endswith("/")
        return key.startswith(self.selection) if prefix else key == self.selection

    def compact(self, floor: int) -> None:
        """Drop events at or below the floor. Only watchers whose cursor is below them are affected."""
        count = bisect_right(self.events, floor, key=_revision_of)
        if count:
            self.since = self.events[count - 1].revision
            del self.events[:count]


class WatchHub:
    """Delivers the events of a store to its watchers, topic by topic."""

    def __init__(self, state: Mvcc) -> None:
        self.state = state
        self._topics: dict[str, Topic] = {}

    def watch(self, selection: str, after: int) -> "LocalWatcher":
        try:
            self.state.require(after)
        except RevisionError as error:
            return LocalWatcher(self, Topic(selection, after), after, error)
        topic = self._topics.setdefault(selection, Topic(selection, self.state.revision))
        if after < topic.since:
            topic.extend_back(self.state.events_after(after), after)
        return LocalWatcher(self, topic, after)

    def remove(self, watcher: "LocalWatcher", topic: Topic) -> None:
        topic.watchers.discard(watcher)
        if not topic.watchers and self._topics.get(topic.selection) is topic:
            del self._topics[topic.selection]

    def publish(self, events: list[Event]) -> None:
        """Sort applied events into their topics and wake the watchers."""
        if not self._topics:
            return
        touched: set[Topic] = set()
        find = self._topics.get
        for event in events:
            prefixes = _prefixes_of_folder(event.key[: event.key.rfind("/") + 1])
            for topic in map(find, ("", event.key, *prefixes)):  # every selection that covers the key
                if topic is not None:
                    topic.events.append(event)
                    touched.add(topic)
        for topic in touched:
            for watcher in topic.watchers:
                watcher.wake()

    def compact(self, floor: int) -> None:
        for topic in self._topics.values():
            topic.compact(floor)

    def restart(self, state: Mvcc) -> None:
        """Replace the state after a gap in history: every watcher must list again."""
        self.state = state
        topics, self._topics = self._topics, {}
        for topic in topics.values():
            for watcher in topic.watchers:
                watcher.fail_compacted(state.floor)

    def __len__(self) -> int:
        return sum(len(topic.watchers) for topic in self._topics.values())

    def close(self) -> None:
        for topic in list(self._topics.values()):
            for watcher in list(topic.watchers):
                watcher.close()


class LocalWatcher:
    """The `kv.Watcher` of stores that keep history in memory."""

    __slots__ = ("_cursor", "_error", "_hub", "_notify", "_topic", "_waiting")

    def __init__(self, hub: WatchHub, topic: Topic, after: int, error: RevisionError | None = None) -> None:
        self._hub = hub
        self._topic = topic
        self._cursor = after
        self._error: RevisionError | Closed | None = error
        self._waiting: asyncio.Future[None] | None = None
        self._notify: Callable[[], None] | None = None
        topic.watchers.add(self)

    async def next(self, *, timeout: float | None = None, limit: int = 1000) -> Batch:  # noqa: ASYNC109 - as in `kv`
        """Return the next events; see `kv.Watcher`."""
        batch = self.take(limit)
        if not batch.events and timeout != 0:
            await self._wait(timeout)
            batch = self.take(limit)
        return batch

    def listen(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def wake(self) -> None:
        if self._notify:
            self._notify()
        elif self._waiting and not self._waiting.done():
            self._waiting.set_result(None)

    def fail_compacted(self, floor: int) -> None:
        """Fail the watcher with `Compacted`: events that it has not read are lost."""
        self._error = self._error or Compacted(self._cursor, floor)
        self.wake()

    def close(self) -> None:
        self._error = Closed("the watch was closed")
        self._hub.remove(self, self._topic)
        self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, limit: int = 1000) -> Batch:
        """Return the available events; see `kv.Watcher`."""
        if self._error is None and self._cursor < self._topic.since:
            self._error = Compacted(self._cursor, self._hub.state.floor)
        if self._error:
            raise self._error
        events = self._topic.events_after(self._cursor, limit)
        self._cursor = events[-1].revision if len(events) >= limit else self._hub.state.revision
        return Batch(events, self._cursor)

    async def _wait(self, seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self.wake)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if timer:
                timer.cancel()


@lru_cache(maxsize=1024)
def _prefixes_of_folder(folder: str) -> tuple[str, ...]:
    """Return the prefixes of a folder; cached, because folders are few."""
    return tuple(folder[: end + 1] for end, char in enumerate(folder) if char == "/")
