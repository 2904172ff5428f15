"""What commands simulate: the control plane that flags describe, and node pools of an autoscaler (`--pool`)."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.base.component import Component
from mooring.cli.support.cluster_source import ClusterSource, SchedulerChoice, ask_server

if TYPE_CHECKING:
    from mooring.advisor.simulate import Settings
    from mooring.advisor.simulate.node_pools import NodePool
    from mooring.advisor.snapshot import RawObject, Snapshot
    from mooring.api.core_v1 import Pod

_CLUSTER = "cluster"


def settings_of(running: Component, scheduler: SchedulerChoice, description: str = "") -> "Settings":
    """Return the settings of a simulation. The default `description` lists the version and the changed gates."""
    from mooring.advisor.simulate import options

    if not description:
        changed = sorted(f"{name}={str(on).lower()}" for name, on in running.gates.changed.items())
        version = f"emulating {running.versions.emulation}"
        description = ", ".join((version, *changed))
    return options.for_component(running, scheduler.profiles, scheduler.registry, scheduler.backoffs, description)


def pool_option(command: Any) -> Any:
    """Add `--pool` to a command, which gets the values as the argument `pools`."""
    return click.option(
        "--pool",
        "pools",
        multiple=True,
        metavar="FILE|cluster",
        help="Node pools that may add nodes: a file of templates (see docs/simulate.md), or `cluster` for Karpenter's "
        "NodePools and the groups of existing nodes.",
    )(command)


def pool_objects(pools: tuple[str, ...], source: ClusterSource) -> "tuple[RawObject, ...]":
    """Read from a live cluster what a snapshot leaves out about its pools: Karpenter's objects, and group sizes."""
    from mooring.advisor.simulate.node_pools import read_pool_objects

    return tuple(ask_server(source, read_pool_objects)) if _CLUSTER in pools and source.is_live else ()


def read_pools(
    pools: tuple[str, ...], snapshot: "Snapshot", objects: "tuple[RawObject, ...]" = ()
) -> "tuple[NodePool, ...]":
    """Return the node pools that the values of `--pool` name. Raise ScenarioError if one is malformed."""
    from mooring.advisor.simulate import node_pools

    found: list[NodePool] = []
    for name in pools:
        if name == _CLUSTER:
            found += node_pools.find_pools(snapshot, objects)
            continue
        try:
            found += node_pools.read_pools(Path(name).read_bytes(), name)
        except OSError as problem:
            raise click.UsageError(f"--pool: {name}: {problem.strerror}") from problem
    return tuple(found)


def with_pools(settings: "Settings", pools: tuple[str, ...], snapshot: "Snapshot", source: ClusterSource) -> "Settings":
    """Return the settings with node pools, from which a simulated autoscaler adds nodes; unchanged without any."""
    return replace(settings, pools=read_pools(pools, snapshot, pool_objects(pools, source))) if pools else settings


def pool_facts(snapshot: "Snapshot", pools: "tuple[NodePool, ...]", pod: "Pod") -> list[str]:
    """Return sentences about which node pools could add a node for a pod, or why none can."""
    from mooring.advisor.simulate.node_pools import explain_pools

    found = explain_pools(snapshot, pools, pod)
    if fitting := [each.pool for each in found if each.fits]:
        return [f"a new node of the pool {' or '.join(fitting)} would take it"]
    return [
        "no pool can make a node for this pod" if found else "no pools were found",
        *(f"pool {each.pool}: {'; '.join(each.reasons)}" for each in found),
    ]
