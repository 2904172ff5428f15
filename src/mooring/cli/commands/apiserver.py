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
from mooring.cli.support.flags import NEW_FILE, Duration, LogFlags, group_flags, log_flags
from mooring.cli.support.output import report_errors
from mooring.cli.support.process_settings import StopSignal, collect_garbage_less
from mooring.cli.support.server_flags import server_flags

_COUNTS = {
    "reading": ("--max-requests-inflight", "The maximum number of concurrent reads."),
    "writing": ("--max-mutating-requests-inflight", "The maximum number of concurrent writes."),
    "watches": ("--max-watches", "The maximum number of open watches."),
    "streams": ("--max-streams", "The maximum number of open logs, commands, forwarded ports and proxied requests."),
    "user_streams": (
        "--max-streams-per-user",
        "The maximum number of such streams of one user; administrators are exempt.",
    ),
}
"""Flag and help of each limit that is a number."""


def _limits(*, reading: int, writing: int, watches: int, streams: int, user_streams: int, client_qps: float) -> Limits:
    return Limits(
        reading=reading,
        writing=writing,
        watches=watches,
        streams=streams,
        user_streams=user_streams,
        client_rate=client_qps,
        client_burst=max(1, round(2 * client_qps)),
    )


_limit_flags = group_flags(
    "limits",
    _limits,
    *(
        click.option(flag, name, type=click.IntRange(1), default=getattr(Limits(), name), show_default=True, help=text)
        for name, (flag, text) in _COUNTS.items()
    ),
    click.option(
        "--client-qps",
        type=click.FloatRange(min=0, min_open=True),
        default=Limits().client_rate,
        help="Requests per second of one client, except administrators and components.",
    ),
)


@click.command()
@click.option("--token-auth-file", type=NEW_FILE, help='A CSV file of bearer tokens: token,user,uid,"group1,group2".')
@click.option("--audit-log", type=NEW_FILE, help="Append audit events to this file, as lines of JSON.")
@_limit_flags
@click.option(
    "--shutdown-delay-duration",
    type=Duration(),
    default="0s",
    help="How long to serve after a signal to stop, while /readyz fails.",
)
@log_flags
@server_flags
def apiserver(
    *,
    server: ServerConfig,
    log: LogFlags,
    token_auth_file: Path | None,
    audit_log: Path | None,
    limits: Limits,
    shutdown_delay_duration: float,
) -> None:
    """Run the API server until SIGTERM or Ctrl-C. The first signal lets requests finish, the second does not.

    \b
    Examples:
      mooring apiserver --data-dir /var/lib/mooring
      mooring apiserver --port 0 --emulation-version 1.36 -v
      mooring apiserver --etcd-servers https://10.0.0.1:2379,https://10.0.0.2:2379 --etcd-cafile ca.crt
      KUBECONFIG=~/.mooring/admin.kubeconfig kubectl get nodes
    """
    log.configure()
    config = replace(
        server,
        token_auth_file=token_auth_file,
        audit_log=audit_log,
        limits=limits,
        shutdown_delay=shutdown_delay_duration,
    )
    with report_errors(*START_ERRORS):
        uvloop.run(_serve(config))


async def _serve(config: ServerConfig) -> None:
    stop = StopSignal()
    config = with_advisor(config)
    opened = await stop.run_until_stopped(ApiServer.open(config))
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
