"""The interface that carries requests to a server, so that tests and embedded servers need no socket.

Transports: ``in_process.py`` (a function call) and ``https.py`` (a pool of connections).
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, urlencode

import msgspec

from mooring.api.batch_writes import Row


class Templated(msgspec.Struct, frozen=True):
    """A write for a batch, split into JSON common to many writes (template) and its own values (row)."""

    collection: str
    subresource: str
    source: object
    """What `split` reads: writes of the same object, such as creates by `generateName`, are split once."""
    split: Callable[[], tuple[bytes, Row]]
    """A function that returns the batch template as JSON, and the row of this write."""
    then_delete: bytes = b""
    """The encoded delete options of the deletion that follows the write; empty if none follows."""
    encode: Callable[[], bytes] = bytes
    """A function that returns the whole document, for a write without a body that is sent alone."""


class Request(msgspec.Struct):
    """An HTTP request: method, path (not percent-encoded), query, headers (names in lower case) and body."""

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
    """Whether a failed request may be repeated although it is a write."""
    omit_body: bool = False
    """Whether the response to a write may omit the object."""
    templated: Templated | None = None
    """The write as a template and the values in which it differs, for batches.

    A request that is sent alone has its document in `body`, or `templated.encode` returns it.
    """
    then_delete: bytes = b""
    """The encoded options of a deletion that follows a successful update, if both can be sent together."""

    @property
    def target(self) -> str:
        """Return path and query, encoded as in the request line."""
        path = quote(self.path, safe="/:~!$&'()*+,;=@")
        return f"{path}?{urlencode(self.query)}" if self.query else path


class Response(msgspec.Struct):
    """An HTTP response with its complete body. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: Sequence[str] = ()
    """The texts of the response's `Warning` headers."""
    has_deleted: bool = False
    """Whether the deletion that follows the write was sent, so that this is its response."""


class Stream(Protocol):
    """An HTTP response whose body is read in pieces, like a watch. Reading raises `TransportError` if cut off."""

    @property
    def status(self) -> int: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, each time the bytes received since the last; may be called once."""
        ...

    async def close(self) -> None:
        """Close the response, even if its body was not read to the end."""
        ...


class Transport(Protocol):
    """The interface that sends requests. Error statuses are returned; `TransportError` means there is no response."""

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - each transport has its own way
        """Send a request; return its response with the whole body. Raise DeadlineError after `timeout` seconds."""
        ...

    async def stream(self, request: Request, timeout: float) -> Stream:  # noqa: ASYNC109 - as above
        """Send a request; return the response when its headers have arrived, at most `timeout` seconds later."""
        ...

    async def close(self) -> None: ...
