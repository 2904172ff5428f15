"""Reads the store under a prefix of etcd, at one revision, while servers write to it. Nothing is written there."""

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
from mooring.store.tools.contents import MARKER, Snapshot, unfinished

_PAGE = 1000
_POLL_SECONDS = 0.2


class EtcdSource:
    """A store in etcd. Made by `open`."""

    def __init__(self, config: EtcdConfig, name: str) -> None:
        self.name = name
        self._client = EtcdClient(config, SystemClock())
        self._keys = Keys(config)
        self._revision = 0

    @classmethod
    async def open(cls, config: EtcdConfig, name: str) -> Self:
        """Connect. Raises `OpenError` if there is no store, and `StorageError`."""
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
            raise Incomplete(unfinished(next(kv.value for kv in items if kv.key == MARKER)))
        items.sort(key=lambda kv: kv.mod_revision)
        status = await self._client.ask("Status", message("StatusRequest")())
        return Snapshot(self.name, self._revision, items, file_bytes=status.dbSize)

    async def changed(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while await self._client.revision(self._keys.store) == self._revision:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def close(self) -> None:
        await self._client.close()

    async def _read(self) -> tuple[int, list[KeyValue]]:
        """The revision, and all keys as they are at it. Raises `RevisionGone`."""
        items: list[KeyValue] = []
        ends: dict[int, float] = {0: 0.0}
        revision, begin, more = 0, self._keys.begin, True
        while more:
            request = message("RangeRequest")(key=begin, range_end=self._keys.end, limit=_PAGE, revision=revision)
            response = await self._client.ask("Range", request)
            revision = revision or response.header.revision
            for entry in response.kvs:
                if entry.lease not in ends:
                    ends[entry.lease] = await self._end_of(entry.lease)
                kv = self._keys.entry(entry)
                if kv is not None:
                    expires = ends[entry.lease]
                    items.append(KeyValue(kv.key, kv.value, kv.create_revision, kv.mod_revision, expires))
            more = response.more
            begin = response.kvs[-1].key + b"\0" if more else begin
        return revision, items

    async def _end_of(self, lease: int) -> float:
        """When the keys of a lease expire, in seconds since 1970; they may have done so just now."""
        response = await self._client.ask("LeaseTimeToLive", message("LeaseTimeToLiveRequest")(ID=lease))
        return time.time() + max(0, int(response.TTL))


async def cluster_of(config: EtcdConfig) -> int:
    """Which etcd it is, whichever of its members is asked. Raises `StorageError`."""
    client = EtcdClient(config, SystemClock())
    try:
        response = await client.ask("Status", message("StatusRequest")())
        return int(response.header.cluster_id)
    finally:
        await client.close()
