"""Leader election by a Lease: of several instances of a component one works, the others wait.

The rules are Kubernetes': the holder renews the lease, others take it when it was not renewed for its duration. They
measure that on their own clocks from when they last saw it change, so that clocks need not agree. A holder that cannot
renew in time stops working before anybody else may begin. The lease announces the component's version in annotations.

A process can be stopped at any time for any time (by a signal, a debugger, a machine without memory), and goes on as if
nothing had happened. So every write of a component that takes part is guarded: right before it is sent, the clock is
asked whether the lease is surely still held. What was sent in time and arrives late is for the server to judge: a pod
that has a node is not bound again, and an object that changed is not overwritten.

Those who wait also watch the lease, lest a renewal that was seen late makes them wait longer than it lasts.
"""

import asyncio
import math
import socket
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import structs

from mooring.api import errors, times
from mooring.api.coordination_v1 import VERSION_ANNOTATION, Lease, LeaseSpec
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.base import logs
from mooring.client.client import Client
from mooring.client.errors import ClientError, NotLeaderError
from mooring.client.watch import WatchEvent

T = TypeVar("T")
log = logs.get(__name__)


class LeaseTimes(msgspec.Struct, frozen=True):
    """Seconds. The deadline must be shorter than the duration, so that a holder stops before another begins."""

    duration: float = 15.0
    """For how long a lease that is not renewed is respected."""
    renew_deadline: float = 10.0
    """After how long without success the holder gives up."""
    retry_period: float = 2.0
    """How often it is tried."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.duration:
            raise ValueError("leader election needs 0 < retry period < renew deadline < lease duration")


def default_identity() -> str:
    """A name that no other instance has: `host_uuid`."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Runs something while it holds a lease, which is named after the component."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str = "kube-system",
        *,
        identity: str = "",
        lease_times: LeaseTimes = LeaseTimes(),  # noqa: B008 - frozen
        version: str = "",
    ) -> None:
        self.identity = identity or default_identity()
        self._guarded = client
        self._client = client.unguarded()
        self._clock = client.clock
        self._name = name
        self._namespace = namespace
        self._times = lease_times
        self._annotations = {VERSION_ANNOTATION: version} if version else {}
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._held_until = -math.inf
        self._given_up = asyncio.Event()

    @property
    def leader(self) -> str:
        """Who was last seen to hold the lease; empty if nobody."""
        return (self._seen.spec.holder_identity or "") if self._seen else ""

    @property
    def is_leader(self) -> bool:
        return self.leader == self.identity

    def check(self) -> None:
        """Raises NotLeaderError unless nobody else can hold the lease now."""
        if self._clock.monotonic() >= self._held_until:
            raise NotLeaderError(f"the lease {self._name} is not held, or was not renewed in time: nothing was written")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Wait for the lease, then run `lead` and keep the lease. True if `lead` ended, False if the lease was lost.

        `lead` is cancelled when the lease is lost, and has ended before this returns or the lease is released. The
        client that the elector was made with writes only while the lease is held, from now on and for good.
        """
        self._guarded.guard = self.check
        await self._acquire()
        log.info("became the leader", extra={"fields": {"lease": self._name, "identity": self.identity}})
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
            ended = work.done()
        finally:
            for task in (work, renewal):
                task.cancel()
            await asyncio.gather(work, renewal, return_exceptions=True)
            await self._release()
        if ended:
            work.result()  # raises what `lead` raised
        return ended

    async def _acquire(self) -> None:
        watching = asyncio.ensure_future(self._watch())
        try:
            while not await self._attempt(self._times.renew_deadline):
                await self._until_worth_a_try()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        """See the lease change as it does. Where that is not possible, attempts from time to time have to do."""
        selector = f"metadata.name={self._name}"
        while True:
            try:
                async with self._client.watch(Lease, self._namespace, field_selector=selector) as watch:
                    async for events in watch:
                        for event in events:
                            self._hear(event)
            except (StatusError, ClientError) as error:
                log.debug("cannot watch the lease %s: %s", self._name, error)
            await self._clock.sleep(self._times.retry_period)

    def _hear(self, event: WatchEvent[Lease]) -> None:
        if event.type == "BOOKMARK":
            return
        if event.type == "DELETED" or not event.object.spec.holder_identity:
            self._given_up.set()
        else:
            self._observe(event.object)

    async def _until_worth_a_try(self) -> None:
        """Until the lease is given up or runs out; not longer than the retry period, in case it cannot be watched."""
        seconds = self._times.retry_period
        if self._seen is not None:
            left = self._seen_at + self._respected(self._seen.spec) - self._clock.monotonic()
            if left > 0:
                seconds = min(seconds, left)
        with suppress(TimeoutError):
            await _within(self._clock.sleep(seconds), self._given_up.wait())
        self._given_up.clear()

    async def _keep(self) -> None:
        """Renew the lease; returns when that did not succeed for too long."""
        deadline = self._times.renew_deadline
        while True:
            await self._clock.sleep(self._times.retry_period)
            left = self._held_until - self._clock.monotonic()
            if left > 0 and await self._attempt(min(left, deadline / 2)):  # half: one server may hang, another not
                continue
            if not self.is_leader or self._clock.monotonic() >= self._held_until:
                log.error("lost the lease", extra={"fields": {"lease": self._name, "leader": self.leader}})
                return

    async def _attempt(self, seconds: float) -> bool:
        """Try to take or renew the lease; whether it is held then."""
        try:
            return await _within(self._clock.sleep(seconds), self._take_or_renew())
        except TimeoutError:
            log.warning("no answer about the lease %s within %g s", self._name, seconds)
        except (StatusError, ClientError) as error:
            log.warning("cannot take or renew the lease %s: %s", self._name, error)
        return False

    async def _take_or_renew(self) -> bool:
        if self._seen is not None and self.is_leader and await self._write(self._seen):
            return True
        try:
            lease = await self._client.get(Lease, self._name, self._namespace)
        except errors.NotFound:
            return await self._create()
        self._observe(lease)
        spec = lease.spec
        holder = spec.holder_identity or ""
        if holder not in {"", self.identity} and self._clock.monotonic() < self._seen_at + self._respected(spec):
            return False
        return await self._write(lease)

    async def _write(self, lease: Lease) -> bool:
        """Make the lease ours, or renew it; False if somebody else has changed it meanwhile."""
        began = self._clock.monotonic()
        spec, meta = lease.spec, lease.metadata
        now = times.to_microseconds(self._clock.now())
        mine = spec.holder_identity == self.identity
        wanted = structs.replace(
            lease,
            metadata=structs.replace(meta, annotations={**meta.annotations, **self._annotations}),
            spec=structs.replace(
                spec,
                holder_identity=self.identity,
                lease_duration_seconds=self._seconds,
                acquire_time=spec.acquire_time if mine else now,
                renew_time=now,
                lease_transitions=(spec.lease_transitions or 0) + (0 if mine else 1),
            ),
        )
        try:
            self._observe(await self._client.update(wanted))
        except (errors.Conflict, errors.NotFound):
            return False
        self._held_until = began + self._times.renew_deadline
        return True

    async def _create(self) -> bool:
        began = self._clock.monotonic()
        now = times.to_microseconds(self._clock.now())
        lease = Lease(
            metadata=ObjectMeta(name=self._name, namespace=self._namespace, annotations=self._annotations),
            spec=LeaseSpec(
                holder_identity=self.identity,
                lease_duration_seconds=self._seconds,
                acquire_time=now,
                renew_time=now,
                lease_transitions=0,
            ),
        )
        try:
            self._observe(await self._client.create(lease))
        except errors.AlreadyExists:
            return False
        self._held_until = began + self._times.renew_deadline
        return True

    @property
    def _seconds(self) -> int:
        return math.ceil(self._times.duration)

    def _observe(self, lease: Lease) -> None:
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen_at = self._clock.monotonic()
        self._seen = lease
        if not self.is_leader:
            self._held_until = -math.inf

    def _respected(self, spec: LeaseSpec) -> float:
        """For how long somebody else's lease counts after it was last seen to change: as long as its holder said."""
        return float(spec.lease_duration_seconds or self._times.duration)

    async def _release(self) -> None:
        """Give the lease up, so that the next one need not wait for its end."""
        self._held_until = -math.inf
        lease = self._seen
        if lease is None or not self.is_leader:
            return
        now = times.to_microseconds(self._clock.now())
        spec = structs.replace(
            lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=now, acquire_time=now
        )
        try:
            released = self._client.update(structs.replace(lease, spec=spec))
            self._seen = await _within(self._clock.sleep(self._times.retry_period), released)
        except (StatusError, ClientError, TimeoutError) as error:
            log.info("the lease %s was not released and will run out: %s", self._name, error)
            self._seen = None


async def _within(limit: Awaitable[None], work: Awaitable[T]) -> T:
    """What `work` returns; raises TimeoutError if `limit` ends first. On the clock that `limit` sleeps on."""
    timer, task = asyncio.ensure_future(limit), asyncio.ensure_future(work)
    try:
        await asyncio.wait({timer, task}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        for each in (timer, task):
            each.cancel()
        await asyncio.gather(timer, task, return_exceptions=True)
