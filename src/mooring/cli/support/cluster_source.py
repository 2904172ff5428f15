"""The flags that select a cluster, for `mooring explain`, `simulate`, `audit` and others.

    @cluster_source
    def explain(source: ClusterSource, …): snapshot = source.read()

A live cluster is found as kubectl does. Errors are reported in a sentence (`click.ClickException`). `scheduler_flags`
selects the scheduler: its versions, gates and configuration file. Every question uses the versions and gates of its
cluster, live or recorded in a dump, unless flags name others (`snapshot_component`).
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from mooring.base.component import Component
from mooring.cli.support.flags import (
    FILE,
    FOLDER,
    MANIFESTS,
    Command,
    DataDir,
    component_flags,
    group_flags,
    kubeconfig_flags,
)
from mooring.cli.support.output import name_as_called, report_errors
from mooring.cli.support.process_settings import cores

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mooring.advisor.snapshot import Snapshot
    from mooring.api.meta_v1 import Resource
    from mooring.client import Client
    from mooring.client.kubeconfig import Connection
    from mooring.scheduler.framework import Registry, SchedulerFeatures
    from mooring.scheduler.framework.profiles import ProfileSpec
    from mooring.scheduler.queue import Backoffs

USER_AGENT = "mooring-advisor"
_NOTES_SHOWN = 10
_VERSION_FLAGS = ("emulation_version", "min_compatibility_version", "feature_gates")
T = TypeVar("T")


class ClusterSource(msgspec.Struct, frozen=True):
    """A live cluster, a dump or a data directory."""

    kubeconfig: str | None = None
    context: str = ""
    files: tuple[Path, ...] = ()
    data_dir: Path | None = None
    hint: str = "name a dump with --from, or a data directory with --data-dir"
    """Advice for users without a kubeconfig."""
    chosen_namespace: str = ""
    """The namespace that a flag names; it is read if the user may not read all."""

    @property
    def is_live(self) -> bool:
        return not self.files and self.data_dir is None

    def with_files(self, paths: Sequence[Path]) -> "ClusterSource":
        """Return the source with files added to those of `--from`; raise UsageError if other flags name a cluster."""
        if paths and (self.kubeconfig or self.context or self.data_dir):
            raise click.UsageError("files, --kubeconfig and --data-dir name different clusters: choose one")
        return msgspec.structs.replace(self, files=(*self.files, *paths))

    @property
    def namespace(self) -> str:
        """The chosen namespace of a live cluster, by default that of the kubeconfig's context."""
        return self.chosen_namespace or self._load_connection().namespace if self.is_live else "default"

    def read(self, kinds: "Collection[type[Resource]]" = (), *, raw: bool = True, quiet: bool = False) -> "Snapshot":
        """Read a snapshot (of a live cluster only `kinds`, if given); print notes about it to standard error."""
        from mooring.advisor import snapshot

        try:
            if self.files:
                found = snapshot.dump(self.files, stdin=sys.stdin.buffer, jobs=cores())
            elif self.data_dir is not None:
                found = snapshot.data_directory(self.data_dir)
            else:
                found = asyncio.run(self.read_live(kinds, raw=raw))
        except snapshot.SnapshotError as error:
            raise click.ClickException(str(error)) from error
        except BrokenProcessPool as error:
            raise click.ClickException("a worker process was killed, perhaps for lack of memory") from error
        if not quiet:
            show_left_out(found)
        return found

    async def read_live(self, kinds: "Collection[type[Resource]]" = (), *, raw: bool = True) -> "Snapshot":
        """Read a snapshot of the live cluster. Raise `SnapshotError`."""
        from mooring.advisor.snapshot import live

        async with self.client() as client:
            return await live(client, self.origin, kinds=kinds, raw=raw, namespace=self.namespace)

    @property
    def origin(self) -> str:
        """A description of the cluster for messages, such as `the dump a.json` or `the cluster at URL`."""
        if self.files:
            return f"the dump {', '.join(map(str, self.files))}"
        if self.data_dir is not None:
            return f"the data directory {self.data_dir}"
        return f"the cluster at {self._load_connection().server}"

    @asynccontextmanager
    async def client(self) -> "AsyncIterator[Client]":
        """Open a client of the live cluster."""
        from mooring.base.version import BINARY
        from mooring.client import connect, user_agent

        self._load_connection()  # reports errors in the kubeconfig
        async with connect(self.kubeconfig, self.context, user_agent=user_agent(USER_AGENT, BINARY)) as client:
            yield client

    def _load_connection(self) -> "Connection":
        from mooring.client import ClientError, kubeconfig

        try:
            return kubeconfig.load(self.kubeconfig, self.context)
        except ClientError as error:
            hint = "" if self.kubeconfig else f"; or {self.hint}"
            raise click.ClickException(f"{error}{hint}") from error


def _build_source(reach: tuple[str | None, str], files: tuple[Path, ...], data_dir: Path | None) -> ClusterSource:
    kubeconfig, context = reach
    chosen = [name for name, value in (("--from", files), ("--data-dir", data_dir)) if value]
    chosen += ["--kubeconfig"] if kubeconfig else ["--context"] if context else []
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} name different clusters: choose one")
    return ClusterSource(kubeconfig, context, files, data_dir)


cluster_source = group_flags(
    "source",
    _build_source,
    kubeconfig_flags,
    click.option(
        "--from", "files", multiple=True, type=MANIFESTS, help="Read manifests or what `mooring dump` wrote instead."
    ),
    click.option("--data-dir", type=DataDir(), metavar="DIR", help="Read a data directory of Mooring instead."),
)
"""The flags that select a cluster; the command gets a `ClusterSource` as `source`."""


class SchedulerChoice(msgspec.Struct, frozen=True):
    """The scheduler that flags select: profiles, feature switches, plugins and backoff times."""

    profiles: "tuple[ProfileSpec, ...]"
    features: "SchedulerFeatures"
    registry: "Registry"
    backoffs: "Backoffs"


def scheduler_choice(running: Component, path: Path | None, plugins: tuple[Path, ...] = ()) -> SchedulerChoice:
    """Return the scheduler that a configuration file describes, or the default one, with installed plugins.

    Raise ClickException for a configuration that does not start.
    """
    from mooring.scheduler.framework.registry import PluginError, from_entry_points, from_folder
    from mooring.scheduler.plugins import IN_TREE
    from mooring.scheduler.running import options
    from mooring.scheduler.running.options import SchedulerConfig, for_component

    try:
        chosen = SchedulerConfig() if path is None else options.read(path.read_bytes())
        registry = {**IN_TREE, **from_entry_points()}
        for folder in plugins:
            registry |= from_folder(folder)
    except options.SchedulerConfigError as error:
        raise click.ClickException(f"{path}: {error}") from error
    except (PluginError, OSError) as error:
        raise click.ClickException(str(error)) from error
    choice = SchedulerChoice(chosen.profiles, for_component(running).features, registry, chosen.backoffs)
    if path is not None:
        from mooring.scheduler.deciding.engine import Engine

        with report_errors(PluginError, prefix=f"{path}: "):
            Engine(choice.profiles, features=choice.features, registry=registry)
    return choice


def scheduler_flags(command: Command) -> Command:
    """Add the flags for versions, gates and the scheduler to a command; it gets them as `running` and `scheduler`."""

    @click.option("--scheduler-config", type=FILE, help="The KubeSchedulerConfiguration of the cluster's scheduler.")
    @click.option("--plugins", type=FOLDER, multiple=True, help="A package of scheduler plugins that is not installed.")
    @component_flags
    @wraps(command)
    def call_with_scheduler(
        *args: Any, running: Component, scheduler_config: Path | None, plugins: tuple[Path, ...], **rest: Any
    ) -> None:
        command(*args, running=running, scheduler=scheduler_choice(running, scheduler_config, plugins), **rest)

    return call_with_scheduler


def check_readable(snapshot: "Snapshot") -> None:
    """Raise ClickException if no object of a snapshot could be read for lack of rights."""
    if snapshot.forbidden and not snapshot.raw():
        why = next(iter(snapshot.forbidden.values()))
        raise click.ClickException(f"nothing of {snapshot.origin} can be read: {why}")


def show_left_out(snapshot: "Snapshot") -> None:
    """Print on standard error which objects could not be read into a snapshot, and which rights are missing."""
    show_notes([*snapshot.notes, snapshot.rights_note] if snapshot.forbidden else snapshot.notes)


def show_notes(notes: Sequence[object]) -> None:
    """Print the first notes on standard error, and how many more there are."""
    for note in notes[:_NOTES_SHOWN]:
        click.echo(name_as_called(f"Note: {note}"), err=True)
    if len(notes) > _NOTES_SHOWN:
        click.echo(f"Note: {len(notes) - _NOTES_SHOWN} more notes", err=True)


# The versions, gates and kinds of a cluster


def are_versions_given() -> bool:
    """Whether any of the flags of versions and gates was typed."""
    context = click.get_current_context()
    return any(context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT for name in _VERSION_FLAGS)


def live_component(source: ClusterSource) -> tuple[Component, tuple[str, ...]]:
    """Return a live server's versions and gates, and notes about those that are only assumed."""
    from mooring.advisor.audit.options import QuestionError, component_of_server
    from mooring.advisor.snapshot.server_info import read_server_info

    try:
        info = ask_server(source, read_server_info)
        return component_of_server(info.version, info.gates)
    except QuestionError as error:
        raise click.ClickException(f"cannot read {source.origin}: {error}") from error


def snapshot_component(
    snapshot: "Snapshot", running: Component, *, is_cluster: bool = False
) -> tuple[Component, tuple[str, ...]]:
    """Return the versions and gates by which a snapshot is evaluated, and notes about what is only assumed.

    Flags (`running`) win; without them the snapshot's server counts, live or recorded in a dump. A snapshot without
    server and nodes is a set of manifests, or with `is_cluster` an upstream cluster of the newest release.
    """
    from mooring.advisor.audit.options import QuestionError, component_of_dump, component_of_snapshot

    if are_versions_given():
        return running, ()
    with report_errors(QuestionError):
        return component_of_snapshot(snapshot) or (component_of_dump(()) if is_cluster else (running, ()))


def ask_server(source: ClusterSource, question: "Callable[[Client], Awaitable[T]]") -> T:
    """Run a coroutine with a client of the live server; raise ClickException for its errors."""
    from mooring.api.errors import StatusError
    from mooring.client import ClientError

    async def ask() -> T:
        async with source.client() as client:
            return await question(client)

    try:
        return asyncio.run(ask())
    except (ClientError, StatusError) as error:
        raise click.ClickException(f"cannot read {source.origin}: {error}") from error
