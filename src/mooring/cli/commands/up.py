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

from mooring.apiserver.service_network import ServiceNetwork
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.base import logs
from mooring.base.component import Component
from mooring.cli.support.cluster_source import ClusterSource, show_notes
from mooring.cli.support.component_flags import component_flags, merged
from mooring.cli.support.cores import cores
from mooring.cli.support.data_dir import DataDir
from mooring.cli.support.etcd_flags import etcd_flags
from mooring.cli.support.gc_settings import defer_collection
from mooring.cli.support.kubelet_flags import kubelet_flags
from mooring.cli.support.live_server import snapshot_component
from mooring.cli.support.service_flags import service_flags
from mooring.cli.support.tls_flags import tls_flags
from mooring.cli.support.up_config import DEFAULT_NODES, UpConfig
from mooring.cli.support.worker_process import WorkerConfig, WorkerProcess
from mooring.store.etcd.config import EtcdConfig

if TYPE_CHECKING:
    from mooring.controllers.programs.file import Programs

PARTS = ("scheduler", "controllers", "nodes")
DEFAULT_DATA_DIR = "~/.mooring"


class _Parts(click.ParamType[frozenset[str]]):
    """Comma-separated names of components."""

    name = "parts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        names = [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
        for name in names:
            if name not in PARTS:
                self.fail(f"there is no part {name!r}: name some of {', '.join(PARTS)}", param, ctx)
        return frozenset(names)


@click.command()
@click.option(
    "--data-dir",
    type=DataDir(),
    help="Where the store, the certificates and the kubeconfig files are kept.  "
    f"[default: {DEFAULT_DATA_DIR}, with --ephemeral a temporary one]",
)
@click.option(
    "--accept-lost-writes",
    is_flag=True,
    help="Start although the end of the store's log is damaged or missing, and go on without what it held.",
)
@click.option("--ephemeral", is_flag=True, help="Keep everything in memory: all is gone at the end.")
@click.option("--port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="0: any free one.")
@click.option("--bind-address", default="127.0.0.1", show_default=True, metavar="IP", help="Where to listen.")
@tls_flags
@click.option(
    "--nodes",
    metavar="N|FILE",
    help="Simulated nodes: how many, or a file of Node manifests. Those that exist are left as they are.  "
    f"[default: {DEFAULT_NODES} if there is no node yet]",
)
@click.option(
    "--from",
    "from_files",
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Begin with the cluster of a dump (`mooring dump`, also in gzip): nodes are simulated, pods run.",
)
@click.option(
    "--programs",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Run programs of this machine on simulated nodes, for the images that this file names.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT",
    help="Write the administrator's kubeconfig to this file too.",
)
@click.option(
    "--without",
    type=_Parts(),
    default="",
    metavar="PART,…",
    help=f"Leave parts out, to run them yourself: {', '.join(PARTS)}.",
)
@click.option("--dashboard", is_flag=True, help="Run the dashboard too, and print its address.")
@click.option(
    "--single-process", is_flag=True, help="Run all parts in one process, also where there are several cores."
)
@click.option(
    "--runtime-config", multiple=True, callback=merged, metavar="API=BOOL,…", help="Switch APIs: api/beta=true, …"
)
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65535),
    help="Port of the scheduler's and the controllers' metrics. 0: any free one; -1: none.  "
    "[default: 10251 if it is free]",
)
@click.option("-v", "--verbose", count=True, help="Log requests and more; twice for even more.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How log lines are written.",
)
@service_flags
@kubelet_flags
@etcd_flags
@component_flags
def up(
    *,
    running: Component,
    etcd: EtcdConfig | None,
    services: ServiceNetwork,
    kubelets: KubeletOptions,
    data_dir: Path | None,
    accept_lost_writes: bool,
    ephemeral: bool,
    port: int,
    bind_address: str,
    tls_san: tuple[str, ...],
    nodes: str | None,
    from_files: tuple[Path, ...],
    programs: Path | None,
    kubeconfig: Path | None,
    without: frozenset[str],
    dashboard: bool,
    single_process: bool,
    runtime_config: str,
    metrics_port: int | None,
    verbose: int,
    log_format: str,
) -> None:
    """Run a whole control plane: API server, scheduler, controllers and simulated nodes.

    All state is in the data directory and survives a restart. Ctrl-C stops it, twice at once.

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
    logs.configure(verbose, "json" if log_format == "json" else "text", over_status_line=True)
    dump = None
    if from_files:
        if etcd:
            raise click.UsageError("--from begins with a dump, and --etcd-servers with what etcd has: choose one")
        dump = ClusterSource(files=from_files).read()
        running, notes = snapshot_component(dump, running)
        show_notes(notes)
    workers = WorkerConfig(
        running,
        scheduler="scheduler" not in without,
        controllers="controllers" not in without,
        nodes="nodes" not in without,
        elected=etcd is not None,
        metrics_port=metrics_port,
        verbosity=verbose,
        json_logs=log_format == "json",
    )
    if etcd and ephemeral:
        raise click.UsageError("--ephemeral keeps nothing, and --etcd-servers keeps it in etcd: choose one of the two")
    if nodes not in (None, "0") and not workers.nodes:
        raise click.UsageError("--nodes wants simulated nodes, but --without leaves them out: choose one of the two")
    if programs and etcd:
        raise click.UsageError("--programs runs programs on one machine, and --etcd-servers is for several: choose one")
    if programs and not workers.nodes:
        raise click.UsageError(
            "--programs run on simulated nodes, but --without leaves them out: choose one of the two"
        )
    with defer_collection(), ExitStack() as stack:
        folder = (data_dir or _data_dir(stack, ephemeral=ephemeral)).expanduser().absolute()
        if programs:
            workers = replace(workers, programs=(found := _programs(programs, folder)))
            tls_san = (*tls_san, found.address)  # by which programs find the server
            kubelets = replace(kubelets, programs=folder / "programs")
        config = UpConfig(
            component=running,
            data_dir=folder,
            accept_lost_writes=accept_lost_writes,
            ephemeral=ephemeral,
            etcd=etcd,
            kubelets=kubelets,
            dashboard=dashboard,
            dump=dump,
            bind_address=bind_address,
            port=port,
            tls_names=tls_san,
            services=services,
            nodes=nodes,
            kubeconfig=kubeconfig,
            runtime_config=runtime_config,
            workers=workers,
        )
        process = None
        if not single_process and not workers.is_empty and cores() > 1:
            process = stack.enter_context(WorkerProcess(replace(workers, kubeconfigs=config.data_dir)))
        from mooring.cli.support import foreground  # noqa: PLC0415 - loads while the second process does

        foreground.run(config, process)


def _data_dir(stack: ExitStack, *, ephemeral: bool) -> Path:
    if ephemeral:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-")))
    return Path(DEFAULT_DATA_DIR)


def _programs(path: Path, data_dir: Path) -> "Programs":
    from mooring.controllers.programs.file import ProgramsError, read  # noqa: PLC0415 - rarely needed

    try:
        return read(path, data_dir)
    except ProgramsError as error:
        raise click.UsageError(f"--programs {error}") from error
