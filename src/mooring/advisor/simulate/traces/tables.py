"""Stream the tables of a trace: CSV, plain or gzip, and Parquet (with pyarrow, an extra)."""

import csv
import gzip
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from mooring.advisor.simulate.traces.events import Complaints, TraceError

Line = tuple[str, Mapping[str, str]]
"""A row: its position (`file:line`) and its fields by column; missing columns are empty."""
_LONGEST_FIELD = 2 * 1024 * 1024
_BATCH = 8192
_STRAY_BYTE = re.compile("[\udc80-\udcff]")
"""Python's representation of invalid UTF-8 (`surrogateescape`)."""
_PARQUET_MAGIC, _GZIP_MAGIC = b"PAR1", b"\x1f\x8b"
NO_PYARROW = "Parquet needs pyarrow: install mooring[parquet]"


def is_parquet(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == _PARQUET_MAGIC


def read_header(path: Path) -> list[str]:
    """Return the names of a table's columns. Raise TraceError."""
    if is_parquet(path):
        return _open_parquet(path)[0]
    try:
        with _open_text(path) as stream:
            names = [name.strip() for name in next(csv.reader(stream), [])]
    except (OSError, EOFError, csv.Error) as problem:
        raise TraceError(f"{path}: not a table: {problem}") from problem
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise TraceError(f'{path}: the column "{twice}" is there twice')
    return names


def read_rows(path: Path, complaints: Complaints) -> Iterator[Line]:
    """Yield the rows of a table as dicts, with their positions in the file."""
    return _parquet_lines(path) if is_parquet(path) else _csv_lines(path, complaints)


def _csv_lines(path: Path, complaints: Complaints) -> Iterator[Line]:
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        with _open_text(path) as stream:
            watched = _LineReader(stream)
            rows = csv.reader(watched)
            names = [name.strip() for name in next(rows, [])]
            while True:
                watched.is_text = True
                try:
                    row = next(rows)
                except StopIteration:
                    return
                except csv.Error as problem:
                    complaints.report_bad_line(f"{path}:{rows.line_num}", f"not a line of a table: {problem}")
                    continue
                place = f"{path}:{rows.line_num}"
                if not watched.is_text:
                    complaints.report_bad_line(place, "it is not UTF-8")
                elif row and len(row) != len(names):
                    short = f"the line has {len(row)} fields, and the header {len(names)}"
                    cut = ": the file seems to be cut off" if not watched.is_whole and len(row) < len(names) else ""
                    complaints.report_bad_line(place, short + cut)
                elif row:
                    yield place, dict(zip(names, row, strict=True))
    except (OSError, EOFError) as problem:
        raise TraceError(f"{path}: cannot be read: {problem}") from problem


class _LineReader:
    """Iterates over the lines of a text; `is_whole` is true if the last one ended with a line break."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self._stream = stream
        self.is_whole = True
        self.is_text = True
        """False after a line with invalid UTF-8; the reader resets it."""

    def __iter__(self) -> "_LineReader":
        return self

    def __next__(self) -> str:
        line = self._stream.readline(_LONGEST_FIELD * 2)
        if not line:
            raise StopIteration
        self.is_whole = line.endswith("\n")
        self.is_text = self.is_text and (line.isascii() or not _STRAY_BYTE.search(line))
        return line.replace("\0", "\ufffd")


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; decompress it if it is gzip."""
    with path.open("rb") as stream:
        is_packed = stream.peek(2)[:2] == _GZIP_MAGIC
        with gzip.GzipFile(fileobj=stream) if is_packed else stream as whole:
            yield whole  # type: ignore[misc] # a GzipFile reads bytes as well


@contextmanager
def _open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    with open_unpacked(path) as stream:
        yield io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _open_parquet(path: Path) -> tuple[list[str], object]:
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - an extra
    except ImportError as problem:
        raise TraceError(f"{path}: {NO_PYARROW}") from problem
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ArrowException) as problem:
        raise TraceError(f"{path}: not a Parquet file: {problem}") from problem
    return list(file.schema_arrow.names), file


def _read_batches(path: Path, file: Any) -> Iterator[Any]:
    from pyarrow import ArrowException  # noqa: PLC0415 - an extra

    try:
        yield from file.iter_batches(batch_size=_BATCH)
    except (OSError, ArrowException) as problem:
        raise TraceError(f"{path}: cannot be read: {problem}") from problem


def _parquet_lines(path: Path) -> Iterator[Line]:
    names, file = _open_parquet(path)
    number = 0
    for batch in _read_batches(path, file):
        columns = [batch.column(index).to_pylist() for index in range(len(names))]
        for row in zip(*columns, strict=True):
            number += 1
            yield (
                f"{path}:row {number}",
                {name: "" if value is None else str(value) for name, value in zip(names, row, strict=True)},
            )
