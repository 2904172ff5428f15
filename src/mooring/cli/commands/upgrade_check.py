"""`mooring upgrade-check`: check an upgrade of the whole cluster, and its rollback.

Exit codes: 0 when it passes, 3 when it passes with warnings, 1 when it does not pass, 2 for a wrong call or a cluster
that cannot be read, 130 after Ctrl-C (what is known by then is printed).
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.base.component import Component
from mooring.base.gates import parse
from mooring.cli.support.cluster_source import (
    ClusterSource,
    SchedulerChoice,
    ask_server,
    cluster_source,
    scheduler_flags,
    show_notes,
    snapshot_component,
)
from mooring.cli.support.flags import FILE, MANIFESTS, NEW_FILE, Duration, VerdictCommand
from mooring.cli.support.output import output_option, paint, print_data, print_lines, write_page
from mooring.cli.support.process_settings import defer_collection
from mooring.cli.support.progress import SimulationProgress
from mooring.cli.support.release_audit import ReleaseQuestion
from mooring.cli.support.simulation_settings import settings_of

if TYPE_CHECKING:
    from mooring.advisor.upgrade import UpgradeCheck

_EXIT_CODES = {"passes": 0, "passes with warnings": 3, "does not pass": 1}
_INTERRUPTED = 130


@click.command("upgrade-check", cls=VerdictCommand)
@click.argument("paths", nargs=-1, type=MANIFESTS, metavar="[FILE|DIR|-]…")
@cluster_source
@click.option("--to", "to_version", required=True, metavar="VERSION", help="The release to upgrade to, such as 1.37.")
@click.option("--from-version", metavar="VERSION", help="The current release.  [default: that of the cluster]")
@click.option("--and-back", is_flag=True, help="Also check the rollback: what it would lose or reject.")
@click.option("--helm", is_flag=True, help="Also check the manifests of Helm releases in the cluster.")
@click.option(
    "--audit-log",
    "audit_logs",
    multiple=True,
    type=FILE,
    help="Find clients of removed APIs in an API server's audit log.",
)
@click.option(
    "--max-unavailable",
    type=click.IntRange(0),
    metavar="N",
    help="Nodes of a pool drained at once.  [default: 1; 0 with --surge]",
)
@click.option(
    "--surge", type=click.IntRange(0), default=0, show_default=True, help="Nodes added to a pool before a drain."
)
@click.option("--pool-label", default="", metavar="KEY", help="The label that names a pool.  [default: the provider's]")
@click.option("--order", type=click.Choice(["name", "age"]), default="name", help="The order of the nodes of a pool.")
@click.option(
    "--node-time", type=Duration(), default=120.0, show_default="2m", help="The time from an empty node to a Ready one."
)
@click.option(
    "--start-time",
    type=Duration(),
    default=10.0,
    show_default="10s",
    help="The time from a pod's binding to Ready, if not measured.",
)
@click.option("--drain-timeout", type=Duration(), default=3600.0, show_default="1h", help="How long a drain may take.")
@click.option("--force-after", type=Duration(), help="Delete pods in spite of disruption budgets after this time.")
@output_option("table", "wide", "json", "yaml", "markdown")
@click.option("--html", "html_path", type=NEW_FILE, help="Also write a page with the timeline in HTML.")
@scheduler_flags
def upgrade_check(
    *,
    paths: tuple[Path, ...],
    source: ClusterSource,
    running: Component,
    scheduler: SchedulerChoice,
    to_version: str,
    from_version: str | None,
    and_back: bool,
    helm: bool,
    audit_logs: tuple[Path, ...],
    max_unavailable: int | None,
    surge: int,
    pool_label: str,
    order: str,
    node_time: float,
    start_time: float,
    drain_timeout: float,
    force_after: float | None,
    output: str,
    html_path: Path | None,
) -> None:
    """Check whether an upgrade succeeds: APIs, fields, drains of all nodes in virtual time, and the rollback.

    Nothing is changed. The cluster is live, a dump or a directory of manifests.

    \b
    Examples:
      mooring upgrade-check --to 1.37
      mooring upgrade-check --to 1.37 --and-back --html upgrade.html
      mooring upgrade-check --from dump.json --to 1.36 --surge 1 -o markdown
      mooring upgrade-check --to 1.37 --max-unavailable 3 --pool-label pool --force-after 1h
    """
    from mooring.advisor import upgrade

    if max_unavailable == 0 and not surge:
        raise click.UsageError("--max-unavailable 0 drains no node without --surge")
    source = source.with_files(paths)
    gates = parse(click.get_current_context().params.get("feature_gates", ""))
    question = ReleaseQuestion(source, scheduler, from_version, to_version, gates, audit_logs, None, None, None, "--to")
    with defer_collection(), SimulationProgress() as report:
        snapshot, crossing = question.read()
        running, notes = snapshot_component(snapshot, running)
        drains = upgrade.DrainOptions(
            pool_label=pool_label,
            order="age" if order == "age" else "name",
            max_unavailable=max_unavailable,
            surge=surge,
            node_seconds=node_time,
            start_seconds=start_time,
            timeout_seconds=drain_timeout,
            force_seconds=force_after,
        )
        subject = upgrade.UpgradeRequest(
            snapshot, crossing, drains, settings_of(running, scheduler), and_back, question.clients(crossing)
        )
        if helm:
            stored, helm_notes = upgrade.helm_manifests(
                ask_server(source, upgrade.read_releases) if source.is_live else snapshot
            )
            subject, notes = replace(subject, helm=stored), (*notes, *helm_notes)
        result = upgrade.check_upgrade(subject, report)
    show_notes([*notes, *result.notes])
    if html_path is not None:
        from mooring.advisor.upgrade.page import render_page

        write_page(render_page(result), html_path)
    _print_check(result, output)
    is_whole = result.rollout is None or result.rollout.is_complete
    sys.exit(_EXIT_CODES[result.verdict] if is_whole else _INTERRUPTED)


def _print_check(result: "UpgradeCheck", output: str) -> None:
    from mooring.advisor.upgrade import reports

    if output in ("json", "yaml"):
        print_data(result.tree(), output)
    elif output == "markdown":
        click.echo(reports.format_markdown(result), nl=False)
    else:
        print_lines(reports.format_lines(result, paint, wide=output == "wide"))
