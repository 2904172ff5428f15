"""Allocate node ports, which are bits of one object that every change replaces by compare-and-swap."""

import asyncio
import random
from collections.abc import Collection, Iterable, Sequence
from uuid import uuid4

from mooring.api import errors, times
from mooring.api.core_v1 import RangeAllocation
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.base.clock import Clock
from mooring.store.kv import Event, Put, Store

NAME = "servicenodeports"
_ATTEMPTS = 100


class PortError(Exception):
    """A requested node port is out of range or allocated already; the message is Kubernetes'."""

    def __init__(self, port: int, why: str) -> None:
        super().__init__(why)
        self.port = port


class NodePorts:
    """Allocates node ports, stored as a bitmap in one object, and releases them."""

    def __init__(self, store: Store, kinds: StoredKinds, clock: Clock, ports: range) -> None:
        self._store = store
        self._clock = clock
        self.ports = ports
        self._stored = kinds.find_by_type(RangeAllocation)
        self._key = self._stored.key("", NAME)
        self._lock = asyncio.Lock()
        """Held while this server changes the object, so that only other servers can cause conflicts."""

    async def take(self, wanted: Collection[int], number: int, *, dry_run: bool) -> list[int]:
        """Allocate the wanted node ports, else raise PortError, and `number` random ones; return the random ones."""
        for port in wanted:
            if port not in self.ports:
                why = "provided port is not in the valid range. The range of valid ports is "
                raise PortError(port, why + self._format_range)
        async with self._lock:
            for _ in range(_ATTEMPTS):
                revision, found, used = await self._read()
                for port in wanted:
                    if port in used:
                        raise PortError(port, "provided port is already allocated")
                others = self._choose_free_ports(used | set(wanted), number)
                if dry_run or await self._write(revision, found, used | {*wanted, *others}):
                    return others
        raise errors.too_many_requests("other servers change node ports all the time: try again", 1)

    async def release(self, ports: Iterable[int]) -> None:
        """Mark node ports as free in the stored bitmap."""
        gone = set(ports)
        if not gone:
            return
        async with self._lock:
            while True:
                revision, found, used = await self._read()
                if not used & gone or await self._write(revision, found, used - gone):
                    return

    async def replace(self, used: Collection[int]) -> None:
        """Write the set of allocated node ports into the stored bitmap, replacing it (repair)."""
        revision, found, now = await self._read()
        wanted = {port for port in used if port in self.ports}
        if not revision or now != wanted or found.range != self._format_range:
            await self._write(revision, found, wanted)

    async def current(self) -> set[int]:
        return (await self._read())[2]

    @property
    def _format_range(self) -> str:
        return f"{self.ports[0]}-{self.ports[-1]}"

    async def _read(self) -> tuple[int, RangeAllocation, set[int]]:
        """Return the revision of the stored bitmap, the object with it, and the ports; 0 and a new object if none."""
        kv = await self._store.get(self._key)
        if kv is None:
            hub, now = self._stored.hub, times.to_seconds(self._clock.now())
            meta = ObjectMeta(name=NAME, uid=str(uuid4()), creation_timestamp=now)
            return 0, RangeAllocation(kind=hub.kind, api_version=hub.api_version, metadata=meta), set()
        found = self._stored.decode_as(RangeAllocation, kv)
        first, bits = int(found.range.partition("-")[0] or 0), int.from_bytes(found.data, "little")
        return kv.mod_revision, found, {first + index for index in range(bits.bit_length()) if bits >> index & 1}

    async def _write(self, revision: int, found: RangeAllocation, used: Collection[int]) -> bool:
        bits = sum(1 << (port - self.ports[0]) for port in used if port in self.ports)
        found.range, found.data = self._format_range, bits.to_bytes(len(self.ports) // 8 + 1, "little")
        put = Put(self._key, self._stored.encode(found), expect=revision)
        return isinstance(await self._store.write(put), Event)

    def _choose_free_ports(self, used: Collection[int], number: int) -> list[int]:
        """Return random free node ports, rather upper ones: users choose lower ones. Raise InternalError if too few."""
        if not number:
            return []
        count = len(self.ports)
        lower = 0 if count <= 16 else min(max(16, count // 32), 128)
        free: Sequence[int] = [port for port in self.ports[lower:] if port not in used]
        if len(free) < number:
            free = [*free, *(port for port in self.ports[:lower] if port not in used)][:number]
        if len(free) < number:
            raise errors.internal_error("failed to allocate a nodePort: range is full")
        return random.sample(free, number)
