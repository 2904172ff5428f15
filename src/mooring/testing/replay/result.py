"""What a replay found. Every kind of replay returns a `Result`; `__main__` prints it."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Result:
    """How many cases passed, and by name those that failed or were left out, each with what was wrong or the reason."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, other: "Result") -> None:
        """Takes over the cases of another file."""
        self.passed += other.passed
        self.failed += other.failed
        self.left_out += other.left_out

    def judge(self, name: str, problem: str | None) -> None:
        """Counts one case: passed when there is no problem."""
        if problem is None:
            self.passed += 1
        else:
            self.failed.append(f"{name}: {problem}")


class UnreadableFileError(Exception):
    """A file is not one of recorded cases; `str()` of it is meant for the user."""
