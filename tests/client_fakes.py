"""Transports for tests of the client: one that answers as a test says, and a small API that keeps objects."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from mooring.api import codec, errors
from mooring.api.errors import StatusError
from mooring.client.errors import DisconnectedError, TransportError
from mooring.client.transport import Request, Response

Answer = Response | StatusError | TransportError


def json_response(tree: Any, status: int = 200, **headers: str) -> Response:
    return Response(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(tree).encode()
    )


def error_response(error: StatusError, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(error.status.code, named, codec.encode(error.status))


class FakeStream:
    """A stream that the test feeds."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.closed = False
        self._queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def send(self, *events: dict[str, Any]) -> None:
        """All events in one chunk."""
        self._queue.put_nowait(b"".join(json.dumps(event).encode() + b"\n" for event in events))

    def send_bytes(self, chunk: bytes) -> None:
        self._queue.put_nowait(chunk)

    def end(self, error: Exception | None = None) -> None:
        self._queue.put_nowait(error)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            item = await self._queue.get()
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    async def close(self) -> None:
        self.closed = True


class FakeTransport:
    """Answers each request by a function, and keeps what was asked and the streams that were opened."""

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        open_stream: Callable[[Request], FakeStream | StatusError | TransportError] | None = None,
    ) -> None:
        self._answer = answer
        self._open_stream = open_stream or (lambda _: FakeStream())
        self.requests: list[Request] = []
        self.watches: list[Request] = []
        self.streams: list[FakeStream] = []
        self.closed = False

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        await asyncio.sleep(0)
        if request.guard is not None:
            request.guard()
        self.requests.append(request)
        answer = self._answer(request)
        if isinstance(answer, StatusError):
            return error_response(answer)
        if isinstance(answer, TransportError):
            raise answer
        return answer

    async def stream(self, request: Request, timeout: float) -> FakeStream:  # noqa: ASYNC109 - as above
        await asyncio.sleep(0)
        self.watches.append(request)
        stream = self._open_stream(request)
        if isinstance(stream, TransportError):
            raise stream
        if isinstance(stream, StatusError):
            refused = FakeStream(stream.status.code)
            refused.send_bytes(codec.encode(stream.status))
            refused.end()
            return refused
        self.streams.append(stream)
        return stream

    async def close(self) -> None:
        self.closed = True


class MemoryApi:
    """Objects by path, with versions and optimistic concurrency: enough of a server for who uses few calls."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[str, str]] = []
        self.fail: Callable[[Request], Answer | None] = lambda _: None
        self._version = 0

    def answer(self, request: Request) -> Answer:
        self.log.append((request.method, request.path))
        failure = self.fail(request)
        if failure is not None:
            return failure
        body = json.loads(request.body) if request.body else {}
        match request.method:
            case "GET":
                return self._found(request.path)
            case "POST":
                return self._create(f"{request.path}/{body['metadata']['name']}", body)
            case "PUT":
                return self._update(request.path, body)
            case "PATCH":
                return self._patch(request.path, body)
        return errors.method_not_allowed(request.method, request.path)

    def _found(self, path: str) -> Answer:
        found = self.objects.get(path)
        return json_response(found) if found else errors.not_found("things", path)

    def _create(self, path: str, body: dict[str, Any]) -> Answer:
        if path in self.objects:
            return errors.already_exists("things", path)
        return self._store(path, body)

    def _update(self, path: str, body: dict[str, Any]) -> Answer:
        found = self.objects.get(path)
        if found is None:
            return errors.not_found("things", path)
        expected = body["metadata"].get("resourceVersion")
        if expected and expected != found["metadata"]["resourceVersion"]:
            return errors.conflict("things", path)
        return self._store(path, body)

    def _patch(self, path: str, body: dict[str, Any]) -> Answer:
        found = self.objects.get(path)
        return self._store(path, {**found, **body}) if found else errors.not_found("things", path)

    def _store(self, path: str, body: dict[str, Any]) -> Answer:
        self._version += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = body
        return json_response(body, 201)


def lost() -> DisconnectedError:
    return DisconnectedError("the connection broke")
