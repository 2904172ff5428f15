"""Run `mooring up` after its flags are parsed: start, print how to connect, show status, stop on a signal."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
import uvloop
import yaml

from mooring.api.core_v1 import Node
from mooring.api.errors import StatusError
from mooring.apiserver.access.pki import write_private
from mooring.apiserver.options import ServerConfig, for_component
from mooring.cli.support.control_plane import START_ERRORS, Connect, ControlPlane, Crew, in_process
from mooring.cli.support.dashboard_process import run_dashboard
from mooring.cli.support.output import report_errors
from mooring.cli.support.process_settings import StopSignal, collect_garbage_less
from mooring.cli.support.status_line import ObjectCounts, StatusLine, print_line
from mooring.cli.support.worker_process import DEFAULT_NODES, WorkerConfig, WorkerProcess, WorkersError
from mooring.client import ClientError
from mooring.controllers.options import for_component as controller_options
from mooring.controllers.simulated_nodes.templates import (
    TemplateError,
    build_numbered_nodes,
    create_nodes,
    read_templates,
)

if TYPE_CHECKING:
    from mooring.advisor.snapshot import Snapshot

_MAX_NODES = 100_000


class UpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `mooring up`: control plane, initial nodes or dump, and where to write the kubeconfig."""

    server: ServerConfig
    workers: WorkerConfig
    nodes: str | None
    kubeconfig: Path | None
    dashboard: bool
    dump: "Snapshot | None"
    """The cluster to begin with."""


def run(config: UpConfig, process: WorkerProcess | None) -> None:
    """Run a control plane until a signal arrives: print how to connect, and show its status."""
    with report_errors(*START_ERRORS, WorkersError, ClientError):
        nodes = (
            None if config.nodes is None else iter(_initial_nodes(config.nodes))
        )  # drop the references to created objects
        if config.kubeconfig:
            _check_replaceable(config.kubeconfig)
        crew: Callable[[Connect], Crew] | None = None
        if process is not None:
            crew = lambda _: process  # noqa: E731 - a function of its own would say no more
        elif not config.workers.is_empty:
            crew = in_process(config.workers)
        uvloop.run(_serve(config, ControlPlane(config.server, crew), nodes))


def _initial_nodes(wanted: str) -> list[Node]:
    if wanted.isascii() and wanted.isdigit():
        if int(wanted) > _MAX_NODES:
            raise click.UsageError(f"--nodes: {wanted} exceed the limit of {_MAX_NODES}")
        return build_numbered_nodes(int(wanted))
    try:
        return read_templates(Path(wanted).read_bytes())
    except OSError as error:
        why = f"it is neither a number nor a file that can be read ({error.strerror})"
        raise click.UsageError(f"--nodes {wanted}: {why}") from error
    except TemplateError as error:
        raise click.ClickException(f"{wanted}: {error}") from error


def _check_replaceable(path: Path) -> None:
    try:
        found = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, yaml.YAMLError):
        found = None
    clusters = found.get("clusters") if isinstance(found, dict) else None
    names = [cluster.get("name") for cluster in clusters or () if isinstance(cluster, dict)]
    if names != ["mooring"]:
        raise click.UsageError(f"--kubeconfig {path}: the file is not Mooring's; name one that does not exist yet")


async def _serve(config: UpConfig, plane: ControlPlane, nodes: Iterator[Node] | None) -> None:
    stop = StopSignal()
    async with AsyncExitStack() as opened:
        if not await stop.run_until_stopped(opened.enter_async_context(plane)):
            return
        stop.at_once = plane.stop_at_once
        if await stop.run_until_stopped(_start_plane(config, plane, nodes)):
            _print_connection(config, plane)
            if config.dashboard:
                await opened.enter_async_context(run_dashboard(plane.server.kubeconfig(), config.server.component))
            collect_garbage_less()
            await stop.run_until_stopped(_show_status(plane))
        print_line("Stopping." if config.server.ephemeral else "Stopping; everything is kept.")
        await plane.stop()


async def _start_plane(config: UpConfig, plane: ControlPlane, nodes: Iterator[Node] | None) -> None:
    if config.dump is not None:
        from mooring.cli.support.loaded_dump import load_dump

        print_line(f"{await load_dump(plane, config.dump):,} objects of {config.dump.origin} are here")
    await plane.start()
    if config.kubeconfig:
        write_private(config.kubeconfig, plane.server.kubeconfig().read_bytes())
    if nodes is None:
        has_default = config.workers.nodes and not (await plane.client.page(Node, limit=1)).items
        nodes = iter(build_numbered_nodes(DEFAULT_NODES if has_default else 0))
    try:
        await create_nodes(plane.client, nodes, controller_options(config.server.component).kubelet)
    except* StatusError as refused:
        first: BaseException = refused
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise click.ClickException(f"--nodes {config.nodes}: {first}") from None
    await plane.wait_until_ready()


async def _show_status(plane: ControlPlane) -> None:
    """Show the status line; if scheduler or controllers fail, raise their error."""
    counts = ObjectCounts(plane.server.store, plane.server.scheme)
    line = StatusLine(counts, on_terminal=sys.stdout.isatty())
    shown = asyncio.gather(counts.run(), line.run())
    try:
        await plane.wait_for_failure()
    finally:
        shown.cancel()
        await asyncio.gather(shown, return_exceptions=True)


def _print_connection(config: UpConfig, plane: ControlPlane) -> None:
    kubeconfig = config.kubeconfig or plane.server.kubeconfig()
    left_out = [name for name in ("scheduler", "controllers", "nodes") if not getattr(config.workers, name)]
    rows = {
        "Kubernetes": for_component(config.server.component).shown.git_version,
        "data": "in memory, gone at the end"
        if config.server.ephemeral
        else f"{config.server.data_dir}, found again at the next start",
        "metrics": plane.metrics_url,
        "without": ", ".join(left_out),
    }
    print_line(f"Mooring is ready at {plane.server.url}; kubectl finds it with KUBECONFIG={kubeconfig}")
    for name, value in rows.items():
        if value:
            print_line(f"  {name:<11}{value}")
    if shutil.which("kubectl") is None:
        print_line("kubectl is not on the PATH: https://kubernetes.io/docs/tasks/tools says how to get it.")
    print_line(
        "Try in another terminal:\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        "  kubectl get nodes\n"
        "  kubectl create deployment hello --image=nginx --replicas=3\n"
        "  kubectl get pods -o wide --watch\n"
        "Ctrl-C stops Mooring."
    )
