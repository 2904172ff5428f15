"""Render an explanation: its cause, the rejected nodes by plugin, suggestions, scores."""

from collections.abc import Sequence

from mooring.advisor.explain import SchedulingExplanation
from mooring.advisor.explain.results import NodeScore, Suggestion
from mooring.advisor.explain.text import format_effect
from mooring.advisor.simulate.html.markup import Markup, concat, table, tag
from mooring.dashboard import elements
from mooring.dashboard.asking import Links
from mooring.dashboard.changing import takes_one_step

_NAMED = 3
_GROUPS = 20
_FACTS = 6
MOODS = {
    "Scheduled": "good",
    "Schedulable": "good",
    "Unschedulable": "bad",
    "NotAttempted": "warn",
    "NotCreated": "bad",
    "NotRunning": "bad",
}
Explanation = SchedulingExplanation


def summary(found: SchedulingExplanation) -> Markup:
    """Return the state, the cause and the facts of an explanation as HTML."""
    facts: object = tag("ul", *(tag("li", fact) for fact in found.facts), class_="facts") if found.facts else ""
    if len(found.facts) > _FACTS:
        facts = tag("details", tag("summary", f"{len(found.facts)} more facts"), facts, class_="facts")
    return concat(
        tag(
            "p",
            elements.badge(found.state, MOODS[found.state]),
            " ",
            elements.with_code(found.summary),
            class_="summary",
        ),
        facts,
        message(found),
    )


def message(found: SchedulingExplanation) -> Markup:
    """Return kube-scheduler's message and the cluster's events as HTML, folded; empty without any."""
    words = [*([found.message] if found.message else []), *found.words]
    if not words:
        return Markup("")
    return tag("details", tag("summary", "In the cluster's own words"), *(tag("q", each) for each in words))


def refusals(found: SchedulingExplanation, links: Links) -> Markup:
    """Return the rejected nodes by plugin and reason as an HTML table; empty for scheduled pods."""
    shown = found.refusals[:_GROUPS]
    if not shown or found.state == "Scheduled":
        return Markup("")
    rows = [(f"{each.count:,}", each.plugin, each.detail, elements.chips(links, each.nodes, _NAMED)) for each in shown]
    left = found.refusals[_GROUPS:]
    rest = elements.and_more(len(left), f" reasons on {sum(each.count for each in left):,} nodes: see the nodes below")
    return concat(table(("Nodes", "Refused by", "Because", "Which"), rows, "Why not"), rest)


def preemption(found: SchedulingExplanation, links: Links) -> Markup:
    done = found.preemption
    if done is None or not done.node:
        return Markup("")
    rows = [(elements.pod_link(links, f"{each.namespace}/{each.name}"), each.priority) for each in done.victims]
    return concat(
        tag("p", "The scheduler makes room on ", elements.node_link(links, done.node), " by deleting:"),
        table(("Pod", "Priority"), rows, "Victims"),
    )


def suggestions(found: SchedulingExplanation, links: Links) -> Markup:
    """Return the verified suggestions as an HTML list; without any, what to check by hand."""
    if found.suggestions:
        return tag("ol", *(_suggestion(found, each, links) for each in found.suggestions), class_="suggestions")
    if found.checks:
        return concat(
            elements.soft("No change of objects is known to help. What to check:"),
            tag("ul", *(tag("li", elements.with_code(each)) for each in found.checks), class_="facts"),
        )
    if found.state in ("Unschedulable", "NotAttempted") and found.refusals:
        return elements.soft("No change of up to three steps was found that would help.")
    return Markup("")


def _suggestion(found: SchedulingExplanation, each: Suggestion, links: Links) -> Markup:
    of = found.subject
    fields = {"kind": of.kind.lower(), "namespace": of.namespace, "name": of.name, "summary": each.summary}
    fields["what"] = "suggestion"
    return tag(
        "li",
        tag("p", tag("b", elements.with_code(each.summary))),
        elements.soft("Tried: ", format_effect(each), "."),
        *(elements.command(change.command) for change in each.changes if change.command),
        elements.soft("But: ", each.caveat) if each.caveat else "",
        elements.change_form(links, "Do it …", f"Do it: {each.summary}", **fields) if takes_one_step(each) else "",
    )


def points(found: Sequence[NodeScore], links: Links) -> Markup:
    """Return an HTML table of the scores of the chosen node and of the next best, by plugin."""
    if not found:
        return Markup("")
    plugins = dict.fromkeys(name for each in found for name, number in each.scores.items() if number)
    rows = [(plugin, *(each.scores.get(plugin, 0) for each in found)) for plugin in plugins]
    rows.append(("total", *(each.total for each in found)))
    return table(("Points of", *(elements.node_link(links, each.node) for each in found)), rows, "Points by plugin")
