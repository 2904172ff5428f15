"""`mooring up`: a whole control plane with one command.

This module parses the flags and starts the second process; ``support/foreground.py``, imported while that one imports
the scheduler, does the rest.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from mooring.cli.support.cluster_source import ClusterSource, show_notes, snapshot_component
from mooring.cli.support.flags import FILE, MANIFESTS, NEW_FILE, LogFlags, log_flags, split_names
from mooring.cli.support.output import report_errors
from mooring.cli.support.process_settings import cores, defer_collection
from mooring.cli.support.server_flags import server_flags
from mooring.cli.support.worker_process import DEFAULT_NODES, WorkerConfig, WorkerProcess

if TYPE_CHECKING:
    from mooring.apiserver.options import ServerConfig
    from mooring.controllers.programs.file import Programs

PARTS = ("scheduler", "controllers", "nodes")


class _Parts(click.ParamType[frozenset[str]]):
    """The type of `--without`: a set of component names, parsed from a comma-separated list."""

    name = "parts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        names = split_names(value) if isinstance(value, str) else value
        for name in names:
            if name not in PARTS:
                self.fail(f"there is no part {name!r}: name some of {', '.join(PARTS)}", param, ctx)
        return frozenset(names)


@click.command()
@click.option("--ephemeral", is_flag=True, help="Keep all objects in memory, and use a temporary data directory.")
@click.option(
    "--nodes",
    metavar="N|FILE",
    help="Simulated nodes: a number, or a file of Node manifests. Existing nodes are not changed.  "
    f"[default: {DEFAULT_NODES} if there is no node yet]",
)
@click.option(
    "--from",
    "from_files",
    type=MANIFESTS,
    multiple=True,
    metavar="FILE",
    help="Start with what `mooring dump` wrote, on simulated nodes.",
)
@click.option("--programs", type=FILE, help="Run programs of this machine for the images that this file names.")
@click.option(
    "--kubeconfig", type=NEW_FILE, metavar="OUT", help="Also write the administrator's kubeconfig to this file."
)
@click.option(
    "--without", type=_Parts(), default="", metavar="PART,…", help=f"Do not run these components: {', '.join(PARTS)}."
)
@click.option("--dashboard", is_flag=True, help="Also run the dashboard, and print its address.")
@click.option("--single-process", is_flag=True, help="Run all components in one process.")
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65535),
    help="The port of the scheduler's and the controllers' metrics. 0: any free port; -1: none.  "
    "[default: 10251, or any free port]",
)
@log_flags
@server_flags
@click.pass_context
def up(
    ctx: click.Context,
    *,
    server: "ServerConfig",
    log: LogFlags,
    ephemeral: bool,
    nodes: str | None,
    from_files: tuple[Path, ...],
    programs: Path | None,
    kubeconfig: Path | None,
    without: frozenset[str],
    dashboard: bool,
    single_process: bool,
    metrics_port: int | None,
) -> None:
    """Run a whole control plane: API server, scheduler, controllers and simulated nodes.

    All state is in the data directory and survives a restart. Ctrl-C stops it, a second Ctrl-C
    at once.

    \b
    Examples:
      mooring up
      mooring up --nodes 5000
      mooring up --ephemeral --port 0 --nodes nodes.yaml --kubeconfig /tmp/kubeconfig
      kubectl get nodes -o yaml > nodes.yaml && mooring up --ephemeral --nodes nodes.yaml
      mooring dump prod.json && mooring up --ephemeral --from prod.json
      mooring up --without scheduler --emulation-version 1.36
      mooring up --etcd-servers http://127.0.0.1:2379
    """
    log.configure(over_status_line=True)
    if problem := _conflict(server, ephemeral=ephemeral, nodes=nodes, dump=from_files, programs=programs, out=without):
        raise click.UsageError(problem)
    dump = None
    if from_files:
        dump = ClusterSource(files=from_files).read()
        running, notes = snapshot_component(dump, server.component)
        server = replace(server, component=running)
        show_notes(notes)
    workers = WorkerConfig(
        server.component,
        scheduler="scheduler" not in without,
        controllers="controllers" not in without,
        nodes="nodes" not in without,
        elected=server.etcd is not None,
        metrics_port=metrics_port,
        log=log,
    )
    with defer_collection(), ExitStack() as stack:
        folder = server.data_dir.absolute()
        if ephemeral and ctx.get_parameter_source("data_dir") is click.core.ParameterSource.DEFAULT:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-")))
        server = replace(server, data_dir=folder, ephemeral=ephemeral)
        if programs:
            workers = replace(workers, programs=(found := _read_programs(programs, folder)))
            names = (*server.tls_names, found.address)  # by which programs find the server
            kubelets = replace(server.kubelets, programs=folder / "programs")
            server = replace(server, tls_names=names, kubelets=kubelets)
        process = None
        if not single_process and not workers.is_empty and cores() > 1:
            process = stack.enter_context(WorkerProcess(replace(workers, kubeconfigs=folder)))
        from mooring.cli.support import foreground

        config = foreground.UpConfig(
            server=server, workers=workers, nodes=nodes, kubeconfig=kubeconfig, dashboard=dashboard, dump=dump
        )
        foreground.run(config, process)


def _conflict(
    server: "ServerConfig",
    *,
    ephemeral: bool,
    nodes: str | None,
    dump: tuple[Path, ...],
    programs: Path | None,
    out: frozenset[str],
) -> str:
    """Return a sentence about the first two flags that exclude each other; an empty string if none do."""
    conflicts = {
        "--from begins with a dump, and --etcd-servers with what etcd has": dump and server.etcd,
        "--ephemeral keeps nothing, and --etcd-servers keeps it in etcd": ephemeral and server.etcd,
        "--nodes wants simulated nodes, but --without leaves them out": nodes not in (None, "0") and "nodes" in out,
        "--programs runs programs on one machine, and --etcd-servers is for several": programs and server.etcd,
        "--programs run on simulated nodes, but --without leaves them out": programs and "nodes" in out,
    }
    return next((f"{text}: choose one of the two" for text, is_given in conflicts.items() if is_given), "")


def _read_programs(path: Path, data_dir: Path) -> "Programs":
    from mooring.controllers.programs.file import ProgramsError, read_programs_file

    with report_errors(ProgramsError, prefix="--programs ", usage=True):
        return read_programs_file(path, data_dir)
