"""Marks by which a server identifies its own writes after a lost response: every transaction also writes a nonce.

Two clients that decrement a number send the same bytes under the same precondition, and etcd executes one of them; the
stored value does not show whose. So each transaction writes a unique nonce under a key that only this write uses at the
time. When a response is lost, the fence is raised (`fence`), so that the write can no longer happen, and the mark shows
whether it did, and at which revision.

    /registry/.mooring/writes/5f2c0a…-17    the nonce of the last write in slot 17 of one server

There are as many slots as concurrent writes. A lease of a day removes them when their server is gone.
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

_LEASE_SECONDS = 24 * 3600
_RENEW_SECONDS = _LEASE_SECONDS / 2


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
        response = await self._client.call_with_retry("LeaseGrant", message("LeaseGrantRequest")(TTL=_LEASE_SECONDS))
        if response.error:
            raise StorageError(f"etcd granted no lease: {response.error}")
        self.lease, self._until = response.ID, until

    async def revision_of(self, mark: Mark) -> int:
        """Return the revision at which the write with this mark happened; 0 if it did not."""
        response = await self._client.call_with_retry("Range", message("RangeRequest")(key=mark.key))
        found = response.kvs[0] if response.kvs else None
        return int(found.mod_revision) if found is not None and found.value == mark.nonce else 0
