"""The result of a replay; `__main__` prints it."""

from dataclasses import dataclass, field


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
