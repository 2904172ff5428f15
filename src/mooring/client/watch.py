"""A watch: the events of a kind as they happen, in batches of whatever arrived together.

`Client.watch` opens it; informers are its main reader. Each line of the answer is an event; its object is decoded once,
straight into its type.

    async with client.watch(core_v1.Pod, resource_version=listing.resource_version) as watch:
        async for events in watch:
            ...
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from copy import copy
from types import TracebackType
from typing import Generic, Literal, NamedTuple, Self, TypeVar

import msgspec

from mooring.api import codec, errors
from mooring.api.json_tree import DecodeError
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ObjectMeta, Resource, Status
from mooring.client.errors import DisconnectedError
from mooring.client.lean_pods import metadata_of
from mooring.client.template_parts import TemplateParts
from mooring.client.transport import Stream
from mooring.client.wire import Conversion, identity_of, item_of

T = TypeVar("T", bound=Resource)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark behind the last of the initial events, where these were asked for."""


class WatchEvent(NamedTuple, Generic[T]):
    """One change. A bookmark's object has no more than metadata: the version that the watch has reached."""

    type: EventType
    object: T
    since: str = ""
    """The version that all but the metadata are those of, where the object has nothing but its metadata."""


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw
    since: str = ""


_FRAMES = msgspec.json.Decoder(_Frame)
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
        async for lines in _lines(self._stream.chunks()):
            yield self._events(lines)

    def _events(self, lines: Sequence[bytes]) -> list[WatchEvent[T]]:
        try:
            frames = [_FRAMES.decode(line) for line in lines]
            if not self._last_states and any(frame.type == "DELETED" for frame in frames):
                frames = _still_of_use(frames)
            return [self._event(frame) for frame in frames]
        except (msgspec.MsgspecError, DecodeError, UnicodeDecodeError) as error:
            raise DisconnectedError(f"the watch of {self._kind.plural} sent what is no event: {error}") from None

    def _event(self, frame: _Frame) -> WatchEvent[T]:
        change = _CHANGES.get(frame.type)
        if change is None:
            raise _error(frame)
        if change == "DELETED" and not self._last_states:
            return WatchEvent(change, self._bare(identity_of(frame.object)))
        if frame.since and self._parts is not None:
            return WatchEvent(change, self._bare(metadata_of(frame.object, self._parts)), frame.since)
        obj = item_of(frame.object, self._kind, self._cls, self._conversion, self._parts)
        return WatchEvent(change, obj)

    def _bare(self, metadata: ObjectMeta) -> T:
        """An object with metadata and nothing else; all that is not there is the same in all of them."""
        obj = copy(self._nothing)
        obj.metadata = metadata
        return obj


def _still_of_use(frames: Sequence[_Frame]) -> list[_Frame]:
    """The events without changes of objects whose deletion comes behind them."""
    gone: set[tuple[str, str, str]] = set()
    kept: list[_Frame] = []
    for frame in reversed(frames):
        if frame.type in {"MODIFIED", "DELETED"}:
            found = identity_of(frame.object)
            identity = (found.namespace, found.name, found.uid)
            if frame.type == "DELETED":
                gone.add(identity)
            elif identity in gone:
                continue
        kept.append(frame)
    return kept[::-1]


def _error(frame: _Frame) -> errors.StatusError:
    if frame.type != "ERROR":
        return errors.internal_error(f"a watch sent an event of unknown type {frame.type[:40]!r}")
    return errors.from_status(codec.decode_own(bytes(frame.object), Status))


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The whole lines of each chunk; what comes before a line's end is kept until the end has come."""
    begun: list[bytes] = []
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        if whole:
            begun.append(whole[0])
            whole[0] = b"".join(begun)
            begun = [rest] if rest else []
            lines = [line for line in whole if line]
            if lines:
                yield lines
        elif rest:
            begun.append(rest)
