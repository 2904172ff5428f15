"""What makes the outcome of a write certain whose response was lost: a fence, and marks.

A hung member of etcd may execute a request hours later. So every write has an extra precondition: the store's identity
key (`identity`) still has the mod revision that we know. To resolve a write in doubt, the identity key is written
again (`Fence`). From then on no transaction that was sent before can succeed. In-flight writes of other servers fail
too; those servers read the new revision and retry.

Whether the write was done shows its mark (`Marks`). Two clients that decrement a number send the same bytes under the
same precondition, and etcd executes one of them; the stored value does not show whose. So each transaction writes a
unique nonce under a key that only this write uses at the time:

    /registry/.mooring/writes/5f2c0a…-17    the nonce of the last write in slot 17 of one server

There are as many slots as concurrent writes. A lease of a day removes them when their server is gone. `store` raises
the fence; every transaction in `transactions` checks it.
"""

import asyncio
import itertools
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from mooring.base.clock import Clock
from mooring.store.errors import Damaged
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.identity import MARK
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.leases import grant_lease
from mooring.store.etcd.messages import GREATER, VERSION, message

_LEASE_SECONDS = 24 * 3600
_RENEW_SECONDS = _LEASE_SECONDS / 2


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


class Mark(msgspec.Struct, frozen=True):
    """The key and nonce that one write stores beside its own key."""

    key: bytes
    nonce: bytes


class Marks:
    """Lends each concurrent write of one server a key and a nonce, by which it is found again in etcd."""

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._prefix = keys.shared_key(f"writes/{secrets.token_hex(8)}-")
        self._free: list[bytes] = []
        self._slots = 0
        self._nonces = itertools.count(1)
        self.lease = 0
        """The lease of the marks."""
        self._until = -math.inf

    @contextmanager
    def reserve(self) -> Iterator[Mark]:
        """Reserve a slot for one write until its outcome is known."""
        if not self._free:
            self._free.append(self._prefix + str(self._slots).encode())
            self._slots += 1
        place = self._free.pop()
        try:
            yield Mark(place, str(next(self._nonces)).encode())
        finally:
            self._free.append(place)

    async def renew(self, *, now: bool = False) -> None:
        """Grant a new lease when half of the current one has passed, or with `now`."""
        if not now and self._clock.monotonic() < self._until:
            return
        until = self._clock.monotonic() + _RENEW_SECONDS
        self.lease, self._until = await grant_lease(self._client, _LEASE_SECONDS), until

    async def revision_of(self, mark: Mark) -> int:
        """Return the revision at which the write with this mark happened; 0 if it did not."""
        response = await self._client.call_with_retry("Range", message("RangeRequest")(key=mark.key))
        found = response.kvs[0] if response.kvs else None
        return int(found.mod_revision) if found is not None and found.value == mark.nonce else 0
