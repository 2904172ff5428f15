"""The results of an experiment: a line for each run, and means with standard deviations over the seeds."""

import csv
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from mooring.advisor.experiments.experiment_file import Asked
from mooring.advisor.simulate.traces.results import Replayed

_KEYS = ("cluster", "workload", "scheduler")


def row_of(result: Replayed, asked: Sequence[Asked]) -> dict[str, object]:
    """Return a run as a line of the table."""
    row: dict[str, object] = {key: getattr(result, key) for key in _KEYS} | {"seed": result.seed}
    for wanted in asked:
        points = result.allocated.get(wanted.resource, {})
        for step in wanted.at:
            row[column(wanted.resource, step)] = points.get(step, "")
    return row | result.numbers | {"cpu seconds": result.cpu_seconds, "peak MB": result.peak_mb}


def column(resource: str, step: int) -> str:
    return f"{resource} at {step}%"


def write(path: Path, rows: Sequence[dict[str, object]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def summary(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Return means and standard deviations over the seeds, for each cluster, workload and scheduler."""
    groups: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in _KEYS), []).append(row)
    found = []
    for key, members in groups.items():
        line: dict[str, object] = dict(zip(_KEYS, key, strict=True)) | {"seeds": len(members)}
        for name in members[0]:
            values = [value for member in members if isinstance(value := member.get(name), int | float)]
            if name not in (*_KEYS, "seed") and values:
                line[name] = round(statistics.fmean(values), 3)
                line[f"{name} ±"] = round(statistics.stdev(values), 3) if len(values) > 1 else 0.0
        found.append(line)
    return found
