"""Read the store under an etcd prefix at one revision while servers write to it. Nothing is written."""

import asyncio
import time
from typing import Self

from mooring.base.clock import SystemClock
from mooring.store.errors import Incomplete, OpenError
from mooring.store.etcd import identity
from mooring.store.etcd.client import EtcdClient, RevisionGone
from mooring.store.etcd.config import EtcdConfig
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.messages import message
from mooring.store.kv import KeyValue
from mooring.store.tools.contents import MARKER, Snapshot, describe_unfinished

_PAGE = 1000
_POLL_SECONDS = 0.2


class EtcdSource:
    """A `Source` that reads a store in etcd. `open` creates it."""

    def __init__(self, config: EtcdConfig, name: str) -> None:
        self.name = name
        self._client = EtcdClient(config, SystemClock())
        self._keys = Keys(config)
        self._revision = 0

    @classmethod
    async def open(cls, config: EtcdConfig, name: str) -> Self:
        """Connect. Raise `OpenError` if there is no store, or `StorageError`."""
        source = cls(config, name)
        try:
            await identity.require(source._client, source._keys)
        except BaseException:
            await source.close()
            raise
        return source

    async def snapshot(self) -> Snapshot:
        try:
            self._revision, items = await self._read()
        except RevisionGone:
            raise OpenError(f"{self.name} was compacted while it was read; try again") from None
        if any(kv.key == MARKER for kv in items):
            raise Incomplete(describe_unfinished(next(kv.value for kv in items if kv.key == MARKER)))
        items.sort(key=lambda kv: kv.mod_revision)
        status = await self._client.call_with_retry("Status", message("StatusRequest")())
        return Snapshot(self.name, self._revision, items, file_bytes=status.dbSize)

    async def wait_for_change(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while await self._client.revision(self._keys.store) == self._revision:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def close(self) -> None:
        await self._client.close()

    async def _read(self) -> tuple[int, list[KeyValue]]:
        """Read all keys at one revision; return both. Raise `RevisionGone`."""
        items: list[KeyValue] = []
        ends: dict[int, float] = {0: 0.0}
        revision, begin, more = 0, self._keys.begin, True
        while more:
            request = message("RangeRequest")(key=begin, range_end=self._keys.end, limit=_PAGE, revision=revision)
            response = await self._client.call_with_retry("Range", request)
            revision = revision or response.header.revision
            for entry in response.kvs:
                if entry.lease not in ends:
                    ends[entry.lease] = await self._expiry_of(entry.lease)
                kv = self._keys.convert_entry(entry)
                if kv is not None:
                    expires = ends[entry.lease]
                    items.append(KeyValue(kv.key, kv.value, kv.create_revision, kv.mod_revision, expires))
            more = response.more
            begin = response.kvs[-1].key + b"\0" if more else begin
        return revision, items

    async def _expiry_of(self, lease: int) -> float:
        response = await self._client.call_with_retry("LeaseTimeToLive", message("LeaseTimeToLiveRequest")(ID=lease))
        return time.time() + max(0, int(response.TTL))


async def read_cluster_id(config: EtcdConfig) -> int:
    """Return the cluster ID of an etcd. Raise `StorageError`."""
    client = EtcdClient(config, SystemClock())
    try:
        response = await client.call_with_retry("Status", message("StatusRequest")())
        return int(response.header.cluster_id)
    finally:
        await client.close()
