"""The map of nodes as compact SVG: a block for each group, a square for each node, a path for each colour.

Five thousand nodes are a hundred kilobytes, drawn at once, and need no script to be seen. A cross marks nodes that are
not ready and a dot those that take no more pods, so that colours are not all there is.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from mooring.advisor.simulate.html.markup import Markup, tag

_NAMED_SIDE, _MAX_LETTERS = 72, 9
"""Squares of this side or larger carry the end of their node's name."""


class Square(NamedTuple):
    """A node of the map."""

    name: str
    shade: str
    """A class of the style sheet."""
    label: str
    """The tooltip."""
    is_crossed: bool
    is_dotted: bool


def side_of(number: int) -> int:
    """Return the side of a square in pixels, given the number of nodes."""
    return next((side for most, side in ((12, 72), (60, 30), (300, 20), (1200, 14), (3000, 10)) if number <= most), 8)


def columns_of(number: int, side: int) -> int:
    """Return how many squares are in a row of a block."""
    return min(max(math.ceil(math.sqrt(number * 2)), 4), max(1040 // side, 1))


def block(title: str, squares: Sequence[Square], side: int, index: int) -> Markup:
    """Draw a group of nodes."""
    columns = columns_of(len(squares), side)
    rows = max(math.ceil(len(squares) / columns), 1)
    inner, marks, dots = side - max(side // 8, 1), [], []
    paths: dict[str, list[str]] = {}
    for place, square in enumerate(squares):
        x, y = place % columns * side, place // columns * side
        paths.setdefault(square.shade, []).append(f"M{x} {y}h{inner}v{inner}h-{inner}z")
        if square.is_crossed:
            marks.append(f"M{x} {y}l{inner} {inner}M{x + inner} {y}l-{inner} {inner}")
        elif square.is_dotted:
            half, size = inner // 2, max(inner // 4, 2)
            dots.append(f"M{x + half - size // 2} {y + half - size // 2}h{size}v{size}h-{size}z")
    drawn = [tag("path", class_=shade, d="".join(pieces)) for shade, pieces in sorted(paths.items())]
    for place, square in enumerate(squares if side >= _NAMED_SIDE else ()):
        x, y = place % columns * side + inner // 2, place // columns * side + inner // 2
        name = square.name if len(square.name) <= _MAX_LETTERS else f"…{square.name[1 - _MAX_LETTERS :]}"
        drawn.append(tag("text", name, x=x, y=y, class_="name"))
    drawn += [tag("path", class_="cross", d="".join(marks))] if marks else []
    drawn += [tag("path", class_="dot", d="".join(dots))] if dots else []
    width, height = columns * side, rows * side
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
        class_="map",
        data_group=index,
        data_columns=columns,
        data_side=side,
    )
