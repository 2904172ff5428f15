"""Lint all files of a run: in this process or, if there is much text, in several processes.

Batches of documents are sent to the processes, so that a large file is distributed like many small ones. Findings are
in the order of the files. Called by the command line.
"""

import gc
import io
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO, NamedTuple

from mooring.advisor.lint import documents, rules, sources
from mooring.advisor.lint.facts import REFERRED
from mooring.advisor.lint.linter import Linter, without_logs
from mooring.advisor.lint.options import Settings
from mooring.advisor.lint.rules import Problem, Report
from mooring.advisor.lint.sources import Source, UnreadableError
from mooring.api.codec import DecodeError

_SELDOM = (100_000, 50, 50)


class _FilePart(NamedTuple):
    file: str
    pieces: Sequence[documents.Piece]
    problem: Problem | None = None


_Batch = list[_FilePart]
"""Documents that one process lints together: parts of several files, or some of one large file."""


def lint_files(found: Sequence[Source], settings: Settings, stdin: IO[bytes], jobs: int = 1) -> Report:
    """Lint files, with up to `jobs` processes. Raises `SchemeError` when the settings contradict each other."""
    if settings.facts is not None:
        given = io.BytesIO(
            stdin.read(sources.MAX_BYTES + 1) if any(each.path == sources.STDIN for each in found) else b""
        )
        settings = replace(settings, facts=settings.facts.with_names(_created_objects(found, given)))
        given.seek(0)
        stdin = given
    linter = Linter(settings)  # here too, so that wrong settings are reported before anything is started
    report = Report(files=[source.name for source in found])
    batches = _batch_files(found, stdin)
    if jobs > 1 and sum(map(sources.size_of, found)) >= documents.POOL_LENGTH:
        parts = _lint_in_processes(batches, settings, jobs)
    else:
        parts = (_lint_batch(linter, batch) for batch in batches)
    with _collecting_seldom():
        for part in parts:
            report.add(part)
    return report


def _created_objects(found: Iterable[Source], stdin: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the objects in the files that other objects may refer to, such as namespaces."""
    for source in found:
        try:
            pieces = documents.split_pieces(sources.read_source(source, stdin))
        except UnreadableError:
            continue
        for piece in pieces:
            if not any(kind in piece.text for kind in REFERRED):
                continue
            with suppress(DecodeError, RecursionError):
                for tree in documents.parse_trees(piece.text):
                    for item in documents.list_objects(tree):
                        metadata = item.tree.get("metadata") if isinstance(item.tree, dict) else None
                        if isinstance(metadata, dict):
                            yield str(item.tree.get("kind")), str(metadata.get("name"))


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Collect garbage less often inside the context, because parsed documents have no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _batch_files(found: Iterable[Source], stdin: IO[bytes]) -> Iterator[_Batch]:
    batch: _Batch = []
    length = 0
    for source in found:
        for part in _read_parts(source, stdin):
            batch.append(part)
            length += sum(len(piece.text) for piece in part.pieces)
            if length >= documents.BATCH_LENGTH:
                yield batch
                batch, length = [], 0
    yield batch


def _read_parts(source: Source, stdin: IO[bytes]) -> Iterator[_FilePart]:
    try:
        pieces = documents.split_pieces(sources.read_source(source, stdin))
    except UnreadableError as error:
        yield _FilePart(source.name, (), Problem(rules.UNREADABLE, "", f"the file cannot be read: {error}"))
        return
    yield from (_FilePart(source.name, batch) for batch in documents.batch_pieces(pieces))


def _lint_batch(linter: Linter, batch: _Batch) -> Report:
    report = Report()
    with without_logs():
        for file, pieces, problem in batch:
            finding = linter.build_finding(problem, file) if problem else None
            if finding:
                report.findings.append(finding)
            report.add(linter.lint_pieces(file, pieces))
    return report


# -- several processes

_linter: Linter | None = None
"""Return the linter of this worker process, created at the first call."""


def _start_process(settings: Settings) -> None:
    global _linter  # noqa: PLW0603 - a pool has no other way to keep something in its processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has started this one
    gc.set_threshold(*_SELDOM)
    _linter = Linter(settings)


def _lint_in_process(batch: _Batch) -> Report:
    assert _linter is not None  # noqa: S101 - the pool has called `_start_process`
    return _lint_batch(_linter, batch)


def _lint_in_processes(batches: Iterable[_Batch], settings: Settings, jobs: int) -> Iterator[Report]:
    """Yield the reports in the order of the batches; only a few batches are in progress at a time."""
    with ProcessPoolExecutor(jobs, initializer=_start_process, initargs=(settings,)) as pool:
        yield from documents.map_in_order(pool, _lint_in_process, batches, 4 * jobs)
