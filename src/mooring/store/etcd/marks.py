"""How a server recognises its own writes after an answer was lost: every transaction also writes a mark of its own.

Two clients that count a number down send the same bytes on the same condition, and etcd does one of the two. What lies
under the key afterwards does not say whose it is. So each transaction puts a number that nobody else has, a nonce,
under a key that only this write uses at the time. When its answer is lost, the fence is raised (`fence`), so that it
cannot be done any more, and then the mark says whether it was, and at which revision.

    /registry/.mooring/writes/5f2c0a…-17    the nonce of the last write in the 17th place of one server

There are as many places as writes are under way at once. A lease of a day takes them away when their server is gone.
"""

import itertools
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from mooring.base.clock import Clock
from mooring.store.errors import StorageError
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.keys import Keys
from mooring.store.etcd.messages import message

_SECONDS = 24 * 3600
_RENEW_SECONDS = _SECONDS / 2


class Mark(msgspec.Struct, frozen=True):
    """What one write leaves beside its own key."""

    key: bytes
    nonce: bytes


class Marks:
    """The places of one server."""

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._prefix = keys.common(f"writes/{secrets.token_hex(8)}-")
        self._free: list[bytes] = []
        self._places = 0
        self._nonces = itertools.count(1)
        self.lease = 0
        """The lease that the marks are under."""
        self._until = -math.inf

    @contextmanager
    def taken(self) -> Iterator[Mark]:
        """A mark for one write, whose place nobody else writes to until it is decided."""
        if not self._free:
            self._free.append(self._prefix + str(self._places).encode())
            self._places += 1
        place = self._free.pop()
        try:
            yield Mark(place, str(next(self._nonces)).encode())
        finally:
            self._free.append(place)

    async def renew(self, *, now: bool = False) -> None:
        """Take another lease in time: at the start, when half of one has gone by, and when it has ended before that."""
        if not now and self._clock.monotonic() < self._until:
            return
        until = self._clock.monotonic() + _RENEW_SECONDS
        response = await self._client.ask("LeaseGrant", message("LeaseGrantRequest")(TTL=_SECONDS))
        if response.error:
            raise StorageError(f"etcd granted no lease: {response.error}")
        self.lease, self._until = response.ID, until

    async def revision_of(self, mark: Mark) -> int:
        """Where the write with this mark was done; 0 if it was not."""
        response = await self._client.ask("Range", message("RangeRequest")(key=mark.key))
        found = response.kvs[0] if response.kvs else None
        return int(found.mod_revision) if found is not None and found.value == mark.nonce else 0
