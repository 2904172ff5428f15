"""`mooring store`: copy, back up, restore, check and measure stores."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

import mooring
from mooring.base.version import BINARY
from mooring.cli.support.etcd_flags import EtcdAccess, access_flags
from mooring.cli.support.flags import NEW_FILE
from mooring.cli.support.output import output_option, print_data, print_table
from mooring.cli.support.progress import Progress
from mooring.cli.support.store_places import (
    DEFAULT_PLACE,
    EtcdPlace,
    Place,
    PlaceType,
    are_same,
    directory_of,
    open_etcd,
    open_source,
    open_target,
)
from mooring.store.errors import NotEmpty, OpenError, StoreError
from mooring.store.kv import Store
from mooring.store.sqlite import SqliteStore
from mooring.store.sqlite_file import DATABASE, SqliteFile
from mooring.store.tools import inventory, transfer
from mooring.store.tools.backup_file import BackupSource, BackupTarget
from mooring.store.tools.contents import Snapshot, Source, Target
from mooring.store.tools.sqlite_source import SqliteSource

DEFAULT_BUMP = 1_000_000_000
_MAX_REMARKS = 20
_PLACE = PlaceType()
_T = TypeVar("_T", bound=Source | Target | Store)
_OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace an existing store or file.")
_FROM = click.option("--from", "origin", type=_PLACE, default=DEFAULT_PLACE, metavar="PLACE", help="The store to read.")


def _run_async(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn an asynchronous command into one that click calls; store errors become ClickException.

    SIGTERM ends it like Ctrl-C, so that it can clean up.
    """

    @wraps(command)
    def run(**given: Any) -> None:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            asyncio.run(command(**given))
        except NotEmpty as error:
            raise click.ClickException(f"{error}; --overwrite replaces it") from error
        except StoreError as error:
            raise click.ClickException(str(error)) from error
        finally:
            signal.signal(signal.SIGTERM, before)

    return run


@click.group()
def store() -> None:
    """Copy, back up, restore, check and measure stores.

    \b
    A PLACE is one of
      ~/.mooring                      a data directory
      etcd://10.0.0.1:2379/registry   etcd, several servers with commas, and a prefix; etcds:// with TLS
      monday.backup                   a backup, for verify and stats

    Data directories and etcd can be read while servers run on them.
    """


@store.command()
@click.option("--from", "origin", type=_PLACE, required=True, metavar="PLACE", help="The store to copy.")
@click.option("--to", "destination", type=_PLACE, required=True, metavar="PLACE", help="The store to write.")
@click.option("--follow", is_flag=True, help="Continue to copy changes until Ctrl-C.")
@_OVERWRITE
@access_flags
@_run_async
async def copy(*, access: EtcdAccess, origin: Place, destination: Place, follow: bool, overwrite: bool) -> None:
    """Copy a store: everything first, then the changes since, until there are none.

    No server starts on an unfinished copy. A second run starts over, or in etcd resumes. To move a
    cluster, copy, stop its servers, copy again with --overwrite, and start servers on the copy.

    \b
    Examples:
      mooring store copy --from ~/.mooring --to etcd://10.0.0.1:2379/registry
      mooring store copy --from etcd://10.0.0.1:2379 --to /var/lib/mooring --overwrite
    """
    if await are_same(origin, destination, access):
        raise click.UsageError("--from and --to are the same store")
    stop = asyncio.Event() if follow else None
    async with (
        _open(open_target(destination, access, overwrite=overwrite)) as target,
        _open(open_source(origin, access)) as source,
    ):
        if stop is not None:
            _on_ctrl_c(stop.set)
            click.echo("Following what changes; Ctrl-C finishes the copy.", err=True)
        with Progress("copied") as progress:
            copied = await transfer.copy(source, target, progress, stop=stop)
    click.echo(f"{target.name} holds {copied.keys:,} keys, as {source.name} did at revision {copied.revision}.")
    if not copied.caught_up:
        click.echo(f"{source.name} changes all the time; stop its servers and copy again with --overwrite.", err=True)


@store.command()
@click.argument("file", type=NEW_FILE)
@_FROM
@_OVERWRITE
@access_flags
@_run_async
async def backup(*, access: EtcdAccess, file: Path, origin: Place, overwrite: bool) -> None:
    """Write everything in a store, as it is at one revision, to FILE.

    FILE has every secret of the cluster, and can be read by its owner only.

    \b
    Examples:
      mooring store backup --from ~/.mooring monday.backup
      mooring store backup --from etcds://10.0.0.1:2379/registry --etcd-cafile ca.crt monday.backup
    """
    made_by = {"mooring": mooring.__version__, "binaryVersion": str(BINARY)}
    target = BackupTarget(file, made_by, overwrite=overwrite)
    async with _closing(target), _open(open_source(origin, access)) as source:
        if isinstance(source, BackupSource):
            raise OpenError(f"{source.name} is a backup already; copy the file")
        with Progress("backed up") as progress:
            copied = await transfer.copy(source, target, progress, once=True)
    click.echo(f"{file} has {copied.keys:,} keys of revision {copied.revision}, sha256 {target.sha256[:16]}…")


@store.command()
@click.argument("file", type=NEW_FILE)
@click.option("--to", "destination", type=_PLACE, default=DEFAULT_PLACE, metavar="PLACE", help="The store to write.")
@click.option(
    "--bump-revision",
    type=click.IntRange(min=0, max=2**53),
    default=DEFAULT_BUMP,
    help="Add this to resourceVersions, so that none is used twice. Not for etcd.",
)
@_OVERWRITE
@access_flags
@_run_async
async def restore(*, access: EtcdAccess, file: Path, destination: Place, bump_revision: int, overwrite: bool) -> None:
    """Create a store from the backup in FILE. The whole file is verified first.

    \b
    Examples:
      mooring store restore monday.backup --to /var/lib/mooring
      mooring store restore monday.backup --to etcd://10.0.0.1:2379/registry
    """
    source = BackupSource(file)
    await source.snapshot()  # before anything is locked or created
    async with _open(open_target(destination, access, overwrite=overwrite, bump=bump_revision)) as target:
        with Progress("restored") as progress:
            copied = await transfer.copy(source, target, progress, once=True)
    click.echo(f"{target.name} holds {copied.keys:,} keys, as they were at revision {copied.revision}.")


@store.command()
@click.argument("place", type=_PLACE, default=DEFAULT_PLACE)
@output_option("table", "json", "yaml")
@access_flags
@_run_async
async def verify(*, access: EtcdAccess, place: Place, output: str) -> None:
    """Check a store or a backup: the file, and every object in it. Exits with 1 if something is wrong.

    Remarks are about conditions that the control plane itself repairs, such as a missing owner; they do not count.

    \b
    Examples:
      mooring store verify ~/.mooring
      mooring store verify monday.backup -o json
    """
    from mooring.api.scheme import Scheme
    from mooring.store.tools.verify import Problem, find_problems

    async with _open(open_source(place, access)) as source:
        found: list[Problem] = []
        snapshot: Snapshot | None
        if isinstance(source, SqliteSource):
            damage, snapshot = source.examine()
            found += [Problem(key, text) for key, text in damage]
        else:
            snapshot = await source.snapshot()
        if snapshot is not None:
            found += find_problems(snapshot, Scheme())
    remarks = [each for each in found if each.is_remark]
    wrong = len(found) - len(remarks)
    if output != "table":
        rows = [{"key": each.key, "text": each.text, "remark": each.is_remark} for each in found]
        print_data({"place": source.name, "problems": rows}, output)
    else:
        for each in found:
            if not each.is_remark:
                click.echo(f"{click.style('problem', fg='red')}: {each.key or source.name}: {each.text}")
        for each in remarks[:_MAX_REMARKS]:
            click.echo(f"{click.style('remark', fg='yellow')}: {each.key}: {each.text}")
        if len(remarks) > _MAX_REMARKS:
            click.echo(f"… and {len(remarks) - _MAX_REMARKS:,} more remarks, all with -o json")
    where = f"{len(snapshot.items):,} keys at revision {snapshot.revision}" if snapshot else "the file is damaged"
    click.echo(f"{source.name}: {where}, {wrong} problem{'s' * (wrong != 1)}.", err=True)
    if wrong:
        sys.exit(1)


@store.command()
@click.argument("place", type=_PLACE, default=DEFAULT_PLACE)
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    metavar="N",
    help="The oldest revision to keep.  [default: the current one]",
)
@access_flags
@_run_async
async def compact(*, access: EtcdAccess, place: Place, revision: int | None) -> None:
    """Compact a store up to a revision, and shrink its file.

    Servers do this by themselves. A data directory can be compacted only while no server runs on it; etcd can
    be compacted at any time, but its files shrink only after `etcdctl defrag`.

    \b
    Examples:
      mooring store compact ~/.mooring
      mooring store compact etcd://10.0.0.1:2379/registry --revision 5000
    """
    if isinstance(place, EtcdPlace):
        await _compact_etcd(place, access, revision)
    else:
        await _compact_file(place, revision)


async def _compact_etcd(place: EtcdPlace, access: EtcdAccess, revision: int | None) -> None:
    await (await open_source(place, access)).close()  # opening a missing store would create one
    async with _open(open_etcd(place, access)) as opened:
        wanted = revision or await opened.revision()
        await opened.compact(wanted)
    click.echo(f"{place.text} remembers revision {wanted} and later ones.")


async def _compact_file(place: Path, revision: int | None) -> None:
    directory = directory_of(place)
    database = directory / DATABASE
    if not database.exists():
        raise OpenError(f"there is no store in {directory}")
    before = database.stat().st_size
    async with _open(SqliteStore.open(directory)) as opened:
        wanted = revision or await opened.revision()
        await opened.compact(wanted)
    with closing(SqliteFile.open(directory)) as file:
        file.vacuum()
    click.echo(
        f"{directory} remembers revision {wanted} and later ones;"
        f" its file had {before:,} bytes and has {database.stat().st_size:,}."
    )


@store.command()
@click.argument("place", type=_PLACE, default=DEFAULT_PLACE)
@click.option("--largest", type=click.IntRange(min=0), default=5, help="The number of largest objects to list.")
@output_option("table", "json", "yaml")
@access_flags
@_run_async
async def stats(*, access: EtcdAccess, place: Place, largest: int, output: str) -> None:
    """Show how many objects a store or a backup has, how large they are, and how much history it keeps.

    \b
    Examples:
      mooring store stats ~/.mooring
      mooring store stats etcd://10.0.0.1:2379/registry -o json
    """
    async with _open(open_source(place, access)) as source:
        snapshot = await source.snapshot()
    data = _stats_data(snapshot, inventory.count(snapshot, largest))
    if output != "table":
        print_data(data, output)
        return
    sizes = [*data["resources"].items(), ("total", data["total"])]
    rows = [[name or "-", *(f"{size[key]:,}" for key in ("keys", "bytes", "largest"))] for name, size in sizes]
    print_table(["RESOURCE", "KEYS", "BYTES", "LARGEST"], rows)
    if data["largest"]:
        click.echo()
        print_table(["LARGEST OBJECTS", "BYTES"], [[each["key"], f"{each['bytes']:,}"] for each in data["largest"]])
    numbers = {
        "revision": data["revision"],
        "oldest revision": data["oldestRevision"],
        "history, events": data["history"]["events"],
        "history, bytes": data["history"]["bytes"],
        "keys that expire": data["expiringKeys"],
        "file, bytes": data["fileBytes"],
    }
    click.echo()
    print_table(
        ["STORE", data["place"]],
        [[name, "-" if number is None else f"{number:,}"] for name, number in numbers.items()],
    )


def _stats_data(snapshot: Snapshot, counted: inventory.Inventory) -> dict[str, Any]:
    def size(each: inventory.Size) -> dict[str, int]:
        return {"keys": each.keys, "bytes": each.value_bytes, "largest": each.largest}

    return {
        "place": snapshot.name,
        "revision": snapshot.revision,
        "oldestRevision": snapshot.floor,
        "history": {"events": snapshot.history_events, "bytes": snapshot.history_bytes},
        "expiringKeys": counted.expiring,
        "fileBytes": snapshot.file_bytes,
        "total": size(counted.total),
        "resources": {name: size(each) for name, each in counted.resources.items()},
        "largest": [{"key": each.key, "bytes": len(each.value)} for each in counted.largest],
    }


def _on_ctrl_c(act: Callable[[], None]) -> None:
    """Handle the first Ctrl-C with `act`; the second one ends the process."""
    loop = asyncio.get_running_loop()

    def handle_interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        act()

    loop.add_signal_handler(signal.SIGINT, handle_interrupt)


@asynccontextmanager
async def _open(opening: Coroutine[Any, Any, _T]) -> AsyncIterator[_T]:
    opened = await opening
    async with _closing(opened):
        yield opened


@asynccontextmanager
async def _closing(opened: Source | Target | Store) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await opened.close()
