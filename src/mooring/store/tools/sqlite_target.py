"""Create the SQLite store of a data directory from a snapshot of another store.

It is written as `state.db.incomplete`, which no server starts on, and renamed at the end: there is either a complete
store or none. The data directory is locked meanwhile. A replaced store is kept as `state.db.replaced`.

Keys keep their revisions, and the revision counter continues above them, raised by `bump`. So clients never see a
resourceVersion go backwards; a watch from an older one fails with Compacted.
"""

import os
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from mooring.store.errors import NotEmpty, StoreError
from mooring.store.kv import KeyValue
from mooring.store.sqlite_file import (
    DATABASE,
    INCOMPLETE,
    SCHEMA,
    checksum_of,
    flush_to_disk,
    take_lock,
    translate_errors,
)
from mooring.store.sqlite_head import HEAD, read_head
from mooring.store.tools.contents import Snapshot
from mooring.store.tools.sqlite_source import SqliteSource

REPLACED = "state.db.replaced"
_LOG_SUFFIXES = ("-wal", "-shm")  # files that SQLite keeps beside a database


class SqliteTarget:
    """A `Target` that creates the store of a data directory, which is locked from the start."""

    def __init__(self, directory: Path, *, overwrite: bool = False, bump: int = 0) -> None:
        """Raise `NotEmpty` if a store exists and `overwrite` is not set, and `InUse` if a server runs on it."""
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
        with translate_errors(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = take_lock(directory)
            if self._database.exists() and not overwrite:
                os.close(self._lock)
                raise NotEmpty(f"there is a store in {directory} already")

    async def begin(self, snapshot: Snapshot) -> Collection[str]:  # noqa: ARG002 - a file is always written from the start
        with suppress(StoreError):  # the replaced store may be damaged
            if mark := read_head(self._directory):
                self._least_revision = mark.revision
            self._least_revision = (await SqliteSource(self._directory).snapshot()).revision
        with translate_errors(self._draft):
            for leftover in self._directory.glob(INCOMPLETE + "*"):
                leftover.unlink()
            os.close(os.open(self._draft, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(self._draft, isolation_level=None)
            self._connection.executescript(SCHEMA)
            # An unfinished file is useless anyway, and the finished one must be complete without a write-ahead log.
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute("PRAGMA journal_mode = MEMORY")
        return ()

    async def put(self, items: Sequence[KeyValue]) -> None:
        with translate_errors(self._draft):
            self._open.execute("BEGIN")
            self._drop([kv.key for kv in items])
            self._open.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", map(self._row, items))
            self._open.execute("COMMIT")

    async def delete(self, keys: Sequence[str]) -> None:
        with translate_errors(self._draft):
            self._open.execute("BEGIN")
            self._drop(keys)
            self._open.execute("COMMIT")

    async def finish(self, revision: int) -> None:
        floor = max(revision + self._bump, self._least_revision, self._highest)
        with translate_errors(self._draft):
            self._open.execute("UPDATE meta SET value = ? WHERE name = 'floor'", (floor,))
            self._open.close()
            self._connection = None
            flush_to_disk(self._draft)
            self._move_old_store()
            self._draft.replace(self._database)
            flush_to_disk(self._directory)

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

    def _move_old_store(self) -> None:
        """Rename the old store. The database moves before its log, so that a server starting in between fails.

        A log without its database moves too: SQLite would apply it to the new one.
        """
        if self._database.exists():
            for suffix in _LOG_SUFFIXES:
                self._database.with_name(REPLACED + suffix).unlink(missing_ok=True)
        for suffix in ("", *_LOG_SUFFIXES):
            old = self._database.with_name(DATABASE + suffix)
            if old.exists():
                old.replace(self._database.with_name(REPLACED + suffix))
        (self._directory / HEAD).unlink(missing_ok=True)  # the head mark of the old store
        flush_to_disk(self._directory)
