"""Requests to views and their results: the types between ``app.py`` and ``views/``."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from mooring.advisor.simulate.html.markup import Markup
from mooring.dashboard.watching import Watching


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base class of page contents as data, which `?format=json` returns."""


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of the dashboard, all below its token."""

    base: str
    """`/TOKEN/`."""
    changing: str = ""
    """What a page says when it changes the cluster; empty where it may not."""

    def to(self, *path: str, **query: object) -> str:
        label = {name: value for name, value in query.items() if value not in ("", None)}
        return self.base + "/".join(quote(part, safe="") for part in path) + (f"?{urlencode(label)}" if label else "")

    def node(self, name: str) -> str:
        return self.to("nodes", name)

    def pod(self, name: str, kind: str = "pod") -> str:
        """Return the link to the page of a pod, given as `namespace/name`."""
        namespace, _, own = name.partition("/")
        return self.to("pods", namespace, own, kind="" if kind == "pod" else kind)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a view: the cluster, the path and the query or form."""

    cluster: Watching
    links: Links
    path: tuple[str, ...] = ()
    """What stands in place of the `*` of the route."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The values of the query, or of the submitted form."""

    def value(self, name: str, default: str = "") -> str:
        found = self.values.get(name)
        return found[0] if found else default

    def number(self, name: str, default: int = 0, most: int = 1_000_000) -> int:
        text = self.value(name)
        return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 10 else default


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page: `title` states the question that it answers."""

    title: str
    body: Markup
    model: Any = None
    view: str = ""
    """The entry of the menu that it belongs to."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a page in HTML, which a script inserts into the open page."""

    body: Markup
    model: Any = None


@dataclass(frozen=True, slots=True)
class File:
    """A file for the browser to download."""

    name: str
    body: bytes
    content_type: str


class NotFoundError(Exception):
    """The requested object or page does not exist; the message names similar ones. Becomes status 404."""


class BadRequestError(Exception):
    """The request is invalid; the message says why. Becomes status 400."""


Answer = Page | Fragment | File
View = Callable[[Asked], Awaitable[Answer]]
