"""Shell completion: versions, gates, kinds, and the namespaces, pods, workloads and nodes of a live cluster.

Each is a `shell_complete` of an option or argument. Names are read as kubectl would, within a second; where that fails
nothing is offered and nothing is printed. Files are completed by click.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from mooring.base.known_gates import KNOWN
from mooring.base.version import BINARY, OLDEST_EMULATION, Version, oldest_compatible

if TYPE_CHECKING:
    from mooring.api.meta_v1 import Resource

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
_SECONDS = 1.0


def _complete_versions_since(oldest: Version) -> Complete:
    words = [f"{BINARY.major}.{minor}" for minor in range(BINARY.minor, oldest.minor - 1, -1)]
    return lambda _ctx, _param, incomplete: _matching(words, incomplete)


emulation_versions = _complete_versions_since(OLDEST_EMULATION)
min_compatibility_versions = _complete_versions_since(oldest_compatible())


def gate_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return _matching((gate.name for gate in KNOWN), incomplete)


def switches(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete `GATE=true` or `GATE=false` at the end of a comma-separated list."""
    return _complete_last_of_list((f"{gate.name}={word}" for gate in KNOWN for word in ("true", "false")), incomplete)


def nodes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a node's name at the end of a comma-separated list."""
    from mooring.api.core_v1 import Node

    return _complete_last_of_list(_names_of(ctx, Node), incomplete)


def _complete_last_of_list(words: Iterable[str], incomplete: str) -> list[str]:
    before, comma, _ = incomplete.rpartition(",")
    return _matching((f"{before}{comma}{word}" for word in words), incomplete)


def _matching(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def namespaces(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from mooring.api.core_v1 import Namespace

    return _matching(_names_of(ctx, Namespace), incomplete)


def subjects(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the kind or name of a pod or workload: `KIND`, `KIND/NAME`, or `NAME` after a kind."""
    from mooring.advisor.snapshot.owners import WORKLOADS
    from mooring.api.core_v1 import Pod

    kinds: dict[str, type[Resource]] = {"pod": Pod, **{name.lower(): cls for name, cls in WORKLOADS.items()}}
    given = ctx.params.get("names") or ()
    kind, slash, _ = incomplete.rpartition("/")
    if given:
        cls = kinds.get(given[0].lower())
        return _matching(_names_of(ctx, cls), incomplete) if cls is not None else []
    if slash:
        cls = kinds.get(kind.lower())
        return _matching((f"{kind}/{name}" for name in _names_of(ctx, cls)), incomplete) if cls is not None else []
    return _matching((*kinds, *_names_of(ctx, Pod)), incomplete)


def _names_of(ctx: click.Context, cls: "type[Resource]") -> list[str]:
    """Return the names of a kind's objects, in the cluster and namespace that the command line selects."""
    from mooring.cli.support.cluster_source import ClusterSource

    source = ClusterSource(ctx.params.get("kubeconfig"), ctx.params.get("context") or "")

    async def ask() -> list[str]:
        async with asyncio.timeout(_SECONDS), source.client() as client:
            namespaced = client.kind(cls).namespaced
            space = (ctx.params.get("namespace") or source.namespace) if namespaced else ""
            return [obj.metadata.name for obj in (await client.list(cls, space, managed_fields=False)).items]

    with suppress(Exception):  # a completion offers nothing rather than an error
        return asyncio.run(ask())
    return []
