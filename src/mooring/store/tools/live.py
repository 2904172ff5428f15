"""Any `kv.Store` as the source or the target of a copy: etcd for users, memory in tests.

While a store is being filled it has the key `MARKER`, and whoever would serve it calls `require_complete` first. A copy
that is begun again finds out what is there already and writes only the rest.
"""

import math
import time
from collections.abc import Collection, Sequence

from mooring.store.errors import Incomplete, NotEmpty, RevisionError
from mooring.store.kv import Delete, KeyValue, Put, Store, Write
from mooring.store.tools.contents import MARKER, ROOT, Snapshot

_TTL_STEP = 60.0
"""Seconds to which times to live are rounded up: in etcd, keys with the same one share a lease."""


async def require_complete(store: Store) -> None:
    """Raise `Incomplete` if a copy into the store was begun and not finished."""
    marker = await store.get(MARKER)
    if marker is not None:
        raise Incomplete(
            f"a copy into this store, {marker.value.decode(errors='replace')}, was not finished;"
            " wait for it, or run it again"
        )


class StoreSource:
    """Reads an open store, whoever writes to it meanwhile."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        self._store = store
        self._revision = 0

    async def snapshot(self) -> Snapshot:
        await require_complete(self._store)
        page = await self._store.range(ROOT)
        stats = await self._store.stats()
        self._revision = page.revision
        return Snapshot(
            self.name,
            page.revision,
            sorted(page.items, key=lambda kv: kv.mod_revision),
            stats.floor,
            stats.history_events,
            stats.history_bytes,
            stats.file_bytes,
        )

    async def changed(self, seconds: float) -> bool:
        try:
            with self._store.watch(ROOT, after=self._revision) as watcher:
                batch = await watcher.next(timeout=seconds)
        except RevisionError:  # it has moved on a long way
            return True
        self._revision = batch.revision
        return bool(batch.events)

    async def close(self) -> None:
        await self._store.close()


class StoreTarget:
    """Writes into an open store, which gives its own revisions."""

    def __init__(self, store: Store, name: str, *, overwrite: bool = False) -> None:
        self.name = name
        self._store = store
        self._overwrite = overwrite
        self._present: dict[str, KeyValue] = {}

    async def begin(self, snapshot: Snapshot) -> Collection[str]:
        found = {kv.key: kv for kv in (await self._store.range(ROOT)).items}
        if found.pop(MARKER, None) is None and found and not self._overwrite:
            raise NotEmpty(f"{self.name} is not empty: it has {len(found)} keys, {min(found)} first")
        await self._store.write(Put(MARKER, f"from {snapshot.name}".encode()))
        self._present = found
        return list(found)

    async def put(self, items: Sequence[KeyValue]) -> None:
        writes = [write for kv in items if (write := self._write(kv)) is not None]
        if writes:
            await self._store.write_all(writes)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._store.write_all([Delete(key) for key in keys])

    async def finish(self, revision: int) -> None:  # noqa: ARG002 - a store gives its own revisions
        await self._store.write(Delete(MARKER))

    async def close(self) -> None:
        await self._store.close()

    def _write(self, kv: KeyValue) -> Write | None:
        """What brings a key to what it should be; None if it is that already."""
        present = self._present.pop(kv.key, None)
        if kv.expires:
            ttl = kv.expires - time.time()
            if ttl <= 0:
                return None if present is None else Delete(kv.key)
            return Put(kv.key, kv.value, ttl=math.ceil(ttl / _TTL_STEP) * _TTL_STEP)
        if present is not None and present.value == kv.value and not present.expires:
            return None
        return Put(kv.key, kv.value)
