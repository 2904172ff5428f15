"""The layout of the report: numbers first, then charts, then every pod in tables."""

from collections.abc import Callable, Iterable, Iterator

from mooring.advisor.simulate import reports
from mooring.advisor.simulate.clock import format_seconds
from mooring.advisor.simulate.html import pictures
from mooring.advisor.simulate.html.markup import Markup, card, concat, figures, legend, table, tag
from mooring.advisor.simulate.html.pictures import PODS_LEGEND, Cell, Points, draw_line_chart
from mooring.advisor.simulate.html.style import CSS
from mooring.advisor.simulate.results import Comparison, Simulation
from mooring.advisor.simulate.traces.results import Replayed
from mooring.base.natural_sort import natural_key

_MAX_ROWS = 2000
"""The maximum number of rows of a table, because browsers are slow with more. Other output formats have all rows."""
_MAX_MAPS = 4
_NAMED = 3


def render_page(result: Simulation) -> str:
    """Return the whole HTML page with the result of a simulation."""
    title = page_title(result)
    body = concat(
        tag("header", _render_head(result, title)),
        tag("main", *render_sections(result)),
        tag("footer", f"Simulated by Mooring from {result.cluster}. Nothing was changed. Seed {result.seed}."),
    )
    return render_document(title, body)


def render_document(title: str, body: Markup) -> str:
    """Return a complete HTML page with the style sheet and without scripts."""
    head = concat(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        ),
        tag("title", f"{title} - Mooring"),
        tag("style", Markup(CSS)),
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def page_title(result: Simulation) -> str:
    """Return the title of the page: the scenario's name, and `what would happen if` its first steps."""
    done = [moment.event for moment in result.timeline if moment.event and moment.event != result.name]
    asked = "; ".join(done[:_NAMED]) + (f"; and {len(done) - _NAMED} more steps" if len(done) > _NAMED else "")
    what = f"What would happen if: {asked}" if asked else "What would happen to the pods that are pending"
    return f"{result.name}: {what[0].lower()}{what[1:]}" if result.name else what


def _render_head(result: Simulation, title: str) -> Markup:
    text = (
        f"{result.cluster[:1].upper()}{result.cluster[1:]}, {result.configuration}. "
        f"{format_seconds(result.seconds)} of virtual time from {result.started_at}."
    )
    warning = Markup("")
    if not result.is_complete:
        warning = tag("p", "It was interrupted: this is how far it got.", class_="notice")
    return concat(tag("h1", title), tag("p", text, class_="soft"), warning, render_summary(result))


def render_summary(result: Simulation) -> Markup:
    """Return the highlighted numbers of a simulation: running, pending, placed, evicted pods and so on."""
    counts = result.counts
    before = result.timeline[0].pending if result.timeline else 0
    worse = counts.pending > before
    shown: list[tuple[str, int, str]] = [
        ("pods run", counts.running, "" if worse else "good"),
        (f"pending ({before:,} before)" if before else "pending", counts.pending, "bad" if worse else ""),
        ("placed", counts.placed, ""),
        ("evicted", counts.evicted, ""),
        ("preempted", counts.preempted, "bad" if counts.preempted else ""),
        ("rejected", counts.rejected, "bad" if counts.rejected else ""),
        ("nodes", counts.nodes, ""),
    ]
    if result.room is not None:
        shown.insert(0, (f"more {result.room.workload} fit", result.room.fits, "good"))
    return figures(shown)


def render_sections(result: Simulation) -> Iterable[Markup]:
    """Yield the cards of the page of a simulation: charts and tables."""
    if result.room is not None:
        yield card("How many more fit", tag("p", f"{result.room.fits:,} more of {result.room.workload}. The next one: "
                                             f"{result.room.limit}"))  # fmt: skip
    yield _render_utilisation(result)
    yield _render_heat_maps(result)
    if len(result.timeline) > 1:
        yield _render_timeline(result)
    if result.pending:
        yield _render_pending(result)
    if result.rejected:
        rows = [(group.name, f"{group.count:,}", group.message) for group in result.rejected]
        yield card("What the API server refuses", table(("What", "Number", "Why"), rows))
    if result.comparison is not None:
        yield _render_comparison(result.comparison)
    for found in (*reports.build_pod_tables(result), reports.placement_table(result)):
        if found.rows:
            shown, hidden = table(("Pod", *found.header), found.rows[:_MAX_ROWS]), len(found.rows) - _MAX_ROWS
            text = f"and {hidden:,} more; the outputs json and csv have all of them."
            yield card(found.title, shown, tag("p", text, class_="soft") if hidden > 0 else "")


def _render_utilisation(result: Simulation) -> Markup:
    use = result.utilisation
    before = {each.resource: each for each in use.before}
    cpu = next((each for each in use.after if each.resource == "cpu"), use.after[0] if use.after else None)
    rows = [
        (
            each.resource,
            reports.format_amount(each.resource, each.allocatable),
            reports.format_amount(each.resource, before[each.resource].requested) if each.resource in before else "-",
            reports.format_amount(each.resource, each.requested),
            f"{each.nodes.least:.0%} / {each.nodes.median:.0%} / {each.nodes.p90:.0%} / {each.nodes.most:.0%}",
        )
        for each in use.after
    ]
    left = concat(tag("h3", "Of the whole cluster"), pictures.draw_utilisation(use.before, use.after))
    right = Markup("")
    if cpu is not None:
        right = concat(
            tag("h3", f"Nodes by how much of their {cpu.resource} is requested"),
            pictures.draw_histogram(before.get(cpu.resource), cpu),
        )
    return card(
        "Utilisation",
        tag("div", tag("div", left), tag("div", right), class_="pair"),
        legend([("before", "before (outlined)"), ("one", "after")]),
        tag(
            "details",
            tag("summary", "In numbers"),
            table(("Resource", "Allocatable", "Before", "After", "Nodes: least / half / 90% / most"), rows),
        ),
    )


def _render_heat_maps(result: Simulation) -> Markup:
    resources = [use.resource for use in result.utilisation.after][:_MAX_MAPS]
    ordered = sorted(result.nodes, key=lambda node: natural_key(node.name))
    drawn: list[Markup] = []
    for resource in resources:
        # A missing resource is an empty square; a node that does not exist at that time is a dashed one.
        was = [Cell(node.name, None if node.before is None else node.before.get(resource, 0.0)) for node in ordered]
        now = [
            Cell(node.name, None if node.after is None else node.after.get(resource, 0.0), node.unschedulable)
            for node in ordered
        ]
        drawn.append(
            tag(
                "div",
                tag("div", tag("h3", f"{resource} before"), pictures.draw_heat_map(f"{resource} by node, before", was)),
                tag("div", tag("h3", f"{resource} after"), pictures.draw_heat_map(f"{resource} by node, after", now)),
                class_="pair",
            )
        )
    text = "A square is a node, in the order of their names; point at one to see which."
    several = pictures.nodes_per_cell(len(ordered))
    if several > 1:
        text = f"A square stands for {several} nodes, by their average, in the order of their names; "
        text += "point at one to see."
    return card("Nodes", tag("p", text, class_="soft"), *drawn, pictures.draw_heat_legend())


def _render_timeline(result: Simulation) -> Markup:
    events = [moment for moment in result.timeline if moment.event]
    rows = [
        (
            number,
            format_seconds(moment.at),
            moment.event,
            f"{moment.running:,}",
            f"{moment.pending:,}",
            f"{moment.cpu:.1%}",
        )
        for number, moment in enumerate(events, 1)
    ]
    text = table(("No.", "At", "What was done", "Running after it", "Pending", "CPU"), rows) if rows else Markup("")
    return card(
        "Pods over time",
        pictures.draw_timeline(result.timeline, result.seconds),
        legend(PODS_LEGEND),
        Markup("<br>"),
        text,
    )


def _render_pending(result: Simulation) -> Markup:
    rows = [
        (f"{group.count:,}", ", ".join(group.owners[:5]) + (" …" if len(group.owners) > 5 else ""), group.message)
        for group in result.pending[:_MAX_ROWS]
    ]
    return card(
        "Why pods are pending",
        tag("p", "By what most nodes say.", class_="soft"),
        pictures.draw_reasons(result.pending),
        table(("Pods", "Of", "Message"), rows),
    )


def _render_comparison(found: Comparison) -> Markup:
    text = f"Here: {found.configuration}. There: {found.other_configuration}. "
    text += f"{len(found.elsewhere):,} pods go elsewhere, {found.same:,} to the same node."
    parts = [tag("p", text, class_="soft")]
    for each in reports.comparison_tables(found):
        if each.rows:
            shown = table((each.heading.capitalize(), *each.header), each.rows[:_MAX_ROWS])
            parts += [tag("h3", each.title), shown]
    return card(f"Compared with {found.other_configuration}", *parts)


_CHARTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("What is allocated", ("allocated ",), "%"),
    ("What of the rest the pods of this workload cannot use", ("fragmented ",), "%"),
    ("Pods", ("running", "pending"), ""),
    ("Pods that each plugin refuses", ("pending ",), ""),
    ("How long pods have waited, in seconds", ("waited p",), ""),
    ("Pods that had to go", ("preempted", "evicted", "given up"), ""),
    ("Nodes", ("nodes",), ""),
    ("Cost per hour", ("cost per hour",), ""),
    ("Cost so far", ("cost",), ""),
)
"""The charts of a replay: their titles, the measures in each by name or prefix, and the unit."""


def render_replay_page(result: Replayed) -> str:
    """Return the HTML page of a replayed trace: numbers first, then a chart of every measure over time."""
    title = f"{result.workload} replayed"
    text = f"On {result.cluster}, {result.scheduler}, seed {result.seed}."
    problem = "" if result.is_complete else "It was interrupted: this is how far it got. "
    problem += f"{result.skipped:,} lines of the trace were skipped." if result.skipped else ""
    warning = tag("p", problem, class_="notice") if problem else ""
    shown = ("arrived", "placed", "running", "pending", "given up", "preempted", "evicted", "nodes", "nodes in use")
    numbers = [(name, round(result.numbers[name]), "") for name in shown if name in result.numbers]
    body = concat(
        tag("header", tag("h1", title), tag("p", text, class_="soft"), warning, figures(numbers)),
        tag("main", *_render_replay_sections(result)),
        tag("footer", "Simulated by Mooring. Nothing was changed."),
    )
    return render_document(title, body)


def _render_replay_sections(result: Replayed) -> Iterator[Markup]:
    for resource, points in result.allocated.items():
        if len(points) > 1:
            series: dict[str, Points] = {resource: [(float(asked), part) for asked, part in points.items()]}
            yield _render_chart(f"{resource}: allocated when so much had been asked for", series, "{:.0f}%".format, "%")
    for title, names, unit in _CHARTS:
        series = _select_series(result, names, unit)
        if series and any(y for points in series.values() for _, y in points):
            yield _render_chart(title, series, format_seconds, unit)
    if result.pending:
        rows = [(f"{number:,}", why) for why, number in list(result.pending.items())[:100]]
        yield card("Who still waits, and why", table(("Pods", "Why"), rows))


def _select_series(result: Replayed, names: tuple[str, ...], unit: str) -> dict[str, Points]:
    found: dict[str, list[tuple[float, float]]] = {}
    known = dict.fromkeys(name for sample in result.samples for name in sample)
    for name in known:
        if name in names or any(start[-1] in " p" and name.startswith(start) for start in names):
            times = 100 if unit else 1
            found[name] = [(sample["time"], times * sample.get(name, 0.0)) for sample in result.samples]
    return dict(found)


def _render_chart(title: str, series: dict[str, Points], format_x: Callable[[float], str], unit: str) -> Markup:
    return card(title, draw_line_chart(title, series, format_x, lambda value: f"{value:,.4g}{unit}"))
