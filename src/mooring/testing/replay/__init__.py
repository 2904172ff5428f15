"""Replay recorded behaviour: ``python -m mooring.testing.replay KIND FILE…``.

Each kind of file has a module, listed in `mooring.testing.replay.__main__`. Its function ``replay`` replays one file
and returns a `Result`. Modules with options have ``add_arguments`` and ``run`` as well.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Result:
    """The number of cases that passed; failures and omissions by name, each with the cause."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, other: "Result") -> None:
        """Add the cases of another file."""
        self.passed += other.passed
        self.failed += other.failed
        self.left_out += other.left_out

    def count(self, name: str, problem: str | None) -> None:
        """Count one case; it passed if there is no problem."""
        if problem is None:
            self.passed += 1
        else:
            self.failed.append(f"{name}: {problem}")


class UnreadableFileError(Exception):
    """A file does not hold recorded cases; `str()` is for the user."""


def read_json(file: Path, cls: type, content: str) -> Any:
    """Return the JSON value of a file, which must be of a type; `content` names it in errors."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UnreadableFileError(f"{file}: {error}") from error
    if not isinstance(found, cls):
        raise UnreadableFileError(f"{file}: not {content}")
    return found


@contextmanager
def report_wrong_form(place: object) -> Iterator[None]:
    """Raise UnreadableFileError for errors in the context that come from data of another form than recorded cases."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UnreadableFileError(f"{place} has not the recorded form: {error!r}") from error


def replay_files(files: Iterable[Path], replay: Callable[[Path], Result]) -> Result:
    """Replay each file; return the sum of the results."""
    result = Result()
    for file in files:
        result.add(replay(file))
    return result
