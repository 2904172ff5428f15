"""The result of a replay: plain values, the same in Python, in files and in experiments."""

import csv
import io
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from mooring.advisor.results import API_VERSION
from mooring.advisor.simulate.traces.events import TraceError
from mooring.advisor.simulate.traces.measures import Sample
from mooring.advisor.simulate.traces.replaying import Replay
from mooring.advisor.simulate.traces.tables import NO_PYARROW


class Replayed(msgspec.Struct, rename="camel", kw_only=True):
    api_version: str = API_VERSION
    kind: Literal["Replay"] = "Replay"
    cluster: str
    workload: str
    scheduler: str
    seed: int
    digest: str = ""
    """A digest of all inputs; an experiment does not repeat a run with the same digest."""
    is_complete: bool = True
    numbers: dict[str, float]
    allocated: dict[str, dict[int, float]]
    """By resource, the allocated percentage at each requested percentage."""
    samples: list[Sample]
    pending: dict[str, int] = {}
    placements: dict[str, str] = {}
    elsewhere: int | None = None
    """How many pods got another node than in the recorded cluster; None if that is unknown."""
    skipped: int = 0
    notes: list[str] = []
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


def build_replay_result(
    replay: Replay, cluster: str, workload: str, scheduler: str, notes: list[str] | None = None
) -> Replayed:
    """Return the result of a replay, which may have been interrupted."""
    recorded, placements = replay.recorded, replay.placements
    odd = [f"{each.number:,} {what}: the first was {each.first}" for what, each in replay.tally.odd.items()]
    elsewhere = sum(placements.get(pod, "") != node for pod, node in recorded.items()) if recorded else None
    pending = (pod for pod in replay.world.pods.values() if not pod.node)
    waiting = Counter(replay.world.message_of(pod) or "not tried yet" for pod in pending)
    return Replayed(
        cluster=cluster,
        workload=workload,
        scheduler=scheduler,
        seed=replay.options.seed,
        is_complete=replay.is_complete,
        numbers=replay.result_numbers(),
        allocated={resource: curve.points() for resource, curve in replay.tally.curves.items()},
        samples=replay.tally.samples,
        pending=dict(waiting.most_common()),
        placements=placements,
        elsewhere=elsewhere,
        notes=[*(notes or []), *odd],
    )


def columns_of(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the keys of all rows in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def format_csv(rows: Sequence[Mapping[str, object]], missing: str = "0") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(rows), restval=missing, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def check_path(path: Path) -> None:
    """Raise TraceError if `write_samples` could not write a file: unknown suffix, missing folder, missing library."""
    if path.suffix not in (".csv", ".json", ".parquet"):
        raise TraceError(f"{path}: the name ends in .csv, .json or .parquet")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise TraceError(f"{path}: {NO_PYARROW}")
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raise TraceError if the folder of a file does not exist."""
    if not path.parent.is_dir():
        raise TraceError(f"{path}: there is no folder {path.parent}")


def write_samples(result: Replayed, path: Path) -> None:
    """Write a replay's samples to a file, in the format of its suffix (JSON: the whole result); raise TraceError."""
    check_path(path)
    try:
        match path.suffix:
            case ".csv":
                path.write_text(format_csv(result.samples), encoding="utf-8")
            case ".parquet":
                _write_parquet(result.samples, path)
            case _:
                path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2))
    except OSError as problem:
        raise TraceError(f"{path}: {problem.strerror}") from problem


def _write_parquet(samples: list[Sample], path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415 - as above

    names = columns_of(samples)
    parquet.write_table(pa.table({name: [sample.get(name, 0) for sample in samples] for name in names}), path)


_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom."""
_NORMAL = 1.96


class Difference(msgspec.Struct, frozen=True):
    """One number compared between two sets of runs: the means, and their difference with its confidence."""

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
        """Return whether the confidence interval of the difference excludes zero."""
        return self.confidence is not None and abs(self.difference) > self.confidence


def read_results(place: str) -> list[Replayed]:
    """Read replay results from a file, a folder, or files that match a pattern. Raise TraceError."""
    path = Path(place)
    if path.is_file():
        paths = [path]
    else:
        folder, pattern = (path, "*.json") if path.is_dir() else (path.parent, path.name)
        paths = sorted(folder.glob(pattern)) if folder.is_dir() else []
    if not paths:
        raise TraceError(f"{place}: there are no results of replays")
    found = []
    for each in paths:
        try:
            found.append(msgspec.json.decode(each.read_bytes(), type=Replayed))
        except (OSError, msgspec.DecodeError) as problem:
            raise TraceError(f"{each}: not a result of a replay: {problem}") from problem
    return found


def compare_replays(one: Sequence[Replayed], other: Sequence[Replayed]) -> list[Difference]:
    """Compare two sets of results number by number, over the seeds of both. Raise TraceError without a common seed."""
    here, there = _numbers_by_seed(one), _numbers_by_seed(other)
    seeds = sorted(here.keys() & there.keys())
    if not seeds:
        raise TraceError("the two have no seed in common")
    names = [name for name in here[seeds[0]] if all(name in here[seed] and name in there[seed] for seed in seeds)]
    return [_compare_number(name, [(here[seed][name], there[seed][name]) for seed in seeds]) for name in names]


def _numbers_by_seed(results: Sequence[Replayed]) -> dict[int, dict[str, float]]:
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


def _compare_number(name: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    one, other = statistics.fmean(a for a, _ in pairs), statistics.fmean(b for _, b in pairs)
    confidence = None
    if len(pairs) > 1:
        spread = statistics.stdev(b - a for a, b in pairs) / math.sqrt(len(pairs))
        freedom = len(pairs) - 1
        confidence = round(spread * (_STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL), 5)
    return Difference(name, round(one, 5), round(other, 5), round(other - one, 5), confidence)
