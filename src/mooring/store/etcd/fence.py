"""How to be certain that a write whose answer was lost is not still under way.

A member of etcd that hangs may do hours later what it was asked for, when everybody has long stopped waiting. So every
write has one more precondition: that the mark of the store (`identity`) was last written at the revision we know. To
decide about a write that is in doubt, the mark is written again. From then on nothing that was sent before can happen,
and what the write itself has left behind (`marks`) says whether it was done. Writes of other servers that were under
way fail as well; they learn the new revision and are sent again.

`store` raises the fence, and every transaction in `transactions` is behind it.
"""

import asyncio
from typing import Any

from mooring.store.errors import Damaged
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.identity import MARK
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.messages import GREATER, VERSION, message


class Fence:
    """The revision of the store's mark, as far as this server knows."""

    def __init__(self, client: EtcdClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._raising: asyncio.Task[None] | None = None
        self.revision = 0

    async def find(self) -> None:
        """Learn where it is, also if etcd was restored and it is further back than it was."""
        response = await self._client.ask("Range", message("RangeRequest")(key=self._keys.store))
        self.revision = response.kvs[0].mod_revision if response.kvs else 0

    def seen(self, found: Any) -> None:
        """Take note of the mark, as an answer of etcd holds it."""
        self.revision = max(self.revision, found[0].mod_revision) if found else 0

    def required(self) -> int:
        """Where it is. Raises `Damaged` if it is nowhere."""
        if not self.revision:
            raise Damaged(f"{self._keys.store.decode()} is gone from etcd: somebody has deleted the store; restore it")
        return self.revision

    async def above(self, revision: int) -> int:
        """Make sure that no write behind an older fence happens any longer; returns where the fence is then."""
        while self.required() <= revision:
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
            response = await self._client.ask("Txn", request)
            self.seen(response.responses[1].response_range.kvs if response.succeeded else None)
        finally:
            self._raising = None

    def close(self) -> None:
        if self._raising:
            self._raising.cancel()
