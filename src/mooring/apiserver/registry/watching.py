"""Watching objects: a stream of events, each on a line of its own.

An event is framed once for every version and shared by all who watch; a watcher gets all events of one turn at once.
Over the network a watch has no task once it has told what is there: it is called when there is news, and hands them to
the connection (`Watch.follow`). In the same process, and where somebody has to be asked first, it is an iterator.

Where selectors are used, an object that begins or ceases to match is told as ADDED or DELETED. A watcher that fell
behind what the store remembers is told `410 Gone` and has to list again.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence

import msgspec

from mooring.api import codec, errors, resource_version
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.apiserver.messages.http import Pushed, Response, Sink
from mooring.apiserver.output.protobuf import WATCH_TYPE
from mooring.apiserver.registry.cache_view import CacheView, is_for_cache
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.reading import parse_version, too_large_version
from mooring.apiserver.registry.selection import Selection
from mooring.apiserver.registry.views import View, view_for
from mooring.base.bounded_cache import BoundedCache
from mooring.store.errors import Closed, Compacted, FutureRevision, StoreError
from mooring.store.kv import Batch, Event, KeyValue, Watcher

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_FRAMES = 1024
"""So many frames are kept for other watchers of the same events, who ask for them right away."""
_BOOKMARK_SECONDS = 60.0
_MIN_SECONDS, _MAX_SECONDS = 1800, 3600
_INITIAL_CHUNK = 500
_AT_ONCE = 1000
_IN_A_TURN = 500
"""How many watches are told of their news before others have their turn."""

FrameKey = tuple[int, str, str, type[View], Kind, Callable[[str, bytes], bytes]]
"""With the key, because events that expire together in etcd share a revision."""


class _Start(msgspec.Struct, frozen=True):
    """Where a watch begins: with what is there (`initial`), or behind a revision."""

    initial: bool
    after: int
    mark_initial_end: bool
    bookmarks: bool
    seconds: float


class Watching:
    """`watch`, and the frames that watchers share."""

    def __init__(self, context: HandlerContext) -> None:
        self.context = context
        self._frames: BoundedCache[FrameKey, bytes] = BoundedCache(_FRAMES)
        self._open: dict[Watcher, Kind] = {}
        self._ending = False
        self._due: list[Watch] = []
        self._last: tuple[object, bytes] = (None, b"")

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
        stored = self.context.read_by(call)
        view = CacheView(stored, call.kind) if is_for_cache(call, stored) else view_for(self.context, call)
        selection = self.context.selections.of(call.request, call.kind, call.stored, call.name)
        current = await self.context.store.revision()
        start = _start(call, current)
        if start.after > current:
            raise too_large_version(start.after, current)
        content_type = WATCH_TYPE if call.accepted.format == "protobuf" else "application/json"
        watch = Watch(self, call, view, selection, start)
        return Response(200, watch, content_type, warnings=call.warnings)

    def opened(self, watcher: Watcher, kind: Kind) -> None:
        self._open[watcher] = kind
        if self._ending:
            watcher.close()

    def closed(self, watcher: Watcher) -> None:
        self._open.pop(watcher, None)
        watcher.close()

    def due(self, watch: "Watch") -> None:
        """There is news for a watch: it is told in the next turn, with all others."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._tell)
        self._due.append(watch)

    def _tell(self) -> None:
        due, self._due = self._due[:_IN_A_TURN], self._due[_IN_A_TURN:]
        if self._due:
            asyncio.get_running_loop().call_soon(self._tell)
        for watch in due:
            watch.tell()

    def lines(self, view: View, place: str, events: list[Event], made: Callable[[Sequence[Event]], bytes]) -> bytes:
        """What is told of some events to those who watch all of one place; the last is kept for the next of them."""
        key = (events[0].revision, events[-1].revision, len(events), place, type(view), view.kind, view.framed)
        if self._last[0] != key:
            self._last = (key, made(view.worth_telling(events)))
        return self._last[1]

    def frame(self, view: View, kind: str, kv: KeyValue, revision: int, *, first: bool) -> bytes:
        """An event on a line; the object is `kv` with the revision of the event."""
        if not view.shared:
            return view.framed(kind, view.watched(kv.value, revision, first=first))
        shown = view.last if kind == "DELETED" else view.object
        if not view.is_for_many:
            return view.framed(kind, shown(kv.value, revision))
        key = (revision, kv.key, kind, type(view), view.kind, view.framed)
        frame = self._frames.get(key)
        if frame is None:
            frame = view.framed(kind, shown(kv.value, revision))
            self._frames.put(key, frame)
        return frame


class Watch(Pushed):
    """One watch."""

    __slots__ = (
        "_after",
        "_call",
        "_context",
        "_deadline",
        "_failure",
        "_first",
        "_place",
        "_selection",
        "_sink",
        "_start",
        "_timer",
        "_told",
        "_view",
        "_watcher",
        "_watching",
        "can_follow",
    )

    def __init__(
        self,
        watching: Watching,
        call: Call,
        view: View,
        selection: Selection,
        start: _Start,
    ) -> None:
        self._pulled = None
        self._watching = watching
        self._context = watching.context
        self._call = call
        self._view = view
        self._selection = selection
        self._start = start
        self._after = start.after
        self._failure: StoreError | StatusError | None = None
        """What went wrong at the beginning."""
        self._first = True
        self._told = self._context.clock.monotonic()
        self._deadline = self._told + start.seconds
        self._place = self._selected_key()
        self.can_follow = not call.stored.asks  # somebody else, before events can be shown
        self._watcher: Watcher | None = None
        self._sink: Sink | None = None
        self._timer: asyncio.TimerHandle | None = None

    # -- as an iterator

    async def pulled(self) -> AsyncGenerator[bytes, None]:
        clock = self._context.clock
        try:
            async for chunk in self.beginning():
                yield chunk
            if self._failure:
                raise self._failure
            watcher = self._opened()
            try:
                while (left := self._deadline - clock.monotonic()) > 0:
                    batch = await watcher.next(timeout=min(left, _BOOKMARK_SECONDS), limit=_AT_ONCE)
                    if self._call.stored.asks:
                        await self._call.stored.prepare(_values(batch), self._view.kind)
                    chunk = self._events(batch, clock.monotonic())
                    if chunk:
                        yield chunk
                if chunk := self._farewell(watcher):
                    yield chunk
            finally:
                self._watching.closed(watcher)
        except (StoreError, StatusError) as error:
            if chunk := self._last_words(error):
                yield chunk

    async def beginning(self) -> AsyncIterator[bytes]:
        if not self._start.initial:
            return
        stored = self._call.stored
        try:
            page = await self._context.store.range(stored.prefix_of(self._call.namespace))
            await stored.prepare([kv.value for kv in page.items] if stored.asks else (), self._view.kind)
        except (StoreError, StatusError) as error:
            self._failure = error
            return
        self._after = page.revision
        async for chunk in self._initial(page.items):
            yield chunk
        if self._start.mark_initial_end:
            yield self._bookmark(self._after, {INITIAL_EVENTS_END: "true"})

    def _opened(self) -> Watcher:
        watcher = self._context.store.watch(self._place, after=self._after)
        self._watching.opened(watcher, self._view.kind)
        return watcher

    # -- by itself

    def follow(self, sink: Sink) -> None:
        self._sink = sink
        if self._failure:
            self._end(self._last_words(self._failure))
            return
        self._watcher = self._opened()
        self._watcher.listen(self._note)
        self._wait()
        self._note()

    def tell(self) -> None:
        """Tell what has happened since the last time, unless the client has not taken that yet."""
        sink, watcher = self._sink, self._watcher
        if sink is None or watcher is None or not sink.is_ready:
            return
        try:
            batch = watcher.take(_AT_ONCE)
            if chunk := self._events(batch, self._context.clock.monotonic()):
                sink.write(chunk)
            if len(batch.events) >= _AT_ONCE:
                self._note()
        except Exception as error:
            try:
                chunk = self._last_words(error)
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
            self._watching.closed(self._watcher)

    def _note(self) -> None:
        self._watching.due(self)

    def _wait(self) -> None:
        left = self._deadline - self._context.clock.monotonic()
        seconds = min(left, _BOOKMARK_SECONDS) if self._start.bookmarks else left
        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0), self._time_is_up)

    def _time_is_up(self) -> None:
        self.tell()
        sink, watcher = self._sink, self._watcher
        if sink is None or watcher is None:
            return
        if self._context.clock.monotonic() < self._deadline:
            self._wait()
        else:
            self._end(self._farewell(watcher) if sink.is_ready else b"")

    def _end(self, chunk: bytes) -> None:
        sink = self._sink
        self.close()
        if sink is not None:
            if chunk:
                sink.write(chunk)
            sink.end()

    # -- events

    def _farewell(self, watcher: Watcher) -> bytes:
        """What a watch whose time is over ends with."""
        if not self._start.bookmarks:
            return b""
        batch = watcher.take(_AT_ONCE)
        return (self._lines(batch.events) if batch.events else b"") + self._bookmark(batch.revision, {})

    def _last_words(self, error: Exception) -> bytes:
        """What a watch that cannot go on ends with; raises what is not for clients."""
        match error:
            case Compacted():
                gone = errors.expired(f"too old resource version: {error.requested} ({error.floor})")
                return self._error(gone)
            case FutureRevision():
                return self._error(too_large_version(error.requested, error.current))
            case StatusError():
                return self._error(error)
            case Closed():
                return b""
        raise error

    def _selected_key(self) -> str:
        """The one key, if only one can match: then the store wakes nobody for the others."""
        name, stored, namespace = self._selection.one_name(), self._call.stored, self._call.namespace
        if name and (namespace or not stored.hub.namespaced):
            return stored.key(namespace, name)
        return stored.prefix_of(namespace)

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
        chunk = self._lines(batch.events) if batch.events else b""
        if not chunk and self._start.bookmarks and now - self._told >= _BOOKMARK_SECONDS:
            chunk = self._bookmark(batch.revision, {})
        if chunk:
            self._told = now
        return chunk

    def _lines(self, events: list[Event]) -> bytes:
        def made(events: Sequence[Event]) -> bytes:
            return b"".join([line for event in events if (line := self._line(event))])

        if not (self._view.shared and self._selection.is_everything):
            return made(events)
        return self._watching.lines(self._view, self._place, events, made)

    def _line(self, event: Event) -> bytes:
        current, previous = event.current, event.previous
        matches = current is not None and self._selection.matches(current)
        matched = previous is not None and self._selection.matches(previous)
        if matches and current is not None:
            if matched and previous is not None and (line := self._view.renewed(previous, current)):
                return line
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
