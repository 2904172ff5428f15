"""How objects are shown to a client: whole, their metadata alone, or as rows of a table; as JSON or YAML.

A `View` turns stored objects into the bytes of a response, of a list or of a watch event; `view_for` finds the one
that the client asked for. Called by all handlers.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from mooring.api import codec, errors
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ListMeta
from mooring.apiserver.messages.http import Response
from mooring.apiserver.output import protobuf as protobuf_output
from mooring.apiserver.output.formats import formatted
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.output.tables.printer import Ages
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.lowering_for_nodes import Rendering
from mooring.apiserver.registry.stored import Stored
from mooring.base.clock import Clock
from mooring.store.kv import Event, KeyValue

_META_VERSION = "meta.k8s.io/v1"
_PARTIAL_HEAD = f'{{"kind":"PartialObjectMetadata","apiVersion":"{_META_VERSION}","metadata":'.encode()
_WITH_OBJECT = b',"object":%b{' % _PARTIAL_HEAD
_VERSION = b'"resourceVersion":"%d",'
_WITH_METADATA = _WITH_OBJECT + _VERSION
_PIECE = 64 * 1024 - len("ffff\r\n\r\n")
"""With what HTTP adds, four records of TLS. Of this size the memory of one piece is used for the next; much larger ones
are asked of the system every time."""


def _json_line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)


class View(ABC):
    """One way to show the objects of a kind in a version."""

    framed: Callable[[str, bytes], bytes] = staticmethod(_json_line)
    """How an event of a watch is written."""
    shared = False
    """Whether what is shown depends on the object alone, so that watchers can share it."""
    is_for_many = True
    """Whether more than a few who watch different parts may ask for the same."""

    def __init__(self, stored: Rendering, kind: Kind) -> None:
        self.stored = stored
        self.kind = kind

    @abstractmethod
    def object(self, value: bytes, revision: int) -> bytes:
        """One object."""

    @abstractmethod
    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Iterator[bytes | memoryview]:
        """A list of objects, in pieces that only one join should ever copy."""

    def list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        """A list of objects."""
        return b"".join(self.pieces(items, metadata))

    async def protobuf_list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        """The same in protobuf."""
        made = (partial(self.object, kv.value, kv.mod_revision) for kv in items)
        return await protobuf_output.list_document(*self.list_names, metadata, made)

    @property
    def list_names(self) -> tuple[str, str]:
        """The kind and the apiVersion of a list."""
        return self.kind.list_kind, self.kind.api_version

    def watched(self, value: bytes, revision: int, *, first: bool) -> bytes:  # noqa: ARG002 - tables tell it apart
        """One object in an event of a watch."""
        return self.object(value, revision)

    def last(self, value: bytes, revision: int) -> bytes:
        """An object that is gone, in an event of a watch."""
        return self.object(value, revision)

    def renewed(self, previous: KeyValue, current: KeyValue) -> bytes:  # noqa: ARG002 - caches can do with less
        """An event that tells of a change in few words; nothing where all of the object is to be told."""
        return b""

    def worth_telling(self, events: Sequence[Event]) -> Sequence[Event]:
        """Those of several events of all objects that a watcher has to be told."""
        return events

    def empty(self, metadata: dict[str, Any]) -> bytes:
        """An object without content, for bookmarks."""
        return codec.encode({"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata})


class WholeView(View):
    """Objects as they are, or as a node reads them."""

    def __init__(self, stored: Rendering, kind: Kind) -> None:
        super().__init__(stored, kind)
        self.shared = isinstance(stored, Stored)

    def object(self, value: bytes, revision: int) -> bytes:
        return self.stored.render(value, revision, self.kind)

    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Iterator[bytes | memoryview]:
        return _list_of(*self.list_names, metadata, self.stored.render_items(items, self.kind))


class MetadataView(View):
    """The metadata alone, as PartialObjectMetadata."""

    shared = True

    def object(self, value: bytes, revision: int) -> bytes:
        return _PARTIAL_HEAD + self._metadata(value, revision) + b"}"

    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Iterator[bytes | memoryview]:
        shown = (self.object(kv.value, kv.mod_revision) for kv in items)
        return _list_of(*self.list_names, metadata, _with_commas(shown))

    @property
    def list_names(self) -> tuple[str, str]:
        return "PartialObjectMetadataList", _META_VERSION

    def empty(self, metadata: dict[str, Any]) -> bytes:
        return codec.encode({"kind": "PartialObjectMetadata", "apiVersion": _META_VERSION, "metadata": metadata})

    def _metadata(self, value: bytes, revision: int) -> bytes:
        return bytes(_METADATA.decode(self.stored.render_item(value, revision, self.kind)).metadata)


class TableView(View):
    """Rows of text, for people."""

    def __init__(self, stored: Rendering, kind: Kind, tables: Tables, include: str, clock: Clock) -> None:
        super().__init__(stored, kind)
        self._table = tables.of(kind)
        self._include = include
        self._clock = clock

    def object(self, value: bytes, revision: int) -> bytes:
        return self.watched(value, revision, first=True)

    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Iterator[bytes | memoryview]:
        stored, ages = self.stored, Ages(self._clock.now())
        head = stored.plain_head(self.kind) if isinstance(stored, Stored) and self._include == "Metadata" else None
        rows = self._plain_rows(items, ages, head) if head else _with_commas(self._rows(items, ages))
        return self._answer(rows, metadata, columns=True)

    def watched(self, value: bytes, revision: int, *, first: bool) -> bytes:
        """The columns are told with the first event only."""
        version = ListMeta(resource_version=str(revision) if revision else "")
        row = self._row(value, revision, Ages(self._clock.now()))
        return b"".join(self._answer([row], version, columns=first))

    def empty(self, metadata: dict[str, Any]) -> bytes:
        table = {"kind": "Table", "apiVersion": _META_VERSION, "metadata": metadata, "rows": []}
        return codec.encode({**table, "columnDefinitions": []})

    def _answer(self, rows: Iterable[bytes], metadata: ListMeta, *, columns: bool) -> Iterator[bytes]:
        definitions = codec.encode(self._table.columns if columns else [])
        head = f'{{"kind":"Table","apiVersion":"{_META_VERSION}","metadata":'.encode()
        yield b'%b%b,"columnDefinitions":%b,"rows":[' % (head, codec.encode(metadata), definitions)
        yield from rows
        yield b"]}"

    def _rows(self, items: Sequence[KeyValue], ages: Ages) -> Iterator[bytes]:
        for kv in items:
            yield self._row(kv.value, kv.mod_revision, ages, kv.key)

    def _plain_rows(self, items: Sequence[KeyValue], ages: Ages, head: bytes) -> Iterator[bytes]:
        """The same, with commas, where objects need not be rendered for their metadata, as in most lists."""
        known, kind, made = self._table.known, self._table.kind, self._table.made
        begin, comma = len(head), b""
        for kv in items:
            key, value, revision = kv.key, kv.value, kv.mod_revision
            if value.startswith(head):
                row = known(key)
                if row is None or row.revision != revision or row.kind is not kind:
                    row = made(key, revision, value, begin)
                metadata = value[begin : begin + row.metadata_size]
                yield b"".join((comma, row.write(ages), _WITH_METADATA % revision, metadata, b"}}"))
            else:
                yield comma + self._row(value, revision, ages, key)
            comma = b","

    def _row(self, value: bytes, revision: int, ages: Ages, key: str = "") -> bytes:
        whole = self.stored.render(value, revision, self.kind)
        begin = whole.index(b"{", 1) + 1
        own = begin + len(_VERSION % revision) if revision else begin
        row = self._table.row(key, revision, whole, own)
        pieces = [row.write(ages)]
        match self._include:
            case "Object":
                pieces += (b',"object":', whole)
            case "Metadata":
                pieces += (_WITH_OBJECT, whole[begin : own + row.metadata_size], b"}")
        pieces.append(b"}")
        return b"".join(pieces)


def view_for(context: HandlerContext, call: Call) -> View:
    """The view that a client asked for; raises NotAcceptable for one that there is not."""
    view = _view(context, call)
    if call.accepted.format == "protobuf":
        view.framed = protobuf_output.watch_frame
    return view


def _view(context: HandlerContext, call: Call) -> View:
    stored = context.read_by(call)
    match call.accepted.shown_as:
        case "":
            return WholeView(stored, call.kind)
        case "Table" if context.tables:
            include = call.request.parameter("includeObject") or "Metadata"
            if include not in {"None", "Metadata", "Object"}:
                raise errors.bad_request(f'unrecognized includeObject value: "{include}"')
            return TableView(stored, call.kind, context.tables, include, context.clock)
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            return MetadataView(call.stored, call.kind)
    raise errors.not_acceptable(["application/json", "application/yaml"])


def respond(call: Call, body: bytes, status: int = 200) -> Response:
    """The response with a JSON body, in the format that was asked for."""
    body, content_type = formatted(body, call.accepted, call.request)
    return Response(status, body, content_type, warnings=call.warnings)


def in_turns(pieces: Iterator[bytes | memoryview]) -> bytes | AsyncIterator[bytes]:
    """The JSON that `formatted` would give: whole where it is short, else while it is being made."""
    parts = _parts(pieces)
    first, second = next(parts), next(parts, None)
    return first if second is None else _in_turns(chain((first, second), parts))


async def _in_turns(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The first come soon, and others have their turns in between."""
    for part in parts:
        yield part
        await asyncio.sleep(0)


def _parts(pieces: Iterator[bytes | memoryview]) -> Iterator[bytes]:
    joined: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _PIECE and joined:
            yield b"".join(joined)
            joined, size = [], len(piece)
        joined.append(piece)
    yield b"".join([*joined, b"\n"])


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_METADATA = msgspec.json.Decoder(_Metadata)


def _list_of(
    kind: str, api_version: str, metadata: ListMeta, items: Iterable[bytes | memoryview]
) -> Iterator[bytes | memoryview]:
    """A list; `items` are its pieces, commas included."""
    yield f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":'.encode() + codec.encode(metadata)
    yield b',"items":['
    yield from items
    yield b"]}"


def _with_commas(items: Iterable[bytes]) -> Iterator[bytes]:
    """The elements of a JSON array."""
    comma = b""
    for item in items:
        yield comma + item
        comma = b","
