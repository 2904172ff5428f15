"""A fence that makes sure that a write whose response was lost is not still in flight.

A hung member of etcd may execute a request hours later. So every write has an extra precondition: the store's identity
key (`identity`) still has the mod revision that we know. To resolve a write in doubt, the identity key is written
again. From then on no transaction that was sent before can succeed, and the mark that the write leaves (`marks`) shows
whether it was done. In-flight writes of other servers fail too; those servers read the new revision and retry.

`store` raises the fence; every transaction in `transactions` checks it.
"""

import asyncio
from typing import Any

from mooring.store.errors import Damaged
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.identity import MARK
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.messages import GREATER, VERSION, message


class Fence:
    """Makes writes with a lost response fail: the last known mod revision of the store's identity key."""

    def __init__(self, client: EtcdClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._raising: asyncio.Task[None] | None = None
        self.revision = 0

    async def read(self) -> None:
        """Read the current revision of the fence, which may be lower after a restore of etcd."""
        response = await self._client.call_with_retry("Range", message("RangeRequest")(key=self._keys.store))
        self.revision = response.kvs[0].mod_revision if response.kvs else 0

    def record(self, found: Any) -> None:
        """Take the revision of the identity key from the entries that a response of etcd has."""
        self.revision = max(self.revision, found[0].mod_revision) if found else 0

    def require(self) -> int:
        """Return the fence's revision. Raise `Damaged` if the identity key is gone."""
        if not self.revision:
            raise Damaged(f"{self._keys.store.decode()} is gone from etcd: the store was deleted; restore it")
        return self.revision

    async def raise_above(self, revision: int) -> int:
        """Raise the fence above a revision, so that transactions with an older fence fail; return its new revision."""
        while self.require() <= revision:
            if self._raising is None:
                self._raising = asyncio.create_task(self._raise(), name="etcd fence")
            await asyncio.shield(self._raising)
        return self.revision

    async def _raise(self) -> None:
        request = message("TxnRequest")()
        request.compare.add(key=self._keys.store, result=GREATER, target=VERSION, version=0)
        put = request.success.add().request_put
        put.key, put.value = self._keys.store, MARK
        request.success.add().request_range.key = self._keys.store
        try:
            response = await self._client.call_with_retry("Txn", request)
            self.record(response.responses[1].response_range.kvs if response.succeeded else None)
        finally:
            self._raising = None

    def close(self) -> None:
        if self._raising:
            self._raising.cancel()
