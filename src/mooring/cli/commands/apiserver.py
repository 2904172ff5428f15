"""`mooring apiserver`: the API server on its own."""

import sys
from pathlib import Path

import click
import uvloop
from msgspec.structs import replace

from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.cli.support.control_plane import START_ERRORS, with_advisor
from mooring.cli.support.flags import Duration, LogFlags, log_flags
from mooring.cli.support.process_settings import StopSignal, collect_garbage_less
from mooring.cli.support.server_flags import server_flags

_DEFAULTS = Limits()


@click.command()
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
    help="How long to serve after a signal to stop, while /readyz sends load balancers to another server.",
)
@log_flags
@server_flags
def apiserver(
    *,
    server: ServerConfig,
    log: LogFlags,
    token_auth_file: Path | None,
    audit_log: Path | None,
    max_requests_inflight: int,
    max_mutating_requests_inflight: int,
    max_watches: int,
    max_streams: int,
    max_streams_per_user: int,
    client_qps: float,
    shutdown_delay_duration: float,
) -> None:
    """Run the API server until SIGTERM or Ctrl-C; once lets requests finish, twice does not.

    \b
    Examples:
      mooring apiserver --data-dir /var/lib/mooring
      mooring apiserver --port 0 --emulation-version 1.36 -v
      mooring apiserver --etcd-servers https://10.0.0.1:2379,https://10.0.0.2:2379 --etcd-cafile ca.crt
      KUBECONFIG=~/.mooring/admin.kubeconfig kubectl get nodes
    """
    log.configure()
    limits = Limits(
        reading=max_requests_inflight,
        writing=max_mutating_requests_inflight,
        watches=max_watches,
        streams=max_streams,
        user_streams=max_streams_per_user,
        client_rate=client_qps,
        client_burst=max(1, round(2 * client_qps)),
    )
    config = replace(
        server,
        token_auth_file=token_auth_file,
        audit_log=audit_log,
        limits=limits,
        shutdown_delay=shutdown_delay_duration,
    )
    try:
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
        stop.at_once = server.stop_at_once
        await server.listen()
        click.echo(f"The API server is ready at {server.url}; kubectl finds it with KUBECONFIG={server.kubeconfig()}")
        sys.stdout.flush()
        collect_garbage_less()
        await stop.wait()
        await server.stop()
