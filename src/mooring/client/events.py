"""Record events about objects (events.k8s.io/v1), as `kubectl describe` and `kubectl get events` show them.

`EventRecorder.event` never waits and never fails: a background task writes events, and drops those that cannot be
written.

A repeated event is counted in the series of the first one. An object gets at most 25 different events with one reason,
then one in five minutes. When too many events wait, each namespace and reason gets a share, and events above it are
dropped. While the component has more urgent writes (`is_busy`), events wait for some seconds.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Literal, Self

import msgspec

from mooring.api import errors, times
from mooring.api.core_v1 import ObjectReference
from mooring.api.errors import StatusError
from mooring.api.events_v1 import Event, EventSeries
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.base import logs
from mooring.base.bounded_cache import BoundedCache
from mooring.base.tasks import run_until_one_ends
from mooring.base.token_bucket import TokenBucket
from mooring.client.client import Client, PatchType
from mooring.client.errors import ClientError
from mooring.client.workqueue import Backoff, WorkQueue

EventKind = Literal["Normal", "Warning"]

_SERIES_SECONDS = 360.0
"""The seconds after which a repeated event begins a new series."""
_COUNT_SECONDS = 10.0
"""The minimum number of seconds between two writes of a series."""
_BURST, _REFILL_SECONDS = 25.0, 300.0
_MAX_SERIES = 4096
"""The maximum number of written series that are kept in memory to be counted on."""
_MAX_WAITING = 16_384
"""The number of waiting events, of half a KB each, above which each namespace and reason is limited to a share."""
_PATIENCE_SECONDS = 5.0
"""The maximum number of seconds for which an event waits for more urgent writes."""
_MAX_PATIENT = _MAX_WAITING // 2
"""The number of waiting events above which none waits for other writes."""
_RECHECK_SECONDS = 0.1
_ATTEMPTS = 10
_MAX_AT_ONCE = 100
"""The maximum number of events written at once, in a batch if the server supports batches."""
_PAUSE_SECONDS = 0.25 / 100
"""The pause in seconds after each written event, because events are less urgent than other writes."""
_PAUSES_WHEN_BUSY = 4
"""The factor by which the pause is longer while the component is busy."""
_WITHOUT_PAUSE = 10
"""Up to this number of events is written without a pause."""
_NOTE_LENGTH = 1024
_RETRY = Backoff(initial=1.0, maximum=30.0, jitter=0.5)
log = logs.get(__name__)

_Key = tuple[str, ...]
"""The identity of an event: its object, type, reason, action, note and related object."""
_LimitKey = tuple[str, str]
"""The namespace and reason of an event; events with the same ones share a rate limit."""


class _EventSeries(msgspec.Struct):
    """Repetitions of one event (same object, reason, note), counted; its Event object is built when it is written."""

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    related: ObjectReference | None
    first: datetime
    last: datetime
    name: str = ""
    """The name of the Event object; empty before the first attempt to write it."""
    count: int = 1
    written: int = 0
    """The count that the server has; 0 before the Event object was created."""
    is_given_up: bool = False
    """Whether writing was given up after too many failures."""


class EventRecorder:
    """Records events of one component and writes them in the background. Use `async with`, or `start` and `stop`."""

    def __init__(
        self, client: Client, component: str, instance: str = "", is_busy: Callable[[], bool] | None = None
    ) -> None:
        """Set up the recorder; `is_busy` returns whether the component is writing what is more urgent than events."""
        self._client = client
        self._is_busy = is_busy or (lambda: False)
        self._clock = client.clock
        self._component = component
        self._instance = instance or f"{component}-{socket.gethostname()}"[:128]
        self._unwritten: dict[_Key, _EventSeries] = {}
        self._unwritten_by_limit: Counter[_LimitKey] = Counter()
        """The number of unwritten events of each namespace and reason."""
        self._series: BoundedCache[_Key, _EventSeries] = BoundedCache(_MAX_SERIES)
        self._budget_of = lru_cache(maxsize=_MAX_SERIES)(self._make_budget)
        self._queue: WorkQueue[_Key] = WorkQueue(self._clock, _RETRY)
        self._writer: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._named = 0
        self.dropped = 0
        """The number of events that were not written: over a limit, or refused by the server."""

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
        """Queue an event about an object, without waiting. `action` says what was done about it (default: reason)."""
        reference = regarding if isinstance(regarding, ObjectReference) else self.reference(regarding)
        now = self._clock.now()
        about = (reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid)
        key = (*about, type, reason, action, note, related.name if related else "")
        series = self._find_series(key)
        if series is not None and (now - series.last).total_seconds() < _SERIES_SECONDS:
            series.count += 1
            series.last = now
            self._queue.add_after(key, _COUNT_SECONDS)
            return
        limit_key = (reference.namespace, reason)
        if not self._has_queue_space(limit_key) or self._budget_of((*about, reason)).take(self._clock.monotonic()):
            self.dropped += 1
            return
        if key not in self._unwritten:
            self._unwritten_by_limit[limit_key] += 1
        self._unwritten[key] = _EventSeries(reference, type, reason, action, note, related, now, now)
        self._queue.add(key)

    def reference(self, obj: Resource) -> ObjectReference:
        """Return an ObjectReference to an object, for the `regarding` field of events."""
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
        """Start the background task that writes events."""
        if self._writer is None:
            self._writer = asyncio.create_task(self._run_writer())

    async def stop(self, seconds: float = 2.0) -> None:
        """Write the queued events for at most `seconds`, then end the background task."""
        self._queue.add_delayed_now()
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

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _make_budget(self, _key: _Key) -> TokenBucket:
        """Return a token bucket for events of one object and reason."""
        return TokenBucket.full(1 / _REFILL_SECONDS, _BURST, self._clock.monotonic())

    def _has_queue_space(self, limit_key: _LimitKey) -> bool:
        """Return whether an event may be queued; if the queue is full, only if few of its reason and namespace are."""
        if len(self._unwritten) < _MAX_WAITING:
            return True
        sorts = len(self._unwritten_by_limit) + (limit_key not in self._unwritten_by_limit)
        has_room = self._unwritten_by_limit.get(limit_key, 0) < _MAX_WAITING // sorts
        if not has_room and logs.once(("too many events", self._component)):
            log.warning(
                "%d events wait to be written: until they are fewer, new ones of reason %s in namespace %s are "
                "dropped. The objects that they are about are not affected",
                len(self._unwritten),
                limit_key[1],
                limit_key[0] or "default",
            )
        return has_room

    def _find_series(self, key: _Key) -> _EventSeries | None:
        return self._unwritten.get(key) or self._series.get(key)

    def _finish_series(self, key: _Key, series: _EventSeries) -> None:
        """Remove an event series, written or given up, from the queue, and keep it to count repetitions."""
        self._queue.forget(key)
        if self._unwritten.get(key) is not series:
            return
        del self._unwritten[key]
        self._series.put(key, series)
        limit_key = (series.regarding.namespace, series.reason)
        self._unwritten_by_limit[limit_key] -= 1
        if not self._unwritten_by_limit[limit_key]:
            del self._unwritten_by_limit[limit_key]

    async def _run_writer(self) -> None:
        while (key := await self._queue.get()) is not None:
            await self._yield_to_urgent_writes(key)
            keys = [key]
            while len(keys) < _MAX_AT_ONCE and len(self._queue):
                more = await self._queue.get()
                keys += [more] if more is not None else []
            try:
                await asyncio.gather(*map(self._write_series, keys))
            finally:
                for each in keys:
                    self._queue.done(each)
            if len(keys) > _WITHOUT_PAUSE:
                await self._pause(len(keys) * _PAUSE_SECONDS * (_PAUSES_WHEN_BUSY if self._is_busy() else 1))

    async def _pause(self, seconds: float) -> None:
        """Sleep for some seconds; return at once if the recorder is stopping."""
        await run_until_one_ends(self._clock.sleep(seconds), self._closing.wait())

    async def _yield_to_urgent_writes(self, key: _Key) -> None:
        """Wait while the component is busy with more urgent writes, unless the event is old or many are queued."""
        series = self._find_series(key)
        while (
            series is not None
            and self._is_busy()
            and not self._closing.is_set()
            and len(self._unwritten) < _MAX_PATIENT
            and (self._clock.now() - series.last).total_seconds() < _PATIENCE_SECONDS
        ):
            await self._pause(_RECHECK_SECONDS)

    async def _write_series(self, key: _Key) -> None:
        series = self._find_series(key)
        if series is None or series.is_given_up or series.count == series.written:
            return
        count = series.count
        try:
            if series.written:
                await self._update_series(series, count)
            else:
                await self._create_event(series, count)
        except (StatusError, ClientError) as error:
            if _is_retriable(error) and self._queue.failures(key) + 1 < _ATTEMPTS:
                self._queue.add_rate_limited(key)
                return
            log.debug("an event was not written: %s", error)
            self.dropped += 1
            series.is_given_up = True
        else:
            series.written = count
        self._finish_series(key, series)

    async def _create_event(self, series: _EventSeries, count: int) -> None:
        if not series.name:
            self._named += 1  # several events may happen within a microsecond
            nanoseconds = int(series.first.timestamp() * 1_000_000) * 1000 + self._named % 1000
            series.name = f"{series.regarding.name}.{nanoseconds:x}"
        event = Event(
            metadata=ObjectMeta(name=series.name, namespace=series.regarding.namespace or "default"),
            event_time=times.to_microseconds(series.first),
            reporting_controller=self._component,
            reporting_instance=self._instance,
            action=series.action or series.reason,
            reason=series.reason,
            regarding=series.regarding,
            related=series.related,
            note=series.note[:_NOTE_LENGTH],
            type=series.type,
        )
        if count > 1:
            event.series = EventSeries(count=count, last_observed_time=times.to_microseconds(series.last))
        with suppress(errors.AlreadyExists):  # by an attempt whose response was lost
            await self._client.create_unread(event)

    async def _update_series(self, series: _EventSeries, count: int) -> None:
        series_patch = {"series": {"count": count, "lastObservedTime": times.to_microseconds(series.last)}}
        namespace = series.regarding.namespace or "default"
        try:
            await self._client.patch_unread(Event, series.name, series_patch, namespace, type=PatchType.MERGE)
        except errors.NotFound:  # events do not live long
            await self._create_event(series, count)


def _is_retriable(error: Exception) -> bool:
    """Return whether to retry writing an event after this error: no response, a status from 500 up, or 429."""
    return not isinstance(error, StatusError) or error.status.code >= 500 or error.status.code == 429
