"""HTML elements of the dashboard's pages: links, commands to copy, forms, pagination of long lists."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from mooring.advisor.explain.causes.running import format_age
from mooring.advisor.simulate.html.markup import Markup, concat, table, tag
from mooring.dashboard.asking import Asked, Links

PER_PAGE = 50
_UNFOLDED = 3
CONFIRMATION = "confirmation"
"""The place of a page that shows a change before it is made."""


def link(address: str, text: object, **attributes: object) -> Markup:
    return tag("a", text, href=address, **attributes)


def node_link(links: Links, name: str) -> Markup:
    return link(links.node(name), name) if name else Markup("")


def pod_link(links: Links, name: str) -> Markup:
    return link(links.pod(name), name)


def command(text: str) -> Markup:
    """Return a shell command as HTML, with a button that copies it."""
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy: {text}")
    return tag("div", tag("code", text), button, class_="command")


def change_form(links: Links, text: str, label: str, **fields: str) -> Markup:
    """Return a form with a button that requests a change of the cluster; nothing without `--allow-changes`."""
    if not links.changing:
        return Markup("")
    hidden = [tag("input", type="hidden", name=name, value=value) for name, value in fields.items()]
    return tag("form", *hidden, tag("button", text, type="submit", aria_label=label), class_="change", method="post",
               action=links.to("changes"), data_into=CONFIRMATION)  # fmt: skip


def change_button(links: Links, text: str, what: str) -> Markup:
    """Return a button that requests a change with the fields of its form; nothing without `--allow-changes`."""
    if not links.changing:
        return Markup("")
    return tag("button", text, type="submit", name="what", value=what, formmethod="post",
               formaction=links.to("changes"), data_into=CONFIRMATION)  # fmt: skip


def with_code(text: str) -> Markup:
    """Return a sentence as HTML, with its parts in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return concat(text)
    return concat(*(tag("code", part) if place % 2 else part for place, part in enumerate(parts)))


def badge(text: object, mood: str = "") -> Markup:
    """Return a word in a coloured frame; `mood` is `good`, `bad`, `warn` or empty."""
    return tag("span", text, class_=f"badge {mood}".strip())


def time_ago(text: str, now: datetime) -> Markup:
    """Return how long ago a timestamp was as HTML, with the timestamp itself as a tooltip."""
    since = format_age(text, now)
    return tag("time", f"{since} ago", datetime=text, title=text) if since else Markup("-")


def soft(*text: object) -> Markup:
    return tag("p", *text, class_="soft")


def notice(*text: object) -> Markup:
    return tag("p", *text, class_="notice", role="note")


def fold_notices(what: str, lines: Sequence[str]) -> Markup:
    """Return notices as HTML: up to three in full, more of them folded behind their number."""
    if len(lines) <= _UNFOLDED:
        return concat(*map(notice, lines))
    return tag("details", tag("summary", f"{len(lines):,} {what}"), tag("ul", *(tag("li", line) for line in lines)),
               class_="notice")  # fmt: skip


def unread(plural: str, why: str) -> Markup:
    """Return the notice that the user may not read objects of a kind, to stand in their place."""
    return notice(f"Your rights do not let you read {plural}, so nothing can be shown here: {why}")


def field(label: str, control: Markup, more: str = "") -> Markup:
    """Return a form control with its label; `more` are CSS classes."""
    return tag("label", tag("span", label), control, class_=f"field {more}".strip())


def text_input(name: str, value: str = "", **attributes: object) -> Markup:
    return tag("input", name=name, value=value, autocomplete="off", spellcheck="false", **attributes)


def choice(name: str, options: Iterable[tuple[str, str]], chosen: str, **attributes: object) -> Markup:
    """Return a drop-down list of values and their labels."""
    made = [
        tag("option", text, value=value, selected="selected" if value == chosen else None) for value, text in options
    ]
    return tag("select", *made, name=name, **attributes)


def chooser(*controls: object, text: str = "Show", is_main: bool = False, **attributes: object) -> Markup:
    """Return a form that filters or changes what a page shows; `text` is on its button."""
    button = tag("button", text, type="submit", class_="main" if is_main else None)
    return tag("form", *controls, button, class_="chooser", method="get", **attributes)


def and_more(number: int, rest: str = "") -> Markup:
    """Return the line `and 12 more` for entries of a list that are not shown; empty if there are none."""
    return soft(f"and {number:,} more{rest}") if number > 0 else Markup("")


def found_table(head: Sequence[str], rows: Sequence[Sequence[object]], plural: str, why: str) -> Markup:
    """Return the table of the found objects; without any, the reason why the user may read none, or `None.`."""
    if rows:
        return table(head, rows, plural.capitalize())
    return unread(plural, why) if why else soft("None.")


def options_for(identity: str, values: Iterable[str]) -> Markup:
    """Return the list of values that a text field suggests while typing."""
    return tag("datalist", *(tag("option", value=value) for value in values), id=identity)


def bar(part: float, label: str) -> Markup:
    """Return a fraction as a small bar with its label."""
    shade = "over" if part > 1 else f"h{min(int(part * 10), 9)}"
    meter = tag("rect", x="0", y="0", width=f"{min(part, 1.0) * 60:.1f}", height="8", class_=shade)
    drawn = tag("svg", meter, viewBox="0 0 60 8", class_="bar", aria_hidden="true", focusable="false")
    return tag("span", drawn, " ", label, class_="with-bar")


def scrollable_picture(picture: Markup, label: str) -> Markup:
    """Return a picture in a frame that scrolls on narrow screens instead of shrinking."""
    return tag("div", picture, class_="drawn", tabindex="0", role="group", aria_label=label)


def pager(asked: Asked, path: Sequence[str], number: int, kept: Mapping[str, str]) -> Markup:
    """Return links to the other pages of a long list, which keep the rest of the query; nothing for a single page."""
    at, last = asked.number("page", 1), max((number + PER_PAGE - 1) // PER_PAGE, 1)
    if last == 1:
        return Markup("")
    wanted = [each for each in dict.fromkeys((1, at - 1, at, at + 1, last)) if 1 <= each <= last]
    made = [
        tag("b", f"{each:,}", aria_current="page")
        if each == at
        else link(asked.links.to(*path, **kept, page=each), f"{each:,}", aria_label=f"Page {each}")
        for each in wanted
    ]
    first = (at - 1) * PER_PAGE + 1
    label = f"{first:,} to {min(at * PER_PAGE, number):,} of {number:,}"
    return tag("nav", tag("span", label, class_="soft"), *made, class_="pager", aria_label="Pages")


def of_page(asked: Asked, found: Sequence[object]) -> slice:
    """Return the slice of a long list that the requested page shows."""
    last = max((len(found) + PER_PAGE - 1) // PER_PAGE, 1)
    at = min(max(asked.number("page", 1), 1), last)
    return slice((at - 1) * PER_PAGE, at * PER_PAGE)


def chips(links: Links, names: Sequence[str], number: int) -> Markup:
    """Return the first nodes of a list as links, and the number of the others."""
    shown = [node_link(links, name) for name in names[:number]]
    rest = f" and {len(names) - number:,} more" if len(names) > number else ""
    return concat(Markup(", ").join_markup(shown), rest)
