"""Makes the SQLite store of a data directory from what another store holds.

It is written under the name `state.db.incomplete`, which no server starts on, and renamed at the end: so there is
either a whole store or none. The lock of the data directory is held meanwhile. A store that is replaced stays beside it
as `state.db.replaced`.

Keys keep the revisions that they have in the source, and the counter goes on above them, raised by `bump`. So nobody
ever sees a resourceVersion go backwards; who asks for an older one than the last is told to list again.
"""

import os
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from mooring.store.errors import NotEmpty, StoreError
from mooring.store.kv import KeyValue
from mooring.store.sqlite_file import DATABASE, INCOMPLETE, SCHEMA, checksum_of, take_lock, translated
from mooring.store.sqlite_head import HEAD, read_head
from mooring.store.tools.contents import Snapshot
from mooring.store.tools.sqlite_source import SqliteSource

REPLACED = "state.db.replaced"
_BESIDE = ("-wal", "-shm")  # what SQLite keeps beside a database


class SqliteTarget:
    """A data directory, locked from the start."""

    def __init__(self, directory: Path, *, overwrite: bool = False, bump: int = 0) -> None:
        """Raises `NotEmpty` if there is a store and it must not be replaced, and `InUse` if a server runs on it."""
        self.name = str(directory)
        self._directory = directory
        self._database = directory / DATABASE
        self._draft = directory / INCOMPLETE
        self._bump = bump
        self._least_revision = 0
        self._connection: sqlite3.Connection | None = None
        self._revisions: dict[str, int] = {}
        self._taken: set[int] = set()
        self._highest = 0
        with translated(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = take_lock(directory)
            if self._database.exists() and not overwrite:
                os.close(self._lock)
                raise NotEmpty(f"there is a store in {directory} already")

    async def begin(self, snapshot: Snapshot) -> Collection[str]:  # noqa: ARG002 - a file is always begun anew
        with suppress(StoreError):  # what is replaced may be damaged: that is when it is replaced
            if mark := read_head(self._directory):
                self._least_revision = mark.revision
            self._least_revision = (await SqliteSource(self._directory).snapshot()).revision
        with translated(self._draft):
            for leftover in self._directory.glob(INCOMPLETE + "*"):
                leftover.unlink()
            os.close(os.open(self._draft, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(self._draft, isolation_level=None)
            self._connection.executescript(SCHEMA)
            # The file is worth nothing before its end, and must then be whole without a log beside it.
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute("PRAGMA journal_mode = MEMORY")
        return ()

    async def put(self, items: Sequence[KeyValue]) -> None:
        with translated(self._draft):
            self._open.execute("BEGIN")
            self._drop([kv.key for kv in items])
            self._open.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", map(self._row, items))
            self._open.execute("COMMIT")

    async def delete(self, keys: Sequence[str]) -> None:
        with translated(self._draft):
            self._open.execute("BEGIN")
            self._drop(keys)
            self._open.execute("COMMIT")

    async def finish(self, revision: int) -> None:
        floor = max(revision + self._bump, self._least_revision, self._highest)
        with translated(self._draft):
            self._open.execute("UPDATE meta SET value = ? WHERE name = 'floor'", (floor,))
            self._open.close()
            self._connection = None
            _sync(self._draft)
            self._set_aside()
            self._draft.replace(self._database)
            _sync(self._directory)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("begin first")
        return self._connection

    def _drop(self, keys: Sequence[str]) -> None:
        old = [self._revisions.pop(key) for key in keys if key in self._revisions]
        self._taken.difference_update(old)
        self._open.executemany("DELETE FROM log WHERE revision = ?", ((revision,) for revision in old))

    def _row(self, kv: KeyValue) -> tuple[int, str, int, float, int, bytes]:
        revision = kv.mod_revision
        if revision in self._taken:  # in etcd, another program may write several keys at one revision
            revision = self._highest + 1
        self._highest = max(self._highest, revision)
        self._taken.add(revision)
        self._revisions[kv.key] = revision
        checksum = checksum_of(revision, kv.key, kv.create_revision, kv.expires, kv.value)
        return revision, kv.key, kv.create_revision, kv.expires, checksum, kv.value

    def _set_aside(self) -> None:
        """The database goes before its log: whoever starts in between is told that it is missing.

        A log without its database goes too, for SQLite would take it for that of the new one.
        """
        if self._database.exists():
            for suffix in _BESIDE:
                self._database.with_name(REPLACED + suffix).unlink(missing_ok=True)
        for suffix in ("", *_BESIDE):
            old = self._database.with_name(DATABASE + suffix)
            if old.exists():
                old.replace(self._database.with_name(REPLACED + suffix))
        (self._directory / HEAD).unlink(missing_ok=True)  # which is the mark of what was there
        _sync(self._directory)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
