"""All files of a run: read here, judged here or, when there is much of it, in several processes.

Files are sent to the processes in batches of documents, so that one large file is shared out as many small ones are.
The order of the findings is that of the files. Called by the command line.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import IO, NamedTuple

from mooring.advisor.lint import documents, rules, sources
from mooring.advisor.lint.documents import Piece
from mooring.advisor.lint.findings import Problem, Report
from mooring.advisor.lint.linter import Linter
from mooring.advisor.lint.options import Settings
from mooring.advisor.lint.sources import Source, UnreadableError

_WORTH_A_POOL = 1024 * 1024
_BATCH = 128 * 1024


class _Batch(NamedTuple):
    """Documents of one file, or the reason why it cannot be read."""

    file: str
    pieces: Sequence[Piece]
    problem: Problem | None = None


def run(found: Sequence[Source], settings: Settings, stdin: IO[bytes], jobs: int = 1) -> Report:
    """Judge files, with up to `jobs` processes. Raises `SchemeError` when the settings contradict each other."""
    _say_nothing_twice()
    linter = Linter(settings)  # here too, so that wrong settings are told before anything is started
    report = Report(files=[source.name for source in found])
    batches = _batches(found, stdin)
    if jobs > 1 and sum(map(sources.size, found)) >= _WORTH_A_POOL:
        parts = _in_processes(batches, settings, jobs)
    else:
        parts = (_judge(linter, batch) for batch in batches)
    for part in parts:
        report.add(part)
    return report


def _say_nothing_twice() -> None:
    """Matching logs what it cannot parse or evaluate. Here that is a finding."""
    logging.getLogger("mooring.constraints").setLevel(logging.CRITICAL + 1)


def _batches(found: Iterable[Source], stdin: IO[bytes]) -> Iterator[_Batch]:
    for source in found:
        try:
            pieces = documents.pieces(sources.read(source, stdin))
        except UnreadableError as error:
            yield _Batch(source.name, (), Problem(rules.UNREADABLE, "", f"the file cannot be read: {error}"))
            continue
        batch: list[Piece] = []
        length = 0
        for piece in pieces:
            batch.append(piece)
            length += len(piece.text)
            if length >= _BATCH:
                yield _Batch(source.name, batch)
                batch, length = [], 0
        if batch:
            yield _Batch(source.name, batch)


def _judge(linter: Linter, batch: _Batch) -> Report:
    if batch.problem is None:
        return linter.lint_pieces(batch.file, batch.pieces)
    finding = linter.finding(batch.problem, batch.file)
    return Report([finding] if finding else [])


# -- several processes

_linter: Linter | None = None
"""The linter of a process of the pool."""


def _start(settings: Settings) -> None:
    global _linter  # noqa: PLW0603 - a pool has no other way to keep something in its processes
    _say_nothing_twice()
    _linter = Linter(settings)


def _judge_there(batch: _Batch) -> Report:
    assert _linter is not None  # noqa: S101 - the pool has called `_start`
    return _judge(_linter, batch)


def _in_processes(batches: Iterable[_Batch], settings: Settings, jobs: int) -> Iterator[Report]:
    """The reports in the order of the batches; only a few batches are on their way at any time."""
    under_way: deque[Future[Report]] = deque()
    with ProcessPoolExecutor(jobs, initializer=_start, initargs=(settings,)) as pool:
        for batch in batches:
            under_way.append(pool.submit(_judge_there, batch))
            while len(under_way) > 4 * jobs:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
