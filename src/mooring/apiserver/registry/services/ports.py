"""Allocate node ports, which are bits of one object that every change replaces by compare-and-swap."""

import asyncio
import random
from collections.abc import Collection, Iterable, Sequence
from uuid import uuid4

from mooring.api import errors, times
from mooring.api.core_v1 import RangeAllocation
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.registry.context import HandlerContext
from mooring.store.kv import Event, KeyValue, Put

NAME = "servicenodeports"
_ATTEMPTS = 100


class PortError(Exception):
    """A requested node port is out of range or allocated already; the message is Kubernetes'."""

    def __init__(self, port: int, why: str) -> None:
        super().__init__(why)
        self.port = port


class NodePorts:
    """Allocates node ports, stored as a bitmap in one object, and releases them."""

    def __init__(self, context: HandlerContext, ports: range) -> None:
        self._context = context
        self.ports = ports
        self._stored = context.stored_kind(context.scheme.hub_of(RangeAllocation))
        self._key = self._stored.key("", NAME)
        self._lock = asyncio.Lock()
        """Held while this server changes the object, so that only other servers can cause conflicts."""

    async def take(self, wanted: Collection[int], number: int, *, dry_run: bool) -> list[int]:
        """Allocate the wanted node ports, else raise PortError, and `number` random ones; return the random ones."""
        for port in wanted:
            if port not in self.ports:
                last = self.ports[-1]
                why = "provided port is not in the valid range. The range of valid ports is "
                raise PortError(port, f"{why}{self.ports[0]}-{last}")
        async with self._lock:
            for _ in range(_ATTEMPTS):
                kv = await self._context.store.get(self._key)
                used = self.allocated_ports(kv)
                for port in wanted:
                    if port in used:
                        raise PortError(port, "provided port is already allocated")
                others = self._choose_free_ports(used | set(wanted), number)
                if dry_run or await self._write_allocation(kv, used | {*wanted, *others}):
                    return others
        raise errors.too_many_requests("other servers change node ports all the time: try again", 1)

    async def release(self, ports: Iterable[int]) -> None:
        """Mark node ports as free in the stored bitmap."""
        gone = set(ports)
        if not gone:
            return
        async with self._lock:
            while True:
                kv = await self._context.store.get(self._key)
                used = self.allocated_ports(kv)
                if not used & gone or await self._write_allocation(kv, used - gone):
                    return

    async def replace(self, used: Collection[int]) -> None:
        """Write the set of allocated node ports into the stored bitmap, replacing it (repair)."""
        kv = await self._context.store.get(self._key)
        wanted = {port for port in used if port in self.ports}
        if kv is None or self.allocated_ports(kv) != wanted or self._decode_allocation(kv).range != self._format_range:
            await self._write_allocation(kv, wanted)

    async def current(self) -> set[int]:
        return self.allocated_ports(await self._context.store.get(self._key))

    def allocated_ports(self, kv: KeyValue | None) -> set[int]:
        """Return the allocated node ports."""
        if kv is None:
            return set()
        found = self._decode_allocation(kv)
        first = int(found.range.partition("-")[0] or 0)
        bits = int.from_bytes(found.data, "little")
        return {first + index for index in range(bits.bit_length()) if bits >> index & 1}

    def _decode_allocation(self, kv: KeyValue) -> RangeAllocation:
        return self._stored.decode_as(RangeAllocation, kv)

    @property
    def _format_range(self) -> str:
        return f"{self.ports[0]}-{self.ports[-1]}"

    async def _write_allocation(self, kv: KeyValue | None, used: Collection[int]) -> bool:
        bits = sum(1 << (port - self.ports[0]) for port in used if port in self.ports)
        hub = self._stored.hub
        found = RangeAllocation(
            kind=hub.kind,
            api_version=hub.api_version,
            metadata=self._decode_allocation(kv).metadata if kv else self._make_metadata(),
            range=self._format_range,
            data=bits.to_bytes(len(self.ports) // 8 + 1, "little"),
        )
        put = Put(self._key, self._stored.encode(found), expect=kv.mod_revision if kv else 0)
        return isinstance(await self._context.store.write(put), Event)

    def _make_metadata(self) -> ObjectMeta:
        now = times.to_seconds(self._context.clock.now())
        return ObjectMeta(name=NAME, uid=str(uuid4()), creation_timestamp=now)

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
