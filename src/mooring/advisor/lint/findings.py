"""The findings of lint: problems of an object, which become findings once file and line are known."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.advisor.lint.rules import Rule, Severity


class Problem(NamedTuple):
    """A problem of an object: the rule, the path of the field as Kubernetes writes it, and the message."""

    rule: Rule
    field: str
    message: str


class Finding(NamedTuple):
    """A problem and its position. Lines and columns count from 1."""

    rule: Rule
    severity: Severity
    file: str
    line: int
    column: int
    object: str
    """The object, as `Deployment shop/web`; empty if the document is not an object."""
    field: str
    message: str


@dataclass(slots=True)
class Report:
    """All findings of a run, in the order of files and lines, and the number of checked files and objects."""

    findings: list[Finding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    documents: int = 0

    def add(self, other: "Report") -> None:
        """Add the report on another part of the same files."""
        self.findings += other.findings
        self.documents += other.documents

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)

    def worst(self) -> Severity | None:
        """Return the severity of the worst finding."""
        return max((finding.severity for finding in self.findings), default=None)
