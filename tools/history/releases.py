"""The sources of Kubernetes' releases in a git directory, and ranges of releases as the tables write them."""

import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FIRST, LAST = 27, 37
MINORS = range(FIRST, LAST + 1)


@dataclass(frozen=True)
class Release:
    """The files of one release."""

    repository: Path
    minor: int

    @property
    def name(self) -> str:
        return f"release-1.{self.minor}"

    @cached_property
    def commit(self) -> str:
        """The commit that is read."""
        return self._git("rev-parse", "--short=12", self.name).decode().strip()

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """All files."""
        return tuple(self._git("ls-tree", "-r", "--name-only", self.name).decode().split("\n"))

    def files(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Path and text of the files that are wanted."""
        paths = [path for path in self.paths if wanted(path)]
        if not paths:
            return
        asked = "".join(f"{self.name}:{path}\n" for path in paths).encode()
        answer = self._git("cat-file", "--batch", given=asked)
        position = 0
        for path in paths:
            end = answer.index(b"\n", position)
            size = int(answer[position:end].split()[-1])
            yield path, answer[end + 1 : end + 1 + size].decode()
            position = end + 1 + size + 1

    def _git(self, *words: str, given: bytes | None = None) -> bytes:
        command = ["git", f"--git-dir={self.repository}", *words]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout  # noqa: S603 - our own words


def ranges(minors: Iterable[int], floor: int = FIRST, last: int = LAST) -> str:
    """Releases as the tables write them: `1.30-1.33` is from 1.30 on and no longer in 1.33; empty for all of them."""
    found = sorted(minors)
    parts: list[str] = []
    while found:
        since = until = found.pop(0)
        while found and found[0] == until + 1:
            until = found.pop(0)
        begins = "" if since == floor else f"1.{since}"
        parts.append(begins if until == last else f"{begins}-1.{until + 1}")
    return ",".join(part for part in parts if part)


def at(text: str) -> str:
    """Releases behind a value."""
    return f"@{text}" if text else ""
