"""Checkpoints of a long replay: a file with the state after an event of the trace.

The file has only numbers and names. Pods and nodes are identified by the number of their event; to resume, the trace is
read again up to the checkpoint, which is much faster than replaying it. Without an interruption, ``replaying.py`` also
continues from its own checkpoint, so that the result is the same in both cases.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec

from mooring.advisor.simulate.traces.events import TraceError
from mooring.advisor.simulate.traces.measures import Tally


class PodState(msgspec.Struct, array_like=True):
    event: int
    node: str
    created_at: float | None
    placed_at: float | None


@dataclass(slots=True)
class ReplayState:
    """The state of a replay after a number of events."""

    events: int
    seconds: float
    nodes: list[int]
    """The nodes in row order: the numbers of their events, or -1, -2, … for initial nodes."""
    pods: list[PodState]
    leaving: list[tuple[float, int]]
    """End times of pods in order, with the numbers of their events."""
    shapes: list[tuple[int, int]]
    """One pod of each frequent signature by event number, with the number of identical ones that arrived."""
    tally: Tally
    placements: dict[str, str] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)

    def needed_events(self) -> set[int]:
        """Return the numbers of the trace events whose pods and nodes are needed to resume."""
        return {*self.nodes, *(pod.event for pod in self.pods), *(event for event, _ in self.shapes)}


class _File(msgspec.Struct):
    digest: str
    standing: ReplayState


class Checkpoints:
    """Reads and writes the checkpoint file of a replay, which holds the last checkpoint only."""

    def __init__(self, path: Path, digest: str, every: int) -> None:
        """Identify the replay by `digest` (`digest_of`); a checkpoint is written after every `every` events."""
        self._path = path
        self._digest = digest
        self.every = every

    def read(self) -> ReplayState | None:
        """Return the last checkpoint; None without a file. Raise TraceError if it is unusable or of another replay."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as problem:
            raise TraceError(f"{self._path}: not a checkpoint ({problem}); remove it to start over") from problem
        if found.digest != self._digest:
            raise TraceError(f"{self._path}: a checkpoint of another replay, or of changed files; name another file")
        return found.standing

    def write(self, standing: ReplayState) -> None:
        """Replace the checkpoint atomically and durably. Raise TraceError."""
        partial = self._path.with_name(f"{self._path.name}.partial")
        try:
            with partial.open("wb") as stream:
                stream.write(msgspec.json.encode(_File(self._digest, standing)))
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(self._path)
        except OSError as problem:
            raise TraceError(f"{self._path}: the checkpoint cannot be written: {problem.strerror}") from problem

    def delete(self) -> None:
        """Delete the checkpoint of a finished replay."""
        self._path.unlink(missing_ok=True)


def digest_of(words: object, files: Iterable[Path]) -> str:
    """Return a hexadecimal digest of JSON-encodable parameters and of the contents of files."""
    found = hashlib.blake2b(msgspec.json.encode(words), digest_size=16)
    for path in files:
        found.update(_content_digest(path, path.stat().st_mtime_ns, path.stat().st_size))
    return found.hexdigest()


@lru_cache(4096)
def _content_digest(path: Path, _changed: int, _size: int) -> bytes:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").digest()
