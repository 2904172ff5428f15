"""An upgrade check as one HTML page: the verdict, the timeline of the drains, and the report's tables."""

from itertools import pairwise

from mooring.advisor.simulate.clock import format_seconds
from mooring.advisor.simulate.html.markup import Markup, card, concat, figures, legend, table, tag
from mooring.advisor.simulate.html.page import render_document
from mooring.advisor.simulate.html.pictures import anchor_at, draw_line_chart, rect, svg, text_at
from mooring.advisor.upgrade import reports
from mooring.advisor.upgrade.results import Rollout, UpgradeCheck

_WIDTH, _LEFT, _ROW, _BOTTOM = 720.0, 150.0, 16.0, 24.0
_MOST_BARS = 200
_MOST_ROWS = 500


def render_page(result: UpgradeCheck) -> str:
    """Return the HTML page of an upgrade check."""
    body = concat(
        tag(
            "header",
            tag("h1", reports.format_headline(result)),
            tag("p", result.cluster, class_="soft"),
            _render_figures(result),
        ),
        tag("main", *render_sections(result), _draw_pending_pods(result.rollout) if result.rollout is not None else ""),
        tag("footer", "Played by Mooring in virtual time. Nothing was changed."),
    )
    return render_document(f"Upgrade check: {result.from_version} to {result.to_version}", body)


def render_sections(result: UpgradeCheck) -> list[Markup]:
    """Return the cards of the page, for the report and for the dashboard."""
    reasons = tag("ul", *(tag("li", reason) for reason in result.reasons)) if result.reasons else ""
    found = [card("Verdict", tag("p", tag("b", reports.format_headline(result))), reasons)]
    if result.rollout is not None and result.rollout.nodes:
        found.append(card("Timeline", draw_timeline(result.rollout)))
    for title, (header, rows) in reports.build_tables(result):
        found.append(card(title, table(header, rows[:_MOST_ROWS])))
    if result.steps:
        steps = [
            tag(
                "li",
                step.title,
                *(tag("p", tag("code", command.run)) for command in step.commands),
                tag("p", f"Back: {step.rollback}", class_="soft") if step.rollback else "",
            )
            for step in result.steps
        ]
        found.append(card("Steps", tag("ol", *steps)))
    if result.assumptions:
        found.append(card("Assumptions", tag("ul", *(tag("li", each) for each in result.assumptions))))
    return found


def draw_timeline(rollout: Rollout) -> Markup:
    """Draw a bar for each node: its drain, and its upgrade until it is ready."""
    nodes = rollout.nodes[:_MOST_BARS]
    end = max([rollout.seconds, *(each.ready or each.started for each in nodes)], default=0.0) or 1.0
    height = _ROW * len(nodes) + _BOTTOM

    def at(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 8) * seconds / end

    drawn = []
    for number, each in enumerate(nodes):
        top = _ROW * number
        drawn.append(text_at(_LEFT - 6, top + 12, each.node, "end"))
        drained = each.drained if each.drained is not None else end
        drawn.append(
            _draw_bar(at(each.started), at(drained), top, "var(--two)" if each.drained is not None else "var(--h9)")
        )
        if each.drained is not None and each.ready is not None:
            drawn.append(_draw_bar(at(each.drained), at(each.ready), top, "var(--one)"))
    drawn += [
        text_at(at(end * part), height - 8, format_seconds(end * part), anchor_at(part))
        for part in (0, 0.25, 0.5, 0.75, 1)
    ]
    blocked = len(rollout.unfinished)
    text = f"{len(rollout.nodes)} nodes in {format_seconds(rollout.seconds)}" + (
        f", {blocked} not drained" if blocked else ""
    )
    picture = svg(_WIDTH, height, "Drains over time", text, *drawn)
    shown = "" if len(nodes) == len(rollout.nodes) else f" The first {len(nodes)} nodes are shown."
    key = legend((("two", "drain"), ("one", "upgrade"), ("h9", "blocked")))
    return concat(tag("p", f"{text}.{shown}", class_="soft"), picture, key)


def _draw_bar(left: float, right: float, top: float, colour: str) -> Markup:
    return rect(left, top + 3, max(right - left, 1.0), _ROW - 6, colour)


def _draw_pending_pods(rollout: Rollout) -> Markup:
    points = [(moment, float(pending)) for moment, _, pending in rollout.timeline]
    if not any(pending for _, pending in points):
        return card("Pods without a node", tag("p", "No pod waits for a node at any time.", class_="soft"))
    stepped = [point for before, after in pairwise(points) for point in (before, (after[0], before[1]))]
    stepped += [points[-1], (max(rollout.seconds, points[-1][0]), points[-1][1])]
    chart = draw_line_chart("Pods without a node", {"pending": stepped}, format_seconds, lambda value: f"{value:.0f}")
    return card("Pods without a node", chart)


def _render_figures(result: UpgradeCheck) -> Markup:
    rollout = result.rollout
    shown: list[tuple[object, int | None, str]] = []
    if rollout is not None:
        blocked, pending = len(rollout.unfinished), sum(each.pods for each in rollout.pending)
        shown = [
            ("nodes", len(rollout.nodes), ""),
            ("not drained", blocked, "bad" if blocked else "good"),
            ("pods end pending", pending, "bad" if pending else "good"),
            ("pods move", len(rollout.moves), ""),
        ]
    return figures([*shown, ("things to change before", len(result.remedies), "")])
