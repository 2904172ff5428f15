"""Build HTML and SVG with automatic escaping: only `Markup` is not escaped."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Self

_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that are invalid in documents or are control characters."""

_EMPTY = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """A string that is HTML already and is not escaped."""

    __slots__ = ()

    def __add__(self, other: str) -> "Markup":
        return Markup(str(self) + escape_html(other))

    def join_markup(self, parts: "list[Self] | list[Markup]") -> "Markup":
        return Markup(str(self).join(map(escape_html, parts)))


def escape_html(value: object) -> str:
    """Escape a value for HTML text and attributes; replace invalid characters."""
    if isinstance(value, Markup):
        return str(value)
    return escape(_NO_TEXT.sub("�", str(value)), quote=True)


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """Return an HTML element. Attributes that are None are left out; `class_` and `for_` lose their underscore."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape_html(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{''.join(map(escape_html, content))}</{name}>")


def concat(*parts: object) -> Markup:
    """Return the concatenation of texts, which are escaped, and markup, which is not."""
    return Markup("".join(map(escape_html, parts)))


def card(title: str, *content: object, **attributes: object) -> Markup:
    return tag("section", tag("h2", title), *content, class_="card", **attributes)


def table(header: Sequence[object], rows: Iterable[Sequence[object]], label: str = "") -> Markup:
    """Return an HTML table that scrolls; `label` is its accessible name."""
    text = label or str(header[0])
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in header)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    return tag("div", tag("table", head, body), class_="scroll", tabindex="0", role="group", aria_label=text)


def figures(shown: Iterable[tuple[object, int | None, str]]) -> Markup:
    """Return HTML for large numbers, each a label, a number (None if unknown) and `good`, `bad` or empty."""
    made = [
        tag(
            "div",
            tag("b", "?" if number is None else f"{number:,}"),
            tag("span", what),
            class_=f"figure {mood}".strip(),
        )
        for what, number, mood in shown
    ]
    return tag("div", *made, class_="figures")


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Return the legend of a chart; each entry has the CSS class of a colour and a text."""
    made = [tag("span", tag("i", class_=f"is-{name}") if name else "", text) for name, text in entries]
    return tag("div", *made, class_="legend")
