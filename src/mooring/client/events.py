"""Events: what components tell people about objects, as `kubectl describe` and `kubectl get events` show it.

`EventRecorder.event` never waits and never fails: events are written in the background, and dropped if that is
impossible. While many wait to be written, it only notes what happened; the rest is done before the next are written.
What happens again is counted in the series of the first event instead of being written anew, and one object cannot
flood the server: 25 different events with one reason, then one in five minutes. Neither can many objects together: only
so many events wait to be written, and when these are too many, those of a namespace and reason that has had its share
are dropped, so that a flood of one sort does not hide the others. Who has more urgent things to write says so
(`is_busy`), and events wait for some seconds. Events have the shape of events.k8s.io/v1.
"""

import asyncio
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Generic, Literal, NamedTuple, Self, TypeVar

import msgspec

from mooring.api import errors, times
from mooring.api.core_v1 import ObjectReference
from mooring.api.errors import StatusError
from mooring.api.events_v1 import Event, EventSeries
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.base import logs
from mooring.client.backoff import Backoff
from mooring.client.client import Client, PatchType
from mooring.client.errors import ClientError
from mooring.client.workqueue import WorkQueue

V = TypeVar("V")
EventKind = Literal["Normal", "Warning"]

_SERIES_SECONDS = 360.0
"""What does not happen again for so long starts anew."""
_COUNT_SECONDS = 10.0
"""A series is written at most so often."""
_BURST, _REFILL_SECONDS = 25.0, 300.0
_REMEMBERED = 4096
"""So many written series are known, to be counted on."""
_WAITING = 16_384
"""So many events may wait to be written before each sort of them gets no more than its share. Each takes half a KB."""
_PATIENCE_SECONDS = 5.0
"""So long an event waits for what is more urgent ..."""
_PATIENT = _WAITING // 2
"""... as long as there are no more than these."""
_LOOK_AGAIN_SECONDS = 0.1
_ATTEMPTS = 10
_AT_ONCE = 100
"""So many events are written together, where the server takes groups of writes."""
_PAUSE_SECONDS = 0.25 / 100
"""For each of them the recorder rests so long: what it tells of is more urgent than telling it ..."""
_PAUSES_WHEN_BUSY = 4
"""... and so many times as long while that is going on."""
_FEW = 10
"""So few are written without a rest."""
_NOTE_LENGTH = 1024
_RETRY = Backoff(initial=1.0, maximum=30.0, jitter=0.5)
log = logs.get(__name__)

_Key = tuple[str, ...]
"""What an event is about, and what it says (`_Said`)."""
_Lane = tuple[str, str]
"""A namespace and a reason."""


class _Said(NamedTuple):
    """The end of a key."""

    type: str
    reason: str
    action: str
    note: str
    related: str


class _Happening(msgspec.Struct, frozen=True):
    """What happened, as it is noted."""

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    related: ObjectReference | None
    at: datetime
    monotonic: float
    """The same time, for budgets."""


class _Series(msgspec.Struct):
    """What happened, and how often. The rest of it is in its key; the event is made when it is written."""

    regarding: ObjectReference
    related: ObjectReference | None
    first: datetime
    last: datetime
    name: str = ""
    """Of the event, once it has been tried to write it."""
    count: int = 1
    written: int = 0
    """The count that the server knows; 0 before the event was created."""
    lost: bool = False
    """The server could not be told, and will not be."""


class EventRecorder:
    """Writes the events of one component. Use it as a context, or call `start` and `stop`."""

    def __init__(
        self, client: Client, component: str, instance: str = "", is_busy: Callable[[], bool] | None = None
    ) -> None:
        """`is_busy` says whether the component is writing what is more urgent than events."""
        self._client = client
        self._is_busy = is_busy
        self._clock = client.clock
        self._component = component
        self._instance = instance or f"{component}-{socket.gethostname()}"[:128]
        self._noted: deque[_Happening] = deque()
        """What happened while the writer had a whole group of events to write."""
        self._unwritten: dict[_Key, _Series] = {}
        self._lanes: Counter[_Lane] = Counter()
        """How many of these there are of each sort."""
        self._series: _Bounded[_Key, _Series] = _Bounded(_REMEMBERED)
        self._budgets: _Bounded[_Key, _Budget] = _Bounded(_REMEMBERED)
        self._queue: WorkQueue[_Key] = WorkQueue(self._clock, _RETRY)
        self._writer: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._named = 0
        self.dropped = 0
        """How many events were not written: too many at a time, or refused."""

    def event(
        self,
        regarding: Resource | ObjectReference,
        type: EventKind,  # noqa: A002 - the field's name
        reason: str,
        note: str,
        *,
        action: str = "",
        related: ObjectReference | None = None,
    ) -> None:
        """Report that something happened to an object. `action` is what was done about it; the reason if not given."""
        reference = regarding if isinstance(regarding, ObjectReference) else self.reference(regarding)
        now, monotonic = self._clock.now(), self._clock.monotonic()
        self._noted.append(_Happening(reference, type, reason, action, note, related, now, monotonic))
        if len(self._queue) < _AT_ONCE or self._waiting >= _WAITING:
            self._take_noted()

    def _take_noted(self, most: int = _WAITING) -> None:
        """Take in what was noted, the oldest first."""
        for _ in range(min(most, len(self._noted))):
            self._take_in(self._noted.popleft())

    def _take_in(self, happened: _Happening) -> None:
        regarding, related, reason, now = happened.regarding, happened.related, happened.reason, happened.at
        about = (regarding.api_version, regarding.kind, regarding.namespace, regarding.name, regarding.uid)
        key = (*about, happened.type, reason, happened.action, happened.note, related.name if related else "")
        series = self._find(key)
        if series is not None and (now - series.last).total_seconds() < _SERIES_SECONDS:
            series.count += 1
            series.last = now
            self._queue.add_after(key, _COUNT_SECONDS)
            return
        lane = (regarding.namespace, reason)
        if not self._has_room(lane) or not self._allowed((*about, reason), happened.monotonic):
            self.dropped += 1
            return
        if key not in self._unwritten:
            self._lanes[lane] += 1
        self._unwritten[key] = _Series(regarding, related, now, now)
        self._queue.add(key)

    def reference(self, obj: Resource) -> ObjectReference:
        """How events point to an object."""
        kind, meta = self._client.kind(type(obj)), obj.metadata
        return ObjectReference(
            kind=kind.kind,
            api_version=kind.api_version,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )

    def start(self) -> None:
        """Begin to write."""
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())

    async def stop(self, seconds: float = 2.0) -> None:
        """Write what is left, for at most so long, and end."""
        self._take_noted()
        for key, series in [*self._unwritten.items(), *self._series.items()]:
            if series.count > series.written:
                self._queue.add(key)
        self._queue.shut_down()
        self._closing.set()
        try:
            async with asyncio.timeout(seconds):
                if self._writer is not None:
                    await self._writer
        except TimeoutError:
            log.info("stopped with %d events unwritten", len(self._queue) + self._queue.in_progress)
        self._writer = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _name(self, regarding: ObjectReference, now: datetime) -> str:
        self._named += 1  # several events may happen within a microsecond
        return f"{regarding.name}.{int(now.timestamp() * 1_000_000) * 1000 + self._named % 1000:x}"

    def _allowed(self, key: _Key, now: float) -> bool:
        budget = self._budgets.get(key)
        if budget is None:
            budget = _Budget(_BURST, now)
            self._budgets.put(key, budget)
        return budget.take(now)

    @property
    def _waiting(self) -> int:
        """How many events wait to be written, at most."""
        return len(self._unwritten) + len(self._noted)

    def _has_room(self, lane: _Lane) -> bool:
        """Whether one more event of a sort may wait. Altogether at most twice as many do as there should."""
        if len(self._unwritten) < _WAITING:
            return True
        sorts = len(self._lanes) + (lane not in self._lanes)
        has_room = self._lanes.get(lane, 0) < _WAITING // sorts
        if not has_room and logs.once(("too many events", self._component)):
            log.warning(
                "%d events wait to be written: until they are fewer, new ones of reason %s in namespace %s are "
                "dropped. The objects that they are about are not affected",
                len(self._unwritten),
                lane[1],
                lane[0] or "default",
            )
        return has_room

    def _find(self, key: _Key) -> _Series | None:
        return self._unwritten.get(key) or self._series.get(key)

    def _ended(self, key: _Key, series: _Series) -> None:
        """An event was written, or will not be."""
        self._queue.forget(key)
        if self._unwritten.get(key) is not series:
            return
        del self._unwritten[key]
        self._series.put(key, series)
        lane = (series.regarding.namespace, _Said(*key[-5:]).reason)
        self._lanes[lane] -= 1
        if not self._lanes[lane]:
            del self._lanes[lane]

    async def _write_all(self) -> None:
        while (key := await self._queue.get()) is not None:
            await self._wait_for_others(key)
            while self._noted:
                self._take_noted(_AT_ONCE)
                await asyncio.sleep(0)
            keys = [key]
            while len(keys) < _AT_ONCE and len(self._queue):
                more = await self._queue.get()
                keys += [more] if more is not None else []
            try:
                await asyncio.gather(*map(self._write, keys))
            finally:
                for each in keys:
                    self._queue.done(each)
            if len(keys) > _FEW:
                is_busy = self._is_busy is not None and self._is_busy()
                await self._rest(len(keys) * _PAUSE_SECONDS * (_PAUSES_WHEN_BUSY if is_busy else 1))

    async def _rest(self, seconds: float) -> None:
        """Wait, but not when all shall come to an end."""
        waits = [asyncio.create_task(self._clock.sleep(seconds)), asyncio.create_task(self._closing.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _wait_for_others(self, key: _Key) -> None:
        """Let go first what is more urgent, as long as an event is not old and not too many wait."""
        series = self._find(key)
        while (
            series is not None
            and self._is_busy is not None
            and self._is_busy()
            and not self._closing.is_set()
            and self._waiting < _PATIENT
            and (self._clock.now() - series.last).total_seconds() < _PATIENCE_SECONDS
        ):
            await self._rest(_LOOK_AGAIN_SECONDS)

    async def _write(self, key: _Key) -> None:
        series = self._find(key)
        if series is None or series.lost or series.count == series.written:
            return
        count = series.count
        try:
            if series.written:
                await self._count(key, series, count)
            else:
                await self._create(key, series, count)
        except (StatusError, ClientError) as error:
            if _may_pass(error) and self._queue.failures(key) + 1 < _ATTEMPTS:
                self._queue.add_rate_limited(key)
                return
            log.debug("an event was not written: %s", error)
            self.dropped += 1
            series.lost = True
        else:
            series.written = count
        self._ended(key, series)

    async def _create(self, key: _Key, series: _Series, count: int) -> None:
        said, regarding = _Said(*key[-5:]), series.regarding
        series.name = series.name or self._name(regarding, series.first)
        event = Event(
            metadata=ObjectMeta(name=series.name, namespace=regarding.namespace or "default"),
            event_time=times.to_microseconds(series.first),
            reporting_controller=self._component,
            reporting_instance=self._instance,
            action=said.action or said.reason,
            reason=said.reason,
            regarding=regarding,
            related=series.related,
            note=said.note[:_NOTE_LENGTH],
            type=said.type,
        )
        if count > 1:
            event.series = EventSeries(count=count, last_observed_time=times.to_microseconds(series.last))
        with suppress(errors.AlreadyExists):  # by an attempt whose answer was lost
            await self._client.create_unread(event)

    async def _count(self, key: _Key, series: _Series, count: int) -> None:
        told = {"series": {"count": count, "lastObservedTime": times.to_microseconds(series.last)}}
        namespace = series.regarding.namespace or "default"
        try:
            await self._client.patch_unread(Event, series.name, told, namespace, type=PatchType.MERGE)
        except errors.NotFound:  # events do not live long
            await self._create(key, series, count)


class _Budget(msgspec.Struct):
    """Tokens for the events of one object and reason."""

    tokens: float
    at: float

    def take(self, now: float) -> bool:
        self.tokens = min(_BURST, self.tokens + (now - self.at) / _REFILL_SECONDS)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


def _may_pass(error: Exception) -> bool:
    """Whether it is worth to try again: the server was not reached, or has trouble of its own."""
    return not isinstance(error, StatusError) or error.status.code >= 500 or error.status.code == 429


_K = TypeVar("_K")


class _Bounded(Generic[_K, V]):
    """A map that forgets what was used longest ago."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[_K, V] = OrderedDict()

    def get(self, key: _K) -> V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: _K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def items(self) -> list[tuple[_K, V]]:
        return list(self._entries.items())
