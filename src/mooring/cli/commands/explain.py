"""`mooring explain`: why pods do not run, or why one runs where it does, and what would help.

Exit codes: 0 when there was an answer; 1 when something could not be read; 3 with `--fail-if pending` when a pod does
not run as things are.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mooring.base import logs
from mooring.base.component import Component
from mooring.cli.support import completions
from mooring.cli.support.cluster_source import (
    ClusterSource,
    SchedulerChoice,
    cluster_source,
    scheduler_flags,
    show_notes,
    snapshot_component,
)
from mooring.cli.support.flags import FILE_OR_STDIN
from mooring.cli.support.output import name_as_called, output_option, paint, print_data, report_errors
from mooring.cli.support.process_settings import defer_collection
from mooring.cli.support.simulation_settings import pool_facts, pool_objects, pool_option, read_pools, settings_of

if TYPE_CHECKING:
    from mooring.advisor.explain import Overview, SchedulingExplanation, Subject
    from mooring.advisor.simulate import Settings
    from mooring.advisor.snapshot import RawObject, Snapshot
    from mooring.api.meta_v1 import Resource

FAILED = 3
_PAUSE_SECONDS = 0.5
"""Changes within this time are one change to `--watch`."""


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND] [[NAMESPACE/]NAME]", shell_complete=completions.subjects)
@click.option("-f", "--filename", type=FILE_OR_STDIN, help="Explain the pod or workload of this manifest instead.")
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=completions.namespaces,
    help="The namespace.  [default: that of the kubeconfig's context]",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Explain every pod that does not run, in all namespaces.")
@click.option("--owner", default="", metavar="[KIND/]NAME", help="Explain only pods of this workload.")
@click.option(
    "--suggestions", type=click.IntRange(0, 50), default=5, metavar="N", help="The maximum number of suggestions."
)
@click.option(
    "--fail-if", "--fail-on", "fail_if", type=click.Choice(["pending"]), help="Exit with 3 when a pod does not run."
)
@click.option("-v", "--verbose", is_flag=True, help="Also show kube-scheduler's message.")
@click.option("-w", "--watch", is_flag=True, help="Explain again when the answer changes, until Ctrl-C.")
@pool_option
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
    all_namespaces: bool,
    owner: str,
    suggestions: int,
    verbose: bool,
    watch: bool,
    fail_if: str | None,
    pools: tuple[str, ...],
    output: str,
) -> None:
    """Explain why pods do not run, or why one runs where it does, and what would help.

    Without a name, explain everything that does not run, grouped by cause: in the namespace, or with -A in all
    namespaces. The scheduler's own engine evaluates every node of a live cluster (Mooring or any Kubernetes), of a
    dump, or of a data directory; nothing is changed. Every suggestion was tried in a simulated rollout.

    \b
    Examples:
      mooring explain -A
      mooring explain -n shop --owner deployment/web
      mooring explain shop/web-5d9f7
      mooring explain deployment/web -n shop -o wide
      mooring explain -f pod.yaml --from cluster.yaml
      mooring explain -f pod.yaml --fail-if pending
      mooring explain pod web --watch
    """
    if names and filename is not None:
        raise click.UsageError("a name and -f exclude each other")
    if (names or filename is not None) and (all_namespaces or owner):
        raise click.UsageError("-A and --owner exclude a name and -f")
    if watch and (not source.is_live or filename is not None):
        raise click.UsageError("--watch needs a live cluster")
    kind, space, name = _parse_names(names, namespace) if names else ("", namespace or "", "")
    source = msgspec.structs.replace(source, chosen_namespace=space)
    question = _Question(
        source, running, scheduler, suggestions, filename, kind, "" if all_namespaces else space, name, owner,
        is_everywhere=all_namespaces, output=output, verbose=verbose, pools=pools,
        pool_objects=pool_objects(pools, source),
    )  # fmt: skip
    with logs.drop_lines_of("mooring.constraints"):  # constraint errors are reasons
        if watch:
            asyncio.run(_explain_changes(question))
            return
        with defer_collection():
            snapshot = source.read(_explained_kinds(), raw=bool(pools), quiet=True)
            is_well = question.show(snapshot)
    sys.exit(FAILED if fail_if and not is_well else 0)


def _explained_kinds() -> "Collection[type[Resource]]":
    from mooring.advisor.explain import KINDS

    return KINDS


class _Question(msgspec.Struct, frozen=True):
    """The question that the flags of `mooring explain` ask; answers it from a snapshot and prints the answer."""

    source: ClusterSource
    running: Component
    scheduler: SchedulerChoice
    suggestions: int
    file: Path | None = None
    kind: str = ""
    namespace: str = ""
    name: str = ""
    owner: str = ""
    is_everywhere: bool = False
    output: str = "table"
    verbose: bool = False
    pools: tuple[str, ...] = ()
    pool_objects: "tuple[RawObject, ...]" = ()

    @property
    def space(self) -> str:
        """The namespace whose pods are explained if no name is given; empty for all namespaces."""
        if self.is_everywhere or (not self.namespace and not self.source.is_live):
            return ""
        return self.namespace or self.source.namespace

    def settings(self, snapshot: "Snapshot") -> "Settings":
        """Return versions, gates and scheduler to explain with: those of flags, else the snapshot's. Print notes."""
        component, notes = snapshot_component(snapshot, self.running)
        show_notes([*snapshot.notes, *notes])
        return settings_of(component, self.scheduler)

    def show(self, snapshot: "Snapshot") -> bool:
        """Explain a snapshot and print the result; return whether all selected pods run."""
        from mooring.advisor.explain import Overview, text

        settings = self.settings(snapshot)
        is_verbose = self.verbose or self.output == "wide"
        is_text = self.output in ("table", "wide")

        def print_causes(found: Overview) -> None:
            _print_lines(text.format_causes(found, verbose=is_verbose, style=paint))

        found = self.answer(snapshot, settings, print_causes if is_text else None)
        if isinstance(found, Overview) and is_text:
            _print_lines(text.format_remedies(found, verbose=is_verbose, style=paint))
        else:
            self.print(found)
        return not _has_problem(found)

    def answer(
        self, snapshot: "Snapshot", settings: "Settings", on_causes: "Callable[[Overview], None] | None" = None
    ) -> "Overview | SchedulingExplanation":
        """Return the explanation of the named pod or workload; without a name, of everything that does not run.

        `on_causes` gets the latter before remedies are found. Raise ClickException for a name that does not exist.
        """
        from mooring.advisor.explain import explain, overview

        if not self.name and self.file is None:
            if why := snapshot.why_unread("pods"):
                raise click.ClickException(f"the pods of {snapshot.origin} could not be read ({why})")
            space, remedies = self.space, self.suggestions > 0
            return overview(
                snapshot, settings, namespace=space, owner=self.owner, remedies=remedies, on_causes=on_causes
            )
        snapshot, subject = self.subject(snapshot, settings)
        events = self._read_events(subject) if self.source.is_live and self.file is None and on_causes else ()
        found = explain(snapshot, subject, settings, suggestions=self.suggestions, events=events)
        if not self.pools or not _has_problem(found):
            return found
        facts = pool_facts(snapshot, read_pools(self.pools, snapshot, self.pool_objects), subject.pod)
        return msgspec.structs.replace(found, facts=[*found.facts, *facts])

    def subject(self, snapshot: "Snapshot", settings: "Settings") -> "tuple[Snapshot, Subject]":
        from mooring.advisor.explain import NotThereError, find_subject, read_subject
        from mooring.advisor.snapshot import SnapshotError

        namespace = self.namespace or self.source.namespace
        with report_errors(NotThereError, SnapshotError):
            if self.file is None:
                return snapshot, find_subject(snapshot, self.kind, namespace, self.name, settings.admission)
            return read_subject(snapshot, self.file, namespace, settings.admission)

    def _read_events(self, subject: "Subject") -> Sequence[str]:
        from mooring.advisor.snapshot.events import warnings_about

        if not subject.exists:
            return ()

        async def read() -> Sequence[str]:
            async with self.source.client() as client:
                return await warnings_about(client, subject.pod)

        return asyncio.run(read())

    def print(self, found: "Overview | SchedulingExplanation") -> None:
        from mooring.advisor.explain import Overview, text

        if self.output in ("json", "yaml"):
            print_data(msgspec.to_builtins(found), self.output)
        elif isinstance(found, Overview):
            _print_lines(text.format_causes(found, verbose=self.verbose, style=paint))
            _print_lines(text.format_remedies(found, verbose=self.verbose, style=paint))
        else:
            _print_lines(text.format_lines(found, wide=self.output == "wide", verbose=self.verbose, style=paint))


def _has_problem(found: "Overview | SchedulingExplanation") -> bool:
    from mooring.advisor.explain import Overview
    from mooring.advisor.explain.results import PROBLEMS

    return bool(found.groups) if isinstance(found, Overview) else found.state in PROBLEMS


def _print_lines(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(name_as_called(line))


def _parse_names(names: tuple[str, ...], namespace: str | None) -> tuple[str, str, str]:
    """Parse arguments such as `pod shop/web`, `deployment/web`, `shop/web` or `web` into kind, namespace and name."""
    from mooring.advisor.explain.subject import is_explainable_kind

    if len(names) > 2:
        raise click.UsageError(f"too many words: {' '.join(names)}; one pod or workload at a time")
    if len(names) == 2:
        kind, rest = names
        space, _, name = rest.rpartition("/")
    else:
        first, _, name = names[0].rpartition("/")
        kind, space = (first, "") if not first or is_explainable_kind(first) else ("", first)
        if first.count("/") == 1 and is_explainable_kind(first.partition("/")[0]):
            kind, _, space = first.partition("/")
    if space and namespace and space != namespace:
        raise click.UsageError(f"the namespace is {space} or {namespace}, not both")
    if not name or "/" in kind or "/" in space:
        raise click.UsageError(f"{'/'.join(names)} is no name: write `pod NAMESPACE/NAME` or `deployment/NAME`")
    return kind or "pod", space or namespace or "", name


async def _explain_changes(question: _Question) -> None:
    from mooring.advisor.snapshot import SnapshotError
    from mooring.advisor.snapshot.following import follow_snapshots

    before = None
    with report_errors(SnapshotError):
        async with question.source.client() as client:
            async for snapshot in follow_snapshots(
                client, question.source.origin, _explained_kinds(), _PAUSE_SECONDS, question.source.namespace
            ):
                component, _ = snapshot_component(snapshot, question.running)
                found = question.answer(snapshot, settings_of(component, question.scheduler))
                if found != before and before is not None and question.output in ("table", "wide"):
                    click.echo()
                if found != before:
                    question.print(found)
                before = found
                if getattr(found, "state", "") == "Scheduled":
                    return
