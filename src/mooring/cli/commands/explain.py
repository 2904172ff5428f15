"""`mooring explain`: why a pod is pending, or where it is, and the smallest changes that would help.

Exit codes: 0 when the question was answered, 1 when it could not be, 2 for a wrong call, 3 when `--fail-if pending` was
asked and no node would take the pod.
"""

import asyncio
import logging
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from mooring.base.component import Component
from mooring.cli.support.cluster_source import ClusterSource, SchedulerChoice, cluster_source, scheduler_flags
from mooring.cli.support.gc_settings import garbage_waits
from mooring.cli.support.live_server import are_versions_given, dumped_component, is_of_a_server
from mooring.cli.support.output import output_option, print_data

if TYPE_CHECKING:
    from mooring.advisor.explain import SchedulingExplanation
    from mooring.advisor.snapshot import Snapshot
    from mooring.api.meta_v1 import Resource

_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "quiet": {"dim": True},
    "command": {"fg": "cyan"},
}
FAILED = 3
_PAUSE_SECONDS = 0.5
"""What changes within this time is one change to `--watch`."""


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND] [NAMESPACE/]NAME")
@click.option(
    "-f",
    "--filename",
    type=click.Path(exists=True, allow_dash=True, dir_okay=False, path_type=Path),
    help="A pod or workload that is not in the cluster yet.",
)
@click.option("-n", "--namespace", metavar="NAME", help="The namespace.  [default: that of the kubeconfig's context]")
@click.option(
    "--suggestions",
    type=click.IntRange(0, 50),
    default=5,
    show_default=True,
    metavar="N",
    help="The most changes to suggest.",
)
@click.option(
    "--fail-if",
    "--fail-on",
    "fail_if",
    type=click.Choice(["pending"]),
    help="Exit with 3 when this is so: pending, if no node would take the pod as things are.",
)
@click.option(
    "-w", "--watch", is_flag=True, help="Explain again whenever the answer changes, until the pod has a node."
)
@cluster_source
@scheduler_flags
@output_option("table", "wide", "json", "yaml")
def explain(
    *,
    running: Component,
    source: ClusterSource,
    scheduler: SchedulerChoice,
    names: tuple[str, ...],
    filename: Path | None,
    namespace: str | None,
    suggestions: int,
    watch: bool,
    fail_if: str | None,
    output: str,
) -> None:
    """Say why a pod is pending, or why it is where it is, and what would help.

    The scheduler's own engine judges every node of a live cluster (Mooring or any Kubernetes), of a dump, or of a data
    directory; nothing is changed. Every suggestion was tried: after it, the pod would be scheduled.

    \b
    Examples:
      mooring explain pod shop/web-5d9f7
      mooring explain deployment/web -n shop -o wide
      mooring explain -f pod.yaml --from cluster.yaml
      mooring explain -f pod.yaml --fail-if pending
      mooring explain pod web --watch
    """
    if bool(names) == (filename is not None):
        raise click.UsageError("name a pod or workload, as in `pod shop/web` or `deployment/web`, or a file with -f")
    named = _parsed(names, namespace) if names else ("", namespace or "", "")
    asking = _Asking(source, running, scheduler, suggestions, filename, *named)
    if watch and (not source.is_live or filename is not None):
        raise click.UsageError("--watch is for pods and workloads of a live cluster")
    with _quiet():
        if watch:
            asyncio.run(_watch(asking, output))
            return
        with garbage_waits():
            snapshot = source.read(_kinds(), raw=False)
            found = asking.of(snapshot).answer(snapshot)
    _show(found, output)
    sys.exit(FAILED if fail_if and found.state in ("Unschedulable", "NotAttempted") else 0)


def _kinds() -> "Collection[type[Resource]]":
    from mooring.advisor.explain import KINDS  # noqa: PLC0415 - `--help` should not wait for it

    return KINDS


@contextmanager
def _quiet() -> Iterator[None]:
    """What constraints complain about is in the answer."""
    log = logging.getLogger("mooring.constraints")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


class _Asking(msgspec.Struct, frozen=True):
    """What was asked."""

    source: ClusterSource
    running: Component
    scheduler: SchedulerChoice
    suggestions: int
    file: Path | None = None
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def of(self, snapshot: "Snapshot") -> "_Asking":
        """The same, with the gates of the server that a dump is of, unless flags name others."""
        if not self.source.files or are_versions_given() or not is_of_a_server(snapshot):
            return self
        from mooring.scheduler.running.options import for_component  # noqa: PLC0415 - `--help` should not wait for it

        running, notes = dumped_component(snapshot)
        for note in notes:
            click.echo(f"Note: {note}", err=True)
        return replace(
            self, running=running, scheduler=replace(self.scheduler, features=for_component(running).features)
        )

    def answer(self, snapshot: "Snapshot") -> "SchedulingExplanation":
        """Raises ClickException when there is no such thing."""
        from mooring.admission.options import for_component  # noqa: PLC0415 - `--help` should not wait for it
        from mooring.advisor.explain import NotThereError, explain, find, from_file  # noqa: PLC0415 - as above
        from mooring.advisor.snapshot import SnapshotError  # noqa: PLC0415 - as above

        options = for_component(self.running)
        namespace = self.namespace or self.source.namespace
        try:
            if self.file is None:
                subject = find(snapshot, self.kind, namespace, self.name, options)
            else:
                snapshot, subject = from_file(snapshot, self.file, namespace, options)
        except (NotThereError, SnapshotError) as error:
            raise click.ClickException(str(error)) from error
        scheduler = self.scheduler
        return explain(
            snapshot,
            subject,
            profiles=scheduler.profiles,
            features=scheduler.features,
            registry=scheduler.registry,
            suggestions=self.suggestions,
        )


def _parsed(names: tuple[str, ...], namespace: str | None) -> tuple[str, str, str]:
    """Kind, namespace and name of `pod shop/web`, `deployment/web`, `pod/web` or `web`."""
    if len(names) > 2:
        raise click.UsageError(f"too many words: {' '.join(names)}; one pod or workload at a time")
    if len(names) == 2:
        kind, rest = names
        space, _, name = rest.rpartition("/")
    else:
        kind, _, name = names[0].rpartition("/")
        space = ""
    if space and namespace and space != namespace:
        raise click.UsageError(f"the namespace is {space} or {namespace}, not both")
    if not name or "/" in kind or "/" in space:
        raise click.UsageError(f"{'/'.join(names)} is no name: write `pod NAMESPACE/NAME` or `deployment/NAME`")
    return kind or "pod", space or namespace or "", name


def _show(found: "SchedulingExplanation", output: str) -> None:
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
        return
    from mooring.advisor.explain import text  # noqa: PLC0415 - as above

    for line in text.lines(found, wide=output == "wide", style=lambda each, name: click.style(each, **_STYLES[name])):
        click.echo(line)


async def _watch(asking: _Asking, output: str) -> None:
    """Keep the objects up to date, and explain anew when the answer is another one."""
    from mooring.advisor.snapshot import SnapshotError  # noqa: PLC0415 - as above
    from mooring.advisor.snapshot.following import following  # noqa: PLC0415 - as above

    before = None
    try:
        async with asking.source.client() as client:
            async for snapshot in following(
                client, asking.source.origin, _kinds(), _PAUSE_SECONDS, asking.source.namespace
            ):
                found = asking.answer(snapshot)
                if found != before:
                    if before is not None and output in ("table", "wide"):
                        click.echo()
                    _show(found, output)
                before = found
                if found.state == "Scheduled":
                    return
    except SnapshotError as error:
        raise click.ClickException(str(error)) from error
