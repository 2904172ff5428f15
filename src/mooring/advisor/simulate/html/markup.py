"""Writing HTML and SVG without ever forgetting to escape: text is escaped, and only `Markup` is not."""

from html import escape
from typing import Self

_NO_TEXT = frozenset(range(32)) - {9, 10, 13}


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
    text = "".join(
        "�" if ord(letter) in _NO_TEXT or 0xD800 <= ord(letter) < 0xE000 else letter for letter in str(value)
    )
    return escape(text, quote=True)


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """An element. Attributes whose value is None are left out; `class_` and `for_` lose their underscore."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(map(escaped, content))}</{name}>")


def together(*parts: object) -> Markup:
    return Markup("".join(map(escaped, parts)))
