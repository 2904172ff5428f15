"""The dashboard as an ASGI application: checks who asks, finds the view, and wraps what it answers.

    GET  /TOKEN/…                 pages; with `?format=json` what they show as data
    GET  /TOKEN/events            server-sent events: a revision whenever something has changed
    GET  /TOKEN/static/NAME       style sheet and scripts
    POST /TOKEN/changes/…         only with `--allow-changes`: what a button would do, and doing it

Read next: ``gate.py`` for who may ask, ``views/`` for what they see, ``layout.py`` for what is around it.
"""

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec

from mooring.advisor.simulate.html.style import CSS
from mooring.apiserver.edge.sending import (
    BodyTooLargeError,
    ClientGoneError,
    Receive,
    Send,
    receive_body,
    respond,
    send_stream,
)
from mooring.base import logs
from mooring.dashboard import layout
from mooring.dashboard.asking import Answer, Asked, BadRequestError, File, Links, NotFoundError, Page, View
from mooring.dashboard.gate import HEADERS, Gate, RefusedError
from mooring.dashboard.views import CHANGES, ROUTES
from mooring.dashboard.watching import Watching

_MOST_BYTES = 4 * 1024 * 1024
_MOST_STREAMS = 32
_BODY_SECONDS = 30.0
_QUIET_SECONDS = 15.0
"""The seconds after which a comment is sent on an idle stream, so that both ends notice a lost connection."""
_FIRST_SECONDS = 1.5
"""The seconds for which a page waits for the cluster to be read, before it shows the progress instead."""
_HTML = "text/html; charset=utf-8"
log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes | AsyncIterator[bytes]
    content_type: str
    headers: Mapping[str, str]


class App:
    """One dashboard."""

    def __init__(self, cluster: Watching, gate: Gate) -> None:
        self._cluster = cluster
        self._gate = gate
        self._links = Links(f"/{gate.token}/", gate.changing)
        self._streams = 0
        self.stopping = asyncio.Event()
        """Set when streams should end."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("latin-1")
        if path == "/favicon.ico":  # browsers ask for it beside fragments, which name no icon
            await _send(send, receive, _static("icon.svg"))
            return
        try:
            rest = self._gate.check(scope["method"], path, headers)
            reply = await self._reply(scope, rest, headers, receive)
        except RefusedError as error:
            reply = _Reply(error.status, f"{error!s}\n".encode(), "text/plain; charset=utf-8", {})
        except (NotFoundError, BadRequestError) as error:
            status = 404 if isinstance(error, NotFoundError) else 400
            reply = self._html_reply(layout.problem(str(error), self._cluster, self._links), status)
        except Exception:
            log.exception("a page could not be made")
            reply = self._html_reply(layout.problem(_DEFECT, self._cluster, self._links), 500)
        await _send(send, receive, reply)

    async def _reply(self, scope: Any, rest: str, headers: Mapping[str, str], receive: Any) -> _Reply:
        parts = tuple(unquote(part) for part in rest.split("/"))
        method, query = scope["method"], _values(scope["query_string"])
        if method in ("GET", "HEAD"):
            if parts[0] == "static" and len(parts) == 2:
                return _static(parts[1])
            if parts == ("events",):
                return self._events()
        elif method != "POST":
            raise RefusedError(405, "only GET and POST are answered here")
        found = _route(ROUTES, method, parts)
        if found is None and self._gate.changing:
            found = _route(CHANGES, method, parts)
            if found is not None:
                self._gate.check_change(headers)
        if found is None:
            raise NotFoundError("there is no such page")
        view, path = found
        values = query if method != "POST" else {**query, **_values(await _body(receive))}
        if not await self._is_readable():
            return self._html_reply(layout.waiting(self._cluster, self._links), 200)
        return self._build_reply(await view(Asked(self._cluster, self._links, path, values)), query)

    async def _is_readable(self) -> bool:
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                return await self._cluster.ready()
        except TimeoutError:
            return False

    def _build_reply(self, answer: Answer, query: Mapping[str, list[str]]) -> _Reply:
        if isinstance(answer, File):
            name = answer.name.replace('"', "")
            return _Reply(
                200, answer.body, answer.content_type, {"content-disposition": f'attachment; filename="{name}"'}
            )
        if query.get("format") == ["json"]:
            return _Reply(200, msgspec.json.encode(answer.model), "application/json", {})
        if isinstance(answer, Page):
            return self._html_reply(layout.page(answer, self._cluster, self._links), 200)
        return _Reply(200, str(answer.body).encode(), _HTML, {})

    def _html_reply(self, document: str, status: int) -> _Reply:
        return _Reply(status, document.encode(), _HTML, {})

    # -- live

    def _events(self) -> _Reply:
        if self._streams >= _MOST_STREAMS:
            raise RefusedError(429, "so many pages are open already that this one is not kept up to date")
        return _Reply(200, self._news(), "text/event-stream", {})

    async def _news(self) -> AsyncIterator[bytes]:
        self._streams += 1
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            while not stopping.done():
                state = "behind" if self._cluster.is_behind else "live" if self._cluster.access.is_live else "still"
                revision = self._cluster.revision
                yield f"data: {revision} {state}\n\n".encode()
                change = asyncio.create_task(self._cluster.wait_for_change(revision))
                try:
                    await asyncio.wait({change, stopping}, timeout=_QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    change.cancel()
                    await asyncio.gather(change, return_exceptions=True)
        finally:
            self._streams -= 1
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)


_DEFECT = "This page could not be made, through a defect in Mooring. What went wrong is in the log of the command."


Routes = Mapping[tuple[str, tuple[str, ...]], View]


def _route(routes: Routes, method: str, parts: tuple[str, ...]) -> tuple[View, tuple[str, ...]] | None:
    wanted = "POST" if method == "POST" else "GET"
    for (own, pattern), view in routes.items():
        if own == wanted and len(pattern) == len(parts):
            pairs = list(zip(pattern, parts, strict=True))
            if all(mark in ("*", part) for mark, part in pairs):
                return view, tuple(part for mark, part in pairs if mark == "*")
    return None


def _values(text: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(text.decode(), keep_blank_values=True, max_num_fields=200)
    except ValueError as error:
        raise BadRequestError(f"the request cannot be read: {error}") from error


async def _body(receive: Receive) -> bytes:
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await receive_body(receive, _MOST_BYTES)
    except BodyTooLargeError:
        raise RefusedError(413, f"this is larger than {_MOST_BYTES} bytes") from None
    except ClientGoneError:
        raise BadRequestError("the request has ended too early") from None
    except TimeoutError:
        raise RefusedError(408, "the request did not arrive in time") from None


# -- files


def _static(name: str) -> _Reply:
    found = _files().get(name)
    if found is None:
        raise NotFoundError("there is no such file")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return _Reply(200, found, f"{kind}; charset=utf-8", {"cache-control": "private, max-age=3600"})


@cache
def _files() -> dict[str, bytes]:
    folder = resources.files("mooring.dashboard") / "static"
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    return {**found, "report.css": CSS.encode()}


# -- sending


async def _send(send: Send, receive: Receive, reply: _Reply) -> None:
    given = {**HEADERS, **reply.headers}
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in given.items()]
    if isinstance(reply.body, bytes):
        await respond(send, reply.status, reply.body, reply.content_type, headers)
        return
    start = [(b"content-type", reply.content_type.encode()), *headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": start})
    try:
        await send_stream(reply.body, receive, send)
    finally:
        close = getattr(reply.body, "aclose", None)
        if close is not None:
            await close()
