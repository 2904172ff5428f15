"""Watch objects: a stream of events, one a line.

A watch over the network has no task after its initial events: the store calls it on changes, and it writes them to the
connection (`Watch.follow`). In the same process, and if a conversion webhook must be called first, it is an iterator
(`Watch.iterate_pieces`). An event is encoded once for each form and version, and shared by all watchers. With
selectors, an object that begins or ceases to match is sent as ADDED or DELETED. A watcher whose revision was compacted
gets `410 Gone` and must list again.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from functools import partial

import msgspec

from mooring.api import codec, errors
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.apiserver.messages.http import Pushed, Response, Sink
from mooring.apiserver.output.protobuf import WATCH_TYPE
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.parameters import parse_number
from mooring.apiserver.registry.storage.selection import Selection
from mooring.apiserver.registry.verbs.reading import check_list_options, parse_version, too_large_version
from mooring.apiserver.registry.verbs.views import Frame, View, view_for
from mooring.base.bounded_cache import BoundedCache
from mooring.store.errors import Closed, Compacted, FutureRevision, StoreError
from mooring.store.kv import Batch, Event, KeyValue, Watcher

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_MAX_FRAMES = 1024
_BOOKMARK_SECONDS = 60.0
_MIN_SECONDS, _MAX_SECONDS = 1800, 3600
_INITIAL_CHUNK = 500
_MAX_EVENTS = 1000
_WATCHES_PER_TURN = 500
"""The number of watches notified before other callbacks of the event loop run."""

FrameKey = tuple[int, str, str, type[View], Kind, Frame]
"""The cache key of an encoded event, with the object's key: in etcd, expiring objects share a revision."""


class _WatchStart(msgspec.Struct, frozen=True):
    """The parameters of a watch: all objects first (`initial`) or changes after a revision; bookmarks; duration."""

    initial: bool
    after: int
    mark_initial_end: bool
    bookmarks: bool
    seconds: float


class Watching:
    """Handles `watch` requests, and caches encoded events, which watchers of equal form share."""

    def __init__(self, context: HandlerContext) -> None:
        self.context = context
        self._frames: BoundedCache[FrameKey, bytes] = BoundedCache(_MAX_FRAMES)
        self._open: dict[Watcher, Kind] = {}
        self._ending = False
        self._pending: list[Watch] = []
        self._last: tuple[object, bytes] = (None, b"")

    @property
    def open_watches(self) -> int:
        return len(self._open)

    def end_all(self) -> None:
        """End all watches regularly, and new ones at once, because the server stops."""
        self._ending = True
        for watcher in list(self._open):
            watcher.close()

    def end_watches_of(self, kinds: Iterable[Kind]) -> None:
        """End the watches of some kinds, which are served no longer or have a new definition."""
        if self._open:
            gone = set(kinds)
            for watcher in [watcher for watcher, kind in self._open.items() if kind in gone]:
                watcher.close()

    async def watch(self, call: Call) -> Response:
        if call.accepted.format == "yaml":
            raise errors.not_acceptable(["application/json;stream=watch", WATCH_TYPE])
        view = view_for(self.context, call, is_watch=True)
        selection = self.context.selections.selection_for(call.request, call.kind, call.stored, call.name)
        current = await self.context.store.revision()
        start = _parse_start(call, current)
        if start.after > current:
            raise too_large_version(start.after, current)
        content_type = WATCH_TYPE if call.accepted.format == "protobuf" else "application/json"
        return Response(200, Watch(self, call, view, selection, start), content_type, warnings=call.warnings)

    def add_watcher(self, watcher: Watcher, kind: Kind) -> None:
        self._open[watcher] = kind
        if self._ending:
            watcher.close()

    def remove_watcher(self, watcher: Watcher) -> None:
        self._open.pop(watcher, None)
        watcher.close()

    def schedule(self, watch: "Watch") -> None:
        """Have a watch send its pending events in the event loop's next iteration, together with others."""
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._send_pending)
        self._pending.append(watch)

    def _send_pending(self) -> None:
        pending, self._pending = self._pending[:_WATCHES_PER_TURN], self._pending[_WATCHES_PER_TURN:]
        if self._pending:
            asyncio.get_running_loop().call_soon(self._send_pending)
        for watch in pending:
            watch.push()

    def lines(self, view: View, prefix: str, events: list[Event], make: Callable[[Sequence[Event]], bytes]) -> bytes:
        """Return a batch of events encoded as lines, cached for the next watcher of the same keys and form.

        The creation of 200 objects with 200 watches takes 33 ms of processor time, and 42 ms without this cache.
        """
        key = (events[0].revision, events[-1].revision, len(events), prefix, type(view), view.kind, view.frame)
        if self._last[0] != key:
            self._last = (key, make(view.filter_events(events)))
        return self._last[1]

    def frame(self, view: View, kind: str, kv: KeyValue, revision: int, *, first: bool) -> bytes:
        """Return one event encoded as a line, from the cache if possible; `revision` is its resourceVersion."""
        if not view.is_shared:
            return view.frame(kind, view.render_event(kv.value, revision, first=first))
        key = (revision, kv.key, kind, type(view), view.kind, view.frame)
        frame = self._frames.get(key)
        if frame is None:
            shown = view.render_deleted if kind == "DELETED" else view.object
            frame = view.frame(kind, shown(kv.value, revision))
            self._frames.put(key, frame)
        return frame


class Watch(Pushed):
    """One open watch: reads events from the store and writes those that match to its client."""

    def __init__(self, watching: Watching, call: Call, view: View, selection: Selection, start: _WatchStart) -> None:
        self._pulled = None
        self._watching = watching
        self._context = watching.context
        self._call = call
        self._view = view
        self._selection = selection
        self._start = start
        self._after = start.after
        self._failure: StoreError | StatusError | None = None
        """The error of the initial list."""
        self._first = True
        self._last_sent = self._context.clock.monotonic()
        self._deadline = self._last_sent + start.seconds
        self._key = self._selected_key()
        self.can_follow = not call.stored.needs_webhook
        self._watcher: Watcher | None = None
        self._sink: Sink | None = None
        self._timer: asyncio.TimerHandle | None = None

    # -- as an iterator

    async def iterate_pieces(self) -> AsyncGenerator[bytes, None]:
        clock = self._context.clock
        try:
            async for chunk in self.beginning():
                yield chunk
            if self._failure:
                raise self._failure
            watcher = self._open_watcher()
            try:
                while (left := self._deadline - clock.monotonic()) > 0:
                    batch = await watcher.next(timeout=min(left, _BOOKMARK_SECONDS), limit=_MAX_EVENTS)
                    pairs = ((event.current, event.previous) for event in batch.events)
                    values = (kv.value for pair in pairs for kv in pair if kv is not None)
                    await self._call.stored.prepare(values, self._view.kind)
                    chunk = self._encode_batch(batch, clock.monotonic())
                    if chunk:
                        yield chunk
                if chunk := self._final_events(watcher):
                    yield chunk
            finally:
                self._watching.remove_watcher(watcher)
        except (StoreError, StatusError) as error:
            if chunk := self._final_error(error):
                yield chunk

    async def beginning(self) -> AsyncIterator[bytes]:
        if not self._start.initial:
            return
        stored = self._call.stored
        try:
            page = await self._context.store.range(stored.prefix_of(self._call.namespace))
            await stored.prepare((kv.value for kv in page.items), self._view.kind)
        except (StoreError, StatusError) as error:
            self._failure = error
            return
        self._after = page.revision
        async for chunk in self._initial_events(page.items):
            yield chunk
        if self._start.mark_initial_end:
            yield self._encode_bookmark(self._after, {INITIAL_EVENTS_END: "true"})

    def _open_watcher(self) -> Watcher:
        watcher = self._context.store.watch(self._key, after=self._after)
        self._watching.add_watcher(watcher, self._view.kind)
        return watcher

    # -- by itself

    def follow(self, sink: Sink) -> None:
        self._sink = sink
        if self._failure:
            self._end(self._final_error(self._failure))
            return
        self._watcher = self._open_watcher()
        self._watcher.listen(partial(self._watching.schedule, self))
        self._start_timer()
        self._watching.schedule(self)

    def push(self) -> None:
        """Write pending events to the connection, unless the client has not yet read earlier ones."""
        sink, watcher = self._sink, self._watcher
        if sink is None or watcher is None or not sink.is_ready:
            return
        try:
            batch = watcher.take(_MAX_EVENTS)
            if chunk := self._encode_batch(batch, self._context.clock.monotonic()):
                sink.write(chunk)
            if len(batch.events) >= _MAX_EVENTS:
                self._watching.schedule(self)
        except Exception as error:
            try:
                chunk = self._final_error(error)
            except Exception:
                self.close()
                sink.break_off()
                raise  # which the loop logs
            self._end(chunk)

    def close(self) -> None:
        self._sink = None
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watching.remove_watcher(self._watcher)

    def _start_timer(self) -> None:
        left = self._deadline - self._context.clock.monotonic()
        seconds = min(left, _BOOKMARK_SECONDS) if self._start.bookmarks else left
        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0), self._handle_timer)

    def _handle_timer(self) -> None:
        self.push()
        sink, watcher = self._sink, self._watcher
        if sink is None or watcher is None:
            return
        if self._context.clock.monotonic() < self._deadline:
            self._start_timer()
        else:
            self._end(self._final_events(watcher) if sink.is_ready else b"")

    def _end(self, chunk: bytes) -> None:
        sink = self._sink
        self.close()
        if sink is not None:
            if chunk:
                sink.write(chunk)
            sink.end()

    # -- events

    def _final_events(self, watcher: Watcher) -> bytes:
        """Return the events that are pending when a watch's time is up, and a bookmark, as lines."""
        if not self._start.bookmarks:
            return b""
        batch = watcher.take(_MAX_EVENTS)
        return self._encode_events(batch.events) + self._encode_bookmark(batch.revision, {})

    def _final_error(self, error: Exception) -> bytes:
        """Return the ERROR event for a failed watch as a line; re-raise errors that clients must not see."""
        match error:
            case Closed():
                return b""
            case Compacted():
                error = errors.expired(f"too old resource version: {error.requested} ({error.floor})")
            case FutureRevision():
                error = too_large_version(error.requested, error.current)
        if not isinstance(error, StatusError):
            raise error
        return self._view.frame("ERROR", codec.encode(error.status))

    def _selected_key(self) -> str:
        """Return the key to watch if the selectors allow one object; else the prefix of the kind's keys."""
        name, stored, namespace = self._selection.one_name(), self._call.stored, self._call.namespace
        if name and (namespace or not stored.hub.namespaced):
            return stored.key(namespace, name)
        return stored.prefix_of(namespace)

    async def _initial_events(self, items: list[KeyValue]) -> AsyncIterator[bytes]:
        """Yield ADDED events of existing objects as lines, with pauses for other tasks."""
        for begin in range(0, len(items), _INITIAL_CHUNK):
            chunk = items[begin : begin + _INITIAL_CHUNK]
            matching = [kv for kv in chunk if self._selection.matches(kv)]
            if matching:
                yield b"".join([self._render_added(kv) for kv in matching])
            elif not self._selection.is_everything:
                await asyncio.sleep(0)

    def _render_added(self, kv: KeyValue) -> bytes:
        first, self._first = self._first, False
        return self._view.frame("ADDED", self._view.render_event(kv.value, kv.mod_revision, first=first))

    def _encode_batch(self, batch: Batch, now: float) -> bytes:
        """Return a batch of events as lines; if none was sent for a while, a bookmark."""
        chunk = self._encode_events(batch.events)
        if not chunk and self._start.bookmarks and now - self._last_sent >= _BOOKMARK_SECONDS:
            chunk = self._encode_bookmark(batch.revision, {})
        if chunk:
            self._last_sent = now
        return chunk

    def _encode_events(self, events: list[Event]) -> bytes:
        if not (events and self._view.is_shared and self._selection.is_everything):
            return self._join_lines(events)
        return self._watching.lines(self._view, self._key, events, self._join_lines)

    def _join_lines(self, events: Sequence[Event]) -> bytes:
        return b"".join([line for event in events if (line := self._encode_event(event))])

    def _encode_event(self, event: Event) -> bytes:
        current, previous, matches = event.current, event.previous, self._selection.matches
        matched = previous is not None and matches(previous)
        if current is not None and matches(current):
            return self._encode_object("MODIFIED" if matched else "ADDED", current, event.revision)
        if matched and previous is not None:
            return self._encode_object("DELETED", previous, event.revision)
        return b""

    def _encode_object(self, kind: str, kv: KeyValue, revision: int) -> bytes:
        first, self._first = self._first, False
        return self._watching.frame(self._view, kind, kv, revision, first=first)

    def _encode_bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return self._view.frame("BOOKMARK", self._view.bookmark_object(metadata))


def _parse_start(call: Call, current: int) -> _WatchStart:
    """Return the start, bookmarks and duration that a watch requests; raise Invalid or BadRequest if they are wrong."""
    request = call.request
    initial_events, bookmarks = check_list_options(request, "", watch=True), request.flag("allowWatchBookmarks")
    after = parse_version(request.parameter("resourceVersion"))
    initial = after == 0 if initial_events is None else initial_events
    if not initial and not after:
        after = current
    return _WatchStart(initial, after, bool(initial_events) and bookmarks, bookmarks, _parse_timeout_seconds(call))


def _parse_timeout_seconds(call: Call) -> float:
    """Return a watch's seconds: as requested (raise BadRequest), else random, to spread the clients' reconnects."""
    seconds = parse_number(call.request, "timeoutSeconds") or 0
    if seconds > 0:
        return min(seconds, 24 * _MAX_SECONDS)
    return random.uniform(_MIN_SECONDS, _MAX_SECONDS)  # noqa: S311 - not a secret
