"""The requests of a dashboard: check who asks, find the view, and wrap its answer in a response.

    GET  /TOKEN/…                 pages; with `?format=json` what they show as data
    GET  /TOKEN/events            server-sent events: a revision whenever something has changed
    GET  /TOKEN/static/NAME       style sheet and scripts
    POST /TOKEN/changes/…         only with `--allow-changes`: what a button would do, and doing it

Read next: ``gate.py`` for who may ask, ``views/`` for what they see, ``layout.py`` for what is around it.
"""

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import resources
from urllib.parse import parse_qs, unquote

import msgspec

from mooring.advisor.simulate.html.style import CSS
from mooring.apiserver.edge.calls import BodyTooLargeError, ClientGoneError, HttpCall
from mooring.apiserver.messages.http import Response
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


class App:
    """The HTTP application of one dashboard: routes requests to views."""

    def __init__(self, cluster: Watching, gate: Gate) -> None:
        self._cluster = cluster
        self._gate = gate
        self._links = Links(f"/{gate.token}/", gate.changing)
        self._streams = 0

    async def serve(self, call: HttpCall) -> Response:
        """Return the response to a request of a browser. Never raise."""
        try:
            response = await self._respond(call)
        except RefusedError as error:
            response = Response(error.status, f"{error!s}\n".encode(), "text/plain; charset=utf-8")
        except (NotFoundError, BadRequestError) as error:
            status = 404 if isinstance(error, NotFoundError) else 400
            response = _html_response(layout.problem(str(error), self._cluster, self._links), status)
        except Exception:
            log.exception("a page could not be made")
            response = _html_response(layout.problem(_DEFECT, self._cluster, self._links), 500)
        response.headers = {**HEADERS, **response.headers}
        return response

    async def _respond(self, call: HttpCall) -> Response:
        path = call.target.partition(b"?")[0].decode("latin-1")
        if path == "/favicon.ico":  # browsers ask for it beside fragments, which name no icon
            return _static("icon.svg")
        rest = self._gate.check(call.method, path, call.headers)
        parts = tuple(unquote(part) for part in rest.split("/"))
        method, query = call.method, _values(call.query)
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
                self._gate.check_change(call.headers)
        if found is None:
            raise NotFoundError("there is no such page")
        view, names = found
        values = query if method != "POST" else {**query, **_values(await _body(call))}
        if not await self._is_readable():
            return _html_response(layout.waiting(self._cluster, self._links), 200)
        return self._build_response(await view(Asked(self._cluster, self._links, names, values)), query)

    async def _is_readable(self) -> bool:
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                return await self._cluster.ready()
        except TimeoutError:
            return False

    def _build_response(self, answer: Answer, query: Mapping[str, list[str]]) -> Response:
        if isinstance(answer, File):
            name = answer.name.replace('"', "").encode("latin-1", "replace").decode("latin-1")
            return Response(
                200, answer.body, answer.content_type, {"content-disposition": f'attachment; filename="{name}"'}
            )
        if query.get("format") == ["json"]:
            return Response(200, msgspec.json.encode(answer.model))
        if isinstance(answer, Page):
            return _html_response(layout.page(answer, self._cluster, self._links), 200)
        return _html_response(str(answer.body), 200)

    # -- live

    def _events(self) -> Response:
        if self._streams >= _MOST_STREAMS:
            raise RefusedError(429, "so many pages are open already that this one is not kept up to date")
        return Response(200, self._news(), "text/event-stream", ends_with_server=True)

    async def _news(self) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            while True:
                state = "behind" if self._cluster.is_behind else "live" if self._cluster.access.is_live else "still"
                revision = self._cluster.revision
                yield f"data: {revision} {state}\n\n".encode()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_QUIET_SECONDS):
                        await self._cluster.wait_for_change(revision)
        finally:
            self._streams -= 1


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


async def _body(call: HttpCall) -> bytes:
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await call.receive_body(_MOST_BYTES)
    except BodyTooLargeError:
        raise RefusedError(413, f"this is larger than {_MOST_BYTES} bytes") from None
    except ClientGoneError:
        raise BadRequestError("the request has ended too early") from None
    except TimeoutError:
        raise RefusedError(408, "the request did not arrive in time") from None


# -- files


def _html_response(document: str, status: int) -> Response:
    return Response(status, document.encode(), _HTML)


def _static(name: str) -> Response:
    found = _files().get(name)
    if found is None:
        raise NotFoundError("there is no such file")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(200, found, f"{kind}; charset=utf-8", {"cache-control": "private, max-age=3600"})


@cache
def _files() -> dict[str, bytes]:
    folder = resources.files("mooring.dashboard") / "static"
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    return {**found, "report.css": CSS.encode()}
