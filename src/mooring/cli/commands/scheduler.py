"""`mooring scheduler`: the scheduler on its own, for any API server that a kubeconfig names."""

from pathlib import Path

import click
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from mooring.base.component import Component
from mooring.base.metrics import build_registry
from mooring.cli.support.flags import NEW_FILE, LogFlags, component_flags, kubeconfig_flags, worker_flags
from mooring.cli.support.leadership import ChangedTimes, lease_flags, run_with_restarts, work_until_signal
from mooring.cli.support.output import report_errors
from mooring.client import ClientError, connect, user_agent
from mooring.client.template_parts import TemplateParts
from mooring.scheduler.framework.registry import PluginError, from_entry_points
from mooring.scheduler.running import options
from mooring.scheduler.running.options import (
    COMPONENT,
    ComponentOptions,
    SchedulerConfig,
    SchedulerConfigError,
    for_component,
)
from mooring.scheduler.running.runtime import Scheduler

DEFAULT_PORT = 10251


@click.command()
@kubeconfig_flags
@click.option("--config", "config_path", type=NEW_FILE, help="A KubeSchedulerConfiguration.")
@click.option("--scheduler-name", metavar="NAME", help="The schedulerName of a configuration with one profile.")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Work only while this copy leads.  [default: as --config says, or no]",
)
@lease_flags
@worker_flags(DEFAULT_PORT)
@component_flags
def scheduler(
    *,
    running: Component,
    reach: tuple[str | None, str],
    config_path: Path | None,
    scheduler_name: str | None,
    leader_elect: bool | None,
    lease_times: ChangedTimes,
    listen: tuple[str, int],
    log: LogFlags,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C, against Mooring or any Kubernetes cluster.

    \b
    Examples:
      mooring scheduler --kubeconfig ~/.mooring/scheduler.kubeconfig
      mooring scheduler --kubeconfig ~/.kube/config --scheduler-name mooring
      mooring scheduler --config scheduler.yaml --leader-elect --port 0 -v
    """
    log.configure()
    with report_errors(SchedulerConfigError, PluginError, ClientError, OSError):
        config = _read_config(config_path, scheduler_name, leader_elect, lease_times)
        options = for_component(running)
        kubeconfig, context = reach
        reach = kubeconfig or config.kubeconfig or None, context
        run_with_restarts(lambda: _run_scheduler(config, options, build_registry(running), reach, listen))


def _read_config(
    path: Path | None, name: str | None, leader_elect: bool | None, lease_times: ChangedTimes
) -> SchedulerConfig:
    config = SchedulerConfig()
    if path is not None:
        try:
            config = options.read(path.read_bytes())
        except SchedulerConfigError as problem:
            raise SchedulerConfigError(f"{path}: {problem}") from problem
    if name is not None:
        if not name:
            raise click.UsageError("--scheduler-name: must not be empty")
        if len(config.profiles) != 1:
            raise click.UsageError(
                "--scheduler-name: the configuration has several profiles, which name their schedulers"
            )
        config = replace(config, profiles=(replace(config.profiles[0], scheduler_name=name),))
    election = replace(config.leader_election, times=lease_times(config.leader_election.times))
    if leader_elect is not None:
        election = replace(election, enabled=leader_elect)
    return replace(config, leader_election=election, plugins=from_entry_points())


async def _run_scheduler(
    config: SchedulerConfig,
    options: ComponentOptions,
    registry: CollectorRegistry,
    reach: tuple[str | None, str],
    listen: tuple[str, int],
) -> bool:
    agent, parts = user_agent(COMPONENT, options.version), TemplateParts(ignores_token_names=True)
    async with connect(*reach, user_agent=agent, scheme=options.scheme, grouped=True, parts=parts) as client:
        running = Scheduler(client, config, options)
        registry.register(running.metrics)
        greeting = f"The scheduler is ready: {', '.join(running.engine.profiles)}"
        elected = config.leader_election.enabled
        return await work_until_signal(running, registry, listen, greeting, elected=elected)
