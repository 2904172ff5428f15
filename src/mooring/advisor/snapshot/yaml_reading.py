"""Parse YAML files, in several processes if they are large, because parsing takes most of the time.

The text is cut into its documents (``lint/documents.py``), and batches of them are distributed, so that a large file is
distributed too. Results are in the order of the text. Called by ``from_files.py``.
"""

import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, NamedTuple

from mooring.advisor.lint.documents import Piece
from mooring.api import codec

_WORTH_A_POOL = 1024 * 1024
_BATCH = 128 * 1024


class Read(NamedTuple):
    """A parsed document and its first line, or the error of a document that cannot be parsed."""

    line: int
    tree: Any
    problem: str = ""


def read(pieces: Sequence[Piece], jobs: int = 1) -> Iterator[Read]:
    """Parse the documents of a text, with up to `jobs` processes."""
    if jobs == 1 or sum(len(piece.text) for piece in pieces) < _WORTH_A_POOL:
        yield from _documents(pieces)
        return
    under_way: deque[Future[list[Read]]] = deque()
    with ProcessPoolExecutor(jobs, initializer=_start) as pool:
        for batch in _batches(pieces):
            under_way.append(pool.submit(_read_there, batch))
            while len(under_way) > 4 * jobs:
                yield from under_way.popleft().result()
        while under_way:
            yield from under_way.popleft().result()


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has started this one


def _read_there(batch: Sequence[Piece]) -> list[Read]:
    return list(_documents(batch))


def _batches(pieces: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    start = length = 0
    for end, piece in enumerate(pieces, 1):
        length += len(piece.text)
        if length >= _BATCH or end == len(pieces):
            yield pieces[start:end]
            start, length = end, 0


def _documents(pieces: Iterable[Piece]) -> Iterator[Read]:
    for piece in pieces:
        try:
            for document in codec.read_yaml(piece.text, max_bytes=len(piece.text)):
                yield Read(piece.lines_before + document.line, document.tree)
        except codec.YamlError as error:
            yield Read(piece.lines_before + error.line, None, str(error).partition(": ")[2])
        except codec.DecodeError as error:
            yield Read(piece.lines_before + 1, None, str(error))
