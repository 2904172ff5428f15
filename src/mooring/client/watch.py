"""A watch: the events of a kind as they happen, in batches of whatever arrived together.

`Client.watch` opens it; informers are its main reader. Each line of the answer is an event; its object is decoded once,
straight into its type. Pods for caches, of which there are most, are read together with the line (``lean_pods.py``).

    async with client.watch(core_v1.Pod, resource_version=listing.resource_version) as watch:
        async for events in watch:
            ...
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

from mooring.api import codec, errors
from mooring.api.core_v1 import Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ObjectMeta, Resource, Status
from mooring.client import lean_pods
from mooring.client.errors import DisconnectedError
from mooring.client.template_parts import TemplateParts
from mooring.client.transport import Stream
from mooring.client.wire import UNREADABLE, Conversion, identity_of, item_of

T = TypeVar("T", bound=Resource)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark behind the last of the initial events, where these were asked for."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change. A bookmark's object has no more than metadata: the version that the watch has reached."""

    type: EventType
    object: T
    since: str = ""
    """The version that all but the metadata are those of, where the object has nothing but its metadata."""


class _Frame(msgspec.Struct):
    """Any event as it comes, also an error."""

    type: str
    object: msgspec.Raw
    since: str = ""


class _PodFrame(msgspec.Struct, gc=False):
    """A change of a pod."""

    type: EventType
    object: lean_pods.SeenPod
    since: str = ""


_FRAMES = msgspec.json.Decoder(_Frame)
_POD_FRAMES = msgspec.json.Decoder(_PodFrame)
_CHANGES: dict[str, EventType] = {
    "ADDED": "ADDED",
    "MODIFIED": "MODIFIED",
    "DELETED": "DELETED",
    "BOOKMARK": "BOOKMARK",
}


class Watch(Generic[T]):
    """One watch, to be entered and then iterated by one task. It ends when the server ends it.

    Raises the server's error where the stream carries one (`Expired`: list again), `DisconnectedError` when it breaks.
    Without `last_states` a deletion tells the object's name, uid and version alone, and nothing is told of changes that
    arrive together with it: a cache, which has the object, has no use for more (``api/for_caches.py``).
    """

    def __init__(
        self,
        kind: Kind,
        cls: type[T],
        opened: Callable[[], Awaitable[Stream]],
        conversion: Conversion[T] | None = None,
        *,
        parts: TemplateParts | None,
        last_states: bool = True,
    ) -> None:
        self._kind = kind
        self._cls = cls
        self._nothing = cls()
        self._conversion = conversion
        self._parts = parts
        self._last_states = last_states
        self._opened = opened
        self._stream: Stream | None = None

    async def __aenter__(self) -> Self:
        self._stream = await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            await self._stream.close()

    async def __aiter__(self) -> AsyncIterator[list[WatchEvent[T]]]:
        if self._stream is None:
            raise RuntimeError("enter a watch before you iterate it: `async with client.watch(...) as watch`")
        begun: list[bytes] = []  # what has come of a line whose end has not
        async for chunk in self._stream.chunks():
            end = chunk.rfind(b"\n") + 1
            begun.append(chunk[:end] if end else chunk)
            if end:
                lines = b"".join(begun)
                begun = [chunk[end:]] if end < len(chunk) else []
                if events := self._events(lines):
                    yield events

    def _events(self, lines: bytes) -> list[WatchEvent[T]]:
        try:
            events = self._pods(lines)
            if events is None:
                events = [self._event(frame) for frame in _FRAMES.decode_lines(lines)]
        except UNREADABLE as error:
            raise DisconnectedError(f"the watch of {self._kind.plural} sent what is no event: {error}") from None
        return events if self._last_states else _still_of_use(events)

    def _pods(self, lines: bytes) -> list[WatchEvent[T]] | None:
        """Events of pods for a cache; None if something about them is unusual, or if it is about other objects."""
        if self._cls is not Pod or self._parts is None:
            return None
        try:
            return [self._pod(frame, self._parts) for frame in _POD_FRAMES.decode_lines(lines)]
        except lean_pods.UNUSUAL:
            return None

    def _pod(self, frame: _PodFrame, parts: TemplateParts) -> WatchEvent[Any]:
        seen = frame.object
        if frame.type == "DELETED" and not self._last_states:
            return WatchEvent(frame.type, self._bare(lean_pods.identity_of(seen)))
        if frame.since:
            return WatchEvent(frame.type, self._bare(lean_pods.metadata_of(seen, parts)), frame.since)
        return WatchEvent(frame.type, lean_pods.pod_of(seen, parts))

    def _event(self, frame: _Frame) -> WatchEvent[T]:
        change = _CHANGES.get(frame.type)
        if change is None:
            raise _error(frame)
        if change == "DELETED" and not self._last_states:
            return WatchEvent(change, self._bare(identity_of(frame.object)))
        if frame.since and self._parts is not None:
            metadata = lean_pods.metadata_of(lean_pods.read(frame.object), self._parts)
            return WatchEvent(change, self._bare(metadata), frame.since)
        obj = item_of(frame.object, self._kind, self._cls, self._conversion, self._parts)
        return WatchEvent(change, obj)

    def _bare(self, metadata: ObjectMeta) -> T:
        """An object with metadata and nothing else; all that is not there is the same in all of them."""
        obj = copy(self._nothing)
        obj.metadata = metadata
        return obj


def _still_of_use(events: list[WatchEvent[T]]) -> list[WatchEvent[T]]:
    """The events without changes of objects whose deletion comes behind them."""
    if "DELETED" not in [event.type for event in events]:
        return events
    gone: set[tuple[str, str, str]] = set()
    kept: list[WatchEvent[T]] = []
    for event in reversed(events):
        meta = event.object.metadata
        identity = (meta.namespace, meta.name, meta.uid)
        if event.type == "DELETED":
            gone.add(identity)
        elif event.type == "MODIFIED" and identity in gone:
            continue
        kept.append(event)
    return kept[::-1]


def _error(frame: _Frame) -> errors.StatusError:
    if frame.type != "ERROR":
        return errors.internal_error(f"a watch sent an event of unknown type {frame.type[:40]!r}")
    return errors.from_status(codec.decode_own(bytes(frame.object), Status))
