"""Requests and responses as handlers see them: without sockets, so that tests and in-process clients need none.

``requests/app.py`` decodes a `Request`, finds its route (``routes.py``) and passes both to a handler, which returns a
`Response` or raises an error of ``mooring.api.errors``.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, Protocol, Self

import msgspec

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.batch_writes import Row
from mooring.apiserver.messages.connection import Connection

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"
PRODUCED = (JSON, YAML, PROTOBUF)
"""The media types of responses that the server can produce."""

Format = Literal["json", "yaml", "protobuf"]
TakeOver = Callable[[Connection], Awaitable[None]]
_LONGEST_CACHED = 256
_PATCHES = frozenset(f"application/{way}+json" for way in ("json-patch", "merge-patch", "strategic-merge-patch"))
_COMMON = _PATCHES | {JSON, PROTOBUF}
"""The most frequent media types of request bodies, to be compared first."""
_NOT_TRUE = frozenset({"0", "false"})
_LINE_BREAK = "\n"


class Request(msgspec.Struct, kw_only=True):
    """A request. Header names are in lower case; a query parameter has the list of its values."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    request_id: str = ""
    audit_annotations: dict[str, str] = {}
    """Annotations that admission adds to the audit log."""
    omit_body: bool = False
    """Whether the response to a write may leave out the object, because the client does not read it."""
    row: Row | None = None
    """For a batch write: the values that this write puts into the template in the request body."""

    def parameter(self, name: str) -> str:
        """Return the first value of a query parameter; empty when it is absent."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter: `watch`, `watch=` and `watch=1` all mean true."""
        values = self.query.get(name)
        return values[0].lower() not in _NOT_TRUE if values else False

    @property
    def content_type(self) -> str:
        """Return the media type of the body without parameters; empty when none was given."""
        header = self.headers.get("content-type", "")
        return header if header in _COMMON else header.partition(";")[0].strip().lower()

    @property
    def upgrade(self) -> str:
        """Return the protocol that the client wants to upgrade to, in lower case; empty for a plain request."""
        words = self.headers.get("connection", "").lower().split(",")
        return self.headers.get("upgrade", "").lower() if "upgrade" in (word.strip() for word in words) else ""

    @property
    def user_agent(self) -> str:
        return self.headers.get("user-agent", "")

    def negotiate_format(self, *, protobuf: bool = True) -> "Accepted":
        """Return the format of the response; raise NotAcceptable if the client accepts none.

        `protobuf` is False for responses that have no protobuf message; clients that prefer it also accept another
        format.
        """
        return negotiate_accept(self.headers.get("accept", ""), protobuf=protobuf)


class Sink(Protocol):
    """The connection that receives a pushed body; when it can accept data again, it calls `Pushed.push`."""

    @property
    def is_ready(self) -> bool: ...

    def write(self, chunk: bytes) -> None: ...

    def end(self) -> None:
        """End the body."""

    def break_off(self) -> None:
        """End the body as incomplete, so that the client notices an error."""


class Pushed(ABC):
    """A response body, such as a watch's, that its producer pushes into a connection without a task that waits.

    The sink first gets `beginning`, then `follow` is called. The body can be iterated over instead.
    """

    __slots__ = ("_pulled",)
    can_follow: bool
    """Whether the producer can push into a connection (`follow`)."""
    _pulled: AsyncGenerator[bytes, None] | None

    @abstractmethod
    def iterate_pieces(self) -> AsyncGenerator[bytes, None]:
        """Return an iterator over all pieces, for callers that do not push."""

    @abstractmethod
    def beginning(self) -> AsyncIterator[bytes]:
        """Yield the pieces that exist already."""

    @abstractmethod
    def follow(self, sink: Sink) -> None:
        """Push all further pieces into a connection as they occur."""

    @abstractmethod
    def push(self) -> None:
        """Push the pieces that are ready, as the connection can accept them now."""

    @abstractmethod
    def close(self) -> None:
        """Stop pushing, because the client has closed the connection."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._pulled is None:
            self._pulled = self.iterate_pieces()
        return await anext(self._pulled)

    async def aclose(self) -> None:
        if self._pulled is not None:
            await self._pulled.aclose()


class Response(msgspec.Struct):
    """A response. A body in pieces (a watch) is an iterator; closing the iterator stops the work for it."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = JSON
    headers: dict[str, str] = {}
    warnings: Sequence[str] = ()
    """Texts for `Warning` headers; see `warning_header`."""
    take_over: TakeOver | None = None
    """With status 101, the function to which the upgraded connection is passed; it returns when that ends."""
    request_id: str = ""
    """For responses of the API server, the id of the request, which is sent as `Audit-Id`."""
    ends_with_server: bool = False
    """Whether a stopping server breaks off the body in pieces, instead of waiting for its end."""


class Accepted(msgspec.Struct, frozen=True):
    """A response format: media type, and the form of the object in it, such as Table; empty for the object itself."""

    format: Format = "json"
    shown_as: str = ""
    group: str = ""
    version: str = ""


_PLAIN = Accepted()


def negotiate_accept(header: str, *, protobuf: bool = True) -> Accepted:
    """Return the first clause of an Accept header that can be served, the highest `q` first."""
    if not header or header in {"*/*", JSON}:
        return _PLAIN
    # clients send the same header with every request; those that are longer than clients send are not cached
    return _choose_cached(header, protobuf) if len(header) <= _LONGEST_CACHED else _choose_format(header, protobuf)


def _choose_format(header: str, protobuf: bool) -> Accepted:
    for clause in by_preference(header):
        found = _match_clause(clause)
        if found and (protobuf or found.format != "protobuf"):
            return found
    raise errors.not_acceptable(PRODUCED if protobuf else (JSON, YAML))


_choose_cached = lru_cache(maxsize=256)(_choose_format)


def warning_header(text: str) -> str:
    """Return the value of a Warning header: `299 - "text"`, quoted, on one line."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


class Clause(msgspec.Struct, frozen=True):
    """A clause of an Accept header."""

    media_type: str
    parameters: Mapping[str, str]

    @property
    def quality(self) -> float:
        try:
            return float(self.parameters.get("q", "1"))
        except ValueError:
            return 0.0


def by_preference(header: str) -> list[Clause]:
    """Return the clauses of an Accept header, the highest `q` first."""
    clauses = []
    for text in header.split(","):
        media_type, *parameters = (part.strip() for part in text.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        clauses.append(Clause(media_type.lower(), {name.strip().lower(): value.strip() for name, _, value in pairs}))
    return sorted(clauses, key=lambda clause: -clause.quality)


def _match_clause(clause: Clause) -> Accepted | None:
    formats: dict[str, Format] = {
        JSON: "json",
        YAML: "yaml",
        PROTOBUF: "protobuf",
        "*/*": "json",
        "application/*": "json",
    }
    form = formats.get(clause.media_type)
    if form is None or clause.quality <= 0:
        return None
    shown_as = clause.parameters.get("as", "")
    group, version = clause.parameters.get("g", ""), clause.parameters.get("v", "")
    if shown_as in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"} and version not in {"v1", ""}:
        return None  # v1beta1 of these is long gone
    if form == "protobuf" and shown_as == "Table":
        return None
    return Accepted(form, shown_as, group, version)


def headers_by_name(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name. Repeated ones are joined: by commas, for impersonation by line breaks."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name in headers:
            value = f"{headers[name]}{_LINE_BREAK if name.startswith('impersonate-') else ', '}{value}"
        headers[name] = value
    return headers
