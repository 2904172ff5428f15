"""Read a snapshot from a copy of a data directory's files, so that the directory is unchanged and a server may use it.

`mooring.store.tools.sqlite_source` makes the copy, and explains why it is consistent.
"""

from collections.abc import Iterable
from pathlib import Path

from mooring.advisor.snapshot.from_server import NOT_READ
from mooring.advisor.snapshot.objects import Note, RawObject, Snapshot, SnapshotError, full_scheme, to_newest
from mooring.api import codec
from mooring.api.meta_v1 import Resource
from mooring.store.errors import StoreError
from mooring.store.kv import KeyValue
from mooring.store.sqlite_file import DATABASE
from mooring.store.tools.sqlite_source import SqliteSource

_ROOT = "/registry/"


def data_directory(path: Path) -> Snapshot:
    """Read a snapshot from a data directory. Raise `SnapshotError`."""
    path = path.expanduser()
    origin = f"the data directory {path}"
    if not (path / DATABASE).is_file():
        raise SnapshotError(f"{path} is no data directory of Mooring: there is no {DATABASE} in it")
    try:
        found = SqliteSource(path).read().items
    except StoreError as error:
        raise SnapshotError(f"cannot read the data directory {path}: {error}") from error
    return snapshot_of_values(origin, sorted(found, key=lambda kv: kv.key))


def snapshot_of_values(origin: str, values: Iterable[KeyValue]) -> Snapshot:
    """Decode the stored values of a store into a snapshot; a server calls it for its own store."""
    objects: list[Resource] = []
    raw: list[RawObject] = []
    notes: list[Note] = []
    for found in values:
        plural = found.key.removeprefix(_ROOT).partition("/")[0]
        if not found.key.startswith(_ROOT) or plural in NOT_READ:
            continue
        try:
            tree = codec.parse_json(found.value)
            kind = full_scheme().kind(tree["apiVersion"], tree["kind"])
            if kind is None:
                raise codec.DecodeError(f"Mooring does not know {tree['apiVersion']} {tree['kind']}")
            obj: Resource = codec.decode_tree(tree, kind.type, codec.FieldValidation.IGNORE).object
        except (codec.DecodeError, KeyError, TypeError) as error:
            notes.append(Note(found.key, f"not read: {error}"))
            continue
        obj.metadata.resource_version = str(found.mod_revision)
        metadata = obj.metadata
        raw.append(RawObject(kind.api_version, kind.kind, metadata.namespace, metadata.name, _body=found.value))
        objects.append(to_newest(obj))
    return Snapshot(origin, objects, raw, notes=notes)
