"""Keys with a time to live, as etcd leases: etcd deletes them, so server clocks do not matter.

Keys written within a short window share a lease, because every lease costs etcd memory and a consensus round. They live
up to that window longer than requested: 5 % of their TTL, at most a minute.
"""

import asyncio

import msgspec

from mooring.base.clock import Clock
from mooring.store.errors import StorageError
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.messages import message

_WINDOW_FRACTION = 0.05
_MAX_WINDOW_SECONDS = 60.0
_MAX_KEYS_PER_LEASE = 1000


class _Lease(msgspec.Struct):
    id: int
    until: float
    """When, on the monotonic clock, no more keys are added to the lease."""
    keys: int = 0


class Leases:
    """Grants etcd leases for keys with a time to live; keys with the same TTL share one."""

    def __init__(self, client: EtcdClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._leases: dict[float, _Lease] = {}
        self._granting = asyncio.Lock()

    async def get_or_grant(self, ttl: float | None) -> int:
        """Return the lease for a key that is written now; 0 is none."""
        if ttl is None:
            return 0
        async with self._granting:
            lease = self._leases.get(ttl)
            if lease is None or lease.keys >= _MAX_KEYS_PER_LEASE or self._clock.monotonic() >= lease.until:
                window = min(ttl * _WINDOW_FRACTION, _MAX_WINDOW_SECONDS)
                until = self._clock.monotonic() + window
                lease = _Lease(await grant_lease(self._client, max(1, round(ttl + window))), until)
                self._leases[ttl] = lease
            lease.keys += 1
            return lease.id

    def forget(self, lease_id: int) -> None:
        """Drop a lease that expired earlier than expected."""
        self._leases = {ttl: lease for ttl, lease in self._leases.items() if lease.id != lease_id}


async def grant_lease(client: EtcdClient, seconds: int) -> int:
    """Return the id of a new lease. Raise StorageError if etcd grants none."""
    response = await client.call_with_retry("LeaseGrant", message("LeaseGrantRequest")(TTL=seconds))
    if response.error:
        raise StorageError(f"etcd granted no lease: {response.error}")
    return int(response.ID)
