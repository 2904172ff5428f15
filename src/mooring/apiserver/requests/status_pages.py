"""`/statusz` and `/flagz` for debugging, as in Kubernetes from 1.36 on, recorded from kube-apiserver 1.37.

Text is for people only. Programs request `application/json;v=v1beta1;g=config.k8s.io;as=Statusz` (`Flagz`, or YAML);
JSON without these parameters and text with them are refused. The right to read metrics includes both pages.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from mooring.api import codec, errors
from mooring.apiserver.messages.http import JSON, YAML, Accepted, Request, Response, by_preference
from mooring.apiserver.options import StatusPages
from mooring.apiserver.output.formats import format_json

_NAME = "apiserver"
_GROUP = "config.k8s.io"
_VERSIONS = ("v1beta1", "v1alpha1")
_TEXT = "text/plain"
_MEDIA_TYPES = (JSON, YAML, _TEXT)
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for"
    " debugging purposes only."
)
_PATHS = ("/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version")


PathHandler = Callable[[Request], Awaitable[Response]]


class StatusPageHandler:
    """Handles `/statusz` and `/flagz` of a server."""

    def __init__(self, pages: StatusPages, flags: Mapping[str, str], now: Callable[[], datetime]) -> None:
        self._pages = pages
        self._flags = flags
        self._now = now
        self._started = now()
        self.handlers: dict[str, PathHandler] = {"/statusz": self.status, "/flagz": self.flags}

    async def status(self, request: Request) -> Response:
        """Return the response to `/statusz`: the server's versions, start time and paths."""
        up = int((self._now() - self._started).total_seconds())
        started = self._started.astimezone(UTC)
        hours, minutes, seconds = up // 3600, up // 60 % 60, up % 60
        lines = [
            f"Started: {started:%a %b %e %H:%M:%S UTC %Y}",
            f"Up: {hours} hr {minutes:02d} min {seconds:02d} sec",
            f"Go version: {self._pages.go_version}",
            f"Binary version: {self._pages.binary_version}",
            f"Emulation version: {self._pages.emulation_version}",
            f"Paths: {' '.join(_PATHS)}",
        ]
        data = {
            "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": up,
            **msgspec.to_builtins(self._pages),
            "paths": list(_PATHS),
        }
        return _make_page(request, "Statusz", ["", *lines], data)

    async def flags(self, request: Request) -> Response:
        """Return the response to `/flagz`: the values of the server's flags."""
        flags = dict(sorted(self._flags.items()))
        return _make_page(request, "Flagz", [f"{name}={value}" for name, value in flags.items()], {"flags": flags})


def _make_page(request: Request, kind: str, lines: list[str], data: dict[str, Any]) -> Response:
    if request.path.rstrip("/").count("/") > 1:
        raise errors.path_not_found()
    for clause in by_preference(request.headers.get("accept", "").strip() or "*/*"):
        group, version, shown_as = (clause.parameters.get(name, "") for name in ("g", "v", "as"))
        for media in _MEDIA_TYPES:
            if clause.media_type not in (media, f"{media.partition('/')[0]}/*", "*/*"):
                continue
            if media == _TEXT and not (group or version or shown_as):
                text = "\n".join(["", f"{_NAME} {kind.lower()}", _WARNING, *lines, ""])
                return Response(200, text.encode(), f"{_TEXT}; charset=utf-8")
            if media != _TEXT and (group, shown_as) == (_GROUP, kind) and version in _VERSIONS:
                return _structured_response(request, media, version, kind, data)
    return _refusal(request)


def _structured_response(request: Request, media: str, version: str, kind: str, data: dict[str, Any]) -> Response:
    tree = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": _NAME}, **data}
    body, _ = format_json(msgspec.json.encode(tree), Accepted("json" if media == JSON else "yaml"), request)
    old = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
    warnings = () if version == _VERSIONS[0] else (old,)
    return Response(200, body, f"{media};g={_GROUP};v={version};as={kind}", warnings=warnings)


def _refusal(request: Request) -> Response:
    """Return the response 406 to a format that is not served, in YAML if the client accepts that, else JSON."""
    try:
        wanted = request.negotiate_format(protobuf=False)
    except errors.NotAcceptable:
        wanted = Accepted()
    status = errors.not_acceptable(_MEDIA_TYPES).status
    body, content_type = format_json(codec.encode(status), Accepted() if wanted.shown_as else wanted, request)
    return Response(406, body, content_type)
