"""Execute batches: `POST /writes`, Mooring's own endpoint for its scheduler and controllers.

Each write has the outcome that it would have alone: it is authorized, admitted, charged to quotas, counted and audited,
and has a response. A batch saves HTTP, the store commits it in one round, and rows of one template share an admission
(``registry/verbs/templates.py``). Batches begin one per turn of the event loop, so that other requests and the disk
need not wait for a burst; Leases never wait. ``client/batching.py`` sends them, as ``api/batch_writes.py`` says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import parse_qs

import msgspec
from msgspec.structs import replace

from mooring.api import errors
from mooring.api.batch_writes import JSON, NOTHING, PATH, Row, Write, WriteResult, WriteResults, Writes
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.registry.handler import Batch

MAX_WRITES = 500
_MAX_BYTES = 64 * 1024 * 1024
"""The maximum number of bytes of all documents of a batch, with that of a template once for each row."""
_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_LEASES = "/apis/coordination.k8s.io/"

Respond = Callable[[Batch], Awaitable[list[Response]]]
"""A function that responds to writes that differ only in names, bodies and rows. It never raises."""
_PartKey: TypeAlias = tuple[str, str, str, str, str, str, bool]
_DECODER = msgspec.json.Decoder(Writes)
_ENCODER = msgspec.json.Encoder()


class WriteBatches:
    """Handles `POST /writes`, by which Mooring's own components send many writes in one request."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._turn = asyncio.Lock()
        """Held for a turn of the event loop, so that one batch begins in each."""

    async def handle(self, request: Request) -> Response:
        """Execute all writes in a body; respond with their outcomes. Raise BadRequest if the body is malformed."""
        if request.method != "POST":
            raise errors.method_not_allowed(request.method.lower(), PATH)
        if request.query:
            raise errors.bad_request(f"{PATH} has no parameters: each write has its own, in its field `query`")
        if any(name.startswith("impersonate-") for name in request.headers):
            raise errors.bad_request("a batch of writes cannot be sent with impersonation headers")
        writes = _decode_writes(request.body)
        if not all(write.path.startswith(_LEASES) for write in writes):
            await self._turn.acquire()
            asyncio.get_running_loop().call_soon(self._turn.release)
        answers: dict[tuple[int, int], WriteResult] = {}

        async def respond(places: Sequence[tuple[int, int]], batch: Batch) -> None:
            responses = await self._respond(batch)
            answers.update(zip(places, map(_to_write_result, responses), strict=True))

        await asyncio.gather(*(respond(*part) for part in _group_writes(request, writes)))
        return Response(200, _ENCODER.encode(WriteResults([answers[place] for place in sorted(answers)])))


def _decode_writes(body: bytes) -> list[Write]:
    """Return the writes in a body; raise BadRequest if it is malformed, RequestEntityTooLarge if too large."""
    try:
        writes = _DECODER.decode(body).items
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"the body is no batch of writes: {error}") from None
    count = sum(len(write.rows) or 1 for write in writes)
    if count > MAX_WRITES:
        raise errors.request_entity_too_large(f"{count} writes, a batch has at most {MAX_WRITES}")
    size = sum(len(bytes(write.body)) * (len(write.rows) or 1) for write in writes)
    if size > _MAX_BYTES:
        raise errors.request_entity_too_large(f"documents of {size} bytes, a batch has at most {_MAX_BYTES}")
    for index, write in enumerate(writes):
        if wrong := _find_invalid_field(write):
            raise errors.bad_request(f"items[{index}]{wrong}")
    return writes


def _find_invalid_field(write: Write) -> str:
    """Return the name of a write's first invalid field and why it is invalid; empty if all are valid."""
    if write.method not in _METHODS or not write.path.startswith(("/api/", "/apis/")):
        return f": {write.method} {write.path[:200]} writes no object"
    if write.accept.partition(";")[0] != JSON or "," in write.accept:
        return f".accept: responses in a batch are JSON: {write.accept[:200]}"
    if write.rows:
        if _split_path(write.path)[:2] != (write.path, ""):
            return f".path: rows need the path of a collection in a namespace: {write.path[:200]}"
        for number, row in enumerate(write.rows):
            if (write.method != "POST" or write.subresource) and (not row.name or "/" in row.name):
                return f".rows[{number}].name: the name of the object that is written"
            if row.creation_timestamp:
                return f".rows[{number}].creationTimestamp: is set by the server"
    elif write.subresource:
        return ".subresource: belongs into the path where there are no rows"
    is_update = write.method == "PUT" and bool(write.rows or _split_path(write.path)[1])
    if write.then_delete != NOTHING and not is_update:
        return ".thenDelete: only an update (PUT) of an object in a namespace can be followed by its deletion"
    return ""


def _group_writes(request: Request, writes: Sequence[Write]) -> Iterator[tuple[list[tuple[int, int]], Batch]]:
    """Yield groups of writes to execute together, each with the indexes of its responses.

    A group has the rows of one template, or writes that differ only in the object's name and the body.
    """
    singles: dict[_PartKey, list[int]] = {}
    for index, write in enumerate(writes):
        if write.rows:
            yield [(index, number) for number in range(len(write.rows))], _make_batch(request, [write])
            continue
        collection, _, subresource = _split_path(write.path)
        ends = write.then_delete != NOTHING
        key = (write.method, collection or write.path, subresource, write.query, write.content_type, write.accept, ends)
        singles.setdefault(key, []).append(index)
    for indexes in singles.values():
        yield [(index, 0) for index in indexes], _make_batch(request, [writes[index] for index in indexes])


def _split_path(path: str) -> tuple[str, str, str]:
    """Return the URL path of a write's collection, the name and the subresource; all empty if no namespace has it.

    >>> _split_path("/api/v1/namespaces/default/pods/web/status"), _split_path("/api/v1/namespaces/default/pods")
    (('/api/v1/namespaces/default/pods', 'web', 'status'), ('/api/v1/namespaces/default/pods', '', ''))
    """
    parts = path.split("/")
    at = 5 if parts[1] == "api" else 6
    if not at < len(parts) <= at + 3 or parts[at - 2] != "namespaces" or "" in parts[1:]:
        return "", "", ""
    name, subresource, *_ = *parts[at + 1 :], "", ""
    return "/".join(parts[: at + 1]), name, subresource


def _make_batch(batch: Request, writes: Sequence[Write]) -> Batch:
    """Return the requests of some writes, one for each row where a write has rows, and the deletions after them."""
    requests: list[Request] = []
    deletions: list[Request] = []
    for write in writes:
        first = _request(batch, write)
        is_create = write.method == "POST" and not write.subresource
        end = f"/{write.subresource}" if write.subresource else ""
        paths = [write.path if is_create else f"{write.path}/{row.name}{end}" for row in write.rows]
        made = [
            replace(first, path=path, row=row, audit_annotations={})
            for path, row in zip(paths, write.rows, strict=True)
        ] or [first]
        requests += made
        if write.then_delete != NOTHING:
            subresource = write.subresource or _split_path(write.path)[2]
            headers = {**first.headers, "content-type": JSON}
            deletion = replace(first, method="DELETE", query={}, headers=headers, body=bytes(write.then_delete))
            for each in made:
                own = Row(each.row.name, each.row.uid) if each.row is not None else None
                path = each.path.removesuffix(f"/{subresource}") if subresource else each.path
                deletions.append(replace(deletion, path=path, row=own, audit_annotations={}))
    return Batch(requests, deletions=deletions)


def _request(batch: Request, write: Write) -> Request:
    return Request(
        method=write.method,
        path=write.path,
        query=parse_qs(write.query, keep_blank_values=True) if write.query else {},
        headers={"user-agent": batch.user_agent, "content-type": write.content_type, "accept": write.accept},
        body=b"" if write.body == NOTHING else bytes(write.body),
        user=batch.user,
        omit_body=write.omit_body,
    )


def _to_write_result(response: Response) -> WriteResult:
    body = response.body if isinstance(response.body, bytes) else b""
    return WriteResult(
        response.status,
        msgspec.Raw(body or b"null"),
        response.headers.get("retry-after", ""),
        list(response.warnings),
    )
