"""A transport that sends writes in groups, where the server takes them (Mooring: `POST /writes`; Kubernetes does not).

    client = Client(GroupedTransport(HttpsTransport(connection)), …)

Whoever uses the client notices nothing. A write that comes alone is sent alone, and at once; what comes while others of
its sort are on their way goes together when they are back. Sorts (creations of pods, their status, events, …) do not
wait for one another, so that a webhook which takes its time delays no leases. The other side is
``apiserver/requests/batch.py``.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from urllib.parse import urlencode

import msgspec

from mooring.api.write_groups import JSON, NOTHING, PATH, Answers, Write, Writes
from mooring.base import logs
from mooring.client.errors import DisconnectedError
from mooring.client.transport import Request, Response, Stream, Transport

_MOST_WRITES = 100
"""A server works on all of a group before it does anything else."""
_MOST_BYTES = 1024 * 1024
_AT_ONCE = 4
"""Groups of a sort on their way: while the server works on one, others travel, are brought to the disk, are read."""
_NOT_OFFERED = frozenset({403, 404, 405})
_TOO_LARGE = 413
log = logs.get(__name__)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Answers)


class _Waiting(msgspec.Struct):
    request: Request
    timeout: float
    answer: "asyncio.Future[Response]"


class _Lane(msgspec.Struct):
    """Writes of one sort."""

    waiting: deque[_Waiting] = msgspec.field(default_factory=deque)
    under_way: int = 0
    is_due: bool = False
    """Whether the next group is about to be made."""


class GroupedTransport:
    """Sends over another transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lanes: dict[tuple[str, ...], _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_offered = True
        """Whether the server takes groups, as far as is known."""

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        if not self.is_offered or not _goes_with_others(request):
            return await self._transport.send(request, timeout)
        lane = self._lanes.setdefault(_sort(request), _Lane())
        waiting = _Waiting(request, timeout, asyncio.get_running_loop().create_future())
        lane.waiting.append(waiting)
        self._look_soon(lane)
        return await waiting.answer

    async def stream(self, request: Request, timeout: float) -> Stream:  # noqa: ASYNC109 - as above
        return await self._transport.stream(request, timeout)

    async def close(self) -> None:
        await self._transport.close()

    # -- how

    def _look_soon(self, lane: _Lane) -> None:
        """Send when all who run now have said what they want to write."""
        if not lane.is_due and lane.under_way < _AT_ONCE:
            lane.is_due = True
            asyncio.get_running_loop().call_soon(self._look, lane)

    def _look(self, lane: _Lane) -> None:
        lane.is_due = False
        while lane.waiting and lane.under_way < _AT_ONCE:
            group = _next_group(lane.waiting)
            if group:
                lane.under_way += 1
                task = asyncio.get_running_loop().create_task(self._send_group(lane, group))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _send_group(self, lane: _Lane, group: list[_Waiting]) -> None:
        try:
            if len(group) == 1 or not self.is_offered:
                await asyncio.gather(*map(self._send_alone, group))
                return
            response = await self._transport.send(_together(group), max(each.timeout for each in group))
            if response.status in _NOT_OFFERED or response.status == _TOO_LARGE:
                self.is_offered = response.status == _TOO_LARGE
                log.info("this server takes no such group of writes, sending them one by one: %s", response.status)
                await asyncio.gather(*map(self._send_alone, group))
                return
            for each, answer in zip(group, _answers(response, len(group)), strict=True):
                answer.has_deleted = bool(each.request.then_delete)
                if not each.answer.done():
                    each.answer.set_result(answer)
        except BaseException as error:  # whoever waits must hear of it, whatever it is
            for each in group:
                if not each.answer.done():
                    each.answer.set_exception(_told(error))
            if not isinstance(error, Exception):
                raise
        finally:
            lane.under_way -= 1
            if lane.waiting:
                self._look_soon(lane)

    async def _send_alone(self, each: _Waiting) -> None:
        try:
            answer = await self._transport.send(each.request, each.timeout)
        except Exception as error:
            if not each.answer.done():
                each.answer.set_exception(error)
        else:
            if not each.answer.done():
                each.answer.set_result(answer)


def _goes_with_others(request: Request) -> bool:
    """Whether a request is a write of JSON that nobody needs to have alone."""
    return (
        request.method not in {"GET", "HEAD"}
        and request.headers.get("content-type", JSON).endswith("json")
        and request.path.startswith(("/api/", "/apis/"))
        and not request.longest_answer
        and len(request.body) < _MOST_BYTES
    )


def _sort(request: Request) -> tuple[str, ...]:
    """What writes of one lane have in common: method, resource and subresource, and whether a deletion follows.

    >>> _sort(Request("PUT", "/api/v1/namespaces/default/pods/web-1/status"))
    ('PUT', 'pods', 'status')
    """
    parts = request.path.split("/")
    parts = parts[3:] if parts[1] == "api" else parts[4:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    method = f"{request.method} DELETE" if request.then_delete else request.method
    return (method, parts[0] if parts else "", *parts[2:])


def _next_group(waiting: deque[_Waiting]) -> list[_Waiting]:
    """Those that go together, the oldest first; nobody waits any more for those that are left out."""
    group: list[_Waiting] = []
    size = 0
    while waiting and len(group) < _MOST_WRITES and size + len(waiting[0].request.body) <= _MOST_BYTES:
        each = waiting.popleft()
        if not each.answer.done():
            group.append(each)
            size += len(each.request.body)
    return group


def _together(group: list[_Waiting]) -> Request:
    requests = [each.request for each in group]
    writes = [
        Write(
            request.method,
            request.path,
            urlencode(request.query) if request.query else "",
            request.headers.get("content-type", JSON),
            JSON if request.is_unread else request.headers.get("accept", JSON),
            msgspec.Raw(request.body) if request.body else NOTHING,
            request.is_unread,
            msgspec.Raw(request.then_delete) if request.then_delete else NOTHING,
        )
        for request in requests
    ]
    headers = {name: value for name, value in requests[0].headers.items() if name == "user-agent"}
    headers |= {"accept": JSON, "content-type": JSON}
    guards = {id(request.guard): request.guard for request in requests if request.guard is not None}
    body = _ENCODER.encode(Writes(writes))
    return Request("POST", PATH, (), headers, body, _all_of(list(guards.values())))


def _all_of(guards: list[Callable[[], None]]) -> Callable[[], None] | None:
    if not guards:
        return None

    def guard() -> None:
        for each in guards:
            each()

    return guard


def _answers(response: Response, count: int) -> list[Response]:
    """The answer to each of a group; all get the group's own where that was turned away."""
    if response.status >= 400:
        return [response] * count
    try:
        answers = _DECODER.decode(response.body).items
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DisconnectedError(f"the server sent what is no answer to a group of writes: {error}") from None
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


def _told(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else DisconnectedError("this client was closed")
