"""`mooring dump`: write everything that explain, simulate, audit and lint read of a cluster to one file.

Exit codes: 0 when everything could be read, 3 when something was left out (it is written down in the file, too).
"""

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from mooring.cli.support.cluster_source import ClusterSource, cluster_source
from mooring.cli.support.flags import NEW_FILE_OR_STDOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

INCOMPLETE = 3


@click.command()
@click.argument("file", type=NEW_FILE_OR_STDOUT, default="-")
@cluster_source
def dump(*, source: ClusterSource, file: Path) -> None:
    """Write what explain, simulate, audit and lint read of a cluster into one FILE, or to standard output.

    Secrets, ConfigMaps and Events are never read. Anything else that could not be read is listed in the file
    and on standard error.

    \b
    Examples:
      mooring dump cluster.json
      mooring explain pod shop/web --from cluster.json
      mooring dump --kubeconfig prod.kubeconfig | gzip > prod.json.gz
    """
    from mooring.advisor.snapshot.to_file import write_snapshot

    snapshot = source.read()
    with _open_atomically(file) as stream:
        count = write_snapshot(snapshot, stream)
    where = "standard output" if str(file) == "-" else click.format_filename(file)
    click.echo(f"{count:,} objects of {source.origin} are in {where}", err=True)
    sys.exit(INCOMPLETE if snapshot.forbidden else 0)


@contextmanager
def _open_atomically(file: Path) -> "Iterator[IO[bytes]]":
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
