"""Leader election by a Lease: one of several instances of a component works, the others wait.

The rules are Kubernetes': the holder renews the lease; another instance takes it if it was not renewed for its
duration, measured on that instance's own clock from the last change it saw. A holder that cannot renew in time stops
before another may begin. The lease has the component's version in its annotations.

A process can be stopped for any time (by a signal, a debugger, swapping) and continue unaware. So every write of an
elected component is guarded: immediately before it is sent, the guard checks that the lease is still held. Writes that
were sent in time and arrive late are refused by the server: a bound pod is not bound again, a stale revision conflicts.
Waiting instances also watch the lease, so that a renewal that they see late does not make them wait too long.
"""

import asyncio
import math
import socket
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from mooring.api import errors, times
from mooring.api.coordination_v1 import VERSION_ANNOTATION, Lease, LeaseSpec
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.base import logs
from mooring.base.tasks import run_until_one_ends
from mooring.client.client import Client
from mooring.client.errors import ClientError, NotLeaderError
from mooring.client.watch import WatchEvent

T = TypeVar("T")
log = logs.get(__name__)


class LeaseTimes(msgspec.Struct, frozen=True):
    """The seconds of leader election: lease duration, renew deadline (shorter, else ValueError) and retry period."""

    duration: float = 15.0
    """How long other instances respect a lease that is not renewed."""
    renew_deadline: float = 10.0
    """How long after its last renewal the holder stops."""
    retry_period: float = 2.0
    """The time between attempts to take or renew the lease."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline < self.duration:
            raise ValueError("leader election needs 0 < retry period < renew deadline < lease duration")


class LeaderElection(msgspec.Struct, frozen=True):
    """The leader-election settings of a component: whether it is enabled, and the Lease."""

    name: str
    namespace: str = "kube-system"
    enabled: bool = False
    times: LeaseTimes = msgspec.field(default_factory=LeaseTimes)


class LeaderElector:
    """Holds a Lease against other instances of a component, and runs the component's work only while it does."""

    def __init__(self, client: Client, election: LeaderElection, *, identity: str = "", version: str = "") -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._guarded = client
        self._client = client.unguarded()
        self._clock = client.clock
        self._name, self._namespace, self._times = election.name, election.namespace, election.times
        self._annotations = {VERSION_ANNOTATION: version} if version else {}
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._held_until = -math.inf
        self._released = asyncio.Event()

    @property
    def leader(self) -> str:
        """Return the identity of the last observed holder of the lease; empty if there was none."""
        return (self._seen.spec.holder_identity or "") if self._seen else ""

    @property
    def is_leader(self) -> bool:
        return self.leader == self.identity

    def check(self) -> None:
        """Raise NotLeaderError unless this instance certainly still holds the lease; called before each request."""
        if self._clock.monotonic() >= self._held_until:
            raise NotLeaderError(f"the lease {self._name} is not held, or was not renewed in time: nothing was written")

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Wait for the lease; run `lead`, renewing the lease. Return whether `lead` ended before the lease was lost.

        `lead` is cancelled when the lease is lost, and has ended before this returns or the lease is released. From now
        on, the client that the elector was created with sends requests only while the lease is held.
        """
        self._guarded.guard = self.check
        await self._acquire_lease()
        log.info("became the leader", extra={"fields": {"lease": self._name, "identity": self.identity}})
        try:
            outcome, renewal = await run_until_one_ends(lead(), self._renew_until_lost())
        finally:
            await self._release_lease()
        has_ended = isinstance(renewal, asyncio.CancelledError)
        if has_ended and isinstance(outcome, BaseException):
            raise outcome
        return has_ended

    async def _acquire_lease(self) -> None:
        watching = asyncio.ensure_future(self._watch_lease())
        try:
            while not await self._try_once(self._times.renew_deadline):
                await self._wait_for_free_lease()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch_lease(self) -> None:
        """Follow the lease by a watch. If the server refuses it, return: the periodic attempts suffice."""
        selector = f"metadata.name={self._name}"
        while True:
            try:
                async with self._client.watch(Lease, self._namespace, field_selector=selector) as watch:
                    async for events in watch:
                        for event in events:
                            self._handle_lease_event(event)
            except (StatusError, ClientError) as error:
                log.debug("cannot watch the lease %s: %s", self._name, error)
            await self._clock.sleep(self._times.retry_period)

    def _handle_lease_event(self, event: WatchEvent[Lease]) -> None:
        if event.type == "BOOKMARK":
            return
        if event.type == "DELETED" or not event.object.spec.holder_identity:
            self._released.set()
        else:
            self._record_lease(event.object)

    async def _wait_for_free_lease(self) -> None:
        """Wait until the lease is released or expires, but never longer than the retry period."""
        seconds = self._times.retry_period
        if self._seen is not None:
            left = self._seen_at + self._lease_duration(self._seen.spec) - self._clock.monotonic()
            if left > 0:
                seconds = min(seconds, left)
        await run_until_one_ends(self._clock.sleep(seconds), self._released.wait())
        self._released.clear()

    async def _renew_until_lost(self) -> None:
        """Renew the lease periodically; return once it has expired without renewal, or another instance holds it."""
        deadline = self._times.renew_deadline
        while True:
            await self._clock.sleep(self._times.retry_period)
            left = self._held_until - self._clock.monotonic()
            if left > 0 and await self._try_once(min(left, deadline / 2)):  # half: one server may hang, another not
                continue
            if not self.is_leader or self._clock.monotonic() >= self._held_until:
                log.error("lost the lease", extra={"fields": {"lease": self._name, "leader": self.leader}})
                return

    async def _try_once(self, seconds: float) -> bool:
        """Try once to take or renew the lease within some seconds; return whether it is held. Log errors."""
        try:
            return await _run_with_timeout(self._clock.sleep(seconds), self._take_or_renew())
        except TimeoutError:
            log.warning("no answer about the lease %s within %g s", self._name, seconds)
        except (StatusError, ClientError) as error:
            log.warning("cannot take or renew the lease %s: %s", self._name, error)
        return False

    async def _take_or_renew(self) -> bool:
        if self._seen is not None and self.is_leader and await self._write_lease(self._seen):
            return True
        try:
            lease = await self._client.get(Lease, self._name, self._namespace)
        except errors.NotFound:
            return await self._write_lease(None)
        self._record_lease(lease)
        spec = lease.spec
        holder = spec.holder_identity or ""
        if holder not in {"", self.identity} and self._clock.monotonic() < self._seen_at + self._lease_duration(spec):
            return False
        return await self._write_lease(lease)

    async def _write_lease(self, lease: Lease | None) -> bool:
        """Create the lease, or write this instance into it; return False if another instance was faster."""
        began = self._clock.monotonic()
        current = lease or Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace))
        spec, meta = current.spec, current.metadata
        now = times.to_microseconds(self._clock.now())
        mine = spec.holder_identity == self.identity
        wanted = structs.replace(
            current,
            metadata=structs.replace(meta, annotations={**meta.annotations, **self._annotations}),
            spec=structs.replace(
                spec,
                holder_identity=self.identity,
                lease_duration_seconds=math.ceil(self._times.duration),
                acquire_time=spec.acquire_time if mine else now,
                renew_time=now,
                lease_transitions=(spec.lease_transitions or 0) + (0 if mine or lease is None else 1),
            ),
        )
        try:
            self._record_lease(await (self._client.update(wanted) if lease else self._client.create(wanted)))
        except (errors.AlreadyExists, errors.Conflict, errors.NotFound):
            return False
        self._held_until = began + self._times.renew_deadline
        return True

    def _record_lease(self, lease: Lease) -> None:
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen_at = self._clock.monotonic()
        self._seen = lease
        if not self.is_leader:
            self._held_until = -math.inf

    def _lease_duration(self, spec: LeaseSpec) -> float:
        """Return the seconds that a lease is valid after its last change: as stated in it, else this elector's own."""
        return float(spec.lease_duration_seconds or self._times.duration)

    async def _release_lease(self) -> None:
        """Clear the holder of the lease, so that another instance can take it without waiting until it expires."""
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
            self._seen = await _run_with_timeout(self._clock.sleep(self._times.retry_period), released)
        except (StatusError, ClientError, TimeoutError) as error:
            log.info("the lease %s was not released and will run out: %s", self._name, error)
            self._seen = None


async def _run_with_timeout(limit: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; raise TimeoutError if `limit`, a sleep on a clock, ends first."""
    result, _ = await run_until_one_ends(work, limit)
    if isinstance(result, BaseException):
        raise TimeoutError if isinstance(result, asyncio.CancelledError) else result
    return cast("T", result)


class ElectedComponent:
    """A base for components with leader election. Subclasses implement `run`, which sets `_ready` once it works."""

    def __init__(self, client: Client, election: LeaderElection, version: str = "") -> None:
        self._client = client
        self.election = election
        self._version = version
        self._ready = asyncio.Event()
        self.is_standing_by = False
        """Whether another instance may be the leader, so that this one does nothing."""

    @property
    def is_ready(self) -> bool:
        """Return whether `run` has read all objects that it needs and has begun its work."""
        return self._ready.is_set()

    async def wait_until_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        raise NotImplementedError

    async def run_elected(self) -> bool:
        """Wait for the lease, then run the component. Return False if the lease was lost: the process must end then."""
        elector = LeaderElector(self._client, self.election, version=self._version)
        self.is_standing_by = True
        try:
            return await elector.run(self.run)
        finally:
            self.is_standing_by = False
