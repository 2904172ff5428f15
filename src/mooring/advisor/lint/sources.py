"""Find manifests in directories, and read files with limits.

A file that cannot be read is a finding with the reason, never an exception. Called by ``runner.py``.
"""

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MAX_BYTES = 64 * 1024 * 1024
_SMALL = 64 * 1024  # nearly all files are; room for the largest would be made for each of them
STDIN = "-"
_GZIP = b"\x1f\x8b"
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Source:
    """A manifest file to lint. `was_found` is true if it was found in a directory instead of named by the user."""

    path: str
    was_found: bool = False

    @property
    def name(self) -> str:
        """Return the file's name for output, with undecodable bytes replaced."""
        return "<stdin>" if self.path == STDIN else os.fsencode(self.path).decode(errors="replace")


class UnreadableError(Exception):
    """A file cannot be read; the message says why."""


def find_sources(paths: Sequence[str]) -> Iterator[Source]:
    """Yield each manifest file that the paths name, or that is below a directory they name, once."""
    seen: set[str] = set()
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            found = [Source(each, was_found=True) for each in _walk_directory(path)]
        else:
            found = [Source(path)]
        for source in found:
            if source.path not in seen:
                seen.add(source.path)
                yield source


def _walk_directory(top: str) -> Iterator[str]:
    """Yield the paths of the manifest files below a directory, sorted. Follow links, but into no directory twice."""
    visited: set[tuple[int, int]] = set()
    for directory, below, files in os.walk(top, followlinks=True):
        try:
            info = Path(directory).stat()
        except OSError:
            continue
        if (info.st_dev, info.st_ino) in visited:
            below.clear()
            continue
        visited.add((info.st_dev, info.st_ino))
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                yield str(Path(directory, name))


def size_of(source: Source) -> int:
    """Return the size of a file in bytes; 0 if unknown."""
    try:
        return 0 if source.path == STDIN else Path(source.path).stat().st_size
    except OSError:
        return 0


def read_source(source: Source, stdin: IO[bytes], most: int = 0, *, unpacks: bool = False) -> str:
    """Return the text of a source, at most `most` bytes (0: `MAX_BYTES`). Raise `UnreadableError`."""
    most = most or MAX_BYTES
    try:
        data = stdin.read(most + 1) if source.path == STDIN else _read_file(source, most)
        if unpacks and data[:2] == _GZIP:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(getattr(error, "strerror", "") or str(error)) from error
    if len(data) > most:
        raise UnreadableError(f"it has more than {most // 1024**2} MiB")
    if b"\0" in data:
        raise UnreadableError("it is not text: it has null bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is not UTF-8 at byte {error.start}") from error


def _read_file(source: Source, most: int) -> bytes:
    # A pipe that a user names is read; one that lies about in a directory would be waited for, for ever.
    flags = os.O_RDONLY | (getattr(os, "O_NONBLOCK", 0) if source.was_found else 0)
    with os.fdopen(os.open(source.path, flags), "rb") as file:
        if source.was_found and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnreadableError("it is not a regular file")
        data = file.read(_SMALL)
        return data + file.read(most + 1 - _SMALL) if len(data) == _SMALL else data
