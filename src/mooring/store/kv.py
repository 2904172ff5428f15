"""The interface of every store: keys, values, and one revision counter.

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
    watch("/", after=2)            → events 3 and 4, then later ones: no gap and no duplicate

    compact(3)                     forgets how the store looked before revision 3
    range("/", revision=2)         → Compacted
    watch("/", after=2)            → Compacted, because event 3 is gone; after=3 still works

Two writes never share a revision, not even those of one `write_all`. So a watcher that has seen an event may
resume after its revision without missing another. (Exception: in etcd, keys that expire together and those of one
`write_together` share a revision; a batch then holds all of them.)
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

import msgspec


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One version of a key. Immutable, shared between readers."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    expires: float = 0.0
    """Unix time after which the store deletes the key; 0 is never."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """The effect of one write. All watchers receive the same object, so work per event can be cached by revision."""

    revision: int
    key: str
    previous: KeyValue | None
    """None if this created the key."""
    current: KeyValue | None
    """None if this deleted the key."""


JUST_WRITTEN = -1
"""A precondition: the revision that the previous write of the same `write_all` left on the same key."""


MAX_VALUE_BYTES = 4 * 1024 * 1024
"""The largest value of any backend. An etcd with its own defaults takes 1.5 MiB."""


class Put(msgspec.Struct, frozen=True, gc=False):
    """Write a value. `expect` is the precondition: None for any, 0 for absent, else the `mod_revision` to replace."""

    key: str
    value: bytes
    expect: int | None = None
    ttl: float | None = None
    """Time to live in seconds from this write."""


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete a key, which must exist. `expect` is its `mod_revision`, or None for any."""

    key: str
    expect: int | None = None


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """The precondition did not hold; nothing was written."""

    key: str
    current: KeyValue | None
    """The current version; None if the key does not exist."""


Write = Put | Delete
Outcome = Event | Conflict


def resolve_just_written(write: Write, previous: Outcome | None) -> Write:
    """Resolve `JUST_WRITTEN` to the revision that the previous write of the batch produced."""
    if write.expect != JUST_WRITTEN or not isinstance(previous, Event) or previous.key != write.key:
        return write  # no key ever has this revision, so the write conflicts
    return msgspec.structs.replace(write, expect=previous.revision)


class Page(msgspec.Struct, frozen=True, gc=False):
    """Keys under a prefix, in order, as of `revision`."""

    items: list[KeyValue]
    revision: int
    remaining: int
    """How many keys follow. For the next page, pass the last key as `after_key` and this `revision`."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Events in order, complete up to `revision`. Without events it is a bookmark."""

    events: list[Event]
    revision: int


class Stats(msgspec.Struct, frozen=True, gc=False):
    """The sizes of a store and of its history, for metrics and `mooring store stats`."""

    revision: int
    floor: int
    keys: int
    history_events: int
    history_bytes: int
    watchers: int
    file_bytes: int


class Watcher(Protocol):
    """The position of one reader in the stream of events under a prefix or key."""

    async def next(self, *, timeout: float | None = None, limit: int = 1000) -> Batch:  # noqa: ASYNC109 - see below
        """Return all events since the last batch, waiting for one if there is none.

        Return an empty batch after `timeout` seconds. Raise `Compacted` if the cursor is below the floor,
        `FutureRevision` or `Closed`.
        """
        ...

    def take(self, limit: int = 1000) -> Batch:
        """Return all events since the last batch without waiting."""
        ...

    def listen(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever there may be events to take; do not use `next` then. `notify` may only record it."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Store(Protocol):
    """The operations of every backend, on one event loop. A prefix is empty or ends with "/", a key does not."""

    async def write(self, write: Write) -> Outcome:
        """Write and return when it is durable. If cancelled or failed with `StorageError`, the outcome is unknown."""
        ...

    async def write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        """Write several keys; writes to one key keep their order. Each has its own outcome and revision.

        A write that expects `JUST_WRITTEN` succeeds only if the previous one did and no other writer came between.
        SQLite commits all of them in one transaction and in order; etcd runs them concurrently.
        """
        ...

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        """Write several different keys atomically; return their events, or the conflicts.

        Readers and watchers see all of them at once. In etcd they share a revision; etcd takes at most 50.
        """
        ...

    async def get(self, key: str) -> KeyValue | None: ...

    async def range(self, prefix: str, *, after_key: str = "", limit: int = 0, revision: int | None = None) -> Page:
        """Return at most `limit` keys (0 is all) after `after_key`. Raise `Compacted` or `FutureRevision`."""
        ...

    async def count(self, prefix: str) -> int: ...

    async def revision(self) -> int:
        """Return the revision of the last write. Later reads show at least that revision."""
        ...

    def peek(self, key: str) -> KeyValue | None:
        """Return a key from local memory without waiting: at least as recent as the last `revision` call or write.

        Where several servers share a store, `get` first asks the backend for its revision. Call `revision` once before
        reading many keys with this; or use it alone where a stale value is harmless because a compare-and-swap follows.
        """
        ...

    def peek_all(self, prefix: str) -> list[KeyValue]:
        """Return all keys under a prefix as `peek` does. The list must not be modified."""
        ...

    def watch(self, selection: str, *, after: int) -> Watcher:
        """Watch a prefix or one key for events after a revision. Errors are raised by `Watcher.next`."""
        ...

    async def compact(self, revision: int) -> None:
        """Discard history before `revision`. Backends also compact by themselves, within their limits."""
        ...

    async def stats(self) -> Stats: ...

    async def close(self) -> None:
        """Finish pending writes and end all watchers. A second call does nothing."""
        ...
