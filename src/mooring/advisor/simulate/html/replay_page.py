"""The HTML report of a replayed trace: numbers first, then every measure over time."""

from collections.abc import Callable, Iterator

from mooring.advisor.simulate.clock import format_seconds
from mooring.advisor.simulate.html.line_chart import Points, line_chart
from mooring.advisor.simulate.html.markup import Markup, tag, together
from mooring.advisor.simulate.html.style import CSS
from mooring.advisor.simulate.traces.results import Replayed

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
"""Titles, the measures of each by name or prefix, and the unit."""


def page(result: Replayed) -> str:
    """Return the whole document: one file without scripts."""
    title = f"{result.workload} replayed"
    text = f"On {result.cluster}, {result.scheduler}, seed {result.seed}."
    body = together(
        tag("header", tag("h1", title), tag("p", text, class_="soft"), _warning(result), _figures(result)),
        tag("main", *_sections(result)),
        tag("footer", "Simulated by Mooring. Nothing was changed."),
    )
    head = together(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        ),
        tag("title", f"{title} - Mooring"),
        tag("style", Markup(CSS)),
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _warning(result: Replayed) -> Markup:
    text = "" if result.is_complete else "It was interrupted: this is how far it got. "
    text += f"{result.skipped:,} lines of the trace were skipped." if result.skipped else ""
    return tag("p", text, class_="notice") if text else Markup("")


def _figures(result: Replayed) -> Markup:
    numbers = result.numbers
    shown = ("arrived", "placed", "running", "pending", "given up", "preempted", "evicted", "nodes", "nodes in use")
    figures = [
        tag("div", tag("b", f"{numbers[name]:,.0f}"), tag("span", name), class_="figure")
        for name in shown
        if name in numbers
    ]
    return tag("div", *figures, class_="figures")


def _sections(result: Replayed) -> Iterator[Markup]:
    for resource, points in result.allocated.items():
        if len(points) > 1:
            series: dict[str, Points] = {resource: [(float(asked), part) for asked, part in points.items()]}
            yield _card(f"{resource}: allocated when so much had been asked for", series, "{:.0f}%".format, "%")
    for title, names, unit in _CHARTS:
        series = _series(result, names, unit)
        if series and any(y for points in series.values() for _, y in points):
            yield _card(title, series, format_seconds, unit)
    if result.pending:
        rows = [
            tag("tr", tag("td", f"{number:,}"), tag("td", why)) for why, number in list(result.pending.items())[:100]
        ]
        yield tag("section", tag("h2", "Who still waits, and why"), tag("table", *rows), class_="card")


def _series(result: Replayed, names: tuple[str, ...], unit: str) -> dict[str, Points]:
    found: dict[str, list[tuple[float, float]]] = {}
    known = dict.fromkeys(name for sample in result.samples for name in sample)
    for name in known:
        if name in names or any(start[-1] in " p" and name.startswith(start) for start in names):
            times = 100 if unit else 1
            found[name] = [(sample["time"], times * sample.get(name, 0.0)) for sample in result.samples]
    return dict(found)


def _card(title: str, series: dict[str, Points], tell_x: Callable[[float], str], unit: str) -> Markup:
    chart = line_chart(title, series, tell_x, lambda value: f"{value:,.4g}{unit}")
    return tag("section", tag("h2", title), chart, class_="card")
