"""`mooring controllers`: the controllers on their own, for any API server that a kubeconfig names."""

import click
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from mooring.base.component import Component
from mooring.base.metrics import build_registry
from mooring.cli.support.flags import Duration, LogFlags, component_flags, kubeconfig_flags, worker_flags
from mooring.cli.support.leadership import ChangedTimes, lease_flags, run_with_restarts, work_until_signal
from mooring.client import ClientError, LeaseTimes, connect, user_agent
from mooring.client.leader_election import LeaderElection
from mooring.controllers.options import COMPONENT, ControllerOptions, UnknownControllerError, for_component
from mooring.controllers.run import Controllers, discover_versions

DEFAULT_PORT = 10252
_DEFAULTS = ControllerOptions()


@click.command()
@kubeconfig_flags
@click.option(
    "--controllers", "names", default="*", metavar="NAME,…", help="Controllers to run; * for all, -NAME to exclude one."
)
@click.option("--leader-elect/--no-leader-elect", show_default=True, help="Work only while this copy leads.")
@click.option(
    "--node-monitor-grace-period",
    type=Duration(),
    help=f"The time without heartbeats until a node is unreachable.  [default: {_DEFAULTS.node_grace_seconds:g}s]",
)
@lease_flags
@worker_flags(DEFAULT_PORT)
@component_flags
def controllers(
    *,
    running: Component,
    reach: tuple[str | None, str],
    names: str,
    leader_elect: bool,
    node_monitor_grace_period: float | None,
    lease_times: ChangedTimes,
    listen: tuple[str, int],
    log: LogFlags,
) -> None:
    """Run the controllers until SIGTERM or Ctrl-C, against Mooring or any Kubernetes cluster.

    \b
    Examples:
      mooring controllers --kubeconfig ~/.mooring/controllers.kubeconfig
      mooring controllers --controllers deployment,replicaset --leader-elect
      mooring controllers --controllers '*,-cronjob' --port 0 -v
    """
    log.configure()
    options = for_component(running)
    if node_monitor_grace_period is not None:
        if node_monitor_grace_period <= 0:
            raise click.UsageError("--node-monitor-grace-period: must be longer than 0")
        options = replace(options, node_grace_seconds=node_monitor_grace_period)
    election = LeaderElection(COMPONENT, enabled=leader_elect, times=lease_times(LeaseTimes()))
    try:
        run_with_restarts(
            lambda: _run(names.split(","), options, election, build_registry(running), reach=reach, listen=listen)
        )
    except UnknownControllerError as error:
        raise click.UsageError(f"--controllers: {error}") from error
    except (ClientError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _run(
    names: list[str],
    options: ControllerOptions,
    election: LeaderElection,
    registry: CollectorRegistry,
    *,
    reach: tuple[str | None, str],
    listen: tuple[str, int],
) -> bool:
    agent = user_agent(COMPONENT, options.version)
    async with connect(*reach, user_agent=agent, scheme=options.scheme, grouped=True) as client:
        await discover_versions(client)
        running = Controllers(client, options, names=names, election=election, registry=registry)
        greeting = f"The controllers are ready: {', '.join(running.controllers)}"
        return await work_until_signal(running, registry, listen, greeting, elected=election.enabled)
