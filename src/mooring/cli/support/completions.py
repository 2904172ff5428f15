"""What the shell offers when somebody presses Tab: versions, gates, and the nodes of a live cluster.

Each is a `shell_complete` of an option. Names are asked for as kubectl would, for a second at the most; where that
fails nothing is offered and nothing is said.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

import click

from mooring.base.known_gates import KNOWN
from mooring.base.version import BINARY, OLDEST_EMULATION, Version, oldest_compatible

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
_SECONDS = 1.0


def _versions_since(oldest: Version) -> Complete:
    words = [f"{BINARY.major}.{minor}" for minor in range(BINARY.minor, oldest.minor - 1, -1)]
    return lambda _ctx, _param, incomplete: _matching(words, incomplete)


emulation_versions = _versions_since(OLDEST_EMULATION)
min_compatibility_versions = _versions_since(oldest_compatible())


def gate_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return _matching((gate.name for gate in KNOWN), incomplete)


def switches(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """`GATE=true` and `GATE=false`, after any number of others."""
    return _last_of_list((f"{gate.name}={word}" for gate in KNOWN for word in ("true", "false")), incomplete)


def nodes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of nodes, with commas between them."""
    return _last_of_list(_nodes_of(ctx), incomplete)


def _last_of_list(words: Iterable[str], incomplete: str) -> list[str]:
    before, comma, _ = incomplete.rpartition(",")
    return _matching((f"{before}{comma}{word}" for word in words), incomplete)


def _matching(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _nodes_of(ctx: click.Context) -> list[str]:
    """The nodes of the cluster that the command line names so far."""
    from mooring.api.core_v1 import Node  # noqa: PLC0415 - loaded only when somebody presses Tab
    from mooring.cli.support.cluster_source import ClusterSource  # noqa: PLC0415 - as above

    async def ask() -> list[str]:
        async with asyncio.timeout(_SECONDS), source.client() as client:
            return [node.metadata.name for node in (await client.list(Node, managed_fields=False)).items]

    source = ClusterSource(ctx.params.get("kubeconfig"), ctx.params.get("context") or "")
    with suppress(Exception):  # a shell that complains while somebody types is worse than one that offers nothing
        return asyncio.run(ask())
    return []
