"""A watch: the events of a kind as they happen, in batches that arrived together.

`Client.watch` opens it; informers are its main reader. Each line of the response is an event, whose object is decoded
once into its type. Pods for caches, the most frequent objects, are decoded together with the line (``lean_pods.py``).

    async with client.watch(core_v1.Pod, resource_version=listing.resource_version) as watch:
        async for events in watch:
            handle(events)
"""

from collections.abc import AsyncIterator
from typing import Generic, Literal, TypeVar, cast, get_args

import msgspec

from mooring.api import codec, errors
from mooring.api.core_v1 import Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource, Status
from mooring.client import lean_pods
from mooring.client.errors import DisconnectedError
from mooring.client.template_parts import TemplateParts
from mooring.client.transport import Stream
from mooring.client.wire import UNREADABLE, Conversion, decode_item

T = TypeVar("T", bound=Resource)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An event of a watch: type and object. A bookmark's object has only the resourceVersion the watch has reached."""

    type: EventType
    object: T


class _EventLine(msgspec.Struct):
    """A JSON line of a watch's response, for any kind and also for an error."""

    type: str
    object: msgspec.Raw


class _PodEventLine(msgspec.Struct, gc=False):
    """A line of a pod watch stream."""

    type: EventType
    object: lean_pods.RawPod


_EVENT_LINES = msgspec.json.Decoder(_EventLine)
_POD_EVENT_LINES = msgspec.json.Decoder(_PodEventLine)
_EVENT_TYPES = frozenset(get_args(EventType))


class Watch(Generic[T]):
    """An open watch, to be iterated over: it yields lists of events that arrived together.

    The iteration ends when the server ends the watch. It raises the server's error if the stream contains one
    (`Expired`: list again), `DisconnectedError` if it breaks. With `parts`, for a cache, managed fields are left out,
    the object of a deletion may have only its name, uid and version (``api/for_caches.py``), and earlier changes that
    arrive together with the deletion are left out: a cache has the object and needs no more.
    """

    def __init__(
        self,
        stream: Stream,
        kind: Kind,
        cls: type[T],
        conversion: Conversion[T] | None,
        parts: TemplateParts | None,
    ) -> None:
        self._stream = stream
        self._kind = kind
        self._cls = cls
        self._conversion = conversion
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[list[WatchEvent[T]]]:
        begun: list[bytes] = []  # what has come of a line whose end has not
        async for chunk in self._stream.chunks():
            end = chunk.rfind(b"\n") + 1
            begun.append(chunk[:end] if end else chunk)
            if end:
                lines = b"".join(begun)
                begun = [chunk[end:]] if end < len(chunk) else []
                if events := self._decode_lines(lines):
                    yield events

    def _decode_lines(self, lines: bytes) -> list[WatchEvent[T]]:
        try:
            events = self._decode_pods(lines)
            if events is None:
                events = [self._decode_event(frame) for frame in _EVENT_LINES.decode_lines(lines)]
        except UNREADABLE as error:
            raise DisconnectedError(f"the watch of {self._kind.plural} sent what is no event: {error}") from None
        return events if self._parts is None else _drop_changes_before_deletion(events)

    def _decode_pods(self, lines: bytes) -> list[WatchEvent[T]] | None:
        """Decode lines of a pod watch for a cache; return None for other kinds and for pods with rare fields."""
        if self._cls is not Pod or self._parts is None:
            return None
        try:
            frames: list[_PodEventLine] = _POD_EVENT_LINES.decode_lines(lines)
            return [
                WatchEvent(frame.type, cast("T", lean_pods.build_pod(frame.object, self._parts))) for frame in frames
            ]
        except lean_pods.UNUSUAL:
            return None

    def _decode_event(self, frame: _EventLine) -> WatchEvent[T]:
        if frame.type not in _EVENT_TYPES:
            raise _make_event_error(frame)
        obj = decode_item(frame.object, self._kind, self._cls, self._conversion, self._parts)
        return WatchEvent(cast("EventType", frame.type), obj)


def _drop_changes_before_deletion(events: list[WatchEvent[T]]) -> list[WatchEvent[T]]:
    """Return events without the earlier ones of an object that a later event of the list deletes."""
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


def _make_event_error(frame: _EventLine) -> errors.StatusError:
    if frame.type != "ERROR":
        return errors.internal_error(f"a watch sent an event of unknown type {frame.type[:40]!r}")
    return errors.from_status(codec.decode_own(bytes(frame.object), Status))
