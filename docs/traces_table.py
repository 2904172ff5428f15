"""Our numbers beside the paper's: how far apart they are, and whether the policies come in the same order.

python docs/traces_table.py [RESULTS.csv [PUBLISHED.json]]

RESULTS is the `table.csv` that `mooring experiment run examples/fgd/paper.yaml` writes, by default what is kept of ours
in traces-paper.csv; PUBLISHED has mean and standard deviation over ten seeds by trace, policy and per cent that had
been asked for. The output is the table of docs/benchmarks-details.md. `--keep` rewrites traces-paper.csv.
"""

import csv
import json
import statistics
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

NEAR = 0.5
"""Points that a mean may be away from the paper's."""
STEPS = (60, 80, 100, 130)
POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
KEPT, PUBLISHED = Path(__file__).with_name("traces-paper.csv"), Path(__file__).with_name("traces-paper-published.json")
_COLUMN = "alibabacloud.com/gpu-milli at {}%"
_COLUMNS = ("workload", "scheduler", "seed", *(_COLUMN.format(step) for step in STEPS), "cpu seconds")


class Number(NamedTuple):
    mean: float
    deviation: float


class Ours(NamedTuple):
    """What the runs of a policy on a trace came to, over the seeds."""

    seeds: list[int]
    numbers: dict[int, Number]
    seconds: list[float]


Results = dict[tuple[str, str], Ours]
Published = dict[tuple[str, str], dict[int, Number]]


def read(path: Path) -> Results:
    """By trace and policy."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            groups.setdefault((row["workload"], row["scheduler"]), []).append(row)
    return {key: _ours(rows) for key, rows in groups.items()}


def _ours(rows: list[dict[str, str]]) -> Ours:
    numbers = {}
    for step in STEPS:
        values = [float(row[_COLUMN.format(step)]) for row in rows]
        numbers[step] = Number(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)
    return Ours([int(row["seed"]) for row in rows], numbers, [float(row["cpu seconds"]) for row in rows])


def published(path: Path) -> Published:
    published = json.loads(path.read_text(encoding="utf-8"))["allocation"]
    return {
        (trace, policy): {int(step): Number(*pair) for step, pair in steps.items()}
        for trace, policies in published.items()
        for policy, steps in policies.items()
    }


def far(ours: Results, theirs: Published) -> Iterator[str]:
    """Return the means that differ from the paper's by more than half a point."""
    for key, found in ours.items():
        for step in STEPS:
            apart = found.numbers[step].mean - theirs[key][step].mean
            if abs(apart) > NEAR:
                yield f"{key[1]} on {key[0]} at {step} % ({apart:+.2f})"


def swapped(ours: Results, theirs: Published) -> Iterator[str]:
    """Policies that are in another order than in the paper, where it has them further apart than they scatter."""
    for trace in dict.fromkeys(trace for trace, _ in ours):
        for step in STEPS:
            for one, other in combinations((policy for policy in POLICIES if (trace, policy) in ours), 2):
                first, second = theirs[trace, one][step], theirs[trace, other][step]
                gap = ours[trace, one].numbers[step].mean - ours[trace, other].numbers[step].mean
                apart = first.mean - second.mean
                if abs(apart) > max(first.deviation, second.deviation) and apart * gap <= 0:
                    yield f"{one} and {other} on {trace} at {step} %"


def table(ours: Results, theirs: Published) -> Iterator[str]:
    yield "| Trace | Policy | Seeds | " + " | ".join(f"{step} %" for step in STEPS) + " |"
    yield "|---" * (len(STEPS) + 3) + "|"
    for (trace, policy), found in ours.items():
        cells = []
        for step in STEPS:
            own, their = found.numbers[step], theirs[trace, policy][step]
            cells.append(f"{own.mean:.2f} ± {own.deviation:.2f} / {their.mean:.2f} ± {their.deviation:.2f}")
        yield f"| {trace} | {policy} | {len(found.seeds)} | " + " | ".join(cells) + " |"


def keep(path: Path) -> None:
    """Keep the columns that the comparison needs."""
    with path.open(newline="", encoding="utf-8") as source, KEPT.open("w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, _COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            sorted(csv.DictReader(source), key=lambda row: (row["workload"], row["scheduler"], row["seed"]))
        )


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--keep"]
    if "--keep" in sys.argv:
        keep(Path(words[0]))
    ours = read(Path(words[0]) if words else KEPT)
    theirs = published(Path(words[1]) if len(words) > 1 else PUBLISHED)
    print("\n".join(table(ours, theirs)))
    print(f"\nFurther away than half a point: {', '.join(far(ours, theirs)) or 'none'}.")
    print(f"In another order: {', '.join(swapped(ours, theirs)) or 'none'}.")
    seconds = [each for found in ours.values() for each in found.seconds]
    print(f"{len(seconds)} runs, {statistics.fmean(seconds):.1f} s each on average, {max(seconds):.1f} s at most.")


if __name__ == "__main__":
    main()
