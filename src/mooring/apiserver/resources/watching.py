"""Watching objects: a stream of events, each on a line of its own.

An event is framed once for every version and shared by all who watch; a watcher gets all events of one turn at once.
Where selectors are used, an object that begins or ceases to match is told as ADDED or DELETED. A watcher that fell
behind what the store remembers is told `410 Gone` and has to list again.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from mooring.api import codec, errors, resource_version
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.apiserver.bounded_cache import BoundedCache
from mooring.apiserver.http import Response
from mooring.apiserver.protobuf_output import WATCH_TYPE
from mooring.apiserver.resources.context import Call, HandlerContext
from mooring.apiserver.resources.output import View, view_for
from mooring.apiserver.resources.reading import parse_version, too_large_version
from mooring.apiserver.resources.selection import Selection
from mooring.store.errors import Closed, Compacted, FutureRevision
from mooring.store.kv import Batch, Event, KeyValue, Watcher

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_FRAMES = 4096
_BOOKMARK_SECONDS = 60.0
_MIN_SECONDS, _MAX_SECONDS = 1800, 3600
_INITIAL_CHUNK = 500
_AT_ONCE = 1000

FrameKey = tuple[int, str, str, type[View], Kind, Callable[[str, bytes], bytes]]
"""With the key, because events that expire together in etcd share a revision."""


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a watch begins: with what is there (`initial`), or behind a revision."""

    initial: bool
    after: int
    mark_initial_end: bool
    bookmarks: bool
    seconds: float


class Watching:
    """`watch`, and the frames that watchers share."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._frames: BoundedCache[FrameKey, bytes] = BoundedCache(_FRAMES)
        self._open: dict[Watcher, Kind] = {}
        self._ending = False

    @property
    def open_watches(self) -> int:
        return len(self._open)

    def end_all(self) -> None:
        """End every open watch cleanly, as a server does that is about to stop, and those that are still to open."""
        self._ending = True
        for watcher in list(self._open):
            watcher.close()

    def end_of(self, kinds: Iterable[Kind]) -> None:
        """End the watches of kinds that are not served any longer, or not as they were."""
        if self._open:
            gone = set(kinds)
            for watcher in [watcher for watcher, kind in self._open.items() if kind in gone]:
                watcher.close()

    async def watch(self, call: Call) -> Response:
        if call.accepted.format == "yaml":
            raise errors.not_acceptable(["application/json;stream=watch", WATCH_TYPE])
        view = view_for(self._context, call)
        selection = self._context.selections.of(call.request, call.kind, call.stored, call.name)
        current = await self._context.store.revision()
        start = _start(call, current)
        if start.after > current:
            raise too_large_version(start.after, current)
        stream = _Stream(self, call, view, selection, start)
        content_type = WATCH_TYPE if call.accepted.format == "protobuf" else "application/json"
        return Response(200, stream.run(self._context), content_type, warnings=call.warnings)

    def opened(self, watcher: Watcher, kind: Kind) -> None:
        self._open[watcher] = kind
        if self._ending:
            watcher.close()

    def closed(self, watcher: Watcher) -> None:
        self._open.pop(watcher, None)
        watcher.close()

    def frame(self, view: View, kind: str, kv: KeyValue, revision: int, *, first: bool) -> bytes:
        """An event on a line; the object is `kv` with the revision of the event."""
        if not view.shared:
            return view.framed(kind, view.watched(kv.value, revision, first=first))
        key = (revision, kv.key, kind, type(view), view.kind, view.framed)
        frame = self._frames.get(key)
        if frame is None:
            frame = view.framed(kind, view.object(kv.value, revision))
            self._frames.put(key, frame)
        return frame


class _Stream:
    """One watch."""

    def __init__(self, watching: Watching, call: Call, view: View, selection: Selection, start: _Start) -> None:
        self._watching = watching
        self._call = call
        self._view = view
        self._selection = selection
        self._start = start
        self._first = True
        self._told = 0.0

    async def run(self, context: HandlerContext) -> AsyncIterator[bytes]:
        """The bytes of the watch, from the first event to its end."""
        store, prefix = context.store, self._call.stored.prefix_of(self._call.namespace)
        after = self._start.after
        self._told = context.clock.monotonic()
        deadline = self._told + self._start.seconds
        try:
            if self._start.initial:
                page = await store.range(prefix)
                after = page.revision
                if self._call.stored.asks:
                    await self._call.stored.prepare([kv.value for kv in page.items], self._view.kind)
                async for chunk in self._initial(page.items):
                    yield chunk
                if self._start.mark_initial_end:
                    yield self._bookmark(after, {INITIAL_EVENTS_END: "true"})
            watcher = store.watch(self._selected_key(prefix), after=after)
            self._watching.opened(watcher, self._view.kind)
            try:
                while (left := deadline - context.clock.monotonic()) > 0:
                    batch = await watcher.next(timeout=min(left, _BOOKMARK_SECONDS), limit=_AT_ONCE)
                    if self._call.stored.asks:
                        await self._call.stored.prepare(_values(batch), self._view.kind)
                    chunk = self._events(batch, context.clock.monotonic())
                    if chunk:
                        yield chunk
                if self._start.bookmarks:
                    yield self._bookmark((await watcher.next(timeout=0, limit=_AT_ONCE)).revision, {})
            finally:
                self._watching.closed(watcher)
        except Compacted as error:
            gone = errors.expired(f"too old resource version: {error.requested} ({error.floor})")
            yield self._error(gone)
        except FutureRevision as error:
            yield self._error(too_large_version(error.requested, error.current))
        except StatusError as error:
            yield self._error(error)
        except Closed:
            return

    def _selected_key(self, prefix: str) -> str:
        """The one key, if only one can match: then the store wakes nobody for the others."""
        name, stored = self._selection.one_name(), self._call.stored
        if name and (self._call.namespace or not stored.hub.namespaced):
            return stored.key(self._call.namespace, name)
        return prefix

    async def _initial(self, items: list[KeyValue]) -> AsyncIterator[bytes]:
        """What is there already, as if it had just been added, in pieces that do not hold up others for long."""
        for begin in range(0, len(items), _INITIAL_CHUNK):
            chunk = items[begin : begin + _INITIAL_CHUNK]
            matching = [kv for kv in chunk if self._selection.matches(kv)]
            if matching:
                yield b"".join([self._added(kv) for kv in matching])
            elif not self._selection.is_everything:
                await asyncio.sleep(0)  # nothing is sent, which would give others their turn

    def _added(self, kv: KeyValue) -> bytes:
        first, self._first = self._first, False
        return self._view.framed("ADDED", self._view.watched(kv.value, kv.mod_revision, first=first))

    def _events(self, batch: Batch, now: float) -> bytes:
        """The lines of a batch; a bookmark where there was nothing to tell for a while."""
        lines = [line for event in batch.events if (line := self._line(event))]
        if not lines and self._start.bookmarks and now - self._told >= _BOOKMARK_SECONDS:
            lines = [self._bookmark(batch.revision, {})]
        if lines:
            self._told = now
        return b"".join(lines)

    def _line(self, event: Event) -> bytes:
        current, previous = event.current, event.previous
        matches = current is not None and self._selection.matches(current)
        matched = previous is not None and self._selection.matches(previous)
        if matches and current is not None:
            return self._frame("MODIFIED" if matched else "ADDED", current, event.revision)
        if matched and previous is not None:
            return self._frame("DELETED", previous, event.revision)
        return b""

    def _frame(self, kind: str, kv: KeyValue, revision: int) -> bytes:
        line = self._watching.frame(self._view, kind, kv, revision, first=self._first)
        self._first = False
        return line

    def _bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return self._view.framed("BOOKMARK", self._view.empty(metadata))

    def _error(self, error: StatusError) -> bytes:
        return self._view.framed("ERROR", codec.encode(error.status))


def _start(call: Call, current: int) -> _Start:
    """What the parameters of a watch ask for; raises Invalid and BadRequest."""
    request = call.request
    version = request.parameter("resourceVersion")
    initial_events = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else None
    bookmarks = request.flag("allowWatchBookmarks")
    match = request.parameter("resourceVersionMatch")
    wrong = resource_version.validate_list(version, match, "", watch=True, send_initial_events=initial_events)
    if wrong:
        raise errors.invalid("ListOptions", "", wrong, group="meta.k8s.io")
    after = parse_version(version)
    initial = after == 0 if initial_events is None else initial_events
    if not initial and not after:
        after = current
    return _Start(initial, after, bool(initial_events) and bookmarks, bookmarks, _seconds(call))


def _seconds(call: Call) -> float:
    """How long the watch lasts: as asked, or something random, lest all clients come back at the same time."""
    text = call.request.parameter("timeoutSeconds")
    if text:
        try:
            seconds = int(text)
        except ValueError:
            raise errors.bad_request(f'timeoutSeconds: "{text[:40]}" is not a number') from None
        if seconds > 0:
            return min(seconds, 24 * _MAX_SECONDS)
    return random.uniform(_MIN_SECONDS, _MAX_SECONDS)  # noqa: S311 - not a secret


def _values(batch: Batch) -> list[bytes]:
    """The objects that the events of a batch may show."""
    return [kv.value for event in batch.events for kv in (event.current, event.previous) if kv is not None]
