"""A snapshot of a data directory, read from a copy of its files, so that nothing of it changes and a server may run.

A server holds its database alone, so nobody else can open it. Its files can be copied: the database itself changes only
when the write-ahead log is brought into it, and the log only grows in between. A copy during which neither began anew
is the store as it was at some commit; one that is torn is noticed by SQLite's and our own checksums, and taken again.
"""

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from mooring.advisor.snapshot.from_server import NOT_READ
from mooring.advisor.snapshot.objects import Note, RawObject, Snapshot, SnapshotError, newest_of, scheme
from mooring.api import codec
from mooring.api.codec import FieldValidation
from mooring.api.meta_v1 import Resource
from mooring.store.errors import Damaged, StoreError
from mooring.store.kv import KeyValue
from mooring.store.sqlite_file import DATABASE, SqliteFile

_ATTEMPTS = 20
_PAUSE_SECONDS = 0.1
_HEADER_BYTES = 32
_ROOT = "/registry/"


def data_directory(path: Path) -> Snapshot:
    """The objects of a store. Raises `SnapshotError`."""
    path = path.expanduser()
    origin = f"the data directory {path}"
    if not (path / DATABASE).is_file():
        raise SnapshotError(f"{path} is no data directory of Mooring: there is no {DATABASE} in it")
    return of_values(origin, _values(path))


def of_values(origin: str, values: Iterable[KeyValue]) -> Snapshot:
    """The objects that keys of a store hold; a server calls it for its own."""
    objects: list[Resource] = []
    raw: list[RawObject] = []
    notes: list[Note] = []
    for found in values:
        plural = found.key.removeprefix(_ROOT).partition("/")[0]
        if not found.key.startswith(_ROOT) or plural in NOT_READ:
            continue
        try:
            tree = codec.json_tree(found.value)
            kind = scheme().kind(tree["apiVersion"], tree["kind"])
            if kind is None:
                raise codec.DecodeError(f"Mooring does not know {tree['apiVersion']} {tree['kind']}")
            obj: Resource = codec.decode_tree(tree, kind.type, FieldValidation.IGNORE).object
        except (codec.DecodeError, KeyError, TypeError) as error:
            notes.append(Note(found.key, f"not read: {error}"))
            continue
        obj.metadata.resource_version = str(found.mod_revision)
        metadata = obj.metadata
        raw.append(RawObject(kind.api_version, kind.kind, metadata.namespace, metadata.name, _body=found.value))
        objects.append(newest_of(obj))
    return Snapshot(origin, objects, raw, notes=notes)


def _values(path: Path) -> list[KeyValue]:
    """What the keys hold now, in their order."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with tempfile.TemporaryDirectory(prefix="mooring-snapshot-") as folder:
                if _copy(path, Path(folder)):
                    return list(_read(Path(folder)))
        except (Damaged, FileNotFoundError) as error:
            if attempt == _ATTEMPTS:
                raise SnapshotError(f"cannot read the data directory {path}: {error}") from error
        except (StoreError, OSError) as error:
            raise SnapshotError(f"cannot read the data directory {path}: {error}") from error
        time.sleep(_PAUSE_SECONDS)
    raise SnapshotError(f"cannot read the data directory {path}: a server writes to it faster than it can be copied")


def _read(folder: Path) -> Iterator[KeyValue]:
    current: dict[str, KeyValue] = {}
    with closing(SqliteFile.open(folder)) as file:
        for _, key, value in file.rows():
            if value is None:
                current.pop(key, None)
            else:
                current[key] = value
    return iter([current[key] for key in sorted(current)])


def _copy(path: Path, folder: Path) -> bool:
    """Copy the files; whether nothing began anew in the meantime."""
    log = path / f"{DATABASE}-wal"
    before = _state(path)
    if log.exists():
        shutil.copyfile(log, folder / log.name)
    shutil.copyfile(path / DATABASE, folder / DATABASE)
    return _state(path) == before


def _state(path: Path) -> tuple[int, int, bytes]:
    """What changes when the log is brought into the database or begins anew."""
    database, log = path / DATABASE, path / f"{DATABASE}-wal"
    about = database.stat()
    header = b""
    if log.exists():
        with log.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    return about.st_mtime_ns, about.st_size, header
