"""`mooring apiserver`: the API server on its own."""

import sys
from pathlib import Path

import click
import uvloop

from mooring.api.scheme import parse_runtime_config
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.options import DEFAULT_ADDRESS, DEFAULT_PORT, ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.apiserver.service_network import ServiceNetwork
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.base import logs
from mooring.base.component import Component
from mooring.cli.support.advice import serve_advice, with_advisor
from mooring.cli.support.component_flags import component_flags, merged
from mooring.cli.support.data_dir import DataDir
from mooring.cli.support.duration import Duration
from mooring.cli.support.etcd_flags import etcd_flags
from mooring.cli.support.gc_settings import collect_garbage_less
from mooring.cli.support.kubelet_flags import kubelet_flags
from mooring.cli.support.service_flags import service_flags
from mooring.cli.support.shown_flags import shown_flags
from mooring.cli.support.signals import StopSignal
from mooring.cli.support.start_errors import START_ERRORS
from mooring.cli.support.tls_flags import tls_flags
from mooring.store.etcd.config import EtcdConfig

DEFAULT_DATA_DIR = Path("~/.mooring")
_DEFAULTS = Limits()


@click.command()
@click.option(
    "--data-dir",
    type=DataDir(),
    default=DEFAULT_DATA_DIR,
    show_default=True,
    help="Where the store, the certificates and the kubeconfig files are kept.",
)
@click.option(
    "--accept-lost-writes",
    is_flag=True,
    help="Start although the end of the store's log is damaged or missing, and go on without what it held.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0: any free one.")
@click.option("--bind-address", default=DEFAULT_ADDRESS, show_default=True, metavar="IP", help="Where to listen.")
@tls_flags
@click.option(
    "--token-auth-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help='Bearer tokens: a line each of token,user,uid,"group1,group2".',
)
@click.option(
    "--audit-log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append who did what to this file, as JSON lines.",
)
@click.option(
    "--runtime-config",
    multiple=True,
    callback=merged,
    metavar="API=BOOL,…",
    help="Switch APIs: resource.k8s.io/v1beta1=true, api/beta=true, …",
)
@click.option(
    "--max-requests-inflight",
    type=click.IntRange(min=1),
    default=_DEFAULTS.reading,
    show_default=True,
    help="Requests that read, at once.",
)
@click.option(
    "--max-mutating-requests-inflight",
    type=click.IntRange(min=1),
    default=_DEFAULTS.writing,
    show_default=True,
    help="Requests that write, at once.",
)
@click.option(
    "--max-watches", type=click.IntRange(min=1), default=_DEFAULTS.watches, show_default=True, help="Open watches."
)
@click.option(
    "--max-streams",
    type=click.IntRange(min=1),
    default=_DEFAULTS.streams,
    show_default=True,
    help="Open logs, commands, forwarded ports and proxied requests.",
)
@click.option(
    "--max-streams-per-user",
    type=click.IntRange(min=1),
    default=_DEFAULTS.user_streams,
    show_default=True,
    help="The same of one user; administrators are exempt.",
)
@click.option(
    "--client-qps",
    type=click.FloatRange(min=0, min_open=True),
    default=_DEFAULTS.client_rate,
    show_default=True,
    help="Requests a second of one client; administrators and components are exempt.",
)
@click.option(
    "--shutdown-delay-duration",
    type=Duration(),
    default="0s",
    show_default=True,
    help="How long to serve on after being told to stop, while /readyz tells balancers to choose another server.",
)
@click.option("-v", "--verbose", count=True, help="Log requests; twice for more.")
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
def apiserver(
    *,
    running: Component,
    etcd: EtcdConfig | None,
    services: ServiceNetwork,
    kubelets: KubeletOptions,
    data_dir: Path,
    accept_lost_writes: bool,
    port: int,
    bind_address: str,
    tls_san: tuple[str, ...],
    token_auth_file: Path | None,
    audit_log: Path | None,
    runtime_config: str,
    max_requests_inflight: int,
    max_mutating_requests_inflight: int,
    max_watches: int,
    max_streams: int,
    max_streams_per_user: int,
    client_qps: float,
    shutdown_delay_duration: float,
    verbose: int,
    log_format: str,
) -> None:
    """Run the API server until SIGTERM or Ctrl-C; once lets requests finish, twice does not.

    \b
    Examples:
      mooring apiserver --data-dir /var/lib/mooring
      mooring apiserver --port 0 --emulation-version 1.36 -v
      mooring apiserver --etcd-servers https://10.0.0.1:2379,https://10.0.0.2:2379 --etcd-cafile ca.crt
      KUBECONFIG=~/.mooring/admin.kubeconfig kubectl get nodes
    """
    logs.configure(verbose, "json" if log_format == "json" else "text")
    try:
        config = ServerConfig(
            data_dir=data_dir.expanduser(),
            accept_lost_writes=accept_lost_writes,
            component=running,
            etcd=etcd,
            kubelets=kubelets,
            bind_address=bind_address,
            port=port,
            services=services,
            tls_names=tls_san,
            runtime_config=parse_runtime_config(runtime_config),
            token_auth_file=token_auth_file,
            audit_log=audit_log,
            limits=Limits(
                reading=max_requests_inflight,
                writing=max_mutating_requests_inflight,
                watches=max_watches,
                streams=max_streams,
                user_streams=max_streams_per_user,
                client_rate=client_qps,
                client_burst=max(1, round(2 * client_qps)),
            ),
            shutdown_delay=shutdown_delay_duration,
            flags=shown_flags(),
        )
        uvloop.run(_serve(config))
    except START_ERRORS as error:
        raise click.ClickException(str(error)) from error


async def _serve(config: ServerConfig) -> None:
    stop = StopSignal()
    config = with_advisor(config)
    opened = await stop.unless(ApiServer.open(config))
    if opened is None:
        return
    async with opened.result() as server:
        serve_advice(server, config)
        stop.at_once = server.stop_at_once
        await server.listen()
        click.echo(f"The API server is ready at {server.url}; kubectl finds it with KUBECONFIG={server.kubeconfig()}")
        sys.stdout.flush()
        collect_garbage_less()
        await stop.wait()
        await server.stop()
