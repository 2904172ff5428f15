"""A transport that sends writes in batches, where the server takes them (Mooring: `POST /writes`; upstream does not).

    client = Client(BatchingTransport(HttpsTransport(connection)), …)

A lone write is sent alone, immediately. Writes that arrive while others of their kind and verb are in flight are sent
as one batch when these are done, with the document of a template once. Creates of pods, their status, events and so on
do not wait for one another, so that a slow webhook delays no leases. The server's side is
``apiserver/requests/batch.py``.
"""

import asyncio
from collections import deque
from urllib.parse import urlencode

import msgspec
from msgspec import structs

from mooring.api.batch_writes import JSON, NOTHING, PATH, Row, Write, WriteResults, Writes
from mooring.base import logs
from mooring.client.errors import DisconnectedError
from mooring.client.transport import Request, Response, Stream, Transport

_MAX_WRITES = 100
"""The maximum number of writes in a batch: a server executes all of a batch before it does anything else."""
_MAX_BYTES = 1024 * 1024
_CONCURRENT_BATCHES = 4
"""The maximum number of concurrent batches per queue: while one is executed, others are sent."""
_NOT_OFFERED = frozenset({403, 404, 405})
_TOO_LARGE = 413
log = logs.get(__name__)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(WriteResults)


class _PendingWrite(msgspec.Struct):
    """A write that waits to be sent, and the future of its response."""

    request: Request
    timeout: float
    answer: "asyncio.Future[Response]"


class _WriteQueue(msgspec.Struct):
    """Writes that wait to be sent and may share a batch: their method, resource and subresource are the same."""

    waiting: deque[_PendingWrite] = msgspec.field(default_factory=deque)
    in_flight: int = 0
    is_scheduled: bool = False
    """Whether a task that sends the queue's next batch has been started."""


class BatchingTransport:
    """A transport over another one that sends concurrent JSON writes of one method and resource as `POST /writes`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._queues: dict[tuple[str, ...], _WriteQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.takes_templates = True
        """Whether the server supports batches; True until it refused one."""

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        if not self.takes_templates or not _may_batch(request):
            return await self._transport.send(_encode_body(request), timeout)
        queue = self._queues.setdefault(_make_queue_key(request), _WriteQueue())
        waiting = _PendingWrite(request, timeout, asyncio.get_running_loop().create_future())
        queue.waiting.append(waiting)
        self._schedule_batch(queue)
        return await waiting.answer

    async def stream(self, request: Request, timeout: float) -> Stream:  # noqa: ASYNC109 - as above
        return await self._transport.stream(request, timeout)

    async def close(self) -> None:
        await self._transport.close()

    # -- how

    def _schedule_batch(self, queue: _WriteQueue) -> None:
        """Schedule `_start_batches` for the event loop's next iteration, when all ready tasks have queued writes."""
        if not queue.is_scheduled and queue.in_flight < _CONCURRENT_BATCHES:
            queue.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._start_batches, queue)

    def _start_batches(self, queue: _WriteQueue) -> None:
        queue.is_scheduled = False
        while queue.waiting and queue.in_flight < _CONCURRENT_BATCHES:
            group = _next_batch(queue.waiting)
            if group:
                queue.in_flight += 1
                task = asyncio.get_running_loop().create_task(self._send_batch(queue, group))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _send_batch(self, queue: _WriteQueue, group: list[_PendingWrite]) -> None:
        try:
            if len(group) == 1 or not self.takes_templates:
                await asyncio.gather(*map(self._send_alone, group))
                return
            batch, group[:] = _make_batch_request(group)
            response = await self._transport.send(batch, max(each.timeout for each in group))
            if response.status in _NOT_OFFERED or response.status == _TOO_LARGE:
                self.takes_templates = response.status == _TOO_LARGE
                log.info("this server takes no such batch of writes, sending them one by one: %s", response.status)
                await asyncio.gather(*map(self._send_alone, group))
                return
            for each, answer in zip(group, split_batch_response(response, len(group)), strict=True):
                answer.has_deleted = bool(each.request.then_delete)
                if not each.answer.done():
                    each.answer.set_result(answer)
        except BaseException as error:  # every caller gets it, whatever it is
            shown = error if isinstance(error, Exception) else DisconnectedError("this client was closed")
            for each in group:
                if not each.answer.done():
                    each.answer.set_exception(shown)
            if not isinstance(error, Exception):
                raise
        finally:
            queue.in_flight -= 1
            if queue.waiting:
                self._schedule_batch(queue)

    async def _send_alone(self, each: _PendingWrite) -> None:
        try:
            answer = await self._transport.send(_encode_body(each.request), each.timeout)
        except Exception as error:
            if not each.answer.done():
                each.answer.set_exception(error)
        else:
            if not each.answer.done():
                each.answer.set_result(answer)


def _may_batch(request: Request) -> bool:
    """Return whether `POST /writes` may contain a request: a JSON write below 1 MiB, without a response limit."""
    return (
        request.method not in {"GET", "HEAD"}
        and request.headers.get("content-type", JSON).endswith("json")
        and request.path.startswith(("/api/", "/apis/"))
        and not request.max_response_bytes
        and len(request.body) < _MAX_BYTES
    )


def _make_queue_key(request: Request) -> tuple[str, ...]:
    """Return method (`PUT DELETE` if `then_delete` is set), resource and subresource, equal in all writes of a batch.

    >>> _make_queue_key(Request("PUT", "/api/v1/namespaces/default/pods/web-1/status"))
    ('PUT', 'pods', 'status')
    """
    parts = request.path.split("/")
    parts = parts[3:] if parts[1] == "api" else parts[4:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    method = f"{request.method} DELETE" if request.then_delete else request.method
    return (method, parts[0] if parts else "", *parts[2:])


def _next_batch(waiting: deque[_PendingWrite]) -> list[_PendingWrite]:
    """Remove the oldest waiting writes, as many as one batch may have, and return those not cancelled."""
    group: list[_PendingWrite] = []
    size = 0
    while waiting and len(group) < _MAX_WRITES and size + len(waiting[0].request.body) <= _MAX_BYTES:
        each = waiting.popleft()
        if not each.answer.done():
            group.append(each)
            size += len(each.request.body)
    return group


def _encode_body(request: Request) -> Request:
    """Return a write with its object encoded as its body, if it has only a template and row, for sending it alone."""
    if request.body or request.templated is None:
        return request
    return structs.replace(request, body=request.templated.encode())


def _make_batch_request(group: list[_PendingWrite]) -> tuple[Request, list[_PendingWrite]]:
    """Return the `POST /writes` request for some writes, and these writes in the order of its responses."""
    items: dict[object, tuple[list[_PendingWrite], bytes, list[Row]]] = {}
    known: dict[int, tuple[bytes, Row]] = {}
    for each in group:
        templated = each.request.templated
        if templated is None:
            items[id(each)] = ([each], b"", [])
            continue
        found = known.get(id(templated.source))
        if found is None:
            found = known[id(templated.source)] = templated.split()
        template, row = found
        key = (templated.collection, template, templated.then_delete, each.request.omit_body)
        writers, _, rows = items.setdefault(key, ([], template, []))
        writers.append(each)
        rows.append(row)
    guards = {id(guard): guard for each in group if (guard := each.request.guard) is not None}

    def check_guards() -> None:
        for guard in guards.values():
            guard()

    headers = {name: value for name, value in group[0].request.headers.items() if name == "user-agent"}
    headers |= {"accept": JSON, "content-type": JSON}
    body = _ENCODER.encode(Writes([_make_write(*item) for item in items.values()]))
    in_order = [each for writers, _, _ in items.values() for each in writers]
    return Request("POST", PATH, (), headers, body, check_guards), in_order


def _make_write(writers: list[_PendingWrite], template: bytes, rows: list[Row]) -> Write:
    """Return an item of a batch: a template with the rows of several writes, or the whole of a single write."""
    first = writers[0].request
    path, subresource, body, then_delete = first.path, "", template, first.then_delete
    if len(writers) == 1 or first.templated is None:
        body, rows = _encode_body(first).body, []
    else:
        path, subresource = first.templated.collection, first.templated.subresource
        then_delete = first.templated.then_delete
    return Write(
        first.method,
        path,
        urlencode(first.query) if first.query else "",
        first.headers.get("content-type", JSON),
        JSON if first.omit_body else first.headers.get("accept", JSON),
        msgspec.Raw(body) if body else NOTHING,
        first.omit_body,
        msgspec.Raw(then_delete) if then_delete else NOTHING,
        subresource,
        rows,
    )


def split_batch_response(response: Response, count: int) -> list[Response]:
    """Split the response to a batch into one for each write; an error response is repeated. Raise DisconnectedError."""
    if response.status >= 400:
        return [response] * count
    try:
        answers = _DECODER.decode(response.body).items
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DisconnectedError(f"the server sent no response to a batch of writes: {error}") from None
    if len(answers) != count:
        raise DisconnectedError(f"the server answered {count} writes with {len(answers)} outcomes")
    return [
        Response(
            answer.code,
            {"retry-after": answer.retry_after} if answer.retry_after else {},
            bytes(answer.body),
            answer.warnings,
        )
        for answer in answers
    ]
