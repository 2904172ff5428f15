"""Parts that pages are made of: cards, tables, figures, legends. For the report and for the dashboard."""

from collections.abc import Iterable, Sequence

from mooring.advisor.simulate.html.markup import Markup, tag


def card(title: str, *content: object, **attributes: object) -> Markup:
    return tag("section", tag("h2", title), *content, class_="card", **attributes)


def table(header: Sequence[object], rows: Iterable[Sequence[object]], label: str = "") -> Markup:
    """A table that scrolls on its own; who does not see it hears `label`."""
    told = label or str(header[0])
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in header)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    return tag("div", tag("table", head, body), class_="scroll", tabindex="0", role="group", aria_label=told)


def figures(shown: Iterable[tuple[object, int | None, str]]) -> Markup:
    """Numbers that stand out: what, how many (None where nobody knows), and `good`, `bad` or nothing."""
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
    """What colours mean: the class of a swatch, or none, and a text."""
    made = [tag("span", tag("i", class_=f"is-{name}") if name else "", text) for name, text in entries]
    return tag("div", *made, class_="legend")
