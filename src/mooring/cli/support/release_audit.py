"""`mooring audit --from-version A --to-version B`: audit between two releases of Kubernetes.

Exit codes: 0 when nothing is as bad as `--fail-if` says, otherwise by the worst finding: 1 for an error, 3 for a
warning, 4 for an info; 2 is a wrong call.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mooring.cli.support.cluster_source import ClusterSource, SchedulerChoice, ask_server, check_readable, show_notes
from mooring.cli.support.lint_formats import FORMATS, print_report
from mooring.cli.support.output import print_data, print_lines, report_errors

if TYPE_CHECKING:
    from mooring.advisor.audit.reports import Paint
    from mooring.advisor.releases import Crossing, Finding, ReleaseAudit
    from mooring.advisor.snapshot import Snapshot

_EXIT_CODES = {"error": 1, "warning": 3, "info": 4}
_NEVER = "never"


class ReleaseQuestion(msgspec.Struct, frozen=True):
    """The flags of an audit between two Kubernetes releases; reads the cluster that they select and audits it."""

    source: ClusterSource
    scheduler: SchedulerChoice
    start: str | None
    end: str
    gates: dict[str, bool]
    audit_logs: tuple[Path, ...]
    baseline: Path | None
    write_baseline: Path | None
    rehearsal_seconds: float | None
    end_flag: str = "--to-version"

    def read(self) -> "tuple[Snapshot, Crossing]":
        """Return a snapshot of the cluster, and the change from its release to the one that the flags name."""
        from mooring.advisor import releases

        snapshot = self.source.read(quiet=True)
        check_readable(snapshot)
        try:
            start = self.start or self._read_running_release(snapshot)
            return snapshot, releases.Crossing.between(start, self.end, self.gates)
        except releases.CrossingError as error:
            raise click.UsageError(str(error).replace("--to-version", self.end_flag)) from error

    def answer(self) -> "ReleaseAudit":
        """Return the audit of the cluster; write or subtract the baseline, and rehearse, if flags say so."""
        from mooring.advisor import releases
        from mooring.advisor.releases import reports

        snapshot, crossing = self.read()
        with report_errors(reports.BaselineError, OSError, usage=True):
            known = reports.read_baseline(self.baseline) if self.baseline else frozenset[str]()
        found = releases.audit(snapshot, crossing, beside=self.clients(crossing))
        if self.write_baseline is not None:
            with report_errors(OSError, usage=True):
                count = reports.write_baseline(self.write_baseline, found.findings)
            click.echo(f"{count} findings are in {self.write_baseline} now", err=True)
            known = reports.read_baseline(self.write_baseline)
        found = reports.without_baseline(found, known) if known else found
        if self.rehearsal_seconds is not None:
            found = self._rehearse(snapshot, crossing, found, self.rehearsal_seconds)
        return found

    def _read_running_release(self, snapshot: "Snapshot") -> str:
        from mooring.advisor.snapshot.server_info import read_server_info
        from mooring.api.core_v1 import Node

        if self.source.is_live:
            version = ask_server(self.source, read_server_info).version
            return f"{version.get('major', '')}.{version.get('minor', '').rstrip('+')}"
        said = (node.status.node_info.kubelet_version.strip("v").split(".")[:2] for node in snapshot.all(Node))
        kubelets = [tuple(map(int, version)) for version in said if len(version) == 2 and "".join(version).isdecimal()]
        if not kubelets:
            raise click.UsageError("--from-version is missing: the objects do not say which release they are from")
        return ".".join(map(str, max(kubelets)))

    def clients(self, crossing: "Crossing") -> "list[Finding]":
        """Return findings about clients that use removed APIs, from audit logs and the live server's metrics."""
        from mooring.advisor.releases import clients

        found: list[Finding] = []
        for path in self.audit_logs:
            with path.open("rb") as log:
                found += clients.findings_of_log(log, str(path), crossing)
        if self.source.is_live:
            found += clients.findings_of_metrics(ask_server(self.source, clients.read_metrics), crossing)
        return found

    def _rehearse(
        self, snapshot: "Snapshot", crossing: "Crossing", found: "ReleaseAudit", seconds: float
    ) -> "ReleaseAudit":
        from mooring.advisor import audit
        from mooring.cli.support.rehearsal import add_rehearsal

        question = crossing.build_question()
        played = audit.audit(snapshot, question, profiles=self.scheduler.profiles)
        rehearsal = add_rehearsal(snapshot, question, played, self.scheduler.profiles, seconds).rehearsal
        return found.with_rehearsal(rehearsal) if rehearsal else found


def print_audit(found: "ReleaseAudit", output: str, fail_if: str, paint: "Paint") -> int:
    """Print an audit in a format of `-o`; return the exit code by the worst finding, if `fail_if` includes that."""
    from mooring.advisor.lint.rules import Severity
    from mooring.advisor.releases import reports
    from mooring.advisor.releases.results import RULES

    show_notes(found.notes)
    threshold = None if fail_if == _NEVER else Severity[fail_if.upper()]
    if output in ("json", "yaml"):
        print_data(found.tree(), output)
    elif output in FORMATS:
        title = f"{found.from_version} to {found.to_version}: {reports.format_summary(found)}"
        rules = tuple(RULES.values())
        print_report(reports.as_lint_report(found), output, "mooring audit", rules, threshold=threshold, title=title)
    else:
        print_lines(reports.format_lines(found, paint, wide=output == "wide"))
        click.echo(f"\n{reports.format_summary(found)}")
    worst = found.worst_severity()
    differs = found.rehearsal is not None and bool(found.rehearsal.differences)
    if threshold is None or ((worst is None or worst < threshold) and not differs):
        return 0
    return _EXIT_CODES[str(worst)] if worst is not None and worst >= threshold else 1
