"""The frame of every page: the menu, the cluster's name, whether it is live, and what could not be read."""

from collections.abc import Mapping

from mooring.advisor.simulate.html.markup import Markup, concat, tag
from mooring.advisor.snapshot.objects import NOT_ALLOWED
from mooring.dashboard.asking import Links, Page
from mooring.dashboard.elements import CONFIRMATION, fold_notices, link, notice, soft
from mooring.dashboard.watching import Watching

MENU = (
    ("overview", "Overview", ()),
    ("pending", "Pending", ("pending",)),
    ("pods", "Pod", ("pods",)),
    ("nodes", "Node", ("nodes",)),
    ("what-if", "What if", ("what-if",)),
    ("upgrade", "Upgrade", ("upgrade",)),
    ("versions", "Versions and gates", ("versions",)),
    ("expressions", "Expressions", ("expressions",)),
)
"""The views in their order: name, title, and path."""
_IMPORTANT = ("nodes", "pods")
_NAMED = 4
_CHANGES = "Changes are shown before they are made, and made with your credentials."


def page(shown: Page, cluster: Watching, links: Links) -> str:
    """Return a page as a whole HTML document, with menu and notices."""
    notices = concat(
        _forbidden(cluster.forbidden), fold_notices("notes about what was read", list(map(str, cluster.notes)))
    )
    return _document(shown.title, shown.view, concat(notices, shown.body), cluster, links)


def _forbidden(missing: Mapping[str, str]) -> Markup:
    """List what the user may not read, the most important first: answers may be wrong without it."""
    if not missing:
        return Markup("")
    order = sorted(missing, key=lambda plural: (plural not in _IMPORTANT, plural))
    where = {plural: why.removeprefix(NOT_ALLOWED).partition(":")[0] for plural, why in missing.items()}
    named = ", ".join(f"{plural}{where[plural]}" for plural in order[:_NAMED]) + (
        f" and {len(order) - _NAMED} other kinds" if len(order) > _NAMED else ""
    )
    label = f"With your rights not all of this cluster can be read, so answers may be incomplete: {named}."
    lines = [tag("li", f"{plural} are left out: {missing[plural]}") for plural in order]
    return tag("details", tag("summary", label), tag("ul", *lines), class_="notice")


def waiting(cluster: Watching, links: Links) -> str:
    """Return the page that is shown while the cluster is being read, or why it cannot be read."""
    if cluster.problem:
        return _document("The cluster cannot be read", "", notice(cluster.problem), cluster, links)
    read = f"Reading {cluster.access.origin}: {cluster.number_of_objects_read():,} objects so far."
    label = f"{read} The page shows it when it is done."
    body = tag("p", label, class_="soft", data_waiting="", id="waiting", role="status")
    return _document("Reading the cluster", "", body, cluster, links)


def problem(message: str, cluster: Watching, links: Links) -> str:
    return _document("That did not work", "", notice(message), cluster, links)


def _document(title: str, view: str, body: Markup, cluster: Watching, links: Links) -> str:
    head = concat(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} - Mooring"),
        tag("link", rel="icon", type="image/svg+xml", href=links.to("static", "icon.svg")),
        tag("link", rel="stylesheet", href=links.to("static", "report.css")),
        tag("link", rel="stylesheet", href=links.to("static", "dashboard.css")),
        tag("script", type="module", src=links.to("static", "dashboard.js")),
    )
    state = "live" if cluster.access.is_live else "still"
    label = {"live": "live", "still": "one moment, read once"}[state]
    top = tag(
        "header",
        tag("a", "To the content", href="#content", class_="skip"),
        tag("span", "Mooring", class_="brand"),
        _menu(view, cluster, links),
        tag("span", cluster.access.origin, class_="origin"),
        tag("span", label, id="state", class_=f"state {state}", role="status"),
        class_="top",
    )
    main = tag("main", tag("h1", title), body, id="content", tabindex="-1")
    foot = soft(_CHANGES if links.changing else "Nothing here is written to the cluster.")
    attributes = {
        "data_base": links.base,
        "data_revision": cluster.revision,
        "data_changing": links.changing or None,
    }
    body_tag = tag("body", top, main, tag("footer", foot), _confirmation(links), **attributes)
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), body_tag, lang='en')}\n"


def _confirmation(links: Links) -> Markup:
    if not links.changing:
        return Markup("")
    close = tag(
        "form", tag("button", "Close", type="submit", autofocus=""), method="dialog"
    )  # Enter alone changes nothing
    return tag("dialog", tag("div", id=CONFIRMATION, aria_live="polite"), close, aria_label="A change of the cluster")


def _menu(view: str, cluster: Watching, links: Links) -> Markup:
    entries = []
    for name, text, path in MENU:
        count = Markup("")
        if name == "pending" and cluster.pending:
            count = tag("span", f"{cluster.pending:,}", class_="count", id="menu-pending", data_live="")
        current = "page" if name == view else None
        entries.append(tag("li", link(links.to(*path), concat(text, " ", count), aria_current=current)))
    return tag("nav", tag("ul", *entries), aria_label="Views")
