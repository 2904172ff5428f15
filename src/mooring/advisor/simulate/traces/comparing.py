"""Compare two sets of replays: means, and confidence intervals over the seeds.

Runs with the same seed are paired, because chance affects them equally; unpaired seeds are left out.
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mooring.advisor.simulate.traces.events import TraceError
from mooring.advisor.simulate.traces.results import Replayed

_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom."""
_NORMAL = 1.96


class Difference(msgspec.Struct, frozen=True):
    """One number of two sets of runs."""

    name: str
    one: float
    """The mean of the first set."""
    other: float
    """The mean of the second set."""
    difference: float
    confidence: float | None
    """Half the width of the 95 % confidence interval; None for a single seed."""

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant."""
        return self.confidence is not None and abs(self.difference) > self.confidence


def read(place: str) -> list[Replayed]:
    """Read the results in a file, a folder, or all files matching a pattern. Raise TraceError."""
    path = Path(place)
    if path.is_dir():
        paths = sorted(path.glob("*.json"))
    elif path.is_file():
        paths = [path]
    else:
        paths = sorted(path.parent.glob(path.name)) if path.parent.is_dir() else []
    if not paths:
        raise TraceError(f"{place}: there are no results of replays")
    found = []
    for each in paths:
        try:
            found.append(msgspec.json.decode(each.read_bytes(), type=Replayed))
        except (OSError, msgspec.DecodeError) as problem:
            raise TraceError(f"{each}: not a result of a replay: {problem}") from problem
    return found


def compare(one: Sequence[Replayed], other: Sequence[Replayed]) -> list[Difference]:
    """Compare number by number; raise TraceError if no seeds match."""
    here, there = _by_seed(one), _by_seed(other)
    seeds = sorted(here.keys() & there.keys())
    if not seeds:
        raise TraceError("the two have no seed in common")
    names = [name for name in here[seeds[0]] if all(name in here[seed] and name in there[seed] for seed in seeds)]
    return [_difference(name, [(here[seed][name], there[seed][name]) for seed in seeds]) for name in names]


def _by_seed(results: Sequence[Replayed]) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for result in results:
        if result.seed in found:
            raise TraceError(
                f"there are two results with the seed {result.seed}: compare one workload and scheduler with another"
            )
        numbers = dict(result.numbers)
        for resource, points in result.allocated.items():
            numbers |= {f"{resource} at {step}%": part for step, part in points.items() if step in (50, 100, 130)}
        found[result.seed] = numbers
    return found


def _difference(name: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    one, other = statistics.fmean(a for a, _ in pairs), statistics.fmean(b for _, b in pairs)
    confidence = None
    if len(pairs) > 1:
        spread = statistics.stdev(b - a for a, b in pairs) / math.sqrt(len(pairs))
        freedom = len(pairs) - 1
        confidence = round(spread * (_STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL), 5)
    return Difference(name, round(one, 5), round(other, 5), round(other - one, 5), confidence)
