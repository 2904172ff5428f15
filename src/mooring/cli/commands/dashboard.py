"""`mooring dashboard`: the advice about a cluster in a browser, on this machine only.

It runs until Ctrl-C. `mooring up --dashboard` starts the same command beside its server. Read next:
``mooring.dashboard``.
"""

import asyncio
import logging
import os
import sys
import webbrowser
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from mooring.base import logs
from mooring.base.component import Component
from mooring.cli.support.cluster_source import (
    ClusterSource,
    SchedulerChoice,
    are_versions_given,
    cluster_source,
    scheduler_flags,
)
from mooring.cli.support.dashboard_process import READY
from mooring.cli.support.output import report_errors
from mooring.cli.support.process_settings import StopSignal, collect_garbage_less, defer_collection, read_until_end
from mooring.cli.support.simulation_settings import settings_of

if TYPE_CHECKING:
    from mooring.dashboard.access import Access
    from mooring.dashboard.watching import Watching

_READING_SECONDS = 120.0


@click.command()
@cluster_source
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="any free one", help="The port to listen on."
)
@click.option("--browser/--no-browser", default=None, help="Open a browser.  [default: if there is a display]")
@click.option("--allow-changes", is_flag=True, help="Let pages change the cluster, after confirmation.")
@click.option("--while-stdin", is_flag=True, hidden=True, help="Stop at the end of standard input, for `mooring up`.")
@scheduler_flags
def dashboard(
    *,
    source: ClusterSource,
    running: Component,
    scheduler: SchedulerChoice,
    port: int,
    browser: bool | None,
    allow_changes: bool,
    while_stdin: bool,
) -> None:
    """Show a cluster in a browser: pending pods with reasons and remedies, and what-if scenarios.

    For a live cluster (Mooring or any Kubernetes), a dump or a data directory. It is read with your own credentials and
    never written to, unless you give --allow-changes. The page is served to this machine only: the URL contains a
    secret, do not share it.

    \b
    Examples:
      mooring dashboard
      mooring dashboard --from cluster.yaml
      mooring dashboard --context production --port 8001 --no-browser
      mooring dashboard --allow-changes
    """
    logs.configure(0, "text")
    logging.getLogger("mooring.constraints").setLevel(logging.CRITICAL)  # constraint errors are on the pages
    if allow_changes and not source.is_live:
        raise click.UsageError(f"--allow-changes: {source.origin} cannot be changed; it needs a live cluster")
    access = _access(source, running, scheduler, allow_changes=allow_changes)
    if browser is None:
        browser = sys.stdout.isatty() and bool(os.environ.get("DISPLAY") or sys.platform in ("darwin", "win32"))
    with report_errors(OSError), defer_collection():
        asyncio.run(_serve(access, port, browser=browser, while_stdin=while_stdin))


def _access(source: ClusterSource, running: Component, scheduler: SchedulerChoice, *, allow_changes: bool) -> "Access":
    from mooring.dashboard.access import Access
    from mooring.dashboard.options import Running

    return Access(
        origin=source.origin,  # reports errors in the kubeconfig
        settings=settings_of(running, scheduler),
        settings_for=None if are_versions_given() else lambda found: settings_of(found.component, scheduler),
        running=Running(running),
        connect=source.client if source.is_live else None,
        read=None if source.is_live else partial(source.read, quiet=True),
        namespace=source.namespace,
        allow_changes=allow_changes,
        has_stored_versions=source.data_dir is not None,
    )


async def _serve(access: "Access", port: int, *, browser: bool, while_stdin: bool) -> None:
    from mooring.client import ClientError
    from mooring.dashboard.server import DashboardServer

    stop = StopSignal()
    with report_errors(ClientError):
        async with DashboardServer(access, port=port) as server:
            click.echo(f"{READY}{server.url}")
            click.echo("It is for this machine only. Ctrl-C stops it.", err=True)
            if browser:
                await asyncio.to_thread(webbrowser.open, server.url)
            reading = asyncio.create_task(_wait_until_read(server.cluster), name="wait until the cluster is read")
            await stop.run_until_stopped(read_until_end(sys.stdin) if while_stdin else asyncio.Event().wait())
            reading.cancel()


async def _wait_until_read(cluster: "Watching") -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_READING_SECONDS):
            await cluster.ready()
    collect_garbage_less()
