"""`mooring exporter`: Prometheus metrics of pending pods with their reasons (``mooring.dashboard.exporter``)."""

import asyncio
import logging

import click

from mooring.base.component import Component
from mooring.base.metrics import build_registry
from mooring.cli.support.cluster_source import ClusterSource, SchedulerChoice, cluster_source, scheduler_flags
from mooring.cli.support.flags import Duration, LogFlags, worker_flags
from mooring.cli.support.health_server import HealthServer
from mooring.cli.support.output import report_errors
from mooring.cli.support.process_settings import StopSignal, collect_garbage_less, defer_collection
from mooring.cli.support.simulation_settings import settings_of

DEFAULT_PORT = 10254


@click.command()
@cluster_source
@scheduler_flags
@click.option("--interval", type=Duration(), default="15s", help="The shortest time between two measurements.")
@worker_flags(DEFAULT_PORT)
def exporter(
    *,
    source: ClusterSource,
    running: Component,
    scheduler: SchedulerChoice,
    interval: float,
    listen: tuple[str, int],
    log: LogFlags,
) -> None:
    """Serve metrics of pending pods with their reasons, for Prometheus.

    Follows a live cluster (Mooring or any Kubernetes), changes nothing, and takes at most a fifteenth of a core for its
    measurements. docs/exporter.md lists the metrics; the chart has alerts and a Grafana dashboard for them.

    \b
    Examples:
      mooring exporter
      mooring exporter --context production --port 9400
    """
    log.configure()
    logging.getLogger("mooring.constraints").setLevel(logging.CRITICAL)  # mistakes in constraints are reasons, too
    if not source.is_live:
        raise click.UsageError("the exporter needs a live cluster: --from and --data-dir name none")
    if listen[1] < 0:
        raise click.UsageError("--port: the exporter needs a port; 0 is any free one")
    with report_errors(OSError), defer_collection():
        asyncio.run(_serve(source, running, scheduler, listen, interval))


async def _serve(
    source: ClusterSource, running: Component, scheduler: SchedulerChoice, listen: tuple[str, int], interval: float
) -> None:
    from mooring.client import ClientError
    from mooring.dashboard.access import Access
    from mooring.dashboard.exporter import Exporter
    from mooring.dashboard.watching import Watching

    access = Access(
        origin=source.origin,
        settings=settings_of(running, scheduler),
        connect=source.client,
        namespace=source.namespace,
    )
    registry = build_registry(running)
    stop = StopSignal()
    with report_errors(ClientError):
        async with Watching(access) as cluster:
            found = Exporter(cluster, interval)
            registry.register(found)
            async with HealthServer(*listen, registry, lambda: found.is_ready) as pages:
                click.echo(f"Health and metrics are at {pages.url}", err=True)
                waiting = asyncio.create_task(cluster.ready(), name="wait until the cluster is read")
                waiting.add_done_callback(lambda _: collect_garbage_less())
                ended = await stop.run_until_stopped(found.run())
                if ended is not None:
                    raise click.ClickException(ended.result())
