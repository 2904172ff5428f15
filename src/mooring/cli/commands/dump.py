"""`mooring dump`: all that explain, simulate, audit and lint read of a cluster, in one file.

Exit codes: 0 when everything could be read, 3 when something was left out (it is written down in the file, too).
"""

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from mooring.cli.support.cluster_source import ClusterSource, cluster_source

if TYPE_CHECKING:
    from collections.abc import Iterator

INCOMPLETE = 3


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path), default="-")
@cluster_source
def dump(*, source: ClusterSource, file: Path) -> None:
    """Write what explain, simulate, audit and lint read of a cluster into one FILE, or to standard output.

    Secrets, ConfigMaps and Events are never read. What else could not be read is listed in the file and told here.

    \b
    Examples:
      mooring dump cluster.json
      mooring explain pod shop/web --from cluster.json
      mooring dump --kubeconfig prod.kubeconfig | gzip > prod.json.gz
    """
    from mooring.advisor.snapshot.to_file import write  # noqa: PLC0415 - `--help` should not wait for it

    snapshot = source.read()
    with _opened(file) as stream:
        count = write(snapshot, stream, server=_server(source))
    where = "standard output" if str(file) == "-" else click.format_filename(file)
    click.echo(f"{count:,} objects of {source.origin} are in {where}", err=True)
    sys.exit(INCOMPLETE if snapshot.forbidden else 0)


def _server(source: ClusterSource) -> dict[str, Any] | None:
    """How a live server runs: its versions and gates."""
    if not source.is_live:
        return None
    from mooring.advisor.audit.live import shown_by  # noqa: PLC0415 - as above
    from mooring.cli.support.live_server import asked  # noqa: PLC0415 - as above

    return asked(source, shown_by)._asdict()


@contextmanager
def _opened(file: Path) -> "Iterator[IO[bytes]]":
    """The file to write to, which is there only when all of it is."""
    if str(file) == "-":
        yield sys.stdout.buffer
        return
    try:
        handle, partial = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise click.ClickException(f"{click.format_filename(file)}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        Path(partial).replace(file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
