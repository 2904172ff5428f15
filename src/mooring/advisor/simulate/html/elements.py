"""HTML elements for the report and the dashboard: cards, tables, figures, legends."""

from collections.abc import Iterable, Sequence

from mooring.advisor.simulate.html.markup import Markup, tag


def card(title: str, *content: object, **attributes: object) -> Markup:
    return tag("section", tag("h2", title), *content, class_="card", **attributes)


def table(header: Sequence[object], rows: Iterable[Sequence[object]], label: str = "") -> Markup:
    """Build a scrollable table; `label` is its accessible name."""
    text = label or str(header[0])
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in header)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    return tag("div", tag("table", head, body), class_="scroll", tabindex="0", role="group", aria_label=text)


def figures(shown: Iterable[tuple[object, int | None, str]]) -> Markup:
    """Build highlighted numbers: label, number (None if unknown), and `good`, `bad` or nothing."""
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
    """Build a legend from swatch classes and texts."""
    made = [tag("span", tag("i", class_=f"is-{name}") if name else "", text) for name, text in entries]
    return tag("div", *made, class_="legend")
