"""What the tools read and write: a `Snapshot` of a `Source`, put into a `Target`. Read next: ``transfer.py``."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from mooring.store.kv import KeyValue

ROOT = "/registry/"
"""What the keys of all objects begin with."""
MARKER = "/registry/mooring/incomplete"
"""The key that a store has while it is being written by `transfer`, where a file would have another name instead."""


class Snapshot(msgspec.Struct, frozen=True):
    """All keys of a store at one revision."""

    name: str
    """How the user named the store."""
    revision: int
    items: Sequence[KeyValue]
    """In the order of their last writes."""
    floor: int | None = None
    """The oldest revision that can still be asked for; None, as the next two, where nobody knows."""
    history_events: int | None = None
    history_bytes: int | None = None
    file_bytes: int = 0


class Source(Protocol):
    """A store that is read, and never changed."""

    name: str

    async def snapshot(self) -> Snapshot:
        """The store as it is now. Raises `StoreError`."""
        ...

    async def changed(self, seconds: float) -> bool:
        """Whether there may be something newer than the last snapshot; waits for it, at most so long."""
        ...

    async def close(self) -> None: ...


class Target(Protocol):
    """A store that is filled. Until `finish` has returned, nothing can be started on it."""

    name: str

    async def begin(self, snapshot: Snapshot) -> Collection[str]:
        """Get ready; returns the keys that are there already. Raises `StoreError`, as do the others."""
        ...

    async def put(self, items: Sequence[KeyValue]) -> None: ...

    async def delete(self, keys: Sequence[str]) -> None: ...

    async def finish(self, revision: int) -> None:
        """Everything of that revision of the source is there: from now on the target may be used."""
        ...

    async def close(self) -> None:
        """Let go of it, finished or not."""
        ...


def resource_of(key: str) -> str:
    """The resource that a key belongs to, `pods` of `/registry/pods/default/web`; empty for keys of no resource."""
    return key.removeprefix(ROOT).partition("/")[0] if key.startswith(ROOT) else ""


def unfinished(marker: bytes) -> str:
    """What to say of a store that has the key `MARKER`, with its value."""
    return f"a copy {marker.decode(errors='replace')} into this store was not finished; wait for it, or run it again"
