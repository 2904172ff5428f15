"""`mooring plan`: what `kubectl apply` of manifests would do, before it is done.

Exit codes: 0 when nothing would change, 1 when the changes fit, 2 when something does not fit, is refused or cannot be
read, or the call is wrong.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.base.component import Component
from mooring.cli.support.cluster_source import (
    ClusterSource,
    SchedulerChoice,
    cluster_source,
    scheduler_flags,
    show_notes,
    snapshot_component,
)
from mooring.cli.support.flags import MANIFESTS, VerdictCommand
from mooring.cli.support.output import output_option, paint, print_data, print_lines, report_errors
from mooring.cli.support.process_settings import defer_collection
from mooring.cli.support.progress import SimulationProgress
from mooring.cli.support.simulation_settings import pool_option, settings_of, with_pools

if TYPE_CHECKING:
    from mooring.advisor.plan import ServerAnswer
    from mooring.api.meta_v1 import Resource
    from mooring.client import Client

_MANAGER = "mooring-plan"
_AT_ONCE = 16


@click.command(cls=VerdictCommand)
@click.option("-f", "--filename", "paths", multiple=True, required=True, type=MANIFESTS, help="Manifests to apply.")
@cluster_source
@click.option("--offline", is_flag=True, help="Do not send dry-run requests to a live server.")
@pool_option
@output_option("table", "wide", "json", "yaml", "markdown")
@scheduler_flags
def plan(
    *,
    paths: tuple[Path, ...],
    source: ClusterSource,
    running: Component,
    scheduler: SchedulerChoice,
    offline: bool,
    pools: tuple[str, ...],
    output: str,
) -> None:
    """Show what applying manifests would change, where the pods would go, and what would not fit or be refused.

    A live server evaluates the manifests in a dry run, with its quotas, policies and webhooks. Nothing is changed.

    \b
    Examples:
      mooring plan -f deploy/
      mooring plan -f web.yaml --from production.json -o markdown
      helm template . | mooring plan -f -
    """
    from mooring.advisor import plan as package
    from mooring.advisor.plan import reports
    from mooring.advisor.simulate import ScenarioError, kinds_to_read

    with report_errors(ScenarioError, usage=True):
        objects = _read_manifests(paths)
        with defer_collection(), SimulationProgress() as report:
            snapshot = source.read(kinds_to_read(), raw=bool(pools))
            running, notes = snapshot_component(snapshot, running)
            answers = {} if offline or not source.is_live else _dry_runs(source, objects)
            found = package.plan(
                snapshot,
                objects,
                with_pools(settings_of(running, scheduler), pools, snapshot, source),
                dry_run=lambda obj: answers.get(id(obj)),
                report=report,
            )
    show_notes([*notes, *found.notes])
    if output in ("json", "yaml"):
        print_data(found.tree(), output)
    elif output == "markdown":
        click.echo(reports.format_markdown(found), nl=False)
    else:
        print_lines(reports.format_lines(found, paint, wide=output == "wide"))
    sys.exit(found.exit_code)


def _read_manifests(paths: tuple[Path, ...]) -> "tuple[Resource, ...]":
    from mooring.advisor.simulate.manifests import read_objects

    found: list[Resource] = []
    for path in paths:
        if str(path) == "-":
            found += read_objects(sys.stdin.buffer.read(), "standard input")
            continue
        files = sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json")) or []
        for each in files if path.is_dir() else [path]:
            found += read_objects(each.read_bytes(), str(each))
    if not found:
        raise click.UsageError(f"no manifests in {', '.join(map(str, paths))}")
    return tuple(found)


def _dry_runs(source: ClusterSource, objects: "Sequence[Resource]") -> "dict[int, ServerAnswer]":
    """Apply each object as a server-side dry run; return the answers by `id(object)`, without forbidden ones."""
    from mooring.client import ClientError

    try:
        return asyncio.run(_run_dry_runs(source, objects))
    except ClientError as problem:
        click.echo(f"Note: the server could not be asked for a dry run: {problem}", err=True)
        return {}


async def _run_dry_runs(source: ClusterSource, objects: "Sequence[Resource]") -> "dict[int, ServerAnswer]":
    remaining, answers = iter(objects), dict[int, Any]()
    async with source.client() as client:

        async def work() -> None:
            for obj in remaining:
                if (answer := await _dry_run(client, obj)) is not None:
                    answers[id(obj)] = answer

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return answers


async def _dry_run(client: "Client", obj: "Resource") -> "ServerAnswer | None":
    from mooring.advisor.plan import ServerAnswer
    from mooring.api import codec
    from mooring.api.errors import Forbidden, NotFound, StatusError

    if not obj.metadata.name:  # a generated name: there is nothing to compare with
        return None
    try:
        before = codec.to_tree(await client.get(type(obj), obj.metadata.name, obj.metadata.namespace))
    except NotFound:
        before = None
    except StatusError:
        return None
    try:
        after = await client.apply(obj, field_manager=_MANAGER, force=True, dry_run=True)
    except Forbidden as refusal:
        if "cannot patch resource" in str(refusal):
            return None
        return ServerAnswer(before, None, str(refusal))
    except StatusError as refusal:
        return ServerAnswer(before, None, str(refusal))
    return ServerAnswer(before, codec.to_tree(after))
