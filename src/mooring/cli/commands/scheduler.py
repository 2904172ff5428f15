"""`mooring scheduler`: the scheduler on its own, for any API server that a kubeconfig names."""

from pathlib import Path

import click
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from mooring.base import logs
from mooring.base.component import Component
from mooring.base.metrics import build_registry
from mooring.cli.support.component_flags import component_flags
from mooring.cli.support.leadership import run_with_restarts, work_until_signal
from mooring.cli.support.lease_flags import ChangedTimes, lease_flags
from mooring.cli.support.worker_flags import worker_flags
from mooring.client import ClientError, connect, user_agent
from mooring.client.template_parts import TemplateParts
from mooring.scheduler.framework.registry import PluginError, from_entry_points
from mooring.scheduler.running import config as config_file
from mooring.scheduler.running.config import SchedulerConfigError
from mooring.scheduler.running.options import COMPONENT, ComponentOptions, SchedulerConfig, for_component
from mooring.scheduler.running.runtime import Scheduler

DEFAULT_PORT = 10251


@click.command()
@click.option("--kubeconfig", metavar="FILE", help="How to reach the API server; as kubectl finds it if not given.")
@click.option(
    "--context", default="", metavar="NAME", help="The context of the kubeconfig.  [default: its current one]"
)
@click.option(
    "--config", "config_path", type=click.Path(path_type=Path, dir_okay=False), help="A KubeSchedulerConfiguration."
)
@click.option(
    "--scheduler-name", metavar="NAME", help="The schedulerName of the pods to schedule, if there is one profile."
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Whether to wait until no other instance works.  [default: what --config says, else no]",
)
@lease_flags
@worker_flags(DEFAULT_PORT)
@component_flags
def scheduler(
    *,
    running: Component,
    kubeconfig: str | None,
    context: str,
    config_path: Path | None,
    scheduler_name: str | None,
    leader_elect: bool | None,
    lease_times: ChangedTimes,
    bind_address: str,
    port: int,
    verbose: int,
    log_format: str,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C, against Mooring or any Kubernetes cluster.

    \b
    Examples:
      mooring scheduler --kubeconfig ~/.mooring/scheduler.kubeconfig
      mooring scheduler --kubeconfig ~/.kube/config --scheduler-name mooring
      mooring scheduler --config scheduler.yaml --leader-elect --port 0 -v
    """
    logs.configure(verbose, "json" if log_format == "json" else "text")
    try:
        config = _config(config_path, scheduler_name, leader_elect, lease_times)
        options = for_component(running)
        run_with_restarts(
            lambda: _run(
                config,
                options,
                build_registry(running),
                kubeconfig=kubeconfig,
                context=context,
                address=bind_address,
                port=port,
            )
        )
    except (SchedulerConfigError, PluginError, ClientError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _config(
    path: Path | None, name: str | None, leader_elect: bool | None, lease_times: ChangedTimes
) -> SchedulerConfig:
    config = SchedulerConfig()
    if path is not None:
        try:
            config = config_file.read(path.read_bytes())
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


async def _run(
    config: SchedulerConfig,
    options: ComponentOptions,
    registry: CollectorRegistry,
    *,
    kubeconfig: str | None,
    context: str,
    address: str,
    port: int,
) -> bool:
    agent = user_agent(COMPONENT, options.version)
    async with connect(
        kubeconfig or config.kubeconfig or None,
        context,
        user_agent=agent,
        scheme=options.scheme,
        grouped=True,
        parts=TemplateParts(tokens_alike=True),
    ) as client:
        running = Scheduler(client, config, options)
        running.metrics.register(registry)
        greeting = f"The scheduler is ready: {', '.join(running.engine.profiles)}"
        elected = config.leader_election.enabled
        return await work_until_signal(running, registry, (address, port), greeting, elected=elected)
