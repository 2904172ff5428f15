"""Line charts as inline SVG with axes, a title and a text description."""

from collections.abc import Callable, Mapping, Sequence

from mooring.advisor.simulate.html.markup import Markup, tag

Points = Sequence[tuple[float, float]]
Place = Callable[[float, float], tuple[float, float]]
"""Map data to picture coordinates."""
COLOURS = ("#2f6fde", "#c2571a", "#1a7f4b", "#8a4a9e", "#b42318", "#667085", "#0e9aa7", "#b58900")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720.0, 260.0, 56.0, 12.0, 12.0, 30.0


def line_chart(
    title: str, series: Mapping[str, Points], format_x: Callable[[float], str], format_y: Callable[[float], str]
) -> Markup:
    """Draw a line for each series, with a legend."""
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

    drawn = [_grid(low_y + (high_y - low_y) * part / 4, at, low_x, format_y) for part in range(5)]
    for part in range(5):
        x = low_x + (high_x - low_x) * part / 4
        drawn.append(_text(at(x, low_y)[0], _HEIGHT - 8, format_x(x), "middle" if 0 < part < 4 else _end(part)))
    text = []
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points)
        drawn.append(tag("polyline", points=line, fill="none", stroke=colour, stroke_width="1.8"))
        if points:
            text.append(f"{name} ends at {format_y(points[-1][1])}")
    description = "; ".join(text)
    picture = tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *drawn,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=f"{title}. {description}",
    )
    legend = [
        tag("span", tag("i", style=f"background:{COLOURS[number % len(COLOURS)]}"), name)
        for number, name in enumerate(series)
    ]
    return tag("div", picture, tag("div", *legend, class_="legend"))


def _grid(y: float, at: Place, x: float, tell: Callable[[float], str]) -> Markup:
    height = at(x, y)[1]
    ends = {"x1": f"{_LEFT:g}", "x2": f"{_WIDTH - _RIGHT:g}", "y1": f"{height:.1f}", "y2": f"{height:.1f}"}
    line = tag("line", **ends, stroke="var(--line)")
    return tag("g", line, _text(_LEFT - 6, height + 4, tell(y), "end"))


def _text(x: float, y: float, content: str, anchor: str) -> Markup:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _end(part: int) -> str:
    return "start" if part == 0 else "end"
