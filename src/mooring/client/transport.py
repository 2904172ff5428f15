"""The interface that carries requests to a server, so that tests and embedded servers need no socket.

Transports: ``in_process.py`` (a function call) and ``https.py`` (a pool of connections).
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, urlencode

import msgspec

from mooring.api.batch_writes import Row

_PLAIN = re.compile(r"[A-Za-z0-9_.~/:!$&'()*+,;=@-]*")
"""Characters that need no quoting."""


class Templated(msgspec.Struct, frozen=True):
    """A write as a row of a template: what ``batching.py`` needs to send it with others."""

    collection: str
    subresource: str
    source: object
    """Writes with the same source have the same template and row."""
    split: Callable[[], tuple[bytes, Row]]
    """Returns the template's document and the row."""
    then_delete: bytes = b""
    """The options of the deletion that follows, for any row."""


class Request(msgspec.Struct):
    """A request. The path is not encoded; header names are in lower case."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    guard: Callable[[], None] | None = None
    """Called immediately before the request is sent; raises an error to prevent it."""
    max_response_bytes: int = 0
    """The largest response in bytes; 0 for no limit."""
    is_repeatable: bool = False
    """Whether the request may be repeated although it is no read."""
    omit_body: bool = False
    """Whether the response to a write may omit the object."""
    templated: Templated | None = None
    """How to send it in a batch; `body` is then empty until `whole` makes it."""
    whole: Callable[[], bytes] | None = None
    then_delete: bytes = b""
    """The options of a deletion that follows a successful update, where both can be sent together."""

    @property
    def target(self) -> str:
        """Return path and query as in the request line."""
        path = self.path if _PLAIN.fullmatch(self.path) else quote(self.path, safe="/:~!$&'()*+,;=@")
        return f"{path}?{urlencode(self.query)}" if self.query else path


class Response(msgspec.Struct):
    """A whole response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: Sequence[str] = ()
    """The texts of `Warning` headers."""
    has_deleted: bool = False
    """Whether the deletion that follows was sent, so that this is its response."""


class Stream(Protocol):
    """A response in pieces; `chunks` ends with it and raises `TransportError` when it breaks off."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield all bytes since the last chunk, as often as there are new ones. Call it once."""
        ...

    async def close(self) -> None:
        """End the response, whether or not all was read."""
        ...


class Transport(Protocol):
    """Sends requests. A response of any status is returned; `TransportError` means that there was none."""

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - each transport has its own way
        """Return the whole response, within `timeout` seconds."""
        ...

    async def stream(self, request: Request, timeout: float) -> Stream:  # noqa: ASYNC109 - as above
        """Return a response in pieces, whose head arrives within `timeout` seconds."""
        ...

    async def close(self) -> None: ...
