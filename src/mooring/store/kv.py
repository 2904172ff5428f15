"""The interface of every store: keys, values, and one counter of revisions.

The API server calls it (`/registry/pods/default/web` → the encoded pod); `memory`, `sqlite` and, for several servers,
etcd implement it, and `tests/unit/store/test_contract.py` holds each of them to it. Read `errors` next.

A worked example. A fresh store is at revision 0, and every write that succeeds takes the next number:

    Put("/a", b"1", expect=0)      → Event 1: created            /a = 1 (created 1, modified 1)
    Put("/b", b"1")                → Event 2: created            /b = 1 (created 2, modified 2)
    Put("/a", b"2", expect=1)      → Event 3: 1 became 2         /a = 2 (created 1, modified 3)
    Put("/a", b"3", expect=1)      → Conflict(current /a = 2)    no revision is used
    Delete("/b")                   → Event 4: deleted

    range("/")                     → /a = 2                      at revision 4
    range("/", revision=2)         → /a = 1, /b = 1              the store as it was after event 2
    watch("/", after=2)            → events 3 and 4, then whatever comes: no gap and no duplicate

    compact(3)                     forgets how the store looked before revision 3
    range("/", revision=2)         → Compacted
    watch("/", after=2)            → Compacted, because event 3 is gone; after=3 still works

Two writes never share a revision, not even those of one `write_all`. So whoever has seen an event may resume after its
revision without missing another one. (What etcd does in one transaction, keys that expire together and those of one
`write_together`, does share one; a batch holds all of them.)
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

import msgspec


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One version of a key. Shared between readers, never changed."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    expires: float = 0.0
    """Seconds since 1970 after which the store deletes the key by itself; 0 is never."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """What one write did. Every watcher is handed the same object, so work per event can be cached by revision."""

    revision: int
    key: str
    previous: KeyValue | None
    """None if this created the key."""
    current: KeyValue | None
    """None if this deleted the key."""


JUST_WRITTEN = -1
"""As a precondition: what the write right before it in the same `write_all` has left of the same key."""


class Put(msgspec.Struct, frozen=True, gc=False):
    """Write a value. `expect` is the precondition: None for any, 0 for absent, else the `mod_revision` to replace."""

    key: str
    value: bytes
    expect: int | None = None
    ttl: float | None = None
    """Seconds to live, counted anew from this write."""


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete a key, which must be there. `expect` is its `mod_revision`, or None for any."""

    key: str
    expect: int | None = None


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """The precondition did not hold, and nothing was written."""

    key: str
    current: KeyValue | None
    """What is there instead; None if there is nothing."""


Write = Put | Delete
Outcome = Event | Conflict


def behind(write: Write, before: Outcome | None) -> Write:
    """A write of a group with the precondition that follows from what became of the one before it."""
    if write.expect != JUST_WRITTEN or not isinstance(before, Event) or before.key != write.key:
        return write  # nothing is ever at this revision, so that it conflicts where it has to follow on a write
    return msgspec.structs.replace(write, expect=before.revision)


class Page(msgspec.Struct, frozen=True, gc=False):
    """Keys under a prefix, in order, all as they were at `revision`."""

    items: list[KeyValue]
    revision: int
    remaining: int
    """How many follow. For the next page, pass the last key as `after_key` and this `revision`."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Events in order. The watcher has now heard of everything up to `revision`; without events, this is a bookmark."""

    events: list[Event]
    revision: int


class Stats(msgspec.Struct, frozen=True, gc=False):
    """For metrics and `mooring store stats`."""

    revision: int
    floor: int
    keys: int
    history_events: int
    history_bytes: int
    watchers: int
    file_bytes: int


class Watcher(Protocol):
    """A place in the stream of events."""

    async def next(self, *, timeout: float | None = None, limit: int = 1000) -> Batch:  # noqa: ASYNC109 - see below
        """All events since the last batch, waiting for one if there is none (that is why the timeout is ours).

        After `timeout` seconds the batch is empty. Raises `Compacted` if the watcher asked for, or fell back to, what
        is no longer known; `FutureRevision`; `Closed`.
        """
        ...

    def take(self, limit: int = 1000) -> Batch:
        """The same without waiting."""
        ...

    def listen(self, told: Callable[[], None]) -> None:
        """Call a function, which only takes note, whenever there may be something to take: nobody calls `next` then."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Store(Protocol):
    """What every backend offers. All of it belongs to one event loop.

    A prefix ends with "/", and a key does not. The empty prefix is everything.
    """

    async def write(self, write: Write) -> Outcome:
        """Returns when the write is durable. If cancelled or failed with `StorageError`, it may or may not be done."""
        ...

    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        """Several writes at once, to one key in this order. Each has its own outcome and, if it succeeds, revision.

        One that expects what was `JUST_WRITTEN` is done only if the one before it was, and nobody came in between.
        SQLite does all of them in one round to the disk and in this order; in etcd they are in flight together.
        """
        ...

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        """Several writes to different keys, all of them or none: their events, or else what stood in the way of which.

        Readers and watchers see all of them at once. In etcd they share a revision, and 50 is the most it takes.
        """
        ...

    async def get(self, key: str) -> KeyValue | None: ...

    async def range(self, prefix: str, *, after_key: str = "", limit: int = 0, revision: int | None = None) -> Page:
        """At most `limit` keys (0 is all) behind `after_key`. Raises `Compacted` or `FutureRevision`."""
        ...

    async def count(self, prefix: str) -> int: ...

    async def revision(self) -> int:
        """The revision of the last write. Every read from now on shows at least that."""
        ...

    def peek(self, key: str) -> KeyValue | None:
        """What this server knows of a key, at once: at least what the last `revision` or write told it.

        Where several servers share a store, `get` asks whether somebody else knows better. Whoever reads many keys
        calls `revision` once and then this; so may those who only need a good guess, because a swap follows.
        """
        ...

    def peek_all(self, prefix: str) -> list[KeyValue]:
        """The same, of all keys under a prefix. The list is not to be changed."""
        ...

    def watch(self, selection: str, *, after: int) -> Watcher:
        """Every event behind revision `after` on a prefix or on one key. What is wrong comes from `Watcher.next`."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget how the store looked before `revision`. Backends also do so by themselves, within their limits."""
        ...

    async def stats(self) -> Stats: ...

    async def close(self) -> None:
        """Finish what was begun and end every watcher. A second call does nothing."""
        ...
