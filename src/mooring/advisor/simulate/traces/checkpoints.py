"""How a long replay is gone on with after an interruption: a file that says how things stood at an event of the trace.

The file has numbers and names alone. Pods and nodes are those of the trace, by the number of the event that they came
with; whoever resumes reads the trace again up to there, which is far quicker than to replay it. ``replaying.py`` also
goes on from what it has just written when nobody has interrupted it, so that the outcome is the same in either case.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mooring.advisor.simulate.traces.events import TraceError
from mooring.advisor.simulate.traces.measures import Tally


class StandingPod(msgspec.Struct, array_like=True):
    """A pod that is there."""

    event: int
    node: str
    created_at: float | None
    placed_at: float | None


@dataclass(slots=True)
class Standing:
    """How things stand after so many events."""

    events: int
    seconds: float
    """Of virtual time."""
    nodes: list[int]
    """In the order of their rows: the events that they came with, or -1, -2, … for those that were there before."""
    pods: list[StandingPod]
    leaving: list[tuple[float, int]]
    """When pods have run their time, in that order, and the events that they came with."""
    shapes: list[tuple[int, int]]
    """Pods that are typical, by event, and how many came that are like them."""
    tally: Tally
    placements: dict[str, str] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)

    def wanted(self) -> set[int]:
        """The events that have to be known to go on."""
        return {*self.nodes, *(pod.event for pod in self.pods), *(event for event, _ in self.shapes)}


class _File(msgspec.Struct):
    digest: str
    standing: Standing


class Checkpoints:
    """A file with the last checkpoint of one replay."""

    def __init__(self, path: Path, digest: str, every: int) -> None:
        """`digest` tells replays apart (`digest_of`); a checkpoint is written every so many events."""
        self._path = path
        self._digest = digest
        self.every = every

    def read(self) -> Standing | None:
        """The last checkpoint, if there is one. Raises TraceError."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as problem:
            raise TraceError(f"{self._path}: not a checkpoint ({problem}); remove it to begin anew") from problem
        if found.digest != self._digest:
            raise TraceError(f"{self._path}: a checkpoint of another replay, or of changed files; name another file")
        return found.standing

    def write(self, standing: Standing) -> None:
        """Whole or not at all, also when the machine stops. Raises TraceError."""
        partial = self._path.with_name(f"{self._path.name}.partial")
        try:
            with partial.open("wb") as stream:
                stream.write(msgspec.json.encode(_File(self._digest, standing)))
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(self._path)
        except OSError as problem:
            raise TraceError(f"{self._path}: the checkpoint cannot be written: {problem.strerror}") from problem

    def end(self) -> None:
        """The replay is done: nobody has to go on."""
        self._path.unlink(missing_ok=True)


def digest_of(words: object, files: Iterable[Path]) -> str:
    """Equal for replays with the same words and files of the same content."""
    found = hashlib.blake2b(msgspec.json.encode(words), digest_size=16)
    for path in files:
        with path.open("rb") as stream:
            found.update(hashlib.file_digest(stream, "blake2b").digest())
    return found.hexdigest()
