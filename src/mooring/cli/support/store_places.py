"""Parse and open the store locations of `mooring store`.

~/.mooring                         a data directory, or the file `state.db` in it
etcd://10.0.0.1:2379/registry      etcd, several servers with commas between them; etcds:// with TLS
monday.backup                      a file that `mooring store backup` wrote
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from mooring.cli.support.etcd_flags import EtcdAccess
from mooring.cli.support.flags import split_names
from mooring.store.errors import OpenError
from mooring.store.etcd.config import DEFAULT_PREFIX, EtcdConfig, Server, explain_missing_grpc
from mooring.store.kv import Store
from mooring.store.sqlite_file import DATABASE, translate_errors
from mooring.store.tools.backup_file import BackupSource, is_backup
from mooring.store.tools.contents import Source, Target
from mooring.store.tools.sqlite_source import SqliteSource
from mooring.store.tools.sqlite_target import SqliteTarget
from mooring.store.tools.store_target import StoreTarget

DEFAULT_PLACE = "~/.mooring"


class EtcdPlace(msgspec.Struct, frozen=True):
    """The location of a store in etcd: its servers, the key prefix, and whether to use TLS."""

    text: str
    addresses: tuple[str, ...]
    prefix: str
    tls: bool


Place = Path | EtcdPlace


class PlaceType(click.ParamType[Place]):
    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return] # converted already
        if not value:
            self.fail("the name is empty; use . for the current directory", param, ctx)
        scheme, mark, rest = value.partition("://")
        if not mark:
            return Path(value).expanduser()
        if scheme not in ("etcd", "etcds"):
            self.fail(f"{value!r}: write etcd://host:2379/prefix, or the name of a directory or a file", param, ctx)
        servers, slash, prefix = rest.partition("/")
        addresses = split_names(servers)
        if not addresses:
            self.fail(f"{value!r} names no server; write etcd://host:2379/prefix", param, ctx)
        return EtcdPlace(value, addresses, slash + prefix.rstrip("/") if prefix else DEFAULT_PREFIX, scheme == "etcds")


async def open_source(place: Place, access: EtcdAccess) -> Source:
    """Open a store or backup for reading. Raise `StoreError` if that fails."""
    if isinstance(place, EtcdPlace):
        with explain_missing_grpc():
            from mooring.store.tools.etcd_source import EtcdSource

        return await EtcdSource.open(etcd_config(place, access), place.text)
    with translate_errors(place):
        if place.is_file() and is_backup(place):
            return BackupSource(place)
        if not place.exists():
            raise OpenError(f"{place} does not exist")
        return SqliteSource(place)


async def open_target(place: Place, access: EtcdAccess, *, overwrite: bool, bump: int = 0) -> Target:
    """Open a store for writing. Raise `StoreError`, for example if it has content and `overwrite` is false."""
    if isinstance(place, EtcdPlace):
        return StoreTarget(await open_etcd(place, access), place.text, overwrite=overwrite)
    return SqliteTarget(directory_of(place), overwrite=overwrite, bump=bump)


async def open_etcd(place: EtcdPlace, access: EtcdAccess) -> Store:
    """Open a store in etcd. Raise `StoreError`."""
    with explain_missing_grpc():
        from mooring.store.etcd.store import EtcdStore

    return await EtcdStore.open(etcd_config(place, access))


def etcd_config(place: EtcdPlace, access: EtcdAccess) -> EtcdConfig:
    """Build the configuration of a client of etcd; certificates imply TLS."""
    scheme = "https" if place.tls or access.ca_file or access.cert_file else "http"
    return access.config(tuple(Server.parse(f"{scheme}://{address}") for address in place.addresses), place.prefix)


async def are_same(one: Place, other: Place, access: EtcdAccess) -> bool:
    """Return whether two locations are the same store. Raise `StoreError` if that cannot be read."""
    if isinstance(one, EtcdPlace) and isinstance(other, EtcdPlace):
        if one.prefix != other.prefix:
            return False
        from mooring.store.tools.etcd_source import read_cluster_id

        return await read_cluster_id(etcd_config(one, access)) == await read_cluster_id(etcd_config(other, access))
    if isinstance(one, Path) and isinstance(other, Path):
        return one.resolve() == other.resolve()
    return False


def directory_of(place: Path) -> Path:
    """Return the data directory that a path names (itself, or by its file `state.db`). Raise `OpenError` otherwise."""
    if place.name == DATABASE and not place.is_dir():
        return place.parent
    if place.is_file():
        raise OpenError(f"{place} is a file; name the data directory")
    return place
