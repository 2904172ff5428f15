"""`/statusz` and `/flagz`: how the server runs, for people who look for what is wrong (from 1.36 on, as Kubernetes).

Text is for reading only. Programs ask for `application/json;v=v1beta1;g=config.k8s.io;as=Statusz` (`Flagz`, or YAML);
without these parameters JSON is refused, so that nobody relies on a form that may change. Whoever may read metrics
may read them. Recorded from kube-apiserver 1.37.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import yaml

from mooring.api import errors
from mooring.apiserver.http import Request, Response
from mooring.apiserver.options import StatusPages

_NAME = "apiserver"
_GROUP = "config.k8s.io"
_VERSIONS = ("v1beta1", "v1alpha1")
_MEDIA_TYPES = ("application/json", "application/yaml", "text/plain")
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for"
    " debugging purposes only."
)
_PATHS = ("/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version")


class ZPages:
    """The two pages of a server."""

    def __init__(self, pages: StatusPages, flags: Mapping[str, str], now: Callable[[], datetime]) -> None:
        self._pages = pages
        self._flags = flags
        self._now = now
        self._started = now()

    async def status(self, request: Request) -> Response:
        """`/statusz`."""
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
            "goVersion": self._pages.go_version,
            "binaryVersion": self._pages.binary_version,
            "emulationVersion": self._pages.emulation_version,
            "paths": list(_PATHS),
        }
        return _page(request, "Statusz", ["", *lines], data)

    async def flags(self, request: Request) -> Response:
        """`/flagz`."""
        flags = dict(sorted(self._flags.items()))
        return _page(request, "Flagz", [f"{name}={value}" for name, value in flags.items()], {"flags": flags})


def _page(request: Request, kind: str, lines: list[str], data: dict[str, Any]) -> Response:
    if request.path.rstrip("/").count("/") > 1 or request.method not in {"GET", "HEAD"}:
        raise errors.path_not_found()
    for wanted in request.headers.get("accept", "*/*").split(","):
        media, *parameters = (part.strip() for part in wanted.split(";"))
        said = dict(each.partition("=")[::2] for each in parameters)
        if media in ("*/*", "text/*", "text/plain"):
            text = "\n".join(["", f"{_NAME} {kind.lower()}", _WARNING, *lines, ""])
            return Response(200, text.encode(), "text/plain; charset=utf-8")
        asked = (said.get("g"), said.get("as")) == (_GROUP, kind) and said.get("v") in _VERSIONS
        if asked and media in _MEDIA_TYPES:
            return _structured(media, said["v"], kind, data)
    raise errors.not_acceptable(_MEDIA_TYPES)


def _structured(media: str, version: str, kind: str, data: dict[str, Any]) -> Response:
    tree = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": _NAME}, **data}
    body = msgspec.json.encode(tree) if media == "application/json" else yaml.safe_dump(tree).encode()
    old = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
    warnings = () if version == _VERSIONS[0] else (old,)
    return Response(200, body, f"{media};g={_GROUP};v={version};as={kind}", warnings=warnings)
