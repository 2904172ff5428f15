"""What commands ask a live server about itself: how it runs, and what it serves.

`mooring audit` and `mooring lint --cluster` judge by the server's own versions and gates unless flags name others;
`mooring lint --cluster-from` by what a dump lets us know of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from mooring.base.component import Component
from mooring.cli.support.cluster_source import ClusterSource

if TYPE_CHECKING:
    from mooring.advisor.snapshot import Snapshot
    from mooring.client import Client

T = TypeVar("T")
_SIMULATED = "Simulated Linux"
"""The operating system of nodes that Mooring plays."""
_FLAGS = ("emulation_version", "min_compatibility_version", "feature_gates")


class _Server(msgspec.Struct):
    """How a server ran, as `mooring dump` writes it."""

    version: dict[str, str]
    gates: dict[str, bool] = {}


def are_versions_given() -> bool:
    """Whether any of the flags of versions and gates was typed."""
    context = click.get_current_context()
    return any(context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT for name in _FLAGS)


def live_component(source: ClusterSource) -> tuple[Component, tuple[str, ...]]:
    """The versions and gates of a live server, and what is only assumed."""
    from mooring.advisor.audit.live import shown_by  # noqa: PLC0415 - `--help` should not wait for it
    from mooring.advisor.audit.options import QuestionError, component_of  # noqa: PLC0415 - as above

    try:
        return component_of(*asked(source, shown_by))
    except QuestionError as error:
        raise click.ClickException(f"cannot read {source.origin}: {error}") from error


def is_of_a_server(snapshot: "Snapshot") -> bool:
    """Whether a dump is of a server that is known, or whose nodes are real ones: manifests alone say nothing of any."""
    from mooring.api.core_v1 import Node  # noqa: PLC0415 - as above

    nodes = (node.status.node_info for node in snapshot.all(Node) if node.metadata.uid)
    return snapshot.server is not None or any(info.kubelet_version and info.os_image != _SIMULATED for info in nodes)


def dumped_component(snapshot: "Snapshot") -> tuple[Component, tuple[str, ...]]:
    """The versions and gates of a dump's server: as `mooring dump` noted them, or as its nodes let us assume."""
    from mooring.advisor.audit.options import QuestionError, component_of, component_of_dump  # noqa: PLC0415 - as above
    from mooring.api.core_v1 import Node  # noqa: PLC0415 - as above

    if snapshot.server is not None:
        try:
            said = msgspec.convert(snapshot.server, _Server)
            return component_of(said.version, said.gates)
        except (QuestionError, msgspec.ValidationError) as error:
            raise click.ClickException(f"{snapshot.origin} does not say how its server ran: {error}") from error
    return component_of_dump(node.status.node_info.kubelet_version for node in snapshot.all(Node))


def served_kinds(source: ClusterSource) -> frozenset[tuple[str, str]]:
    """apiVersion and kind of everything that a live server serves."""
    from mooring.advisor.lint.facts import served_by  # noqa: PLC0415 - as above

    return asked(source, served_by)


def asked(source: ClusterSource, question: "Callable[[Client], Awaitable[T]]") -> T:
    """What a live server answers to a question; failures are told in a sentence."""
    from mooring.api.errors import StatusError  # noqa: PLC0415 - as above
    from mooring.client import ClientError  # noqa: PLC0415 - as above

    async def ask() -> T:
        async with source.client() as client:
            return await question(client)

    try:
        return asyncio.run(ask())
    except (ClientError, StatusError) as error:
        raise click.ClickException(f"cannot read {source.origin}: {error}") from error
