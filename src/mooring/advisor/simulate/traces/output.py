"""Write measures over time as CSV, JSON or Parquet, by the file extension."""

import csv
import io
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mooring.advisor.simulate.traces.events import TraceError
from mooring.advisor.simulate.traces.measures import Sample
from mooring.advisor.simulate.traces.results import Replayed
from mooring.advisor.simulate.traces.tables import NO_PYARROW


def columns_of(samples: list[Sample]) -> list[str]:
    """Return the names of all measures in order of appearance."""
    return list(dict.fromkeys(name for sample in samples for name in sample))


def as_csv(samples: list[Sample]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(samples), restval="0", lineterminator="\n")
    writer.writeheader()
    writer.writerows(samples)
    return text.getvalue()


def check(path: Path) -> None:
    """Check whether measures can be written there. Raise TraceError."""
    if path.suffix not in (".csv", ".json", ".parquet"):
        raise TraceError(f"{path}: the name ends in .csv, .json or .parquet")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise TraceError(f"{path}: {NO_PYARROW}")
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raise TraceError if the folder of a file does not exist."""
    if not path.parent.is_dir():
        raise TraceError(f"{path}: there is no folder {path.parent}")


def write(result: Replayed, path: Path) -> None:
    """Write measures; raise TraceError."""
    check(path)
    try:
        match path.suffix:
            case ".csv":
                path.write_text(as_csv(result.samples), encoding="utf-8")
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
