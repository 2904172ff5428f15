"""Read the SQLite store of a data directory, also while a server runs on it, without modifying it.

A server locks its file exclusively, so SQLite cannot open it twice. Instead the two files `state.db` and `state.db-wal`
are copied. The copy is consistent if the write-ahead log (WAL) was not reset while copying: the database changes only
when a checkpoint writes pages of the WAL into it, and until the WAL is reset it still has those pages, which take
precedence over half-copied pages of the database. The first 32 bytes of the WAL hold random salts that change on a
reset: if they have changed, the copy is repeated. SQLite reads a WAL that is truncated in its last record, as after a
crash.

The copy goes to a temporary directory (`TMPDIR`) and is opened there.
"""

import asyncio
import errno
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mooring.store.errors import DiskFull, Incomplete, OpenError, StoreError
from mooring.store.kv import KeyValue
from mooring.store.sqlite_file import DATABASE, INCOMPLETE, SqliteFile, translate_errors
from mooring.store.sqlite_head import HEAD
from mooring.store.tools.contents import Snapshot

_WAL_HEADER = 32
_ATTEMPTS = 30
_PAUSE_SECONDS = 0.05
_POLL_SECONDS = 0.1


class SqliteSource:
    """A `Source` that reads the store in a data directory, or a copy of its database file."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._database = path if path.is_file() else path / DATABASE
        self._seen: tuple[tuple[int, int], ...] = ()

    async def snapshot(self) -> Snapshot:
        return self.read()

    def read(self) -> Snapshot:
        """Read a snapshot without an event loop: nothing here waits."""
        with self._open_copy() as file:
            return self._snapshot_of(file)

    def examine(self) -> tuple[list[tuple[str, str]], Snapshot | None]:
        """Return the problems of the file, with keys where known, and the snapshot if there are none."""
        with self._open_copy() as file:
            problems = list(file.problems())
            return problems, None if problems else self._snapshot_of(file)

    async def wait_for_change(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._state() == self._seen:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def close(self) -> None:
        pass

    def _snapshot_of(self, file: SqliteFile) -> Snapshot:
        live: dict[str, KeyValue] = {}
        revision, total = file.floor, 0
        for number, key, kv in file.rows():
            live.pop(key, None)  # so that keys are in the order of their last writes
            revision = max(revision, number)
            if kv is not None:
                live[key] = kv
                total += len(kv.value)
        items = list(live.values())
        return Snapshot(
            self.name,
            revision,
            items,
            file.floor,
            revision - file.floor,
            total - sum(len(kv.value) for kv in items),
            file.size(),
        )

    @contextmanager
    def _open_copy(self) -> Iterator[SqliteFile]:
        self._check_exists()
        self._seen = self._state()
        with (
            tempfile.TemporaryDirectory(prefix="mooring-") as folder,
            _rename_in_errors(Path(folder) / DATABASE, self._database),
        ):
            with translate_errors(self._database), _explain_full_tmpdir(folder):
                mark = self._database.with_name(HEAD)
                if (
                    self._database.name == DATABASE and mark.exists()
                ):  # before the log, so that the log can only be newer
                    shutil.copyfile(mark, Path(folder) / HEAD)
                _copy_while_in_use(self._database, Path(folder) / DATABASE)
            with closing(SqliteFile.open(Path(folder))) as file:
                yield file

    def _check_exists(self) -> None:
        if self._database.is_file():
            return
        draft = self._database.with_name(INCOMPLETE)
        if draft.exists():
            raise Incomplete(f"{draft} was not finished; copy or restore again, or remove it")
        raise OpenError(f"there is no store in {self._database.parent}")

    def _state(self) -> tuple[tuple[int, int], ...]:
        files = (path for path in (self._database, _wal_of(self._database)) if path.exists())
        return tuple((found.st_mtime_ns, found.st_size) for found in map(Path.stat, files))


def _wal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _copy_while_in_use(database: Path, copy: Path) -> None:
    wal = _wal_of(database)
    for _ in range(_ATTEMPTS):
        before = _wal_header(wal)
        shutil.copyfile(database, copy)
        _wal_of(copy).unlink(missing_ok=True)
        if before:
            try:
                shutil.copyfile(wal, _wal_of(copy))
            except FileNotFoundError:  # the server has just stopped
                continue
        if _wal_header(wal) == before:
            return
        time.sleep(_PAUSE_SECONDS)
    raise OpenError(f"{database} is written faster than it can be read; try again when its server has less to do")


def _wal_header(wal: Path) -> bytes:
    try:
        with wal.open("rb") as file:
            return file.read(_WAL_HEADER)
    except FileNotFoundError:
        return b""


@contextmanager
def _explain_full_tmpdir(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = Path(folder).parent
        raise DiskFull(f"{where} has no room for a copy of the store; set TMPDIR to a folder that has") from error


@contextmanager
def _rename_in_errors(copy: Path, original: Path) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        text = str(error).replace(str(copy), str(original)).replace(str(copy.parent), str(original.parent))
        if text == str(error):
            raise
        renamed = type(error).__new__(type(error), text)
        renamed.args = (text,)
        raise renamed from error
