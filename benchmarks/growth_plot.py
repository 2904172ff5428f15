"""Draw how the cost of one more pod grows with the number of nodes, from the table that ``scheduler_engine.py`` prints.

python -m benchmarks scheduler_engine > table.txt
python -m benchmarks.growth_plot table.txt docs/scheduler-growth.svg

Both axes are logarithmic. A line that rises no steeper than the dashed one grows at most linearly.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
]

Points = Sequence[tuple[int, float]]
"""Nodes, and microseconds for a pod."""


def read(table: str) -> dict[str, list[tuple[int, float]]]:
    """By workload, the mean time for a pod at each number of nodes; other lines of the table are passed over."""
    found: dict[str, list[tuple[int, float]]] = {}
    for line in table.splitlines():
        match line.split():
            case [workload, nodes, rate, *_] if nodes.isdigit() and rate.isdigit() and int(rate):
                found.setdefault(workload, []).append((int(nodes), 1e6 / int(rate)))
    return found


def draw(lines: Mapping[str, Points]) -> str:
    """The plot as SVG."""
    if not lines:
        raise ValueError("the table has no rows of a workload, a number of nodes and a rate")
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
        """The slope of linear growth, from the lower left corner to where it leaves the picture."""
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


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m benchmarks.growth_plot TABLE SVG")
    table, picture = map(Path, sys.argv[1:])
    try:
        picture.write_text(draw(read(table.read_text())))
    except (OSError, ValueError) as problem:
        raise SystemExit(f"cannot draw {picture}: {problem}") from problem


if __name__ == "__main__":
    main()
