"""Every exception the engine raises.

`Environment.compile` never raises for a bad expression: it returns a `Program` whose `.issues` say what is wrong.
`Program.evaluate` raises `EvaluationError`; a program with issues raises `CompileError` when it is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class CelError(Exception):
    """The base class of everything that the engine raises."""


class DeclarationError(CelError):
    """The declarations contradict each other; fix the code that builds the environment."""


class EvaluationError(CelError):
    """The expression has no value for these inputs, e.g. `no such key: rack`."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CostLimitExceeded(EvaluationError):  # noqa: N818  the words of cel-go
    """The evaluation reached its cost limit; raise the limit or simplify the expression."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Issue(NamedTuple):
    """One reason why an expression is not accepted, with its position. Columns count code points from 1."""

    message: str
    line: int = 0
    column: int = 0
    source_line: str = ""

    def __str__(self) -> str:
        if not self.line:
            return self.message
        head = f"ERROR: <input>:{self.line}:{self.column}: {self.message}"
        if not self.source_line:
            return head
        return f"{head}\n | {self.source_line}\n | {'.' * (self.column - 1)}^"


class CompileError(CelError):
    """The expression is invalid; the message lists every issue with its source line and a caret."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("\n".join(map(str, issues)))
        self.issues = tuple(issues)
