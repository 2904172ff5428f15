"""The versions and gates by which advice is given, and what a live server serves.

Every question uses the versions and gates of its cluster, live or recorded in a dump, unless flags name others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from mooring.base.component import Component
from mooring.cli.support.cluster_source import ClusterSource

if TYPE_CHECKING:
    from mooring.advisor.snapshot import Snapshot
    from mooring.client import Client

T = TypeVar("T")
_FLAGS = ("emulation_version", "min_compatibility_version", "feature_gates")


def are_versions_given() -> bool:
    """Whether any of the flags of versions and gates was typed."""
    context = click.get_current_context()
    return any(context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT for name in _FLAGS)


def live_component(source: ClusterSource) -> tuple[Component, tuple[str, ...]]:
    """Return the versions and gates of a live server, and what is only assumed."""
    from mooring.advisor.audit.options import QuestionError, component_of  # noqa: PLC0415 - `--help` should not wait
    from mooring.advisor.snapshot.server_info import read_server_info  # noqa: PLC0415 - as above

    try:
        info = ask_server(source, read_server_info)
        return component_of(info.version, info.gates)
    except QuestionError as error:
        raise click.ClickException(f"cannot read {source.origin}: {error}") from error


def snapshot_component(
    snapshot: "Snapshot", running: Component, *, is_cluster: bool = False
) -> tuple[Component, tuple[str, ...]]:
    """Return the versions and gates that decide about a snapshot, and what is only assumed.

    Flags (`running`) win; without them the snapshot's server counts, live or recorded in a dump. A snapshot without
    server and nodes is a set of manifests, or with `is_cluster` an upstream cluster of the newest release.
    """
    from mooring.advisor.audit.options import (  # noqa: PLC0415 - as above
        QuestionError,
        component_of_dump,
        component_of_snapshot,
    )

    if are_versions_given():
        return running, ()
    try:
        return component_of_snapshot(snapshot) or (component_of_dump(()) if is_cluster else (running, ()))
    except QuestionError as error:
        raise click.ClickException(str(error)) from error


def served_kinds(source: ClusterSource) -> frozenset[tuple[str, str]]:
    """apiVersion and kind of everything that a live server serves."""
    from mooring.advisor.lint.facts import served_by  # noqa: PLC0415 - as above

    return ask_server(source, served_by)


def ask_server(source: ClusterSource, question: "Callable[[Client], Awaitable[T]]") -> T:
    """Ask a live server; report errors in a sentence."""
    from mooring.api.errors import StatusError  # noqa: PLC0415 - as above
    from mooring.client import ClientError  # noqa: PLC0415 - as above

    async def ask() -> T:
        async with source.client() as client:
            return await question(client)

    try:
        return asyncio.run(ask())
    except (ClientError, StatusError) as error:
        raise click.ClickException(f"cannot read {source.origin}: {error}") from error
