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


class Request(msgspec.Struct, kw_only=True):
    """An HTTP request as handlers see it. Header names are in lower case; query parameters have lists of values."""

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
        """Return the first value of a query parameter; empty if it is absent."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Return a query parameter as a boolean: `watch`, `watch=` and `watch=1` are true, absent is false."""
        values = self.query.get(name)
        return values[0].lower() not in _NOT_TRUE if values else False

    @property
    def content_type(self) -> str:
        """Return the media type in the Content-Type header, without parameters; empty if the header is absent."""
        header = self.headers.get("content-type", "")
        return header if header in _COMMON else header.partition(";")[0].strip().lower()

    @property
    def upgrade(self) -> str:
        """Return the protocol in the Upgrade header, in lower case; empty if the client requests no upgrade."""
        words = self.headers.get("connection", "").lower().split(",")
        return self.headers.get("upgrade", "").lower() if "upgrade" in (word.strip() for word in words) else ""

    @property
    def user_agent(self) -> str:
        return self.headers.get("user-agent", "")

    def negotiate_format(self, *, protobuf: bool = True) -> "Accepted":
        """Return the format of the response by the Accept header; raise NotAcceptable if there is none.

        `protobuf` is False for responses that have no protobuf message; clients that prefer it also accept another
        format.
        """
        header = self.headers.get("accept", "")
        if not header or header in {"*/*", JSON}:
            return _PLAIN
        # clients send the same header with every request; those that are longer than clients send are not cached
        return _choose_cached(header, protobuf) if len(header) <= _LONGEST_CACHED else _choose_format(header, protobuf)


class Sink(Protocol):
    """A connection to which a producer writes a response body; it calls `Pushed.push` when it can take more."""

    @property
    def is_ready(self) -> bool: ...

    def write(self, chunk: bytes) -> None: ...

    def end(self) -> None:
        """End the body."""

    def break_off(self) -> None:
        """End the body without its last chunk, so that the client notices that it is incomplete."""


class Pushed(ABC):
    """A response body, such as a watch's, whose producer writes it into the connection without a task of its own.

    The sink first gets `beginning`, then `follow` is called. The body can be iterated over instead.
    """

    can_follow: bool
    """Whether the producer can push into a connection (`follow`)."""
    _pulled: AsyncGenerator[bytes, None] | None

    @abstractmethod
    def iterate_pieces(self) -> AsyncGenerator[bytes, None]:
        """Return an iterator over the whole body, for callers that do not use `follow`."""

    @abstractmethod
    def beginning(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the body that exist when it starts, such as a watch's initial events."""

    @abstractmethod
    def follow(self, sink: Sink) -> None:
        """Write all later pieces to the sink as they occur."""

    @abstractmethod
    def push(self) -> None:
        """Write pending pieces to the sink; it calls this when it accepts data again."""

    @abstractmethod
    def close(self) -> None:
        """Stop writing to the sink, because the client has closed the connection."""

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
    """A response: status, headers, and a body as bytes or as an iterator; closing the iterator stops its producer."""

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
    """A response format: media type, and the form of the object in it, such as Table (empty: the object itself)."""

    format: Format = "json"
    shown_as: str = ""
    group: str = ""
    version: str = ""


_PLAIN = Accepted()


def _choose_format(header: str, protobuf: bool) -> Accepted:
    """Return the best format of an Accept header that the server can produce; raise NotAcceptable if there is none."""
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
    """A media type with its parameters, as listed in an Accept header."""

    media_type: str
    parameters: Mapping[str, str]

    @property
    def quality(self) -> float:
        try:
            return float(self.parameters.get("q", "1"))
        except ValueError:
            return 0.0


def by_preference(header: str) -> list[Clause]:
    """Return the media types of an Accept header, the one with the highest `q` first."""
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


def join_header(name: str, first: str, second: str) -> str:
    """Return two values of a repeated header as one, joined by a comma; of an Impersonate header, by a line break."""
    return "\n".join((first, second)) if name.startswith("impersonate-") else f"{first}, {second}"
