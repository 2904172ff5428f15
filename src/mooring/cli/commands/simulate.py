"""`mooring simulate`: what-if simulation of a cluster.

Exit codes: 0 when all went well, 1 when it could not be done, 2 for a wrong call, 3 when a condition of `--fail-if`
holds, 130 after Ctrl-C (what is known by then is printed).
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec import structs

from mooring.base import component
from mooring.base.component import Component
from mooring.base.gates import GateError
from mooring.base.version import VersionError
from mooring.cli.support import completions
from mooring.cli.support.cluster_source import (
    ClusterSource,
    SchedulerChoice,
    cluster_source,
    scheduler_flags,
    show_notes,
    snapshot_component,
)
from mooring.cli.support.flags import FILE, NEW_FILE
from mooring.cli.support.output import output_option, print_data, print_lines, print_result, report_errors, write_page
from mooring.cli.support.process_settings import defer_collection
from mooring.cli.support.progress import SimulationProgress
from mooring.cli.support.simulation_settings import pool_option, settings_of, with_pools
from mooring.cli.support.trace_replay import TraceOptions, compare_replays, prices_of, replay, trace_flags

if TYPE_CHECKING:
    from mooring.advisor.simulate import Scenario, Settings, Simulation
    from mooring.advisor.simulate.results import Condition
    from mooring.advisor.simulate.scenario_file import ClusterWanted
    from mooring.advisor.snapshot import Snapshot
    from mooring.api.core_v1 import Node

_CHANGES = (
    ("add", "FILE|-", "Create the objects of a manifest, and the pods of workloads."),
    ("replicas", "N", "The number of replicas of the preceding --add."),
    ("remove", "[NS/]KIND/NAME|FILE", "Delete an object and its pods, or the objects of a manifest."),
    ("scale", "[NS/]KIND/NAME=N", "Scale a workload to this many replicas."),
    ("drain", "NODES", "Cordon nodes and evict their pods, within disruption budgets."),
    ("cordon", "NODES", "Mark nodes as unschedulable."),
    ("uncordon", "NODES", "Mark nodes as schedulable."),
    ("taint", "NODES=KEY[=VALUE]:EFFECT", "Taint nodes; NoExecute evicts pods when their tolerations end."),
    ("untaint", "NODES=KEY[:EFFECT]", "Remove taints."),
    ("label", "NODES=KEY=VALUE|NODES=KEY-", "Label nodes, or remove a label."),
    ("add-nodes", "N", "Add nodes made from --template."),
    ("like", "NODE", "The existing node to copy for the preceding --add-nodes."),
    ("remove-node", "NODES", "Remove nodes at once, with their pods."),
)
"""The options that change a cluster: name, metavar and help."""
FAILED, INTERRUPTED = 3, 130
_ORDER = "mooring.simulate.order"


class _InOrder(click.Option):
    """An option of `mooring simulate` whose position on the command line matters."""


class _OrderedCommand(click.Command):
    """A command that records in which order its `_InOrder` options were given, with their values, in the context."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.UsageError:  # repeated by the real parsing
            given, order = {}, []
        values = {name: iter(found) for name, found in given.items() if isinstance(found, list | tuple)}
        ctx.meta[_ORDER] = [
            (param.name, next(values[param.name]))
            for param in order
            if isinstance(param, _InOrder) and param.name in values
        ]
        return super().parse_args(ctx, args)


def _changes(command: Any) -> Any:
    for name, metavar, help_ in reversed(_CHANGES):
        offer = completions.nodes if metavar.startswith("NODE") else None
        command = click.option(
            f"--{name}", cls=_InOrder, multiple=True, metavar=metavar, shell_complete=offer, help=help_
        )(command)
    return command


@click.command(cls=_OrderedCommand)
@click.argument("words", nargs=-1, metavar="[compare ONE OTHER]")
@cluster_source
@click.option("--nodes", type=click.IntRange(0), metavar="N", help="Simulate a cluster of this many nodes instead.")
@click.option(
    "--template",
    type=FILE,
    help="The template of the nodes of --nodes and --add-nodes: one or more Nodes, used in turn.  "
    "[default: 32 cores, 128Gi, 110 pods, in three zones]",
)
@click.option("--scenario", "scenario_path", type=FILE, metavar="FILE", help="Steps over time; see docs/simulate.md.")
@_changes
@trace_flags
@click.option("--keep-pending", is_flag=True, help="Do not schedule pods that are pending already.")
@click.option("--until-full", is_flag=True, help="At the end, report how many more pods of the last --add fit.")
@pool_option
@click.option("--consolidate", is_flag=True, help="Find nodes that can be removed; with --prices, report the savings.")
@click.option("--descheduler", type=FILE, help="Apply a DeschedulerPolicy after the changes, every five minutes.")
@click.option("--seed", type=int, metavar="N", help="The random seed for ties between nodes.  [default: 0]")
@scheduler_flags
@click.option(
    "--compare-with", metavar="FILE|GATE=BOOL,…", help="Compare with this scheduler configuration or these gates."
)
@click.option(
    "--fail-if",
    "--fail-on",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with 3 when this holds: pending, newly-pending, preempted, evicted, rejected, blocked, evicted>3, "
    "utilisation>90%, cpu>85%.",
)
@output_option("table", "wide", "json", "yaml", "csv", "markdown")
@click.option("--html", "html_path", type=NEW_FILE, help="Also write a report in HTML.")
def simulate(
    *,
    words: tuple[str, ...],
    source: ClusterSource,
    running: Component,
    scheduler: SchedulerChoice,
    nodes: int | None,
    template: Path | None,
    scenario_path: Path | None,
    keep_pending: bool,
    until_full: bool,
    pools: tuple[str, ...],
    consolidate: bool,
    descheduler: Path | None,
    seed: int | None,
    compare_with: str | None,
    conditions: tuple[str, ...],
    trace: TraceOptions,
    output: str,
    html_path: Path | None,
    **_changes: Any,
) -> None:
    """Show where every pod would go if the cluster were changed, without touching it.

    Changes are applied one after the other, each when the effects of the previous one have settled. Nodes are named or
    given as a pattern, with commas: worker-1,gpu-*.

    \b
    Examples:
      mooring simulate --add web.yaml --replicas 200 --fail-if pending
      mooring simulate --from cluster.yaml --drain worker-3 --html report.html
      mooring simulate --nodes 5000 --add web.yaml --until-full
      mooring simulate --taint 'worker-1=sla=940:NoExecute' --compare-with scheduler.yaml
      mooring simulate --consolidate --prices prices.csv
      mooring simulate --scenario black-friday.yaml -o json
      mooring simulate --trace nodes.csv --trace pods.csv --html report.html
      mooring simulate compare 'results/runs/*.FGD.*' 'results/runs/*.BestFit.*'
    """
    import mooring.advisor.simulate as package
    from mooring.advisor.simulate.manifests import read_nodes
    from mooring.cli.support.simulation_changes import steps_of

    if words:
        compare_replays(words, output)
        return
    wanted = [_parse_condition(text) for text in conditions]
    with report_errors(package.ScenarioError):
        templates = read_nodes(template.read_bytes(), str(template)) if template is not None else ()
        scenario, cluster = _read_scenario(scenario_path)
        scenario = replace(
            scenario,
            steps=(*scenario.steps, *steps_of(click.get_current_context().meta[_ORDER], templates)),
            seed=scenario.seed if seed is None else seed,
            keep_pending=scenario.keep_pending or keep_pending,
            until_full=scenario.until_full or until_full,
        )
        if descheduler is not None:
            scenario = _with_descheduler(scenario, descheduler)
        if trace.paths:
            if scenario.steps or compare_with:
                raise click.UsageError("--trace excludes changes, --scenario and --compare-with")
            nodes = 0 if nodes is None and _is_default_cluster(source) else nodes
        with defer_collection():
            snapshot = _read_snapshot(source, cluster, scenario_path, nodes, templates, with_raw=bool(pools))
        running, notes = snapshot_component(snapshot, running)
        show_notes(notes)
        settings = with_pools(settings_of(running, scheduler), pools, snapshot, source)
        if trace.paths:
            replay(trace, snapshot, settings, scenario.seed, output=output, html=html_path)
        if consolidate:
            if html_path is not None or output == "csv":
                raise click.UsageError("--consolidate excludes --html and -o csv")
            _print_consolidation(snapshot, scenario, settings, trace, output)
        other = _settings_to_compare(compare_with, running, scheduler)
        with defer_collection(), SimulationProgress() as report:
            result = package.simulate(snapshot, scenario, settings, report=report)
            if other is not None and result.is_complete:
                second = package.simulate(snapshot, scenario, other, report=report)
                comparison = package.compare_results(result, second)
                result = structs.replace(result, comparison=comparison, is_complete=second.is_complete)
    if html_path is not None:  # before anything is printed: the reader may go away, as in `… | head`
        from mooring.advisor.simulate.html import render_page

        write_page(render_page(result), html_path)
    _print_simulation(result, output)
    if not result.is_complete:
        sys.exit(INTERRUPTED)
    held = [found for condition in wanted if (found := condition.violation(result))]
    for found in held:
        click.echo(f"Failed: {found}", err=True)
    sys.exit(FAILED if held else 0)


def _print_consolidation(
    snapshot: "Snapshot", scenario: "Scenario", settings: "Settings", trace: TraceOptions, output: str
) -> NoReturn:
    import msgspec

    from mooring.advisor.simulate import consolidation

    if scenario.steps:
        raise click.UsageError("--consolidate excludes changes")
    with SimulationProgress() as report:
        found = consolidation.consolidate(snapshot, settings, prices_of(trace), report)
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
    elif output == "markdown":
        click.echo(consolidation.format_markdown(found))
    else:
        print_lines(consolidation.format_lines(found))
    sys.exit(0 if found.is_complete else INTERRUPTED)


def _parse_condition(text: str) -> "Condition":
    from mooring.advisor.simulate.results import ConditionError, parse_condition

    with report_errors(ConditionError, prefix="--fail-if: ", usage=True):
        return parse_condition(text)


def _read_scenario(path: Path | None) -> "tuple[Scenario, ClusterWanted]":
    from mooring.advisor.simulate import Scenario, ScenarioError, scenario_file

    if path is None:
        return Scenario(), scenario_file.ClusterWanted()
    try:
        return scenario_file.read_scenario(path.read_bytes(), lambda name: (path.parent / name).read_bytes())
    except ScenarioError as problem:
        raise ScenarioError(f"{path}: {problem}") from problem


def _with_descheduler(scenario: "Scenario", path: Path) -> "Scenario":
    from mooring.advisor.simulate.descheduling import read_policy

    profiles, unknown = read_policy(path.read_bytes(), str(path))
    show_notes([f"the descheduler's {name} is not played" for name in unknown])
    return replace(scenario, descheduler=profiles)


def _read_snapshot(
    source: ClusterSource,
    wanted: "ClusterWanted",
    scenario: Path | None,
    nodes: int | None,
    templates: "tuple[Node, ...]",
    *,
    with_raw: bool,
) -> "Snapshot":
    from mooring.advisor.simulate import kinds_to_read
    from mooring.advisor.simulate.manifests import copy_templates
    from mooring.advisor.snapshot import Snapshot

    named = not _is_default_cluster(source)
    if nodes is not None and named:
        raise click.UsageError("--nodes simulates a new cluster, and excludes flags that name another one")
    if nodes is None and not named:
        nodes, templates = wanted.nodes, templates or wanted.templates
        here = scenario.parent if scenario is not None else Path()
        if wanted.files:
            source = ClusterSource(files=tuple(here / name for name in wanted.files))
        elif wanted.data_dir:
            source = ClusterSource(data_dir=here / wanted.data_dir)
        elif wanted.objects and nodes is None:
            nodes = 0
    if nodes is None:
        found = source.read(kinds_to_read(), raw=with_raw)
    else:
        found = Snapshot(f"{nodes} nodes", copy_templates(templates, nodes))
    return found.replace(put=wanted.objects) if wanted.objects else found


def _is_default_cluster(source: ClusterSource) -> bool:
    return source.is_live and not (source.kubeconfig or source.context)


def _settings_to_compare(text: str | None, running: Component, scheduler: SchedulerChoice) -> "Settings | None":
    from mooring.cli.support.cluster_source import scheduler_choice

    if text is None:
        return None
    path = Path(text)
    if "=" not in text or path.exists():
        if not path.is_file():
            raise click.UsageError(f"--compare-with: {text} is neither a file nor of the form GATE=true,GATE=false")
        return settings_of(running, scheduler_choice(running, path), f"the configuration {path}")
    with report_errors(GateError, VersionError, prefix="--compare-with: ", usage=True):
        other = component.resolve(
            gates=text,
            emulation=str(running.versions.emulation),
            min_compatibility=str(running.versions.min_compatibility),
        )
    return settings_of(other, scheduler, text)


def _print_simulation(result: "Simulation", output: str) -> None:
    from mooring.advisor.simulate import reports

    if print_result(result, output):
        return
    if output == "csv":
        click.echo(reports.format_csv(result), nl=False)
    elif output == "markdown":
        click.echo(reports.format_markdown(result))
    else:
        for line in reports.format_lines(result, wide=output == "wide"):
            click.echo(click.style(line, bold=True) if line[:4].isupper() else line)
