"""Any `kv.Store` as the target of a copy: etcd for users, memory in tests.

While it is being filled, a store has the key `MARKER`, and servers call `require_complete` before they serve it. A
repeated copy writes only what is missing.
"""

import math
import time
from collections.abc import Collection, Sequence

from mooring.store.errors import Incomplete, NotEmpty, StoreError
from mooring.store.kv import Conflict, Delete, KeyValue, Put, Store, Write
from mooring.store.tools.contents import MARKER, ROOT, Snapshot, describe_unfinished

_TTL_STEP = 60.0
"""Seconds to which TTLs are rounded up, so that keys share an etcd lease."""


async def require_complete(store: Store) -> None:
    """Raise `Incomplete` if a copy into the store was begun and not finished."""
    marker = await store.get(MARKER)
    if marker is not None:
        raise Incomplete(describe_unfinished(marker.value))


class StoreTarget:
    """A `Target` that writes into an open store, which assigns its own revisions. It must be the only writer."""

    def __init__(self, store: Store, name: str, *, overwrite: bool = False) -> None:
        self.name = name
        self._store = store
        self._overwrite = overwrite
        self._found: dict[str, KeyValue] = {}
        self._revisions: dict[str, int] = {}

    async def begin(self, snapshot: Snapshot) -> Collection[str]:
        found = {kv.key: kv for kv in (await self._store.range(ROOT)).items}
        if found.pop(MARKER, None) is None and found and not self._overwrite:
            raise NotEmpty(f"{self.name} is not empty: it has {len(found)} keys, {min(found)} first")
        await self._store.write(Put(MARKER, f"from {snapshot.name}".encode()))
        self._found = found
        self._revisions = {key: kv.mod_revision for key, kv in found.items()}
        return list(found)

    async def put(self, items: Sequence[KeyValue]) -> None:
        writes = [write for kv in items if (write := self._write(kv)) is not None]
        if not writes:
            return
        for outcome in await self._store.write_all(writes):
            if not isinstance(outcome, Conflict):
                self._revisions[outcome.key] = outcome.revision
            elif outcome.current is not None:
                raise StoreError(f"another process writes to {self.name} ({outcome.key}); stop its servers first")

    async def delete(self, keys: Sequence[str]) -> None:
        await self._store.write_all([Delete(key) for key in keys])
        for key in keys:
            self._revisions.pop(key, None)

    async def finish(self, revision: int) -> None:  # noqa: ARG002 - a store gives its own revisions
        await self._store.write(Delete(MARKER))

    async def close(self) -> None:
        await self._store.close()

    def _write(self, kv: KeyValue) -> Write | None:
        """Return the write that brings a key to the wanted value; None if it has it already."""
        found = self._found.pop(kv.key, None)
        if kv.expires:  # without a precondition: what is there may expire at any moment
            ttl = kv.expires - time.time()
            if ttl <= 0:
                return None if found is None else Delete(kv.key)
            return Put(kv.key, kv.value, ttl=math.ceil(ttl / _TTL_STEP) * _TTL_STEP)
        if found is not None and found.value == kv.value and not found.expires:
            return None
        return Put(kv.key, kv.value, expect=self._revisions.get(kv.key, 0))
