"""Parse YAML files, in several processes if they are large, because parsing takes most of the time.

Results are in the order of the text. Called by ``from_files.py``.
"""

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from mooring.advisor.lint import documents
from mooring.advisor.lint.documents import Piece
from mooring.api import codec


class Read(NamedTuple):
    """A parsed document and its first line, or the error of a document that cannot be parsed."""

    line: int
    tree: Any
    problem: str = ""


def read(pieces: Sequence[Piece], jobs: int = 1) -> Iterator[Read]:
    """Parse the documents of a text, with up to `jobs` processes."""
    if jobs == 1 or sum(len(piece.text) for piece in pieces) < documents.POOL_LENGTH:
        yield from _documents(pieces)
        return
    with ProcessPoolExecutor(jobs, initializer=_ignore_interrupt) as pool:
        for found in documents.in_order(pool, _documents, documents.batches(pieces), 4 * jobs):
            yield from found


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has started this one


def _documents(pieces: Sequence[Piece]) -> list[Read]:
    found = []
    for piece in pieces:
        try:
            parsed = codec.read_yaml(piece.text, max_bytes=len(piece.text))
            found += [Read(piece.lines_before + document.line, document.tree) for document in parsed]
        except codec.YamlError as error:
            found.append(Read(piece.lines_before + error.line, None, str(error).partition(": ")[2]))
        except codec.DecodeError as error:
            found.append(Read(piece.lines_before + 1, None, str(error)))
    return found
