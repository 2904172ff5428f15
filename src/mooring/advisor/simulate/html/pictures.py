"""Charts of the report as inline SVG: heat maps of nodes, a timeline, bars and histograms.

Each has a title and a text description, and repeats in numbers or patterns what colours show.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mooring.advisor.simulate.clock import format_seconds
from mooring.advisor.simulate.html.markup import Markup, legend, tag
from mooring.advisor.simulate.results import Moment, PendingGroup, ResourceUse

Scale = Callable[[float], float]
"""Maps data to picture coordinates."""
_MAX_CELLS = 2400
"""The maximum number of cells of a heat map; with more nodes, a cell represents several."""
_ROOM_FOR_NUMBER = 26.0
_DARK_FROM = 0.5
_STEPS = ("h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9")


def svg(width: float, height: float, title: str, description: str, *content: object) -> Markup:
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *content,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=f"{title}. {description}",
    )


def text_at(x: float, y: float, content: object, anchor: str = "start", *, class_: str | None = None) -> Markup:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def rect(x: float, y: float, width: float, height: float, fill: str, *content: object, **more: object) -> Markup:
    size = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{max(width, 0):.1f}", "height": f"{max(height, 0):.1f}"}
    return tag("rect", *content, **size, fill=fill, **more)


def _grid_line(
    start: tuple[float, float], end: tuple[float, float], stroke: str, *content: object, **more: str
) -> Markup:
    ends = {"x1": f"{start[0]:.1f}", "x2": f"{end[0]:.1f}", "y1": f"{start[1]:.1f}", "y2": f"{end[1]:.1f}"}
    return tag("line", *content, **ends, stroke=stroke, **more)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a heat map: a node, or several adjacent ones."""

    name: str
    part: float | None
    """The utilisation; None if the node does not exist at that time."""
    marked: bool = False
    """Whether the node is cordoned."""


def shade_of(part: float) -> str:
    """Return the CSS class of the colour for a utilisation: `h0` to `h9`, or `over` above 100 %."""
    return "over" if part > 1.0 else _STEPS[min(int(part * 10), 9)]


def nodes_per_cell(number: int) -> int:
    """Return how many nodes a cell of a heat map represents, for a number of nodes."""
    return math.ceil(number / _MAX_CELLS)


def merge_cells(found: Sequence[Cell]) -> list[Cell]:
    """Merge neighbouring cells into their average, so that a heat map has at most `_MAX_CELLS` cells."""
    size = nodes_per_cell(len(found))
    if size <= 1:
        return list(found)
    made = []
    for start in range(0, len(found), size):
        group = found[start : start + size]
        parts = [cell.part for cell in group if cell.part is not None]
        name = f"{group[0].name} … {group[-1].name} ({len(group)} nodes)"
        made.append(Cell(name, sum(parts) / len(parts) if parts else None, any(cell.marked for cell in group)))
    return made


def draw_heat_map(title: str, found: Sequence[Cell]) -> Markup:
    """Draw a heat map: a square for each cell, in order, coloured by utilisation; a dot marks cordoned nodes."""
    shown = merge_cells(found)
    columns = max(math.ceil(math.sqrt(len(shown) * 3.0)), 14)
    step = 520 / columns
    gap = min(step * 0.12, 2.0)
    rows = max(math.ceil(len(shown) / columns), 1)
    drawn: list[Markup] = []
    for index, cell in enumerate(shown):
        x, y = (index % columns) * step, (index // columns) * step
        text = "not there" if cell.part is None else f"{cell.part:.0%}"
        hint = tag("title", f"{cell.name}: {text}{', cordoned' if cell.marked else ''}")
        if cell.part is None:
            outline = {"stroke": "var(--soft)", "stroke_opacity": "0.55", "stroke_dasharray": "2 2"}
            drawn.append(rect(x + gap, y + gap, step - 2 * gap, step - 2 * gap, "none", hint, **outline))
            continue
        fill = f"var(--{shade_of(cell.part)})"
        drawn.append(rect(x + gap / 2, y + gap / 2, step - gap, step - gap, fill, hint, rx=f"{min(step / 6, 3):.1f}"))
        if step >= _ROOM_FOR_NUMBER:
            number = f"{round(cell.part * 100)}{'●' if cell.marked else ''}"
            class_ = "high" if cell.part >= _DARK_FROM else "on"
            drawn.append(text_at(x + step / 2, y + step / 2 + 4, number, anchor="middle", class_=class_))
        elif cell.marked:
            drawn.append(
                tag(
                    "circle", cx=f"{x + step / 2:.1f}", cy=f"{y + step / 2:.1f}", r=f"{step / 6:.1f}", fill="var(--ink)"
                )
            )
    parts = [cell.part for cell in found if cell.part is not None]
    mean = sum(parts) / len(parts) if parts else 0.0
    description = f"{len(parts)} nodes, on average {mean:.0%} requested, at most {max(parts, default=0.0):.0%}."
    return svg(columns * step, rows * step, title, description, *drawn)


def draw_heat_legend() -> Markup:
    entries = [(name, f"{index * 10} to {index * 10 + 10}%") for index, name in enumerate(_STEPS)]
    return legend(
        [*entries, ("over", "more than there is"), ("", "● cordoned"), ("", "dashed: not there at that time")]
    )


def draw_timeline(moments: Sequence[Moment], end: float, evicted: Sequence[tuple[float, float]] = ()) -> Markup:
    """Draw running, pending and evicted pods over time, with marks for events."""
    width, height, left, top, bottom = 1060.0, 260.0, 60.0, 34.0, 34.0
    counts = [*(moment.running + moment.pending for moment in moments), *(number for _, number in evicted)]
    levels = axis_ticks(max(counts, default=0))
    most = levels[-1]
    last = max(end, moments[-1].at if moments else 0.0, 1.0)

    def x(at: float) -> float:
        return left + (width - left - 14) * at / last

    def y(number: float) -> float:
        return height - bottom - (height - top - bottom) * number / most

    running = [(moment.at, float(moment.running)) for moment in moments]
    total = [(moment.at, float(moment.running + moment.pending)) for moment in moments]
    lines = []
    for level in levels:
        at = y(level)
        lines.append(_grid_line((left, at), (width - 14, at), "var(--line)"))
        lines.append(text_at(left - 8, at + 4, f"{round(level):,}", anchor="end"))
    for moment_ in time_ticks(last):
        at, near_end = x(moment_), last - moment_ < last / 40
        foot = height - bottom
        lines.append(_grid_line((at, foot), (at, foot + 4), "var(--soft)"))
        anchor = "start" if moment_ == 0 else "end" if near_end else "middle"
        lines.append(text_at(at, height - 12, format_seconds(moment_), anchor=anchor))
    areas = [
        tag("path", d=_step_path(total, last, x, y, height - bottom), fill="var(--two-soft)", stroke="var(--two)",
            stroke_dasharray="5 3"),
        tag("path", d=_step_path(running, last, x, y, height - bottom), fill="var(--one-soft)", stroke="var(--one)",
            stroke_width="1.5"),
        tag("path", d=_line_path(evicted, last, x, y), fill="none", stroke="var(--bad)", stroke_width="2",
            stroke_dasharray="2 3"),
    ]  # fmt: skip
    marks: list[Markup] = []
    events = [moment for moment in moments if moment.event]
    for moment in events:
        at = x(moment.at)
        hint = tag("title", f"{format_seconds(moment.at)}: {moment.event}")
        marks.append(_grid_line((at, top - 8), (at, height - bottom), "var(--ink)", hint, stroke_dasharray="1 3"))
    marks += _draw_event_numbers(events, x, top)
    final = moments[-1] if moments else None
    description = f"At the end {final.running} pods run and {final.pending} are pending." if final is not None else ""
    return svg(width, height, "Pods over time", description, *lines, *areas, *marks)


PODS_LEGEND = (("running", "running (solid line)"), ("pending", "pending on top of them (dashed line)"))


def _draw_event_numbers(events: Sequence[Moment], x: Scale, top: float) -> list[Markup]:
    places: dict[int, list[int]] = {}
    for number, moment in enumerate(events, 1):
        places.setdefault(round(x(moment.at) / 26), []).append(number)
    labels = []
    for numbers in places.values():
        at = x(events[numbers[0] - 1].at)
        text = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        labels.append(text_at(at, top - 14, text, anchor="middle", class_="strong"))
    return labels


def _step_path(points: Sequence[tuple[float, float]], last: float, x: Scale, y: Scale, floor: float) -> str:
    if not points:
        return ""
    parts = [f"M{x(points[0][0]):.1f},{floor:.1f}"]
    before = 0.0
    for at, value in points:
        parts.append(f"L{x(at):.1f},{y(before):.1f}L{x(at):.1f},{y(value):.1f}")
        before = value
    parts.append(f"L{x(last):.1f},{y(before):.1f}L{x(last):.1f},{floor:.1f}Z")
    return "".join(parts)


def _line_path(points: Sequence[tuple[float, float]], last: float, x: Scale, y: Scale) -> str:
    parts = [f"{'V' if index else f'M{x(at):.1f},'}{y(value):.1f}H" for index, (at, value) in enumerate(points)]
    ends = [x(at) for at, _ in points[1:]] + [x(last)]
    return "".join(f"{part}{end:.1f}" for part, end in zip(parts, ends, strict=False))


def draw_utilisation(before: Sequence[ResourceUse], after: Sequence[ResourceUse]) -> Markup:
    """Draw two bars for each resource: its requested fraction before and after the simulation."""
    old = {use.resource: use.fraction for use in before}
    width, row, left = 520.0, 46.0, 130.0
    room = width - left - 64
    drawn: list[Markup] = []
    for index, use in enumerate(after):
        top = index * row
        drawn.append(text_at(left - 12, top + 22, _shorten(use.resource), anchor="end", class_="strong"))
        drawn.append(rect(left, top + 6, room, 12, "var(--faint)", rx="3"))
        drawn.append(rect(left, top + 21, room, 12, "var(--faint)", rx="3"))
        part = old.get(use.resource, 0.0)
        drawn.append(rect(left, top + 6, room * min(part, 1.0), 12, "var(--one-soft)", rx="3", stroke="var(--one)"))
        drawn.append(rect(left, top + 21, room * min(use.fraction, 1.0), 12, "var(--one)", rx="3"))
        drawn.append(text_at(left + room + 8, top + 16, f"{part:.1%}"))
        drawn.append(text_at(left + room + 8, top + 31, f"{use.fraction:.1%}", class_="strong"))
    text = "; ".join(
        f"{use.resource} {old.get(use.resource, 0.0):.0%} before, {use.fraction:.0%} after" for use in after
    )
    return svg(width, max(len(after) * row, 1), "Requested before and after", text, *drawn)


def draw_histogram(before: ResourceUse | None, after: ResourceUse) -> Markup:
    """Draw a histogram of nodes by requested fraction of a resource: before as an outline, after filled."""
    width, height, bottom = 520.0, 200.0, 36.0
    old = before.nodes.histogram if before is not None else (0,) * len(after.nodes.histogram)
    most = max(*old, *after.nodes.histogram, 1)
    slot = (width - 10) / len(after.nodes.histogram)
    drawn: list[Markup] = []
    for index, (was, number) in enumerate(zip(old, after.nodes.histogram, strict=True)):
        x = 5 + index * slot
        label = f"{index * 10}-{index * 10 + 10}" if index < len(old) - 1 else ">100"
        for offset, value, fill, stroke in (
            (0.08, was, "var(--one-soft)", "var(--one)"),
            (0.5, number, "var(--one)", None),
        ):
            tall = (height - bottom - 24) * value / most
            hint = tag("title", f"{label}% of {after.resource}: {value} nodes")
            drawn.append(
                rect(x + slot * offset, height - bottom - tall, slot * 0.4, tall, fill, hint, stroke=stroke, rx="2")
            )
        if number:
            tall = (height - bottom - 24) * number / most
            drawn.append(
                text_at(x + slot * 0.7, height - bottom - tall - 5, f"{number:,}", anchor="middle", class_="on")
            )
        drawn.append(text_at(x + slot / 2, height - 18, label, anchor="middle"))
    drawn.append(text_at(width / 2, height - 3, f"% of a node's {_shorten(after.resource, 40)}", anchor="middle"))
    drawn.append(_grid_line((5, height - bottom), (width - 5, height - bottom), "var(--line)"))
    spread = after.nodes
    text = f"From {spread.least:.0%} to {spread.most:.0%}{' afterwards' if before else ''}, median {spread.median:.0%}."
    return svg(width, height, f"Nodes by how much of their {after.resource} is requested", text, *drawn)


def draw_reasons(groups: Sequence[PendingGroup]) -> Markup:
    """Draw a bar with the number of pending pods for each main reason (`main_reason`)."""
    counted: dict[str, int] = {}
    for group in groups:
        counted[main_reason(group.message)] = counted.get(main_reason(group.message), 0) + group.count
    found = sorted(counted.items(), key=lambda entry: -entry[1])[:12]
    width, row = 1060.0, 44.0
    most = max((number for _, number in found), default=1)
    drawn: list[Markup] = []
    for index, (reason, number) in enumerate(found):
        top = index * row
        drawn.append(text_at(0, top + 14, _shorten(reason, 130), class_="on"))
        drawn.append(rect(0, top + 20, (width - 80) * number / most, 12, "var(--two)", rx="3"))
        drawn.append(text_at((width - 80) * number / most + 8, top + 30, f"{number:,}", class_="strong"))
    text = "; ".join(f"{number} pods: {reason}" for reason, number in found)
    return svg(width, max(len(found) * row, 1), "Why pods are pending", text, *drawn)


def main_reason(message: str) -> str:
    """Return the reason that most nodes give: A for `0/5 nodes are available: 3 A, 2 B.`"""
    _, colon, rest = message.partition("nodes are available: ")
    if not colon:
        return message
    parts = rest.partition(". ")[0].rstrip(".").split(", ")
    counted = [
        (int(number), reason) for number, _, reason in (part.partition(" ") for part in parts) if number.isdecimal()
    ]
    return max(counted, default=(0, rest))[1]


def _shorten(text: str, most: int = 18) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


Points = Sequence[tuple[float, float]]
COLOURS = ("#2f6fde", "#c2571a", "#1a7f4b", "#8a4a9e", "#b42318", "#667085", "#0e9aa7", "#b58900")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720.0, 260.0, 56.0, 12.0, 12.0, 30.0


def draw_line_chart(
    title: str, series: Mapping[str, Points], format_x: Callable[[float], str], format_y: Callable[[float], str]
) -> Markup:
    """Draw a line chart of several series of points, with axes and a legend."""
    every = [point for points in series.values() for point in points]
    if not every:
        return tag("p", "There is nothing to show.", class_="soft")
    low_x, high_x = min(x for x, _ in every), max(x for x, _ in every)
    high_y = max([1e-9, *(y for _, y in every)])
    low_y = min([0.0, *(y for _, y in every)])

    def at(x: float, y: float) -> tuple[float, float]:
        wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        right = _LEFT + wide * (x - low_x) / ((high_x - low_x) or 1.0)
        return right, _TOP + high * (1 - (y - low_y) / ((high_y - low_y) or 1.0))

    drawn = []
    for part in (0, 0.25, 0.5, 0.75, 1):
        x, y = low_x + (high_x - low_x) * part, low_y + (high_y - low_y) * part
        right, height = at(x, y)
        drawn.append(_grid_line((_LEFT, height), (_WIDTH - _RIGHT, height), "var(--line)"))
        drawn.append(text_at(_LEFT - 6, height + 4, format_y(y), "end"))
        drawn.append(text_at(right, _HEIGHT - 8, format_x(x), anchor_at(part)))
    text = []
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points)
        drawn.append(tag("polyline", points=line, fill="none", stroke=colour, stroke_width="1.8"))
        if points:
            text.append(f"{name} ends at {format_y(points[-1][1])}")
    description = "; ".join(text)
    picture = svg(_WIDTH, _HEIGHT, title, description, *drawn)
    key = [
        tag("span", tag("i", style=f"background:{COLOURS[number % len(COLOURS)]}"), name)
        for number, name in enumerate(series)
    ]
    return tag("div", picture, tag("div", *key, class_="legend"))


def anchor_at(part: float) -> str:
    """Return the anchor of a text at a fraction of an axis, so that the first and last text stay in the picture."""
    return "start" if part == 0 else "end" if part == 1 else "middle"


_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86400


def axis_ticks(most: float, wanted: int = 5) -> list[float]:
    """Return the labels of an axis: about `wanted` round numbers from 0 up to at least `most`.

    >>> ticks(90), ticks(7), ticks(0)
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 1.0])
    """
    if most <= 1:
        return [0.0, 1.0]
    size = 10 ** math.floor(math.log10(most / wanted)) if most > wanted else 1
    step = next(size * part for part in (1, 2, 5, 10) if most / (size * part) <= wanted)
    return [float(step * number) for number in range(math.ceil(most / step) + 1)]


def time_ticks(last: float, wanted: int = 8) -> list[float]:
    """Return the labels of a time axis: about `wanted` round times from 0 to at most `last` seconds.

    >>> time_ticks(100), time_ticks(4000)
    ([0.0, 15.0, 30.0, 45.0, 60.0, 75.0, 90.0], [0.0, 600.0, 1200.0, 1800.0, 2400.0, 3000.0, 3600.0])
    """
    step: float = next((each for each in _TIMES if last / each <= wanted), 0)
    if not step:
        step = _DAY * math.ceil(last / wanted / _DAY)
    return [float(step * number) for number in range(int(last / step) + 1)]
