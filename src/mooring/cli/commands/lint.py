"""`mooring lint`: validate manifests as an API server of a given version would, and find more.

Exit codes: 0 when nothing was found that `--fail-if` names, 1 when something was, 2 for a wrong call.
"""

import os
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import click

from mooring.advisor.lint import NodesError, Settings, Severity, reports, rules, runner, sources
from mooring.advisor.lint.cluster import read_nodes
from mooring.advisor.lint.facts import ClusterFacts, facts_of, read_served_kinds
from mooring.advisor.lint.sources import Source, UnreadableError
from mooring.advisor.policies.evaluation import POLICIES
from mooring.api.core_v1 import LimitRange, Namespace, Node, ResourceQuota
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.scheme import SchemeError, parse_runtime_config
from mooring.api.storage_v1 import StorageClass
from mooring.base.component import Component
from mooring.cli.support.cluster_source import (
    ClusterSource,
    are_versions_given,
    ask_server,
    show_notes,
    snapshot_component,
)
from mooring.cli.support.flags import FILE_OR_FOLDER, component_flags, join_values, kubeconfig_flags, split_names
from mooring.cli.support.lint_formats import FORMATS, print_report
from mooring.cli.support.output import output_option
from mooring.cli.support.process_settings import cores

_KINDS: tuple[type[Resource], ...] = (
    Node, Namespace, LimitRange, ResourceQuota, PriorityClass, DeviceClass, StorageClass, *POLICIES
)  # fmt: skip
"""What is read of a live cluster."""
_COLOURS = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "red"}
_SEVERITIES = {str(severity): severity for severity in reversed(Severity)}


def _rule_ids(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    named = split_names(",".join(values))
    unknown = [word for word in named if word not in rules.BY_NAME]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)} is no rule; docs/lint.md lists them")
    return frozenset(rules.BY_NAME[word].id for word in named)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR|-…")
@component_flags
@click.option(
    "--runtime-config", metavar="API=BOOL,…", multiple=True, callback=join_values, help="Turn API versions on or off."
)
@click.option("--nodes", "nodes_file", metavar="FILE", help="Check against these nodes (`kubectl get nodes -o yaml`).")
@click.option("--cluster", is_flag=True, help="Check against a live cluster, with its versions and gates.")
@kubeconfig_flags
@click.option(
    "--from",
    "--cluster-from",
    "cluster_from",
    multiple=True,
    type=FILE_OR_FOLDER,
    help="Check against what `mooring dump` wrote.",
)
@click.option(
    "--disable", metavar="RULE,…", multiple=True, callback=_rule_ids, help="Rules to skip, by number or name."
)
@click.option("--kubernetes", metavar="VERSION", help="Validate as this Kubernetes release; report what needs Mooring.")
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
@click.option(
    "--fail-if",
    "--fail-on",
    "fail_if",
    type=click.Choice(list(_SEVERITIES)),
    default="error",
    help="Exit with 1 for findings of this severity or worse.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="The number of worker processes.  [default: one per core]")
@output_option("table", "json", *FORMATS)
def lint(
    running: Component,
    *,
    paths: tuple[str, ...],
    runtime_config: str,
    nodes_file: str | None,
    cluster: bool,
    reach: tuple[str | None, str],
    cluster_from: tuple[Path, ...],
    disable: frozenset[str],
    kubernetes: str | None,
    strict: bool,
    fail_if: str,
    jobs: int | None,
    output: str,
) -> None:
    """Validate manifests as an API server would, and report problems that it would not.

    Files are YAML or JSON with any number of documents, lists included; directories are searched for *.yaml, *.yml and
    *.json; - is standard input. The flags select the server's version.

    \b
    Examples:
      mooring lint deploy/
      mooring lint --emulation-version 1.36 --fail-if warning pod.yaml
      helm template . | mooring lint - -o sarif > lint.sarif
      kubectl get nodes -o yaml > nodes.yaml && mooring lint --nodes nodes.yaml deploy/
      mooring lint --cluster deploy/
      mooring lint --kubernetes 1.34 deploy/
    """
    found = _find_sources(paths)
    source = _choose_cluster(cluster, reach, cluster_from)
    facts = None
    if source is not None:
        running, facts = _read_facts(source, running)
    if kubernetes is not None:
        if are_versions_given():
            raise click.UsageError(
                "--kubernetes excludes --emulation-version, --min-compatibility-version and --feature-gates"
            )
        running = _component_of_release(kubernetes)
    nodes = _read_nodes_file(nodes_file) or (facts.nodes if facts else None) or None
    try:
        settings = Settings(
            running, parse_runtime_config(runtime_config), nodes, facts, disable, strict, kubernetes or ""
        )
        report = runner.lint_files(found, settings, sys.stdin.buffer, jobs or cores())
    except SchemeError as error:
        raise click.UsageError(str(error)) from error
    except BrokenProcessPool as error:
        raise click.ClickException("a worker process was killed, perhaps for lack of memory: try --jobs 1") from error
    threshold = _SEVERITIES[fail_if]
    match output:
        case "json":
            click.echo(reports.as_json(report))
        case format_ if format_ in FORMATS:
            print_report(report, format_, "mooring lint", rules.RULES, threshold=threshold)
        case _:
            lines = reports.format_lines(report, lambda text, severity: click.style(text, fg=_COLOURS[severity]))
            click.echo("".join(f"{line}\n" for line in lines), nl=False)
            click.echo(reports.format_summary(report), err=True)
    worst = report.worst_severity()
    sys.exit(1 if worst is not None and worst >= threshold else 0)


def _find_sources(paths: tuple[str, ...]) -> list[Source]:
    missing = [path for path in paths if path != sources.STDIN and not os.path.lexists(path)]
    if missing:
        raise click.UsageError(f"{click.format_filename(missing[0])} does not exist")
    found = list(sources.find_sources(paths))
    if not found:
        raise click.UsageError(f"there are no *.yaml, *.yml or *.json files in {', '.join(paths)}")
    return found


def _read_nodes_file(file: str | None) -> tuple[Node, ...] | None:
    if file is None:
        return None
    try:
        return read_nodes(sources.read_source(Source(file), sys.stdin.buffer))
    except (NodesError, UnreadableError) as error:
        raise click.UsageError(f"--nodes {click.format_filename(file)}: {error}") from error


def _choose_cluster(live: bool, reach: tuple[str | None, str], files: tuple[Path, ...]) -> ClusterSource | None:
    if files and (live or any(reach)):
        raise click.UsageError("--from and --cluster name different clusters: choose one")
    if any(reach) and not live:
        raise click.UsageError("--kubeconfig and --context need --cluster")
    if not live and not files:
        return None
    return ClusterSource(*reach, files, hint="name a dump with --from")


def _read_facts(source: ClusterSource, running: Component) -> tuple[Component, ClusterFacts]:
    """Return the versions and gates to lint for (those of flags, else the cluster's), and facts about the cluster."""
    live = source.is_live
    snapshot = source.read(_KINDS, raw=False) if live else source.read()
    component, notes = snapshot_component(snapshot, running, is_cluster=not live)
    show_notes(notes)
    return component, facts_of(snapshot, ask_server(source, read_served_kinds)) if live else facts_of(snapshot)


def _component_of_release(kubernetes: str) -> Component:
    from mooring.advisor.releases import Crossing, CrossingError

    try:
        crossing = Crossing.between(kubernetes, kubernetes)
    except CrossingError as error:
        raise click.UsageError(str(error).replace("--from-version", "--kubernetes")) from error
    return crossing.component_of(crossing.end)
