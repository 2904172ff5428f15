"""Draws the figure of docs/traces.md: what the policies allocate of the GPUs, ours beside the paper's.

python docs/traces_figure.py RESULTS EXPECTED.json [WORKLOAD] > docs/traces-paper.svg

RESULTS is the folder of `mooring experiment run examples/fgd/paper.yaml`, EXPECTED.json the paper's numbers.
"""

import json
import statistics
import sys
from pathlib import Path

_COLOURS = {
    "Random": "#667085",
    "DotProd": "#b58900",
    "GpuClustering": "#1a7f4b",
    "GpuPacking": "#8a4a9e",
    "BestFit": "#c2571a",
    "FGD": "#2f6fde",
}
_LEFT, _TOP, _WIDE, _HIGH = 50, 30, 300, 260
_FROM, _TO, _LOW, _HIGHEST = 60, 130, 55.0, 100.0


def main() -> None:
    results, expected = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())["allocation"]
    workload = sys.argv[3] if len(sys.argv) > 3 else "default"
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 360" font-family="sans-serif" font-size="11">')
    print(f"<title>GPU allocation of six policies, trace {workload}: Mooring beside the paper</title>")
    print('<rect width="780" height="360" fill="#fff"/>')
    _frame(0, "Mooring")
    _frame(380, "the paper")
    for place, (policy, colour) in enumerate(_COLOURS.items()):
        ours = _means(results, workload, policy)
        _line(0, colour, sorted(ours.items()))
        _line(
            380, colour, sorted((int(step), mean) for step, (mean, _) in expected[workload][policy].items()), dots=True
        )
        x = 60 + place * 115
        print(
            f'<rect x="{x}" y="338" width="12" height="4" fill="{colour}"/><text x="{x + 17}" y="344">{policy}</text>'
        )
    print("</svg>")


def _means(results: Path, workload: str, policy: str) -> dict[int, float]:
    """Return the means over the seeds, by requested per cent."""
    found = [json.loads(path.read_text())["allocated"] for path in results.glob(f"runs/*.{workload}.{policy}.*.json")]
    gpu = [curve["alibabacloud.com/gpu-milli"] for curve in found]
    steps = {int(step) for curve in gpu for step in curve if _FROM <= int(step) <= _TO}
    return {step: statistics.fmean(curve[str(step)] for curve in gpu if str(step) in curve) for step in steps}


def _at(left: int, x: float, y: float) -> tuple[float, float]:
    return left + _LEFT + _WIDE * (x - _FROM) / (_TO - _FROM), _TOP + _HIGH * (1 - (y - _LOW) / (_HIGHEST - _LOW))


def _frame(left: int, title: str) -> None:
    print(f'<text x="{left + _LEFT}" y="18" font-size="13" font-weight="bold">{title}</text>')
    for y in range(60, 101, 10):
        x, height = _at(left, _FROM, y)
        print(f'<line x1="{x}" x2="{x + _WIDE}" y1="{height:.1f}" y2="{height:.1f}" stroke="#e3e6ec"/>')
        print(f'<text x="{x - 6}" y="{height + 4:.1f}" text-anchor="end">{y}%</text>')
    for x in range(60, 131, 10):
        print(f'<text x="{_at(left, x, 0)[0]:.1f}" y="{_TOP + _HIGH + 16}" text-anchor="middle">{x}</text>')
    middle = left + _LEFT + _WIDE / 2
    print(f'<text x="{middle}" y="{_TOP + _HIGH + 32}" text-anchor="middle">GPUs asked for, per cent</text>')


def _line(left: int, colour: str, points: list[tuple[int, float]], *, dots: bool = False) -> None:
    drawn = " ".join("{:.1f},{:.1f}".format(*_at(left, x, y)) for x, y in points)
    print(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    for x, y in points if dots else ():
        print('<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>'.format(*_at(left, x, y), colour))


if __name__ == "__main__":
    main()
