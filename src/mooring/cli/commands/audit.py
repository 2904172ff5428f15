"""`mooring audit`: find what breaks when versions or gates change, the order of steps, and verify it on a copy.

Exit codes: 0 when nothing breaks (always, for an inventory), 1 when something does, 2 for a wrong call. Between two
releases of Kubernetes (`--to-version`) they go by severity: see ``support/release_audit.py``.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.base.component import Component
from mooring.base.gates import parse
from mooring.cli.support import completions
from mooring.cli.support.cluster_source import (
    ClusterSource,
    SchedulerChoice,
    are_versions_given,
    check_readable,
    cluster_source,
    live_component,
    scheduler_flags,
    show_left_out,
    snapshot_component,
)
from mooring.cli.support.flags import FILE, MANIFESTS, NEW_FILE
from mooring.cli.support.lint_formats import FORMATS, print_report
from mooring.cli.support.output import output_option, paint, print_data, print_lines, report_errors
from mooring.cli.support.process_settings import defer_collection
from mooring.cli.support.release_audit import ReleaseQuestion, print_audit

if TYPE_CHECKING:
    from mooring.advisor.audit import Audit, Question
    from mooring.advisor.snapshot import Snapshot


@click.command()
@click.argument("paths", nargs=-1, type=MANIFESTS, metavar="[FILE|DIR|-]…")
@cluster_source
@click.option("--from-version", metavar="VERSION", help="The current release.  [default: that of the cluster]")
@click.option("--to-version", metavar="VERSION", help="The release of Kubernetes to compare with, newer or older.")
@click.option(
    "--audit-log",
    "audit_logs",
    multiple=True,
    type=FILE,
    help="With --to-version: find clients in an API server's audit log.",
)
@click.option("--baseline", type=FILE, help="With --to-version: report only findings that are not in this baseline.")
@click.option("--write-baseline", type=NEW_FILE, help="With --to-version: write all findings to this baseline.")
@click.option(
    "--fail-if",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    help="With --to-version: fail on findings of this severity.",
)
@click.option(
    "--to-emulation-version",
    metavar="VERSION",
    shell_complete=completions.emulation_versions,
    help="The target --emulation-version.",
)
@click.option(
    "--to-min-compatibility",
    metavar="VERSION",
    shell_complete=completions.min_compatibility_versions,
    help="The target --min-compatibility-version.",
)
@click.option(
    "--disable-gate",
    metavar="GATE",
    multiple=True,
    shell_complete=completions.gate_names,
    help="A feature gate to turn off.",
)
@click.option(
    "--enable-gate",
    metavar="GATE",
    multiple=True,
    shell_complete=completions.gate_names,
    help="A feature gate to turn on.",
)
@click.option("--to-runtime-config", metavar="API=BOOL,…", help="The --runtime-config to change to.")
@click.option("--runtime-config", metavar="API=BOOL,…", default="", help="The current --runtime-config.")
@click.option("--rehearse", is_flag=True, help="Try the change on a copy in a temporary control plane, and compare.")
@click.option("--rehearsal-seconds", type=click.FloatRange(1, 600), default=10.0, help="How long to wait for the copy.")
@output_option("table", "wide", "json", "yaml", *FORMATS)
@scheduler_flags
def audit(
    *,
    paths: tuple[Path, ...],
    source: ClusterSource,
    running: Component,
    scheduler: SchedulerChoice,
    from_version: str | None,
    to_version: str | None,
    audit_logs: tuple[Path, ...],
    baseline: Path | None,
    write_baseline: Path | None,
    fail_if: str,
    to_emulation_version: str | None,
    to_min_compatibility: str | None,
    disable_gate: tuple[str, ...],
    enable_gate: tuple[str, ...],
    to_runtime_config: str | None,
    runtime_config: str,
    rehearse: bool,
    rehearsal_seconds: float,
    output: str,
) -> None:
    """Report what breaks when versions or gates change; without a change, list what uses gated features.

    --emulation-version, --min-compatibility-version and --feature-gates describe the cluster as it runs now; by default
    they are read from a live server. Files are the same as with --from. Nothing is changed.

    \b
    Examples:
      mooring audit
      mooring audit --to-emulation-version 1.36
      mooring audit --disable-gate TaintTolerationComparisonOperators --rehearse
      mooring audit --from cluster.yaml --to-min-compatibility 1.34 -o json
      mooring audit --from deploy/ --to-emulation-version 1.36 -o sarif > audit.sarif
      mooring audit --to-version 1.34
      helm template . | mooring audit --from - --from-version 1.33 --to-version 1.36 -o github
    """
    source = source.with_files(paths)
    if to_version is not None:
        if to_emulation_version or to_min_compatibility or disable_gate or enable_gate or to_runtime_config:
            raise click.UsageError(
                "--to-version asks about releases of Kubernetes, the other --to flags about Mooring's"
            )
        asked = ReleaseQuestion(
            source,
            scheduler,
            from_version,
            to_version,
            parse(click.get_current_context().params.get("feature_gates", "")),
            audit_logs,
            baseline,
            write_baseline,
            rehearsal_seconds if rehearse else None,
        )
        with defer_collection():
            answer = asked.answer()
        sys.exit(print_audit(answer, output, fail_if, paint))
    if from_version or audit_logs or baseline or write_baseline:
        raise click.UsageError("--from-version, --audit-log and baselines need --to-version")
    from mooring.advisor.audit import QuestionError, ask
    from mooring.api.scheme import SchemeError, parse_runtime_config

    current, notes = running, tuple[str, ...]()
    snapshot = source.read(quiet=True) if source.files else None
    if source.is_live and not are_versions_given():
        current, notes = live_component(source)
    elif snapshot is not None:
        current, notes = snapshot_component(snapshot, running)
    with report_errors(QuestionError, SchemeError, usage=True):
        config = parse_runtime_config(runtime_config)
        question = ask(
            current,
            to_emulation=to_emulation_version,
            to_min_compatibility=to_min_compatibility,
            disable=disable_gate,
            enable=enable_gate,
            runtime_config=config,
            to_runtime_config=None if to_runtime_config is None else parse_runtime_config(to_runtime_config),
        )
        if rehearse and question.target is None:
            raise click.UsageError("--rehearse needs a change, such as --to-emulation-version")
        snapshot = snapshot or source.read(quiet=True)
        check_readable(snapshot)
        show_left_out(snapshot)
        found = _audit_cluster(snapshot, question, scheduler, source, rehearsal_seconds if rehearse else None)
    printed = {str(note) for note in snapshot.notes}  # by `source.read`
    for note in (*notes, *found.notes):
        if note not in printed and "are left out: not allowed" not in note:
            click.echo(f"Note: {note}", err=True)
    _print_audit(found, output)
    differs = found.rehearsal is not None and (found.rehearsal.broken or found.rehearsal.differences)
    sys.exit(1 if found.breaks or differs else 0)


def _audit_cluster(
    snapshot: "Snapshot",
    question: "Question",
    scheduler: SchedulerChoice,
    source: ClusterSource,
    seconds: float | None,
) -> "Audit":
    from mooring.advisor.audit import audit as answer

    found = answer(
        snapshot,
        question,
        profiles=scheduler.profiles,
        scheduler_config_file=click.get_current_context().params["scheduler_config"],
        has_stored_versions=source.data_dir is not None,
    )
    if seconds is None:
        return found
    from mooring.cli.support.rehearsal import add_rehearsal

    return add_rehearsal(snapshot, question, found, scheduler.profiles, seconds)


def _print_audit(found: "Audit", output: str) -> None:
    from mooring.advisor.audit import reports

    if output in FORMATS:
        rules = tuple(reports.RULES.values())
        print_report(reports.as_lint_report(found), output, "mooring audit", rules, title=reports.format_summary(found))
    elif output in ("json", "yaml"):
        print_data(found.tree(), output)
    else:
        print_lines(reports.format_lines(found, paint, wide=output == "wide"))
        click.echo(f"\n{reports.format_summary(found)}")
