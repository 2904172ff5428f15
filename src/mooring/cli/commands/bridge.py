"""`mooring bridge`: version, number and CEL constraints on an existing cluster.

Exit codes: 0 when stopped, or when `--check` finds all that is needed; 1 when something is missing; 2 for a wrong call.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.base.component import resolve
from mooring.base.metrics import build_registry
from mooring.base.version import BINARY
from mooring.cli.support.flags import FILE_OR_STDIN, LogFlags, kubeconfig_flags, worker_flags
from mooring.cli.support.leadership import ChangedTimes, lease_flags, run_with_restarts, work_until_signal
from mooring.cli.support.output import output_option, print_data, print_table, report_errors

if TYPE_CHECKING:
    from mooring.client import LeaseTimes

DEFAULT_PORT = 10253


@click.group(invoke_without_command=True)
@kubeconfig_flags
@click.option("--namespace", default="mooring-bridge", metavar="NAME", help="The namespace of its Lease.")
@click.option("--leader-elect/--no-leader-elect", show_default=True, help="Work only while this copy leads.")
@click.option("--webhook-port", type=click.IntRange(-1, 65535), default=-1, help="The port for webhooks; -1: none.")
@click.option("--webhook-address", default="127.0.0.1", metavar="IP", help="The address on which to serve webhooks.")
@click.option(
    "--webhook-service", default="mooring-bridge", metavar="NAME", help="The Service in front of the webhooks."
)
@click.option("--check", is_flag=True, help="Check whether the cluster has everything that the bridge needs, and exit.")
@output_option("table", "json", "yaml")
@lease_flags
@worker_flags(DEFAULT_PORT)
@click.pass_context
def bridge(
    ctx: click.Context,
    *,
    reach: tuple[str | None, str],
    namespace: str,
    leader_elect: bool,
    webhook_port: int,
    webhook_address: str,
    webhook_service: str,
    check: bool,
    output: str,
    lease_times: ChangedTimes,
    listen: tuple[str, int],
    log: LogFlags,
) -> None:
    """Bring version, number and CEL constraints to a stock Kubernetes cluster (1.30 and later).

    Pods have them in annotations; the bridge lowers them to tolerations, node labels and node affinity, which every
    cluster supports, and keeps them current. No component is replaced. See docs/bridge.md.

    \b
    Examples:
      mooring bridge --check
      mooring bridge --check -o json
      mooring bridge --kubeconfig ~/.kube/config
      mooring bridge convert -f pod.yaml | kubectl apply -f -
    """
    if ctx.invoked_subcommand is not None:
        return
    if output != "table" and not check:
        raise click.UsageError("-o needs --check")
    from mooring.api.errors import StatusError
    from mooring.client import ClientError, LeaseTimes

    log.configure()
    with report_errors(ClientError, StatusError, OSError):
        if check:
            sys.exit(asyncio.run(_check_cluster(reach, namespace, output)))
        run_with_restarts(
            lambda: _run_bridge(
                reach=reach,
                namespace=namespace,
                elected=leader_elect,
                times=lease_times(LeaseTimes()),
                webhooks=(webhook_address, webhook_port, webhook_service),
                listen=listen,
            )
        )


async def _check_cluster(reach: tuple[str | None, str], namespace: str, output: str) -> int:
    from mooring.bridge.checking import check, check_answers
    from mooring.client import connect, user_agent

    async with connect(*reach, user_agent=user_agent("mooring-bridge", BINARY)) as client:
        found = [each async for each in check(client, namespace)]
        found += [each async for each in check_answers(client, namespace)]
    is_lacking = any(each.is_needed and not each.is_there for each in found)
    if output == "table":
        words = {True: click.style("yes", fg="green"), False: click.style("no", fg="red")}
        rows = [[each.what, words[each.is_there], "" if each.is_there else each.hint] for each in found]
        print_table(["NEEDED", "THERE", "WITHOUT IT"], rows)
    else:
        needs = [
            {"what": each.what, "there": each.is_there, "required": each.is_needed, "withoutIt": each.hint}
            for each in found
        ]
        print_data({"works": not is_lacking, "needs": needs}, output)
    return int(is_lacking)


async def _run_bridge(
    *,
    reach: tuple[str | None, str],
    namespace: str,
    elected: bool,
    times: "LeaseTimes",
    webhooks: tuple[str, int, str],
    listen: tuple[str, int],
) -> bool:
    from mooring.bridge.run import Bridge
    from mooring.bridge.serving import WebhookServer
    from mooring.client import connect, user_agent

    registry = build_registry(resolve())
    async with AsyncExitStack() as stack:
        agent = user_agent("mooring-bridge", BINARY)
        client = await stack.enter_async_context(connect(*reach, user_agent=agent))
        running = Bridge(client, namespace=namespace, lease_times=times, registry=registry)
        address, port, service = webhooks
        if port >= 0:
            server = WebhookServer(client.unguarded(), address=address, port=port, namespace=namespace, service=service)
            await stack.enter_async_context(server)
            trusted_by = ", ".join(await server.publish()) or "no API server yet"
            click.echo(f"Webhooks listen on {address}:{server.port}; trusted by {trusted_by}", err=True)
        return await work_until_signal(running, registry, listen, "The bridge is ready", elected=elected)


@bridge.command("convert")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    type=FILE_OR_STDIN,
    help="A manifest; - is standard input.",
)
def convert(files: tuple[Path, ...]) -> None:
    """Move the new constraints of manifests from the spec to annotations, for the bridge.

    \b
    Examples:
      mooring bridge convert -f deploy.yaml > bridged.yaml
      kustomize build . | mooring bridge convert -f - | kubectl apply -f -
    """
    from mooring.api import codec
    from mooring.bridge.convert import convert as rewrite

    changed = 0
    trees = []
    for file in files:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text()
            documents = [document.tree for document in codec.read_yaml(text)]
            changed += sum(rewrite(tree) for tree in documents)
        except (codec.DecodeError, OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{click.format_filename(file)}: {error}") from error
        trees += documents
    click.echo(codec.to_yaml(trees), nl=False)
    click.echo(f"{changed} of {len(trees)} objects were rewritten", err=True)
