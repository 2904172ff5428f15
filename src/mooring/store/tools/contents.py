"""The interfaces of the tools: a `Snapshot` of a `Source` is put into a `Target`. Read next: ``transfer.py``."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from mooring.store.kv import KeyValue

ROOT = "/registry/"
"""The prefix of all object keys."""
MARKER = "/registry/mooring/incomplete"
"""A key that a store has while `transfer` fills it, where a file would have a temporary name."""


class Snapshot(msgspec.Struct, frozen=True):
    """All keys of a store at one revision."""

    name: str
    """The store as the user named it."""
    revision: int
    items: Sequence[KeyValue]
    """In order of their mod revisions."""
    floor: int | None = None
    """The oldest readable revision; None, as in the next two fields, if unknown."""
    history_events: int | None = None
    history_bytes: int | None = None
    file_bytes: int = 0


class Source(Protocol):
    """A store to read from. It is never modified."""

    name: str

    async def snapshot(self) -> Snapshot:
        """Read the current state. Raise `StoreError`."""
        ...

    async def wait_for_change(self, seconds: float) -> bool:
        """Wait up to `seconds` for a change since the last snapshot; return whether there may be one."""
        ...

    async def close(self) -> None: ...


class Target(Protocol):
    """A store to fill. Until `finish` has returned, no server can start on it."""

    name: str

    async def begin(self, snapshot: Snapshot) -> Collection[str]:
        """Prepare; return the keys that exist already. All methods raise `StoreError`."""
        ...

    async def put(self, items: Sequence[KeyValue]) -> None: ...

    async def delete(self, keys: Sequence[str]) -> None: ...

    async def finish(self, revision: int) -> None:
        """Mark the target complete as of that revision of the source; it may be used from now on."""
        ...

    async def close(self) -> None:
        """Release the target, finished or not."""
        ...


def resource_of(key: str) -> str:
    """Return the resource of a key, `pods` for `/registry/pods/default/web`; empty if it has none."""
    return key.removeprefix(ROOT).partition("/")[0] if key.startswith(ROOT) else ""


def describe_unfinished(marker: bytes) -> str:
    """Format the error for a store that still has the key `MARKER`."""
    return f"a copy {marker.decode(errors='replace')} into this store was not finished; wait for it, or run it again"
