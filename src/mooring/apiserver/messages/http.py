"""A request and its response as handlers see them: no sockets, no ASGI, so that tests and in-process clients need none.

The edge (``requests/app.py``) makes a `Request` of what it received, finds the route (``routes.py``) and hands both to
a handler, which returns a `Response` or raises an error of ``mooring.api.errors``; the edge makes a Status of that.
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
"""The formats that responses can have."""

Format = Literal["json", "yaml", "protobuf"]
TakeOver = Callable[[Connection], Awaitable[None]]
_LONGEST_REMEMBERED = 256
_PATCHES = frozenset(f"application/{way}+json" for way in ("json-patch", "merge-patch", "strategic-merge-patch"))
_COMMON = _PATCHES | {JSON, PROTOBUF}
"""What most clients say of their bodies."""
_NOT_TRUE = frozenset({"0", "false"})
_LINE_BREAK = "\n"


class Request(msgspec.Struct, kw_only=True):
    """What a client asked. Header names are in lower case; a query parameter has all the values that were given."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    request_id: str = ""
    audit_annotations: dict[str, str] = {}
    """What admission adds to the line in the audit log."""
    omit_body: bool = False
    """Whether the response to a write may omit the object."""
    row: Row | None = None
    """The values that a write puts into the template in its body."""

    def parameter(self, name: str) -> str:
        """The first value of a query parameter; empty when it is absent."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false: `watch`, `watch=` and `watch=1` all mean true."""
        values = self.query.get(name)
        return values[0].lower() not in _NOT_TRUE if values else False

    @property
    def content_type(self) -> str:
        """The media type of the body without its parameters; empty when none was given."""
        header = self.headers.get("content-type", "")
        return header if header in _COMMON else header.partition(";")[0].strip().lower()

    @property
    def upgrade(self) -> str:
        """The protocol that the client wants to speak instead of HTTP, in lower case; empty for a plain request."""
        words = self.headers.get("connection", "").lower().split(",")
        return self.headers.get("upgrade", "").lower() if "upgrade" in (word.strip() for word in words) else ""

    @property
    def user_agent(self) -> str:
        return self.headers.get("user-agent", "")

    def accepted(self, *, protobuf: bool = True) -> "Accepted":
        """What the response should look like; raises NotAcceptable when there is nothing that the client takes.

        What has no messages cannot be protobuf; clients that would like that name what they take instead.
        """
        return accepted(self.headers.get("accept", ""), protobuf=protobuf)


class Sink(Protocol):
    """Where a body goes that is pushed. One that was not ready asks with `Pushed.tell` for what it has missed."""

    @property
    def is_ready(self) -> bool: ...

    def write(self, chunk: bytes) -> None: ...

    def end(self) -> None:
        """There is no more to come."""

    def break_off(self) -> None:
        """What was written is not all, and no more is to come."""


class Pushed(ABC):
    """A body in pieces that needs no task to wait for the next one: `beginning`, then `follow` with a sink.

    It is an iterator, too, for those who would rather wait.
    """

    __slots__ = ("_pulled",)
    can_follow: bool
    """Whether it can do without waiting."""
    _pulled: AsyncGenerator[bytes, None] | None

    @abstractmethod
    def pulled(self) -> AsyncGenerator[bytes, None]:
        """All pieces."""

    @abstractmethod
    def beginning(self) -> AsyncIterator[bytes]:
        """What can be told at once."""

    @abstractmethod
    def follow(self, sink: Sink) -> None:
        """Write whatever comes after that into a sink."""

    @abstractmethod
    def tell(self) -> None:
        """The sink is ready again."""

    @abstractmethod
    def close(self) -> None:
        """Nobody is interested any more."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._pulled is None:
            self._pulled = self.pulled()
        return await anext(self._pulled)

    async def aclose(self) -> None:
        if self._pulled is not None:
            await self._pulled.aclose()


class Response(msgspec.Struct):
    """What the client is told. A body that comes in pieces (a watch) is an iterator; closing it ends the work."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = JSON
    headers: dict[str, str] = {}
    warnings: Sequence[str] = ()
    """Texts for `Warning` headers, as they are; see `warning_header`."""
    take_over: TakeOver | None = None
    """With status 101: what goes on on the connection after HTTP. It returns when that has ended."""


class Accepted(msgspec.Struct, frozen=True):
    """A format, and what the object should be shown as: itself when `shown_as` is empty."""

    format: Format = "json"
    shown_as: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList`, or a kind of discovery."""
    group: str = ""
    version: str = ""


_PLAIN = Accepted()


def accepted(header: str, *, protobuf: bool = True) -> Accepted:
    """The first clause of an Accept header that can be served, the ones with the highest `q` first."""
    if not header or header in {"*/*", JSON}:
        return _PLAIN
    # A client says the same every time; what is longer than clients are is not remembered.
    return _remembered(header, protobuf) if len(header) <= _LONGEST_REMEMBERED else _chosen(header, protobuf)


def _chosen(header: str, protobuf: bool) -> Accepted:
    for clause in by_preference(header):
        found = _served(clause)
        if found and (protobuf or found.format != "protobuf"):
            return found
    raise errors.not_acceptable(PRODUCED if protobuf else (JSON, YAML))


_remembered = lru_cache(maxsize=256)(_chosen)


def warning_header(text: str) -> str:
    """The value of a Warning header: `299 - "text"`, quoted, on one line."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


class Clause(msgspec.Struct, frozen=True):
    """One of the things that an Accept header takes."""

    media_type: str
    parameters: Mapping[str, str]

    @property
    def quality(self) -> float:
        try:
            return float(self.parameters.get("q", "1"))
        except ValueError:
            return 0.0


def by_preference(header: str) -> list[Clause]:
    """What an Accept header takes, the ones with the highest `q` first."""
    clauses = []
    for text in header.split(","):
        media_type, *parameters = (part.strip() for part in text.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        clauses.append(Clause(media_type.lower(), {name.strip().lower(): value.strip() for name, _, value in pairs}))
    return sorted(clauses, key=lambda clause: -clause.quality)


def _served(clause: Clause) -> Accepted | None:
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
    """Headers by name, which ASGI has in lower case; one that came several times has all its values.

    Those of impersonation are on lines.
    """
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name in headers:
            value = f"{headers[name]}{_LINE_BREAK if name.startswith('impersonate-') else ', '}{value}"
        headers[name] = value
    return headers
