"""Pending: every pod that does not run, by cause, with the first remedy. The same groups as `mooring explain -A`.

Remedies are searched and verified when a group is opened, and are what `mooring explain` prints.
"""

from mooring.advisor.explain.overview import Group, Member, Overview
from mooring.advisor.explain.waking import retry_events
from mooring.advisor.simulate.html.markup import Markup, concat, table, tag
from mooring.dashboard import elements
from mooring.dashboard.asking import Asked, Fragment, Model, Page
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.views import explained

_MAX_GROUPS, _MAX_MEMBERS = 100, 20
_OPEN_GROUPS = 5
"""Groups whose remedies are searched at once."""
_MAX_EVENTS = 3
"""Kinds of events that are listed, after which the scheduler tries a pod again."""


class Pending(Model, frozen=True, kw_only=True):
    """The content of the page of pods that do not run."""

    overview: Overview
    namespaces: list[str]
    """The namespaces with pods that do not run."""
    unread: dict[str, str]
    """For nodes and pods: why the user may not read any."""


def pending(live: LiveSnapshot, namespace: str = "", owner: str = "", words: str = "") -> Pending:
    """Return the pods that do not run, by cause: all, of a namespace or owner, or whose cause or name has the words."""
    found = live.overview()
    spaces = sorted({each.namespace for group in found.groups for each in group.members})
    if namespace or owner:
        found = live.overview(namespace, owner)
    if words:
        found = found.filter_by_words(words)
    return Pending(overview=found, namespaces=spaces, unread=live.unread)


# -- the page


async def page(asked: Asked) -> Page:
    namespace, owner, words = asked.value("namespace"), asked.value("owner"), asked.value("search")
    model = await asked.cluster.ask(lambda live: pending(live, namespace, owner, words))
    found = model.overview
    if "pods" in model.unread:
        shown = elements.unread("pods", model.unread["pods"])
    elif not found.groups:
        shown = tag("p", "Every pod runs." if not (namespace or owner or words) else "Nothing found.", class_="summary")
    else:
        pods = "1 pod does" if found.pods == 1 else f"{found.pods:,} pods do"
        causes = "one cause" if len(found.groups) == 1 else f"{len(found.groups):,} causes"
        blind = ", in the scheduler's own words: you may not read nodes" if "nodes" in model.unread else ""
        shown = concat(
            elements.soft(f"{pods} not run, for {causes}{blind}."),
            *(_group(each, asked, is_open=i < _OPEN_GROUPS) for i, each in enumerate(found.groups[:_MAX_GROUPS])),
            elements.and_more(len(found.groups) - _MAX_GROUPS, " causes: filter or search for them"),
        )
    body = concat(_filter(model, namespace, owner, words, asked), tag("div", shown, id="reasons", data_live=""))
    return Page("Why do pods not run?", body, model, "pending")


def _filter(model: Pending, namespace: str, owner: str, words: str, asked: Asked) -> Markup:
    spaces = [("", "all namespaces"), *((name, name) for name in model.namespaces)]
    return elements.chooser(
        elements.field("Namespace", elements.choice("namespace", spaces, namespace)),
        elements.field("Owner", elements.text_input("owner", owner, placeholder="deployment/web")),
        elements.field("Search", elements.text_input("search", words, type="search", placeholder="cpu, quota, web …")),
        action=asked.links.to("pending"),
    )


async def show_remedies(asked: Asked) -> Fragment:
    """Answer `/pending/help/KIND/NAMESPACE/NAME`: the suggestions and rejected nodes for a group of the page."""
    kind, namespace, name = asked.path
    found, events = await asked.cluster.ask(lambda live: _explain_member(live, kind, namespace, name))
    if not found.total_nodes:
        return Fragment(explained.summary(found), found)
    body = concat(
        tag("h3", "What would help") if found.suggestions else "",
        explained.suggestions(found, asked.links),
        explained.refusals(found, asked.links),
        explained.preemption(found, asked.links),
        tag("ul", *(tag("li", event) for event in events), class_="facts") if events else "",
        explained.message(found),
    )
    return Fragment(body, found)


def _explain_member(
    live: LiveSnapshot, kind: str, namespace: str, name: str
) -> tuple[explained.Explanation, list[str]]:
    """Return the explanation of a workload, and the events after which the scheduler tries its pods again."""
    found = live.explain(kind, namespace, name)
    profile = next(iter(live.engine.profiles.values()))
    events = retry_events(profile, dict.fromkeys(each.plugin for each in found.refusals))
    more = [f"… and {len(events) - _MAX_EVENTS} more kinds of events"] if len(events) > _MAX_EVENTS else []
    return found, [f"tried again when {event}" for event in events[:_MAX_EVENTS]] + more


def _group(group: Group, asked: Asked, *, is_open: bool) -> Markup:
    rows = [
        (f"{each.pods:,}", _member(each, asked), elements.time_ago(each.since, asked.cluster.now()))
        for each in group.members[:_MAX_MEMBERS]
    ]
    pods = "1 pod" if group.pods == 1 else f"{group.pods:,} pods"
    return tag(
        "section",
        tag("h2", elements.badge(pods, "bad"), " ", elements.with_code(group.summary)),
        _help(group.members[0], asked, is_open=is_open),
        table(("Pods", "Of", "Since"), rows, "Workloads"),
        elements.and_more(group.owners - len(rows), " workloads"),
        class_="card reason",
    )


def _help(first: Member, asked: Asked, *, is_open: bool) -> Markup:
    kind, name = first.kind.lower(), first.name
    source = asked.links.to("pending", "help", kind, first.namespace, name)
    text = tag("div", elements.soft("Searching for what would help …"), data_src=source)
    return tag("details", tag("summary", f"What would help {kind} {first.namespace}/{name}"), text,
               open="" if is_open else None)  # fmt: skip


def _member(each: Member, asked: Asked) -> Markup:
    kind = each.kind.lower()
    name = f"{each.namespace}/{each.name}"
    return elements.link(asked.links.pod(name, kind), f"{kind} {name}")
