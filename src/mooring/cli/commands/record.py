"""`mooring record`: record a trace of a live cluster, for `mooring simulate --trace`."""

import asyncio
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.support.cluster_source import ClusterSource
from mooring.cli.support.flags import NEW_FILE, Duration, kubeconfig_flags
from mooring.cli.support.output import report_errors
from mooring.cli.support.process_settings import StopSignal

if TYPE_CHECKING:
    from mooring.advisor.simulate.traces.recording import Recorder


@click.command()
@click.argument("file", type=NEW_FILE)
@kubeconfig_flags
@click.option("--for", "seconds", type=Duration(), metavar="DURATION", help="Stop after this time, such as 30m.")
@click.option("--anonymise", is_flag=True, help="Replace names, labels and images by pseudonyms.")
@click.option("--secret", metavar="HEX", help="With --anonymise, the key of the pseudonyms, to continue a recording.")
def record(
    *, file: Path, reach: tuple[str | None, str], seconds: float | None, anonymise: bool, secret: str | None
) -> None:
    """Record the changes of nodes and pods of a cluster into FILE, until Ctrl-C.

    An existing FILE is continued. Works with Mooring or any Kubernetes; only pods and nodes are read.

    \b
    Examples:
      mooring record day.csv --for 24h
      mooring simulate --trace day.csv --keep-placements
      mooring record public.csv --anonymise
    """
    from mooring.advisor.simulate.traces.events import TraceError
    from mooring.advisor.simulate.traces.recording import Pseudonyms, Recorder, TraceFile

    source = ClusterSource(*reach)
    pseudonyms = None
    if anonymise:
        secret = secret or secrets.token_hex(16)
        try:
            pseudonyms = Pseudonyms(bytes.fromhex(secret))
        except ValueError as problem:
            raise click.UsageError("--secret: expected hexadecimal digits") from problem
        click.echo(
            f"To go on with this recording later: --secret {secret} (keep it private: with it, names can be guessed)",
            err=True,
        )
    with report_errors(TraceError, OSError):
        trace = TraceFile(file)
    recorder = Recorder(trace.write, trace.now, pseudonyms)
    recorder.restore_state(trace.earlier)
    try:
        asyncio.run(_record_changes(source, recorder, seconds))
    except TraceError as problem:
        raise click.ClickException(f"{click.format_filename(file)}: {problem}; name a new file") from problem
    finally:
        trace.close()
    click.echo(f"{recorder.events:,} events of {source.origin} are in {click.format_filename(file)}", err=True)


async def _record_changes(source: ClusterSource, recorder: "Recorder", seconds: float | None) -> None:
    from mooring.advisor.simulate.traces import recording
    from mooring.api.core_v1 import Node
    from mooring.api.errors import StatusError
    from mooring.client import ClientError

    stop = StopSignal()
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, stop.stopped.set)
    async with source.client() as client:
        try:
            await client.page(Node, limit=1)  # informers would retry forever
        except (ClientError, StatusError) as problem:
            raise click.ClickException(f"cannot read {source.origin}: {problem}") from problem
        click.echo(f"Recording {source.origin}; Ctrl-C ends it.", err=True)
        await recording.record_cluster(client, recorder, stop.stopped)
