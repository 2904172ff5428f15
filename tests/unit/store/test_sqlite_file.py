"""What the SQLite store does when its file, its disk or its neighbours misbehave."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mooring.store.errors import (
    Damaged,
    DiskFull,
    Foreign,
    InUse,
    NewerSchema,
    ReadOnly,
    StorageFailed,
    StoreError,
)
from mooring.store.kv import Delete, Event, KeyValue, Put
from mooring.store.mvcc import HistoryLimits
from mooring.store.sqlite import SqliteStore

pytestmark = pytest.mark.req("S.2")


@asynccontextmanager
async def opened(directory: Path, limits: HistoryLimits | None = None) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(directory, limits=limits)
    try:
        yield store
    finally:
        await store.close()


async def contents(directory: Path) -> tuple[int, list[KeyValue]]:
    async with opened(directory) as store:
        return await store.revision(), (await store.range("")).items


async def filled(directory: Path, keys: int = 20) -> tuple[int, list[KeyValue]]:
    """Return a store with live keys, history and deletes; and what is in it."""
    async with opened(directory) as store:
        await store.write_all([Put(f"/r/{i:03}", b'{"number": %d}' % i * 20) for i in range(keys)])
        await store.write_all([Delete(f"/r/{i:03}") for i in range(0, keys, 5)])
        await store.compact(keys)
        await store.write_all([Put(f"/r/{i:03}", b"later") for i in range(0, keys, 3)])
    return await contents(directory)


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write_all([Put("/r/a", b"1"), Put("/r/b", b"1", ttl=60), Put("/r/a", b"2"), Delete("/r/b")])
        before = await store.range("", revision=2)
    async with opened(tmp_path) as store:
        assert await store.revision() == 4
        assert await store.range("", revision=2) == before
        with store.watch("/r/", after=2) as watcher:
            assert [event.revision for event in (await watcher.next()).events] == [3, 4]
        outcome = await store.write(Put("/r/c", b""))
        assert isinstance(outcome, Event)
        assert outcome.revision == 5


async def test_revisions_go_on_after_everything_was_deleted_and_compacted(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write_all([Put("/r/a", b"1"), Delete("/r/a")])
        await store.compact(2)
    assert await contents(tmp_path) == (2, [])


async def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:

        def pragmas() -> list[object]:
            return [
                store._file._open_connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "locking_mode")
            ]

        assert await store._writer.run(pragmas) == ["wal", 2, "exclusive"]


async def test_the_file_is_for_its_owner_only_and_readable_with_any_sqlite(tmp_path: Path) -> None:
    await filled(tmp_path / "data", keys=4)
    path = tmp_path / "data" / "state.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT key, value, revision FROM kv WHERE value = 'later'").fetchall()
    assert rows == [("/r/000", "later", 6), ("/r/003", "later", 7)]


async def test_the_file_does_not_grow_without_bound(tmp_path: Path) -> None:
    sizes = []
    async with opened(tmp_path, HistoryLimits(events=200)) as store:
        for _ in range(6):
            for _ in range(20):
                await store.write_all([Put(f"/r/{i}", bytes(1000)) for i in range(50)])
            await store.maintain()
            sizes.append((await store.stats()).file_bytes)
        with closing(sqlite3.connect(f"file:{tmp_path / 'state.db'}?mode=ro&immutable=1", uri=True)) as connection:
            assert connection.execute("SELECT count(*) FROM log").fetchone()[0] < 1000
    assert (tmp_path / "state.db").stat().st_size < 2_000_000
    assert sizes[-1] < 12_000_000


@pytest.mark.parametrize("size", [700, 3800, 4500, 5200])
async def test_little_of_the_file_is_left_empty(size: int, tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write_all([Put(f"/r/{i}", bytes(size)) for i in range(1000)])
    assert (tmp_path / "state.db").stat().st_size < 1.25 * 1000 * (size + 40)


async def test_a_file_shrinks_after_most_was_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write_all([Put(f"/r/{i}", bytes(2000)) for i in range(5000)])
        await store.write_all([Delete(f"/r/{i}") for i in range(5000)])
        await store.compact(10_000)
    assert (tmp_path / "state.db").stat().st_size < 5_000_000


async def test_rows_that_a_crash_kept_from_being_dropped_are_dropped_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write_all([Put("/r/a", b"1"), Put("/r/a", b"2"), Put("/r/b", b"1"), Delete("/r/b")])
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        connection.execute("UPDATE meta SET value = 4 WHERE name = 'floor'")
        connection.commit()
    async with opened(tmp_path) as store:
        assert [kv.value for kv in (await store.range("")).items] == [b"2"]
        await store.maintain()
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        assert connection.execute("SELECT revision FROM log").fetchall() == [(2,)]


async def test_a_second_store_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write(Put("/r/a", b"1"))
        with pytest.raises(InUse, match=f"is in use by process {os.getpid()}; stop it, or choose another") as refused:
            await SqliteStore.open(tmp_path)
        assert refused.value.pid == os.getpid()
        await store.write(Put("/r/b", b"1"))
    assert (await contents(tmp_path))[0] == 2


async def test_a_lock_file_that_a_killed_process_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "state.lock").write_text("1\n")
    assert await contents(tmp_path) == (0, [])


async def test_a_sqlite_shell_that_holds_the_file_is_named_as_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(tmp_path)
    monkeypatch.setattr("mooring.store.sqlite_file._BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(tmp_path / "state.db")) as shell:
        shell.execute("BEGIN IMMEDIATE")
        with pytest.raises(InUse, match="in use by another process"):
            await SqliteStore.open(tmp_path)


def scribble(path: Path) -> None:
    path.write_bytes(b"This is a diary, not a database. " * 300)


def other_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")


def newer_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def older_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 0")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def one_wrong_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.rindex(b'{"number": 7}') + 12] ^= 1
    path.write_bytes(data)


def lost_row(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM log WHERE revision = 22")
        connection.commit()


def lost_floor(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM meta")
        connection.commit()


def lost_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE log")
        connection.commit()


def lost_database(path: Path) -> None:
    path.rename(path.with_name("state.db-wal"))


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@dataclass(frozen=True)
class BadFile:
    id: str
    harm: Callable[[Path], None]
    error: type[StoreError]
    message: str


BAD_FILES = [
    BadFile("a file that is no database", scribble, Foreign, "is not a Mooring store"),
    BadFile("some other database", other_database, Foreign, "is a SQLite database, but not a Mooring store"),
    BadFile("a newer schema", newer_schema, NewerSchema, "schema version 99, and this Mooring knows up to 1"),
    BadFile("a schema that never was", older_schema, Damaged, "schema version 0"),
    BadFile("an empty file", emptied, Damaged, "is empty"),
    BadFile("half a file", truncated, Damaged, "damaged"),
    BadFile("a wrong bit in a value", one_wrong_bit, Damaged, "the record of revision 8 is damaged"),
    BadFile("a row that is gone", lost_row, Damaged, "the record of revision 22 is missing"),
    BadFile("a floor that is gone", lost_floor, Damaged, "has no answer"),
    BadFile("a table that is gone", lost_table, Damaged, "no such table"),
    BadFile("a log without its database", lost_database, Damaged, "state.db is missing"),
    BadFile("a directory in place of the file", a_directory, StoreError, "state.db"),
]


@pytest.mark.parametrize("case", BAD_FILES, ids=lambda case: case.id)
async def test_a_bad_file_is_refused_and_left_alone(tmp_path: Path, case: BadFile) -> None:
    await filled(tmp_path)
    path = tmp_path / "state.db"
    case.harm(path)
    before = path.read_bytes() if path.is_file() else b""
    for _ in range(2):  # the second time shows that the first released the lock
        with pytest.raises(case.error, match=case.message):
            await SqliteStore.open(tmp_path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_wrong_byte_anywhere_is_noticed_or_does_no_harm(tmp_path: Path) -> None:
    expected = asyncio.run(filled(tmp_path))
    path = tmp_path / "state.db"
    whole = path.read_bytes()
    noticed = 0
    for position in [*range(0, 100, 3), *range(100, len(whole), len(whole) // 150)]:
        data = bytearray(whole)
        data[position] ^= 0xFF
        path.write_bytes(data)
        for leftover in tmp_path.glob("state.db-*"):
            leftover.unlink()
        try:
            _, items = asyncio.run(contents(tmp_path))
        except StoreError:
            noticed += 1
        else:
            assert items == expected[1], f"byte {position}"
    assert noticed > 20


async def test_a_full_disk_fails_writes_and_nothing_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.write(Put("/r/a", b"1"))
        pages = await store._writer.run(store._file._number, "PRAGMA page_count")
        await store._writer.run(store._file._number, f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(DiskFull, match="the disk is full; nothing was written"):
            await store.write_all([Put(f"/r/{i}", bytes(5000)) for i in range(50)])
        assert await store.count("/r/") == 1
        assert isinstance(await store.write(Put("/r/small", b"fits")), Event)
        await store._writer.run(store._file._number, "PRAGMA max_page_count = 1000000")
        outcomes = await store.write_all([Put(f"/r/{i}", bytes(5000)) for i in range(50)])
        assert [outcome.revision for outcome in outcomes if isinstance(outcome, Event)] == list(range(3, 53))
    assert (await contents(tmp_path))[0] == 52


IO_ERROR = """
import asyncio, resource, sys
from pathlib import Path
from mooring.store.errors import StorageFailed
from mooring.store.kv import Put
from mooring.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
    acknowledged = 0
    try:
        while True:
            await store.write(Put(f"/r/{acknowledged}", bytes(3000)))
            acknowledged += 1
    except StorageFailed as error:
        first = str(error)
    try:
        await store.write(Put("/r/again", b""))
    except StorageFailed as error:
        assert str(error) == first and store.failure
    assert await store.count("/r/") == acknowledged
    await store.close()
    print(acknowledged, first)

asyncio.run(main())
"""


def test_an_input_output_error_stops_writes_and_loses_nothing(tmp_path: Path) -> None:
    child = subprocess.run([sys.executable, "-c", IO_ERROR, tmp_path], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    acknowledged, message = child.stdout.split(" ", 1)
    assert "writes stop until a restart" in message
    revision, items = asyncio.run(contents(tmp_path))
    assert int(acknowledged) > 10
    assert {f"/r/{i}" for i in range(int(acknowledged))} <= {kv.key for kv in items}
    assert revision == len(items)


async def test_a_bug_below_fails_the_write_rather_than_hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as store:
        monkeypatch.setattr(store._file, "commit", lambda *_: 1 / 0)
        with pytest.raises(StorageFailed, match="ZeroDivisionError"):
            await store.write(Put("/r/a", b""))
        assert isinstance(store.failure, StorageFailed)


READ_ONLY = """
import asyncio, os, sys
from pathlib import Path
from mooring.store.errors import StoreError
from mooring.store.sqlite import SqliteStore

if os.geteuid() == 0:
    os.seteuid(65534)  # root may write everywhere
try:
    asyncio.run(SqliteStore.open(Path(sys.argv[1])))
except StoreError as error:
    print(type(error).__name__, error)
"""


@dataclass(frozen=True)
class ReadOnlyCase:
    id: str
    modes: dict[str, int]


READ_ONLY_CASES = [
    ReadOnlyCase("a directory", {"": 0o555, "state.db": 0o444, "state.lock": 0o444}),
    ReadOnlyCase("a database", {"": 0o777, "state.db": 0o444, "state.lock": 0o666}),
    ReadOnlyCase("a database in a read-only directory", {"": 0o555, "state.db": 0o444, "state.lock": 0o666}),
    ReadOnlyCase(
        "a directory in which only the files can be written", {"": 0o555, "state.db": 0o666, "state.lock": 0o666}
    ),
]


@pytest.mark.parametrize("case", READ_ONLY_CASES, ids=lambda case: case.id)
def test_what_cannot_be_written_is_refused(tmp_path: Path, case: ReadOnlyCase) -> None:
    expected = asyncio.run(filled(tmp_path))
    for directory in tmp_path.parents[:2]:
        directory.chmod(0o755)
    for name, mode in case.modes.items():
        (tmp_path / name).chmod(mode)
    child = subprocess.run([sys.executable, "-c", READ_ONLY, tmp_path], capture_output=True, text=True, check=False)
    for name in case.modes:
        (tmp_path / name).chmod(0o700)
    assert child.stdout.startswith(ReadOnly.__name__), child.stdout + child.stderr
    assert str(tmp_path) in child.stdout
    assert asyncio.run(contents(tmp_path)) == expected


async def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        await SqliteStore.open(tmp_path / "file" / "data")
