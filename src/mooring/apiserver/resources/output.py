"""How objects are shown to a client: whole, their metadata alone, or as rows of a table; as JSON or YAML.

A `View` turns stored objects into the bytes of a response, of a list or of a watch event; `view_for` finds the one
that the client asked for. Called by all handlers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from mooring.api import codec, errors, yaml_documents
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ListMeta, Table, TableRow
from mooring.api.protobuf_table import Unsupported
from mooring.apiserver import protobuf_output
from mooring.apiserver.http import PROTOBUF, YAML, Accepted, Request, Response
from mooring.apiserver.resources.context import Call, HandlerContext, Tables
from mooring.apiserver.resources.node_reading import Rendering
from mooring.apiserver.resources.stored import Stored
from mooring.base.clock import Clock
from mooring.store.kv import KeyValue

_META_VERSION = "meta.k8s.io/v1"
_PARTIAL_HEAD = f'{{"kind":"PartialObjectMetadata","apiVersion":"{_META_VERSION}","metadata":'.encode()
_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")


def _json_line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)


class View(ABC):
    """One way to show the objects of a kind in a version."""

    framed: Callable[[str, bytes], bytes] = staticmethod(_json_line)
    """How an event of a watch is written."""
    shared = False
    """Whether what is shown depends on the object alone, so that watchers can share it."""

    def __init__(self, stored: Rendering, kind: Kind) -> None:
        self.stored = stored
        self.kind = kind

    @abstractmethod
    def object(self, value: bytes, revision: int) -> bytes:
        """One object."""

    @abstractmethod
    def list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        """A list of objects."""

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

    def list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        return _list_of(
            self.kind.list_kind, self.kind.api_version, metadata, self.stored.render_items(items, self.kind)
        )


class MetadataView(View):
    """The metadata alone, as PartialObjectMetadata."""

    shared = True

    def object(self, value: bytes, revision: int) -> bytes:
        return _PARTIAL_HEAD + self._metadata(value, revision) + b"}"

    def list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        shown = [self.object(kv.value, kv.mod_revision) for kv in items]
        return _list_of("PartialObjectMetadataList", _META_VERSION, metadata, [b",".join(shown)])

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
        self._tables = tables
        self._include = include
        self._clock = clock
        self._metadata_view = MetadataView(stored, kind)

    def object(self, value: bytes, revision: int) -> bytes:
        return self.watched(value, revision, first=True)

    def list(self, items: Sequence[KeyValue], metadata: ListMeta) -> bytes:
        now = self._clock.now()
        return self._table([self._row(kv.value, kv.mod_revision, now) for kv in items], metadata, columns=True)

    def watched(self, value: bytes, revision: int, *, first: bool) -> bytes:
        """The columns are told with the first event only."""
        version = ListMeta(resource_version=str(revision) if revision else "")
        return self._table([self._row(value, revision, self._clock.now())], version, columns=first)

    def empty(self, metadata: dict[str, Any]) -> bytes:
        table = {"kind": "Table", "apiVersion": _META_VERSION, "metadata": metadata, "rows": []}
        return codec.encode({**table, "columnDefinitions": []})

    def _table(self, rows: Sequence[TableRow], metadata: ListMeta, *, columns: bool) -> bytes:
        definitions = self._tables.columns(self.kind) if columns else []
        table = Table(column_definitions=definitions, rows=[*rows], metadata=metadata)
        table.kind, table.api_version = "Table", _META_VERSION
        return codec.encode(table)

    def _row(self, value: bytes, revision: int, now: datetime) -> TableRow:
        whole = self.stored.render(value, revision, self.kind)
        row = self._tables.row(self.kind, codec.decode_own(whole, self.kind.type), now)
        if self._include == "Object":
            row.object = msgspec.Raw(whole)
        elif self._include != "None":
            row.object = msgspec.Raw(self._metadata_view.object(value, revision))
        return row


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


def formatted(body: bytes, accepted: Accepted, request: Request) -> tuple[bytes, str]:
    """JSON as the client wants it: on one line, indented for people, or as YAML."""
    if accepted.format == "protobuf":
        with suppress(Unsupported):
            return protobuf_output.document(body), PROTOBUF
    if accepted.format == "yaml":
        return yaml_documents.write([codec.json_tree(body)]).encode(), YAML
    if "pretty" in request.query or request.user_agent.startswith(_HUMAN_AGENTS):
        pretty = request.flag("pretty") if "pretty" in request.query else True
        body = msgspec.json.format(body, indent=2) if pretty else body
    return body + b"\n", "application/json"


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_METADATA = msgspec.json.Decoder(_Metadata)


def _list_of(kind: str, api_version: str, metadata: ListMeta, items: Iterable[bytes | memoryview]) -> bytes:
    """A list; `items` are its pieces, commas included."""
    head = f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":'.encode()
    return b"".join([head, codec.encode(metadata), b',"items":[', *items, b"]}"])
