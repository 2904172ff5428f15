"""Writing HTML and SVG without ever forgetting to escape: text is escaped, and only `Markup` is not."""

import re
from html import escape
from typing import Self

_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""What no document may have, and what a browser or an editor would take for a command."""

_EMPTY = frozenset({"br", "input", "link", "meta"})
"""Elements that have no content and no end."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()

    def __add__(self, other: str) -> "Markup":
        return Markup(str(self) + escaped(other))

    def joined(self, parts: "list[Self] | list[Markup]") -> "Markup":
        return Markup(str(self).join(map(escaped, parts)))


def escaped(value: object) -> str:
    """A value as text in HTML, inside and outside of quotes; characters that no document may have are replaced."""
    if isinstance(value, Markup):
        return str(value)
    return escape(_NO_TEXT.sub("�", str(value)), quote=True)


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element. Attributes whose value is None are left out; `class_` and `for_` lose their underscore."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{''.join(map(escaped, content))}</{name}>")


def together(*parts: object) -> Markup:
    return Markup("".join(map(escaped, parts)))
