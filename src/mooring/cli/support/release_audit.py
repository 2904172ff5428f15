"""`mooring audit --from-version A --to-version B`: the question between two releases of Kubernetes, asked and printed.

Called by ``commands/audit.py``; the answers are ``mooring.advisor.releases``'. Exit codes: 0 when nothing is as bad as
`--fail-if` says, otherwise by the worst finding: 1 for an error, 3 for a warning, 4 for an info; 2 is a wrong call.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mooring.cli.support.cluster_source import ClusterSource, SchedulerChoice, show_notes
from mooring.cli.support.lint_formats import FORMATS, print_report
from mooring.cli.support.live_server import asked
from mooring.cli.support.output import print_data

if TYPE_CHECKING:
    from mooring.advisor.audit.reports import Paint
    from mooring.advisor.releases import Crossing, Finding, ReleaseAudit
    from mooring.advisor.snapshot import Snapshot

_EXIT_CODES = {"error": 1, "warning": 3, "info": 4}
_NEVER = "never"


class ReleaseQuestion(msgspec.Struct, frozen=True):
    """What the flags ask."""

    source: ClusterSource
    scheduler: SchedulerChoice
    start: str | None
    end: str
    gates: dict[str, bool]
    audit_logs: tuple[Path, ...]
    baseline: Path | None
    write_baseline: Path | None
    rehearsal_seconds: float | None

    def answer(self) -> "ReleaseAudit":
        """Read the cluster and judge it."""
        from mooring.advisor import releases  # noqa: PLC0415 - `--help` should not wait for it
        from mooring.advisor.releases import baseline  # noqa: PLC0415 - as above

        snapshot = self.source.read(quiet=True)
        if snapshot.forbidden and not snapshot.raw():  # nothing would be lost
            why = next(iter(snapshot.forbidden.values()))
            raise click.ClickException(f"nothing of {snapshot.origin} can be read: {why}")
        try:
            crossing = releases.Crossing.between(self.start or self._running(snapshot), self.end, self.gates)
            known = baseline.read(self.baseline) if self.baseline else frozenset[str]()
        except (releases.CrossingError, baseline.BaselineError, OSError) as error:
            raise click.UsageError(str(error)) from error
        found = releases.audit(snapshot, crossing, beside=self._clients(crossing))
        if self.write_baseline is not None:
            try:
                count = baseline.write(self.write_baseline, found.findings)
            except OSError as error:
                raise click.UsageError(str(error)) from error
            click.echo(f"{count} findings are in {self.write_baseline} now", err=True)
            known = baseline.read(self.write_baseline)
        found = baseline.without(found, known) if known else found
        if self.rehearsal_seconds is not None:
            found = self._rehearsed(snapshot, crossing, found, self.rehearsal_seconds)
        return found

    def _running(self, snapshot: "Snapshot") -> str:
        """The release that the cluster runs, where nobody says it."""
        from mooring.advisor.audit.live import shown_by  # noqa: PLC0415 - as above
        from mooring.api.core_v1 import Node  # noqa: PLC0415 - as above

        if self.source.is_live:
            version = asked(self.source, shown_by).version
            return f"{version.get('major', '')}.{version.get('minor', '').rstrip('+')}"
        kubelets = [node.status.node_info.kubelet_version for node in snapshot.all(Node)]
        if not kubelets:
            raise click.UsageError("say with --from-version which release the objects are of")
        newest: str = max(kubelets, key=lambda text: [int(part) for part in text.strip("v").split(".")[:2]])
        return ".".join(newest.strip("v").split(".")[:2])

    def _clients(self, crossing: "Crossing") -> "list[Finding]":
        from mooring.advisor.releases import clients  # noqa: PLC0415 - as above

        found: list[Finding] = []
        for path in self.audit_logs:
            with path.open("rb") as log:
                found += clients.of_log(log, str(path), crossing)
        if self.source.is_live:
            found += clients.of_metrics(asked(self.source, clients.metrics), crossing)
        return found

    def _rehearsed(
        self, snapshot: "Snapshot", crossing: "Crossing", found: "ReleaseAudit", seconds: float
    ) -> "ReleaseAudit":
        from mooring.advisor import audit  # noqa: PLC0415 - as above
        from mooring.cli.support.rehearsal import rehearsed  # noqa: PLC0415 - as above

        question = crossing.question()
        played = audit.audit(snapshot, question, profiles=self.scheduler.profiles)
        rehearsal = rehearsed(snapshot, question, played, self.scheduler.profiles, seconds).rehearsal
        return found.rehearsed(rehearsal) if rehearsal else found


def print_audit(found: "ReleaseAudit", output: str, fail_if: str, paint: "Paint") -> int:
    """Print an answer; gives the exit code."""
    from mooring.advisor.lint.rules import Severity  # noqa: PLC0415 - as above
    from mooring.advisor.releases import reports  # noqa: PLC0415 - as above
    from mooring.advisor.releases.results import RULES  # noqa: PLC0415 - as above

    show_notes(found.notes)
    threshold = None if fail_if == _NEVER else Severity[fail_if.upper()]
    if output in ("json", "yaml"):
        print_data(found.tree(), output)
    elif output in FORMATS:
        title = f"{found.from_version} to {found.to_version}: {reports.summary(found)}"
        rules = tuple(RULES.values())
        print_report(reports.as_lint_report(found), output, "mooring audit", rules, threshold=threshold, title=title)
    else:
        for line in reports.lines(found, paint, wide=output == "wide"):
            click.echo(line)
        click.echo(f"\n{reports.summary(found)}")
    worst = found.worst()
    differs = found.rehearsal is not None and bool(found.rehearsal.differences)
    if threshold is None or ((worst is None or worst < threshold) and not differs):
        return 0
    return _EXIT_CODES[str(worst)] if worst is not None and worst >= threshold else 1
