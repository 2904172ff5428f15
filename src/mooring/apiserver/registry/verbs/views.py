"""Render stored objects for clients: whole, as metadata, or as table rows; in JSON, YAML or protobuf.

A `View` turns stored objects into the bytes of a response, of a list or of a watch event; `view_for` returns the one
that the client requested. Called by all handlers.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from mooring.api import codec, errors, for_caches
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ListMeta
from mooring.apiserver.messages.http import Response
from mooring.apiserver.output import json_bytes
from mooring.apiserver.output import protobuf as protobuf_output
from mooring.apiserver.output.formats import format_json
from mooring.apiserver.output.json_bytes import Pieces
from mooring.apiserver.output.tables import Tables
from mooring.apiserver.output.tables.row import Ages
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.storage.lowering_for_nodes import Renderer
from mooring.apiserver.registry.storage.stored import Stored
from mooring.base.clock import Clock
from mooring.store.kv import Event, KeyValue

Frame = Callable[[str, bytes], bytes]
"""A function that encodes a watch event from its type and object."""

_META_VERSION = "meta.k8s.io/v1"
_PARTIAL_HEAD = json_bytes.make_head("PartialObjectMetadata", _META_VERSION)
_PLAIN_ROW = json_bytes.make_row_format(_PARTIAL_HEAD)
_TABLE_HEAD = json_bytes.make_head("Table", _META_VERSION)
_PIECE = 64 * 1024 - len("ffff\r\n\r\n")
"""The size of response pieces: four TLS records with HTTP's framing, which the allocator reuses."""


class View(ABC):
    """Renders a kind's stored objects for a response: in one API version, and as whole objects, metadata or table."""

    def __init__(self, stored: Renderer, kind: Kind, frame: Frame = json_bytes.make_watch_event) -> None:
        self.stored = stored
        self.kind = kind
        self.frame = frame

    @property
    def is_shared(self) -> bool:
        """Whether the rendered bytes are equal for all clients, so that watchers can share them."""
        return isinstance(self.stored, Stored)

    @abstractmethod
    def object(self, value: bytes, revision: int) -> bytes:
        """Return the body of a response with one object, as JSON."""

    @abstractmethod
    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Pieces:
        """Yield the body of a response with a list of objects, as JSON in pieces."""

    def list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        return b"".join(self.pieces(items, metadata))

    async def protobuf_list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        """Return the body of a response with a list of objects, as protobuf."""
        made = (partial(self.object, kv.value, kv.mod_revision) for kv in items)
        return await protobuf_output.encode_list(*self.list_names, metadata, made)

    @property
    def list_names(self) -> tuple[str, str]:
        """The kind and the apiVersion of a list."""
        return self.kind.list_kind, self.kind.api_version

    def render_event(self, value: bytes, revision: int, *, first: bool) -> bytes:  # noqa: ARG002 - only tables differ
        """Return a watch event's object as JSON; `first` is True for the first event of a watch."""
        return self.object(value, revision)

    def render_deleted(self, value: bytes, revision: int) -> bytes:
        """Return the object of a DELETED watch event as JSON."""
        return self.object(value, revision)

    def filter_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return those of a batch of watch events to send: all, unless the client is a cache."""
        return events

    def bookmark_object(self, metadata: dict[str, Any]) -> bytes:
        """Return an object that has only the given metadata, for the bookmarks of a watch."""
        return codec.encode({"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata})


class WholeView(View):
    """Renders whole objects as JSON; for kubelets, with new operators lowered to those they know."""

    def object(self, value: bytes, revision: int) -> bytes:
        return self.stored.render(value, revision, self.kind)

    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Pieces:
        return json_bytes.join_list(
            *self.list_names, codec.encode(metadata), self.stored.render_items(items, self.kind)
        )


class CacheView(WholeView):
    """Renders objects for the caches of Mooring's client, without the fields these drop (``api/for_caches.py``)."""

    def object(self, value: bytes, revision: int) -> bytes:
        return json_bytes.without_managed_fields(super().object(value, revision))[0]

    def render_deleted(self, value: bytes, revision: int) -> bytes:
        return json_bytes.cut_to_identity(super().object(value, revision))

    def filter_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return watch events without those of objects that a later event of the batch deletes."""
        gone = {event.key: event.revision for event in events if event.current is None}
        if not gone:
            return events
        return [
            event
            for event in events
            if event.previous is None or event.current is None or event.revision > gone.get(event.key, 0)
        ]


class MetadataView(View):
    """Renders the metadata of objects alone, as PartialObjectMetadata."""

    def object(self, value: bytes, revision: int) -> bytes:
        rendered = self.stored.render_item(value, revision, self.kind)
        return json_bytes.make_partial_metadata(_PARTIAL_HEAD, json_bytes.extract_metadata(rendered))

    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Pieces:
        shown = json_bytes.add_commas(self.object(kv.value, kv.mod_revision) for kv in items)
        return json_bytes.join_list(*self.list_names, codec.encode(metadata), shown)

    @property
    def list_names(self) -> tuple[str, str]:
        return "PartialObjectMetadataList", _META_VERSION

    def bookmark_object(self, metadata: dict[str, Any]) -> bytes:
        return codec.encode({"kind": "PartialObjectMetadata", "apiVersion": _META_VERSION, "metadata": metadata})


class TableView(View):
    """Renders objects as rows of a Table, which kubectl prints."""

    def __init__(
        self, stored: Renderer, kind: Kind, frame: Frame, *, tables: Tables, include: str, clock: Clock
    ) -> None:
        super().__init__(stored, kind, frame)
        self._table = tables.of(kind)
        self._include = include
        self._clock = clock

    @property
    def is_shared(self) -> bool:
        return False  # ages depend on the time, and the columns are in the first event only

    def object(self, value: bytes, revision: int) -> bytes:
        return self.render_event(value, revision, first=True)

    def pieces(self, items: Sequence[KeyValue], metadata: ListMeta) -> Pieces:
        stored, ages = self.stored, Ages(self._clock.now())
        head = stored.plain_head(self.kind) if isinstance(stored, Stored) and self._include == "Metadata" else None
        if head:
            return self._document(self._plain_rows(items, ages, head), metadata, has_columns=True)
        rows = (self._row(kv.value, kv.mod_revision, ages, kv.key) for kv in items)
        return self._document(json_bytes.add_commas(rows), metadata, has_columns=True)

    def render_event(self, value: bytes, revision: int, *, first: bool) -> bytes:
        """Return a watch event's object as a Table with one row, with columns only in the first event."""
        version = ListMeta(resource_version=str(revision) if revision else "")
        row = self._row(value, revision, Ages(self._clock.now()))
        return b"".join(self._document(iter([row]), version, has_columns=first))

    def bookmark_object(self, metadata: dict[str, Any]) -> bytes:
        table = {"kind": "Table", "apiVersion": _META_VERSION, "metadata": metadata, "rows": []}
        return codec.encode({**table, "columnDefinitions": []})

    def _document(self, rows: Iterator[bytes], metadata: ListMeta, *, has_columns: bool) -> Iterator[bytes]:
        columns = codec.encode(self._table.columns if has_columns else [])
        return json_bytes.join_table(_TABLE_HEAD, codec.encode(metadata), columns, rows)

    def _plain_rows(self, items: Sequence[KeyValue], ages: Ages, head: bytes) -> Iterator[bytes]:
        """Yield Table rows with commas, with metadata taken from the stored bytes where that is possible."""
        cached, kind, make_row = self._table.cached, self._table.kind, self._table.make_row
        begin, comma = len(head), b""
        for kv in items:
            key, value, revision = kv.key, kv.value, kv.mod_revision
            if value.startswith(head):
                row = cached(key)
                if row is None or row.revision != revision or row.kind is not kind:
                    row = make_row(key, revision, value, begin)
                metadata = value[begin : begin + row.metadata_size]
                yield _PLAIN_ROW % (comma, row.write(ages), revision, metadata)
            else:
                yield comma + self._row(value, revision, ages, key)
            comma = b","

    def _row(self, value: bytes, revision: int, ages: Ages, key: str = "") -> bytes:
        whole = self.stored.render(value, revision, self.kind)
        begin = json_bytes.find_metadata_begin(whole)
        own = begin + json_bytes.count_revision_bytes(revision) if revision else begin
        row = self._table.row(key, revision, whole, own)
        shown = b""
        if self._include == "Object":
            shown = whole
        elif self._include == "Metadata":
            shown = json_bytes.make_partial_metadata(_PARTIAL_HEAD, whole[begin - 1 : own + row.metadata_size])
        return json_bytes.add_object_to_row(row.write(ages), shown)


def view_for(context: HandlerContext, call: Call, *, is_watch: bool = False) -> View:
    """Return the renderer for the form that the Accept header names; raise NotAcceptable for an unknown form."""
    stored, accepted = context.node_lowering.renderer_for(call.request, call.stored), call.accepted
    frame = protobuf_output.encode_watch_event if accepted.format == "protobuf" else json_bytes.make_watch_event
    match accepted.shown_as:
        case "":
            is_for_cache = is_watch and accepted.format == "json" and call.request.flag(for_caches.PARAMETER)
            if is_for_cache and isinstance(stored, Stored) and not call.kind.custom:
                return CacheView(stored, call.kind)
            return WholeView(stored, call.kind, frame)
        case "Table":
            include = call.request.parameter("includeObject") or "Metadata"
            if include not in {"None", "Metadata", "Object"}:
                raise errors.bad_request(f'unrecognized includeObject value: "{include}"')
            return TableView(stored, call.kind, frame, tables=context.tables, include=include, clock=context.clock)
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            return MetadataView(call.stored, call.kind, frame)
    raise errors.not_acceptable(["application/json", "application/yaml"])


async def respond_with_object(
    context: HandlerContext, call: Call, value: bytes, revision: int, status: int = 200
) -> Response:
    """Return a response with a stored object, in the version and form that the client requested."""
    stored = call.stored
    if stored.needs_webhook:
        await stored.prepare([value], call.kind)
    if call.accepted.shown_as:
        body = view_for(context, call).object(value, revision)
    else:
        body = context.node_lowering.renderer_for(call.request, stored).render(value, revision, call.kind)
    return make_response(call, body, status)


def make_response(call: Call, body: bytes, status: int = 200) -> Response:
    """Return a response with a JSON body, converted to the format that the client requested."""
    body, content_type = format_json(body, call.accepted, call.request)
    return Response(status, body, content_type, warnings=call.warnings)


def make_body(pieces: Pieces) -> bytes | AsyncIterator[bytes]:
    """Return a list's pieces as a response body: bytes if short, else an iterator that pauses for other tasks."""
    parts = _join_pieces(pieces)
    first, second = next(parts), next(parts, None)
    return first if second is None else _yield_cooperatively(chain((first, second), parts))


async def _yield_cooperatively(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
        await asyncio.sleep(0)


def _join_pieces(pieces: Pieces) -> Iterator[bytes]:
    joined: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _PIECE and joined:
            yield b"".join(joined)
            joined, size = [], len(piece)
        joined.append(piece)
    yield b"".join([*joined, b"\n"])
