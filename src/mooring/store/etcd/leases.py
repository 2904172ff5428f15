"""Keys with a time to live, by leases: etcd deletes them, so that no server's clock matters.

Keys that are written within a short while share a lease, since every lease costs etcd memory and a round of its own.
They live that while longer than asked for: a twentieth of their time, at most a minute.
"""

import asyncio

import msgspec

from mooring.base.clock import Clock
from mooring.store.errors import StorageError
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.messages import message

_SHARE = 0.05
_MOST_SECONDS = 60.0
_MOST_KEYS = 1000


class _Lease(msgspec.Struct):
    id: int
    until: float
    """When, on our own monotonic clock, it is too old for more keys."""
    keys: int = 0


class Leases:
    """The leases of one server, by the time to live they are for."""

    def __init__(self, client: EtcdClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._leases: dict[float, _Lease] = {}
        self._granting = asyncio.Lock()

    async def lease(self, ttl: float | None) -> int:
        """The lease for a key that is written now; 0 is none."""
        if ttl is None:
            return 0
        async with self._granting:
            lease = self._leases.get(ttl)
            if lease is None or lease.keys >= _MOST_KEYS or self._clock.monotonic() >= lease.until:
                lease = self._leases[ttl] = await self._grant(ttl)
            lease.keys += 1
            return lease.id

    def forget(self, lease_id: int) -> None:
        """A lease has ended sooner than thought."""
        self._leases = {ttl: lease for ttl, lease in self._leases.items() if lease.id != lease_id}

    async def _grant(self, ttl: float) -> _Lease:
        window = min(ttl * _SHARE, _MOST_SECONDS)
        until = self._clock.monotonic() + window
        response = await self._client.ask("LeaseGrant", message("LeaseGrantRequest")(TTL=max(1, round(ttl + window))))
        if response.error:
            raise StorageError(f"etcd granted no lease: {response.error}")
        return _Lease(response.ID, until)
