"""Format an audit of two releases as text for people, and as a lint report for CI.

Names and values come from untrusted objects: control characters and line breaks are escaped for the terminal. Called by
the command line.
"""

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import structs

from mooring.advisor.audit import reports as audit_reports
from mooring.advisor.audit.reports import Paint, Tone
from mooring.advisor.lint import rules as lint_rules
from mooring.advisor.lint.reports import one_line
from mooring.advisor.lint.rules import Severity
from mooring.advisor.releases.results import Finding, ReleaseAudit

_TONES: dict[Severity, Tone] = {Severity.ERROR: "bad", Severity.WARNING: "title", Severity.INFO: "quiet"}


def as_lint_report(audit: ReleaseAudit) -> lint_rules.Report:
    """Return the findings of a release audit as a lint report, to format as JSON, SARIF, JUnit and so on."""
    found = ((each.rule, each.level, each.object, each.field, each.message) for each in audit.findings)
    return audit_reports.build_lint_report(audit.objects, found)


def format_lines(audit: ReleaseAudit, paint: Paint, *, wide: bool = False) -> Iterator[str]:
    """Yield the report for a terminal, the worst findings first. Equal findings share a line unless `wide`."""
    yield f"{one_line(audit.origin)}: {audit.objects} objects, {audit.from_version} to {audit.to_version}"
    shown = sorted(
        (each for each in audit.findings if wide or each.level is not Severity.INFO),
        key=lambda each: (-each.level, each.rule.id),
    )
    for rule, found in groupby(shown, key=lambda each: each.rule):
        yield ""
        yield paint(f"{rule.id} {rule.name}: {rule.about}", "title")
        for group in audit_reports.group_findings(list(found), lambda each: None if wide else _grouping_key(each)):
            yield from _group_lines(group, paint)
    yield from audit_reports.format_steps(audit.steps, paint)
    yield from audit_reports.format_rehearsal(audit.rehearsal, paint, wide=wide)


def _group_lines(group: Sequence[Finding], paint: Paint) -> Iterator[str]:
    first = group[0]
    level = paint(f"{first.level!s:>7}", _TONES[first.level])
    yield f"  {level}  {audit_reports.format_objects([each.object for each in group])}"
    used = f"{first.field}: {first.value}" if first.value else first.field
    if used:
        yield f"           {one_line(used)}"
    yield f"           {paint(one_line(first.message), 'quiet')}"


def _grouping_key(each: Finding) -> Hashable | None:
    if not each.object.stored:
        return None
    return each.object.kind, each.object.owner, each.field, each.value, each.effect, each.message


def format_summary(audit: ReleaseAudit) -> str:
    """Return the last line of the report: the numbers of objects, errors, warnings and notes."""
    counts = {level: sum(each.level is level for each in audit.findings) for level in reversed(Severity)}
    words = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if level)
    parts = [
        f"{words}; {counts[Severity.INFO]} without consequence" if audit.findings else "nothing is lost or refused"
    ]
    if audit.known:
        parts.append(f"{audit.known} known from before are left out")
    unknown = len(audit.notes) - len(audit.unread)
    if unknown:
        parts.append(f"{unknown} could not be read or checked")
    if audit.unread:
        parts.append(f"not looked at, for want of rights: {', '.join(audit.unread)}")
    return "; ".join(parts)


_KIND = "Baseline"


class BaselineError(ValueError):
    """The file is not a baseline; the message says why."""


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write a baseline file with the keys of findings, which later audits leave out; return the number of keys."""
    keys = sorted({finding.key for finding in findings})
    path.write_text(json.dumps({"kind": _KIND, "findings": keys}, indent=1, ensure_ascii=False) + "\n")
    return len(keys)


def read_baseline(path: Path) -> frozenset[str]:
    """Return the keys of findings in a baseline file. Raise `BaselineError` or `OSError`."""
    try:
        found: Any = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path} is no baseline: {error}") from error
    keys = found.get("findings") if isinstance(found, dict) and found.get("kind") == _KIND else None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise BaselineError(f"{path} is no baseline: --write-baseline writes one")
    return frozenset(keys)


def without_baseline(audit: ReleaseAudit, known: frozenset[str]) -> ReleaseAudit:
    """Return the audit without the findings whose keys are in a baseline."""
    new = [finding for finding in audit.findings if finding.key not in known]
    return structs.replace(audit, findings=new, known=len(audit.findings) - len(new))
