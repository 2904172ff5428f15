"""Write what the benchmarks of scheduling have measured into docs/: tables, and plots of how a pod's cost grows.

python -m benchmarks.scheduler_report                     all that has been measured
python -m benchmarks.scheduler_report scheduler           through the API only

Reads ``results/*.json``, which ``scheduler.py``, ``scheduler_engine.py`` and ``traces.py`` write. The tables stand in
benchmarks-details.md between comments with their names. Both axes of the plots are logarithmic: a line that rises no
steeper than the dashed one grows at most linearly.
"""

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.results import Row
from benchmarks.scheduler import TARGETS

DOCS = Path(__file__).parent.parent / "docs"
_TARGETS_AT = 5000
WIDTH, HEIGHT = 900, 520
LEFT, RIGHT, TOP, BOTTOM = 80, 220, 30, 60
COLORS = [
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
    "#333",
    "#1b9e77",
]

Points = Sequence[tuple[int, float]]
"""Nodes, and microseconds for a pod."""


def main() -> None:
    page = DOCS / "benchmarks-details.md"
    text = page.read_text()
    for name in sys.argv[1:] or REPORTS:
        tables, plot = REPORTS[name]
        rows = results.read(name)
        if rows:
            text = between(text, name, tables(rows))
            (DOCS / plot).write_text(draw(costs(rows)))
    page.write_text(text)


def between(text: str, name: str, table: str) -> str:
    """Return the page with one named table replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"the page has no place for {name}")
    return re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n{table}{end}", text, flags=re.DOTALL)


def costs(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """By workload, the mean time for a pod at each number of nodes, in microseconds: of the processor where known."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(row.workload, []).append((row.nodes, 1e6 / (row.busy_rate or row.rate)))
    return found


# -- tables


def api_tables(rows: Sequence[Row]) -> str:
    """Rates at all sizes with the targets; latencies; memory and the time to start."""
    sizes = sorted({row.nodes for row in rows})
    by_key = {(row.workload, row.nodes): row for row in rows}
    workloads = list(dict.fromkeys(row.workload for row in rows))
    of_size = [f"{size:,}" for size in sizes]
    rates = [[name, *(_cell(by_key.get((name, size)), _rate) for size in sizes), _target(name)] for name in workloads]
    busy = [[name, *(_cell(by_key.get((name, size)), _busy_rate) for size in sizes)] for name in workloads]
    latencies = [[name, *(_cell(by_key.get((name, size)), _latency) for size in sizes)] for name in workloads]
    parts = [
        _table(["Pods a second", *of_size, f"Target at {_TARGETS_AT:,}"], rates),
        _table(["Pods for a second of the busier process", *of_size], busy),
        _table(["p50 / p90 / p99, ms", *of_size], latencies),
        _table(["At nodes", *of_size], _of_processes(rows, sizes)),
    ]
    return "\n".join(parts)


def _of_processes(rows: Sequence[Row], sizes: Sequence[int]) -> list[list[str]]:
    """Return the table of measures that hardly depend on the workload, as ranges over all workloads."""
    here = {size: [row for row in rows if row.nodes == size] for size in sizes}
    measures: dict[str, Callable[[Row], float]] = {
        "until the scheduler is ready, s": lambda row: row.ready_seconds,
        "memory of the scheduler, MB": lambda row: row.scheduler_megabytes,
        "memory of the API server, MB": lambda row: row.server_megabytes,
        "load of the machine": lambda row: row.load,
    }
    return [
        [text, *(_range([value(row) for row in here[size]], exact=text.endswith(", s")) for size in sizes)]
        for text, value in measures.items()
    ]


def engine_tables(rows: Sequence[Row]) -> str:
    """Rates and latencies at all sizes, and memory."""
    sizes = sorted({row.nodes for row in rows})
    by_key = {(row.workload, row.nodes): row for row in rows}
    lines = [
        [name, *(_cell(by_key.get((name, size)), _rate_and_times) for size in sizes)]
        for name in dict.fromkeys(row.workload for row in rows)
    ]
    memory = [_range([row.scheduler_megabytes for row in rows if row.nodes == size]) for size in sizes]
    of_size = [f"{size:,}" for size in sizes]
    return _table(["Pods a second (p50 / p99, µs)", *of_size], [*lines, ["memory of the process, MB", *memory]])


def replay_table(rows: Sequence[Row]) -> str:
    """Time and memory of replays."""
    lines = [
        [
            f"{row.nodes:,}",
            f"{row.pods:,}",
            f"{row.pods / row.rate:,.0f}",
            _rate(row),
            f"{row.scheduler_megabytes:,.0f} MB",
        ]
        for row in rows
    ]
    return _table(["Nodes", "Pods", "Seconds of one core", "Pods a second of it", "Memory"], lines)


def _cell(row: Row | None, text: Callable[[Row], str]) -> str:
    return text(row) if row is not None else ""


def _rate(row: Row) -> str:
    return f"{row.rate:,.0f}"


def _busy_rate(row: Row) -> str:
    return f"{row.busy_rate:,.0f}"


def _latency(row: Row) -> str:
    return " / ".join(f"{1000 * value:,.0f}" for value in (row.p50, row.p90, row.p99))


def _rate_and_times(row: Row) -> str:
    return f"{row.rate:,.0f} ({1e6 * row.p50:,.0f} / {1e6 * row.p99:,.0f})"


def _target(workload: str) -> str:
    target = TARGETS.get(workload)
    return f"{target:,}" if target else "none"


def _range(values: Sequence[float], *, exact: bool = False) -> str:
    low, high = (f"{value:.1f}" if exact else f"{value:,.0f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


REPORTS: dict[str, tuple[Callable[[Sequence[Row]], str], str]] = {
    "scheduler": (api_tables, "scheduler-api-growth.svg"),
    "scheduler_engine": (engine_tables, "scheduler-growth.svg"),
    "traces": (replay_table, "traces-growth.svg"),
}
"""By file of results: its tables, and where its plot goes."""


# -- plots


def draw(lines: Mapping[str, Points]) -> str:
    """Return the plot as SVG."""
    if not lines:
        raise ValueError("nothing has been measured")
    everything = [point for points in lines.values() for point in points]
    plane = _Plane([nodes for nodes, _ in everything], [cost for _, cost in everything])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *plane.axes(sorted({nodes for nodes, _ in everything})),
        *plane.linear(),
    ]
    for number, (name, points) in enumerate(lines.items()):
        parts += plane.line(name, points, COLORS[number % len(COLORS)], TOP + 10 + 20 * number)
    return "\n".join([*parts, "</svg>", ""])


class _Plane:
    """Where a number of nodes and a time are on the picture."""

    def __init__(self, nodes: Sequence[int], costs: Sequence[float]) -> None:
        self._x = math.log10(min(nodes)), math.log10(max(*nodes, 10 * min(nodes)))
        self._y = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs) * 1.01))

    def at(self, nodes: float, cost: float) -> tuple[float, float]:
        x = (math.log10(nodes) - self._x[0]) / (self._x[1] - self._x[0])
        y = (math.log10(cost) - self._y[0]) / (self._y[1] - self._y[0])
        return round(LEFT + x * (WIDTH - LEFT - RIGHT), 1), round(HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM), 1)

    def axes(self, nodes: Sequence[int]) -> Iterator[str]:
        left, right = LEFT, WIDTH - RIGHT
        for power in range(self._y[0], self._y[1] + 1):
            _, y = self.at(nodes[0], 10.0**power)
            yield f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>'
            yield f'<text font-size="12" x="{left - 8}" y="{y + 4}" text-anchor="end">{10.0**power:,.0f} µs</text>'
        for number in nodes:
            x, _ = self.at(number, 10.0 ** self._y[0])
            yield f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
            yield f'<text font-size="12" x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{number:,}</text>'
        middle = (left + right) / 2
        yield f'<text font-size="12" x="{middle}" y="{HEIGHT - 15}" text-anchor="middle">nodes</text>'
        yield f'<text font-size="12" x="{left}" y="{TOP - 10}">time to place one more pod</text>'

    def linear(self) -> Iterator[str]:
        """Draw the slope of linear growth, from the lower left corner to the edge of the plot."""
        low, high = 10.0 ** self._x[0], 10.0 ** self._x[1]
        cost = 10.0 ** self._y[0]
        factor = min(high / low, 10.0 ** (self._y[1] - self._y[0]))
        (x1, y1), (x2, y2) = self.at(low, cost), self.at(low * factor, cost * factor)
        yield f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="black" stroke-dasharray="6 4"/>'
        yield f'<text font-size="12" x="{x2 - 6}" y="{y2 + 14}" text-anchor="end">linear</text>'

    def line(self, name: str, points: Points, color: str, legend: int) -> Iterator[str]:
        places = [self.at(nodes, cost) for nodes, cost in sorted(points)]
        path = " ".join(f"{x},{y}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        for x, y in places:
            yield f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>'
        x = WIDTH - RIGHT + 20
        yield f'<rect x="{x}" y="{legend - 9}" width="12" height="12" fill="{color}"/>'
        yield f'<text font-size="12" x="{x + 20}" y="{legend + 2}">{name}</text>'


if __name__ == "__main__":
    main()
