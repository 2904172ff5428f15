"""The SQLite file: SQL, locks and error codes. All of it runs in one writer thread.

The file is only a log: one row for each revision that is live or still in history. The current value of a key is its
last row; the store computes the current state once, when it opens, because all reads come from memory. (A second table
with current values was measured: it halves writes per second.) The view `kv` is for use in the `sqlite3` shell.

    log(revision 1, "/a", created 1, value "1")      dropped once the floor reaches 3
    log(revision 2, "/b", created 2, value "1")      dropped once the floor reaches 4
    log(revision 3, "/a", created 1, value "2")      live
    log(revision 4, "/b", created 2, value NULL)     a delete: dropped once the floor reaches 4, with or after row 2
    meta("floor", 0)

`synchronous=FULL` makes COMMIT wait for the disk. `locking_mode=EXCLUSIVE` makes ours the only connection there can be,
which matters beyond speed: SQLite before 3.51.3 can lose a commit when two connections reset the write-ahead log.
Pages hold three pods of 4 to 5 KB. Of 8 KB, as older files have them, most are half empty, and are written so.
``sqlite_head.py`` keeps a head mark beside the log, which detects that the end of the log is missing.
`docs/decisions/store.md` has the measurements.
"""

import errno
import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Self

from mooring.store.errors import (
    Damaged,
    DiskFull,
    Foreign,
    Incomplete,
    InUse,
    NewerSchema,
    ReadOnly,
    StorageError,
    StorageFailed,
    StoreError,
)
from mooring.store.kv import Event, KeyValue
from mooring.store.sqlite_head import Head, HeadFile, describe_loss, read_head

DATABASE = "state.db"
LOCK = "state.lock"
RESERVE = "state.reserve"
"""A file of reserved space that is deleted when the disk is full, so that deletes still succeed."""
_RESERVE_BYTES = 1024 * 1024
INCOMPLETE = "state.db.incomplete"  # a store that is being copied or restored, or was not finished
SCHEMA_VERSION = 1

_APPLICATION_ID = 0x4D4F4F52  # "MOOR": distinguishes our files from other SQLite databases
_ROWS_PER_INSERT = 64
_BUSY_SECONDS = 5.0  # wait for another program that has the file open
SCHEMA = f"""
PRAGMA page_size = 16384;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key      TEXT NOT NULL,
    created  INTEGER NOT NULL,
    expires  REAL NOT NULL,
    checksum INTEGER NOT NULL,
    value    BLOB -- NULL: the key was deleted
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('floor', 0);
CREATE VIEW kv AS
    SELECT key, CAST(value AS TEXT) AS value, created, max(revision) AS revision FROM log GROUP BY key
    HAVING value IS NOT NULL;
PRAGMA journal_mode = WAL;
"""  # noqa: S608 - the two numbers are ours

Row = tuple[int, str, int, float, int, bytes | None]


class SqliteFile:
    """An open, locked database file."""

    def __init__(self, directory: Path) -> None:
        self.floor = 0
        self.accepts_loss = False
        """Whether the caller accepted that the end of the log is missing."""
        self._mark: Head | None = None
        self._head: Head | None = None
        self._head_file: HeadFile | None = None
        self._path = directory / DATABASE
        self._lock = -1
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def open(cls, directory: Path, *, accept_loss: bool = False) -> Self:
        """Open the store of a data directory; create both if missing."""
        file = cls(directory)
        file.accepts_loss = accept_loss
        with translate_errors(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            file._lock = take_lock(directory)
        try:
            file._connect()
        except BaseException:
            file.close()
            raise
        return file

    def rows(self) -> Iterator[tuple[int, str, KeyValue | None]]:
        """Yield the log: (revision, key, value from then on); compare its end with the head mark. Raise `Damaged`."""
        expected = self.floor + 1
        last, count, total = self.floor, 0, 0
        with translate_errors(self._path):
            for row in self._open_connection.execute("SELECT * FROM log ORDER BY revision"):
                revision, key, created, expires, _, value = row
                if not _is_sound(row):
                    raise Damaged(f"{self._path}: the record of revision {revision} is damaged; restore a backup")
                if revision > self.floor:
                    if revision != expected:
                        raise Damaged(f"{self._path}: the record of revision {expected} is missing; restore a backup")
                    expected += 1
                kv = None if value is None else KeyValue(key, value, created, revision, expires)
                last, count, total = max(last, revision), count + 1, total + revision
                yield revision, key, kv
        self._check_head(Head(last, self.floor, count, total % 2**64))

    def _check_head(self, head: Head) -> None:
        """Compare the log that was read with the head mark and continue from it. Raise `Damaged`."""
        lost = describe_loss(self._mark, head)
        if lost and not self.accepts_loss:
            raise Damaged(
                f"{self._path}: {lost}; restore a backup, or put the file {self._wal.name} back; "
                "to go on without what is missing, start once with --accept-lost-writes"
            )
        self._head = head
        if self._head_file is not None:
            with translate_errors(self._path):
                self._head_file.reset(head)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Check the file; yield a key (empty where there is none) and a description for each damage found."""
        expected = self.floor + 1
        last, count, total = self.floor, 0, 0
        with translate_errors(self._path):
            for (text,) in self._open_connection.execute("PRAGMA integrity_check"):
                if text != "ok":
                    yield "", f"SQLite: {text}"
            for row in self._open_connection.execute("SELECT * FROM log ORDER BY revision"):
                revision, key = row[0], str(row[1])
                if not _is_sound(row):
                    yield key, f"the record of revision {revision} does not fit its checksum"
                if row[2] > revision:
                    yield key, f"was made at revision {row[2]}, after its record of revision {revision}"
                if revision > self.floor:
                    if revision != expected:
                        yield "", f"records are missing from revision {expected} to {revision - 1}"
                    expected = revision + 1
                last, count, total = max(last, revision), count + 1, total + revision
        if lost := describe_loss(self._mark, Head(last, self.floor, count, total % 2**64)):
            yield "", lost

    def vacuum(self) -> None:
        """Return all unused space of the file to the file system."""
        with translate_errors(self._path):
            self._open_connection.execute("VACUUM")

    def commit(self, events: Sequence[Event], discarded: Sequence[int], floor: int) -> None:
        """Append events and drop obsolete rows in one durable transaction: all or nothing."""
        connection = self._open_connection
        with translate_errors(self._path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                for start in range(0, len(events), _ROWS_PER_INSERT):
                    chunk = events[start : start + _ROWS_PER_INSERT]
                    connection.execute(
                        _insert_statement(len(chunk)), [field for event in chunk for field in _encode_row(event)]
                    )
                if floor > self.floor:
                    connection.execute("UPDATE meta SET value = ? WHERE name = 'floor'", (floor,))
                if discarded:
                    connection.executemany("DELETE FROM log WHERE revision = ?", zip(discarded, strict=True))
                    self._shrink(connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have rolled back already; report the first error
                    connection.execute("ROLLBACK")
                raise
            self.floor = floor
        self._write_head(events, discarded, floor)

    def _write_head(self, events: Sequence[Event], discarded: Sequence[int], floor: int) -> None:
        """Update the head mark; after this the writes may be acknowledged."""
        if self._head is None or self._head_file is None:
            return  # the log has not been read, so its content is unknown
        added = range(events[0].revision, events[-1].revision + 1) if events else range(0)
        self._head = self._head.after(added, list(discarded), floor)
        try:
            self._head_file.write(self._head)
        except OSError as error:  # the rows are on disk, so this must not be reported as a full disk
            raise StorageFailed(
                f"{self._path}: its mark cannot be written: {error}; writes stop until a restart"
            ) from error

    def keep_reserve(self) -> bool:
        """Allocate the reserve; return False if twice its size is not free: the disk then counts as full."""
        path = self._path.with_name(RESERVE)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file, 0, 2 * _RESERVE_BYTES)
                else:  # macOS has no such call
                    os.pwrite(file, bytes(2 * _RESERVE_BYTES), 0)
                os.ftruncate(file, _RESERVE_BYTES)
            finally:
                os.close(file)
        except OSError as error:
            self.release_reserve()
            return error.errno not in (errno.ENOSPC, errno.EDQUOT)  # some file systems cannot preallocate
        return True

    def release_reserve(self) -> None:
        """Delete the reserve file, so that deletes can be written on a full disk."""
        with suppress(OSError):
            self._path.with_name(RESERVE).unlink(missing_ok=True)

    def sync_mark(self) -> None:
        """Flush the head mark to disk; the store does so once a second."""
        if self._head_file is not None:
            with translate_errors(self._path):
                self._head_file.sync()

    def size(self) -> int:
        """Return the bytes on disk, with the write-ahead log."""
        files = (self._path, self._wal)
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Checkpoint the write-ahead log, close the file and release the lock."""
        with suppress(sqlite3.Error):  # every commit is on disk already, so closing cannot lose anything
            if self._connection:
                self._connection.close()
        self._connection = None
        if self._head_file is not None:
            self._head_file.close()
            self._head_file = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def _wal(self) -> Path:
        return self._path.with_name(DATABASE + "-wal")

    @property
    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageFailed(f"{self._path} is not open")
        return self._connection

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Return pages to the file system if more than a quarter of the file is free."""
        free = self._number("PRAGMA freelist_count")
        if free * 4 > self._number("PRAGMA page_count"):
            for _ in range(min(free, 256)):  # the `sqlite3` module ends this statement after its first page
                connection.execute("PRAGMA incremental_vacuum(1)")

    def _number(self, query: str) -> int:
        row = self._open_connection.execute(query).fetchone()
        if not row or not isinstance(row[0], int):
            raise Damaged(f"{self._path}: {query!r} has no answer; restore a backup")
        return row[0]

    def _connect(self) -> None:
        with translate_errors(self._path):
            if not self._path.exists():
                if self._wal.exists():
                    raise Damaged(f"{self._wal} is there, but {DATABASE} is missing; put it back or restore a backup")
                draft = self._path.with_name(INCOMPLETE)
                if draft.exists():
                    raise Incomplete(f"{draft} was not finished; copy or restore again, or remove it")
                _create(self._path)
            if self._path.stat().st_size == 0:
                raise Damaged(f"{self._path} is empty, which a store never is; restore a backup")
            os.close(os.open(self._path, os.O_RDWR))  # SQLite would open a read-only file without an error
            # isolation_level=None: transactions begin and end where this file says so.
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, cached_statements=2 * _ROWS_PER_INSERT
            )
            self._connection = connection
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._check_identity()
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # for macOS, where a plain fsync does not reach the disk
            connection.execute("PRAGMA journal_size_limit = 67108864")
            connection.execute("PRAGMA wal_autocheckpoint = 500")  # pages, which are 8 MB
            connection.execute("BEGIN IMMEDIATE")  # takes the exclusive lock now rather than at the first write
            connection.execute("ROLLBACK")
            problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise Damaged(f"{self._path} is damaged; restore a backup ({problem})")
            self.floor = self._number("SELECT value FROM meta WHERE name = 'floor'")
            self._read_mark()
            self._head_file = HeadFile(self._path.parent)

    def _read_mark(self) -> None:
        """Read the head mark. With `accepts_loss`, continue above the revision that the mark recorded."""
        if not self.accepts_loss:
            self._mark = read_head(self._path.parent)
            return
        with suppress(Damaged):
            lost = read_head(self._path.parent)
            if lost and lost.revision > self._number("SELECT coalesce(max(revision), 0) FROM log"):
                self._open_connection.execute("UPDATE meta SET value = ? WHERE name = 'floor'", (lost.revision,))
                self.floor = lost.revision

    def _check_identity(self) -> None:
        if self._number("PRAGMA application_id") != _APPLICATION_ID:
            raise Foreign(f"{self._path} is a SQLite database, but not a Mooring store; choose another data directory")
        version = self._number("PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise NewerSchema(
                f"{self._path} has schema version {version}, and this Mooring knows up to {SCHEMA_VERSION};"
                " use the newer Mooring that wrote it"
            )
        if version < SCHEMA_VERSION:
            raise Damaged(f"{self._path} has schema version {version}, which never existed; restore a backup")


def _create(path: Path) -> None:
    """Create a database under a temporary name and rename it, so that a crash leaves a complete one or none."""
    draft = path.with_name(path.name + ".new")
    for leftover in path.parent.glob(draft.name + "*"):
        leftover.unlink()
    with closing(sqlite3.connect(draft)) as connection:
        connection.executescript(SCHEMA)
    draft.chmod(0o600)
    draft.replace(path)
    flush_to_disk(path.parent)


def flush_to_disk(path: Path) -> None:
    """Flush a file's content, or a directory's entries, to disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def take_lock(directory: Path) -> int:
    """Lock the data directory while the returned file descriptor is open, however the process ends."""
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).strip()
        os.close(lock)
        raise InUse(directory, int(holder) if holder.isdigit() else None) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


@cache
def _insert_statement(rows: int) -> str:
    return "INSERT INTO log VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?)"] * rows)  # noqa: S608 - question marks only


def _encode_row(event: Event) -> Row:
    kv = event.current
    if kv is None:
        created = event.previous.create_revision if event.previous else event.revision
        return event.revision, event.key, created, 0.0, checksum_of(event.revision, event.key, created, 0.0, None), None
    checksum = checksum_of(kv.mod_revision, kv.key, kv.create_revision, kv.expires, kv.value)
    return kv.mod_revision, kv.key, kv.create_revision, kv.expires, checksum, kv.value


def _is_sound(row: Row) -> bool:
    revision, key, created, expires, checksum, value = row
    fits = value is None or isinstance(value, bytes)
    return fits and checksum == checksum_of(revision, key, created, expires, value)


def checksum_of(revision: int, key: str, created: int, expires: float, value: bytes | None) -> int:
    """Return a checksum of a row: SQLite detects malformed pages, but no flipped bits in values."""
    head = f"{revision} {key} {created} {expires} {value is None}".encode()
    return zlib.crc32(value or b"", zlib.crc32(head))


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate exceptions of SQLite and the operating system into `store.errors`."""
    try:
        yield
    except sqlite3.ProgrammingError:  # ours
        raise
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except UnicodeDecodeError as error:  # in a key, or in a name that SQLite complains about
        raise Damaged(f"{path} is damaged; restore a backup ({error})") from error
    except OSError as error:
        raise _storage_error(error.errno, f"{error.filename or path}: {error.strerror}") from error


def _translate(error: sqlite3.Error, path: Path) -> StoreError:
    # The low byte is the code, the rest says more: SQLITE_IOERR_WRITE is SQLITE_IOERR and so on.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"{path}: the disk is full; nothing was written")
    if code == sqlite3.SQLITE_READONLY:
        return ReadOnly(f"{path} cannot be written: {error}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT):
        # Our statements are valid, so the schema in the file must be damaged.
        return Damaged(f"{path} is damaged; restore a backup ({error})")
    if code == sqlite3.SQLITE_NOTADB:
        return Foreign(f"{path} is not a Mooring store, or its first page is damaged")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InUse(path.parent, None)
    return StorageFailed(f"{path}: {error}; writes stop until a restart")


def _storage_error(code: int | None, text: str) -> StorageError:
    if code in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnly(f"{text}; the data directory must be writable")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(text)
    return StorageFailed(text)
