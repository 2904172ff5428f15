"""A transport without a socket: requests are calls of a function of the server in the same process.

The caller that connects client and server passes the function (`Handler`), which knows the user of the requests. A
watch is an iterator of the server; closing the stream closes it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from mooring.client.errors import DeadlineError, DisconnectedError
from mooring.client.transport import Request, Response


class HandlerResponse(Protocol):
    """The response of the in-process server function: HTTP status, headers, warnings, body (bytes or an iterator)."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes | AsyncIterator[bytes]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


Handler = Callable[[Request], Awaitable[HandlerResponse]]


class InProcessTransport:
    """A `Transport` that calls a server function in the same event loop instead of using the network."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._closed = False

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        try:
            async with asyncio.timeout(timeout):
                answer = await self._call_handler(request)
                body = answer.body if isinstance(answer.body, bytes) else b"".join([part async for part in answer.body])
        except TimeoutError:
            raise DeadlineError(f"{request.method} {request.path}: no answer within {timeout:g} s") from None
        return Response(answer.status, answer.headers, body, answer.warnings)

    async def stream(self, request: Request, timeout: float) -> "InProcessStream":  # noqa: ASYNC109 - as above
        try:
            async with asyncio.timeout(timeout):
                return InProcessStream(await self._call_handler(request))
        except TimeoutError:
            raise DeadlineError(f"{request.method} {request.path}: no answer within {timeout:g} s") from None

    async def close(self) -> None:
        self._closed = True

    async def _call_handler(self, request: Request) -> HandlerResponse:
        if self._closed:
            raise DisconnectedError("this client was closed")
        if request.guard is not None:
            request.guard()
        return await self._handler(request)


class InProcessStream:
    """A response of the in-process server whose body is iterated over in pieces."""

    def __init__(self, answer: HandlerResponse) -> None:
        self.status = answer.status
        self._body = answer.body

    async def chunks(self) -> AsyncIterator[bytes]:
        if isinstance(self._body, bytes):
            yield self._body
            return
        async for chunk in self._body:
            yield chunk

    async def close(self) -> None:
        end = getattr(self._body, "aclose", None)  # generators have it, other iterators need not
        if end is not None:
            await end()
