"""Many writes in one request: `POST /writes`, Mooring's own, for its scheduler and controllers.

Every write of a group is what it would be alone: it is authorised, admitted, judged by policies and webhooks, counted
and audited by itself, and has an answer of its own. A group saves HTTP, and the store has all of it in one round; equal
pods, as a ReplicaSet makes them, are judged once where no policy or webhook wants to hear of each, and writes of one
sort one after the other (``registry/batch_writer.py``).
Groups begin one after the other, with a turn of the event loop between them: in a rush many of them are there at a
time, and other requests, and the disk, need not wait for all. Heartbeats, which are leases, never wait for their turn.
Answers come when all writes of the group have been done or refused. The other side is ``client/grouped.py``; what goes
between them, ``api/write_groups.py``.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import parse_qs

import msgspec

from mooring.api import errors
from mooring.api.write_groups import JSON, NOTHING, PATH, Answer, Answers, Write, Writes
from mooring.apiserver.messages.http import Request, Response

MOST_WRITES = 500
_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_MADE_UP = b'"generateName"'
_LEASES = "/apis/coordination.k8s.io/"

Respond = Callable[[Request], Awaitable[Response]]
"""Answers one write, as if it had been sent alone. Never raises."""
RespondAlike = Callable[[Request, int], Awaitable[list[Response]]]
"""The same for so many equal writes."""
RespondTogether = Callable[[Sequence[Request]], Awaitable[list[Response]]]
"""The same for writes that differ in names and bodies only."""
RespondEnding = Callable[[Sequence[Request], Sequence[Request]], Awaitable[list[Response]]]
"""The same for such writes, each with the deletion that follows it."""


_Sort: TypeAlias = tuple[str, str, str, str, str, str, bool]
_DECODER = msgspec.json.Decoder(Writes)
_ENCODER = msgspec.json.Encoder()


class _Turns:
    """Lets one begin in each turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False

    async def take(self) -> None:
        loop = asyncio.get_running_loop()
        if self._is_taken:
            turn = loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._is_taken = True
            loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else nobody waits for it any longer
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._is_taken = False


class WriteGroups:
    """Answers groups of writes."""

    def __init__(
        self,
        respond: Respond,
        respond_alike: RespondAlike,
        respond_together: RespondTogether,
        respond_ending: RespondEnding,
    ) -> None:
        self._respond = respond
        self._respond_alike = respond_alike
        self._respond_together = respond_together
        self._respond_ending = respond_ending
        self._turns = _Turns()

    async def handle(self, request: Request) -> Response:
        """Do all writes of a group; raises BadRequest for what is none."""
        if request.method != "POST":
            raise errors.method_not_allowed(request.method.lower(), PATH)
        if any(name.startswith("impersonate-") for name in request.headers):
            raise errors.bad_request("a group of writes cannot be sent on behalf of somebody else")
        writes = _read(request.body)
        if not all(write.path.startswith(_LEASES) for write in writes):
            await self._turns.take()
        answers: dict[int, Answer] = {}

        async def answer(indexes: list[int], are_equal: bool) -> None:
            those = [writes[index] for index in indexes]
            requests = _requests(request, those)
            if those[0].then_delete != NOTHING:
                deletions = _requests(request, _deletions(those))
                responses = await self._respond_ending(requests, deletions)
            elif len(indexes) == 1:
                responses = [await self._respond(requests[0])]
            elif are_equal:
                responses = await self._respond_alike(requests[0], len(indexes))
            else:
                responses = await self._respond_together(requests)
            answers.update(zip(indexes, map(_answer, responses), strict=True))

        await asyncio.gather(*(answer(*part) for part in _parted(writes)))
        return Response(200, _ENCODER.encode(Answers([answers[index] for index in range(len(writes))])))


def _read(body: bytes) -> list[Write]:
    """The writes of a group; raises BadRequest and RequestEntityTooLarge."""
    try:
        writes = _DECODER.decode(body).items
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"the body is no group of writes: {error}") from None
    if len(writes) > MOST_WRITES:
        raise errors.request_entity_too_large(f"{len(writes)} writes, at most {MOST_WRITES} go into a group")
    for index, write in enumerate(writes):
        if write.method not in _METHODS or not write.path.startswith(("/api/", "/apis/")):
            raise errors.bad_request(f"items[{index}]: {write.method} {write.path[:200]} writes no object")
        if write.accept.partition(";")[0] != JSON or "," in write.accept:
            raise errors.bad_request(f"items[{index}].accept: answers in a group are JSON: {write.accept[:200]}")
        if write.then_delete != NOTHING and not (write.method == "PUT" and _place(write.path)[0] != write.path):
            why = "only an update (PUT) of an object in a namespace can be followed by its deletion"
            raise errors.bad_request(f"items[{index}].thenDelete: {why}")
    return writes


def _parted(writes: Sequence[Write]) -> Iterator[tuple[list[int], bool]]:
    """Which writes are worked on together, each by its place, and whether they are equal.

    Those with made-up names that say the same are judged once for all; those that differ in the object's name alone,
    apart from what they say, one after the other.
    """
    equal: dict[tuple[_Sort, bytes, bool], list[int]] = {}
    alike: dict[_Sort, list[int]] = {}
    for index, write in enumerate(writes):
        collection, subresource = _place(write.path)
        ends = write.then_delete != NOTHING
        sort = (write.method, collection, subresource, write.query, write.content_type, write.accept, ends)
        if write.method == "POST" and _MADE_UP in bytes(write.body):
            equal.setdefault((sort, bytes(write.body), write.unread), []).append(index)
        else:
            alike.setdefault(sort, []).append(index)
    for (sort, _, _), indexes in equal.items():
        if len(indexes) > 1:
            yield indexes, True
        else:
            alike.setdefault(sort, []).extend(indexes)
    for indexes in alike.values():
        yield indexes, False


def _place(path: str) -> tuple[str, str]:
    """The collection that a path is in, and the subresource that it names; the object's name is between them.

    >>> _place("/api/v1/namespaces/default/pods/web/status"), _place("/api/v1/namespaces/default/pods")
    (('/api/v1/namespaces/default/pods', 'status'), ('/api/v1/namespaces/default/pods', ''))
    """
    parts = path.split("/")
    at = 5 if parts[1] == "api" else 6
    if len(parts) < at + 1 or len(parts) > at + 3 or parts[at - 2] != "namespaces" or "" in parts[1:]:
        return path, ""
    return "/".join(parts[: at + 1]), parts[at + 2] if len(parts) > at + 2 else ""


def _requests(group: Request, writes: Sequence[Write]) -> list[Request]:
    """Writes of one sort as requests, which have in common what makes them one."""
    first = writes[0]
    query = parse_qs(first.query, keep_blank_values=True) if first.query else {}
    headers = {"user-agent": group.user_agent, "content-type": first.content_type, "accept": first.accept}
    return [
        Request(
            method=write.method,
            path=write.path,
            query=query,
            headers=headers,
            body=b"" if write.body == NOTHING else bytes(write.body),
            user=group.user,
            is_unread=write.unread,
        )
        for write in writes
    ]


def _deletions(writes: Sequence[Write]) -> list[Write]:
    """The deletions that follow writes of one sort, of the objects themselves."""
    subresource = _place(writes[0].path)[1]
    behind = f"/{subresource}" if subresource else ""
    return [
        Write(
            "DELETE",
            write.path.removesuffix(behind),
            accept=write.accept,
            body=write.then_delete,
            unread=write.unread,
        )
        for write in writes
    ]


def _answer(response: Response) -> Answer:
    body = response.body if isinstance(response.body, bytes) else b""
    return Answer(
        response.status,
        msgspec.Raw(body or b"null"),
        response.headers.get("retry-after", ""),
        list(response.warnings),
    )
