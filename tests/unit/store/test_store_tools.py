"""Copies between stores, backups and restores: what arrives, what is refused, and what an interruption leaves."""

import asyncio
import errno
import gzip
import json
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.store.errors import (
    Damaged,
    DiskFull,
    Foreign,
    Incomplete,
    InUse,
    NewerSchema,
    NotEmpty,
    OpenError,
    StoreError,
)
from mooring.store.kv import Delete, Event, KeyValue, Put, Store
from mooring.store.memory import MemoryStore
from mooring.store.mvcc import HistoryLimits
from mooring.store.sqlite import SqliteStore
from mooring.store.tools import sqlite_source, transfer
from mooring.store.tools.backup_file import BackupSource, BackupTarget, read
from mooring.store.tools.contents import MARKER, Snapshot, Source, Target
from mooring.store.tools.sqlite_source import SqliteSource
from mooring.store.tools.sqlite_target import SqliteTarget
from mooring.store.tools.store_target import StoreTarget, require_complete

pytestmark = pytest.mark.req("S.7")


def quietly(what: str, done: int, total: int) -> None:
    assert done <= total, what


async def fill(directory: Path, keys: int = 30) -> None:
    """Fill a store with live keys, history, deletes and a key that expires."""
    store = await SqliteStore.open(directory)
    await store.write_all([Put(f"/registry/pods/a/{i:03}", b'{"number":%d}' % i) for i in range(keys)])
    await store.write_all([Delete(f"/registry/pods/a/{i:03}") for i in range(0, keys, 5)])
    await store.write_all([Put(f"/registry/pods/a/{i:03}", b"later") for i in range(0, keys, 3)])
    await store.write(Put("/registry/events/a/e", b"\xff\xfe no text", ttl=1000))
    await store.close()


async def contents(directory: Path) -> tuple[int, list[KeyValue]]:
    store = await SqliteStore.open(directory)
    try:
        return await store.revision(), (await store.range("")).items
    finally:
        await store.close()


async def copy(source: Source, target: Target, *, once: bool = True) -> transfer.CopyResult:
    try:
        return await transfer.copy(source, target, quietly, once=once)
    finally:
        await target.close()
        await source.close()


async def back_up(directory: Path, file: Path) -> None:
    await copy(SqliteSource(directory), BackupTarget(file, {"mooring": "0"}))


def plain(items: Sequence[KeyValue]) -> dict[str, bytes]:
    return {kv.key: kv.value for kv in items}


class MemorySource:
    """Any store as a source."""

    def __init__(self, store: Store) -> None:
        self.name = "memory"
        self._store = store
        self._revision = 0

    async def snapshot(self) -> Snapshot:
        page = await self._store.range("")
        self._revision = page.revision
        return Snapshot(self.name, page.revision, sorted(page.items, key=lambda kv: kv.mod_revision))

    async def wait_for_change(self, seconds: float) -> bool:
        with self._store.watch("", after=self._revision) as watcher:
            return bool((await watcher.next(timeout=seconds)).events)

    async def close(self) -> None:
        await self._store.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what arrives


async def test_a_copied_data_directory_has_the_same_keys_values_revisions_and_expiry(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    copied = await copy(SqliteSource(tmp_path / "a"), SqliteTarget(tmp_path / "b"))
    assert await contents(tmp_path / "b") == await contents(tmp_path / "a")
    assert copied.revision == (await contents(tmp_path / "a"))[0]


async def test_a_copy_knows_no_history_so_that_clients_list_again(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    await copy(SqliteSource(tmp_path / "a"), SqliteTarget(tmp_path / "b"))
    store = await SqliteStore.open(tmp_path / "b")
    assert (await store.stats()).floor == await store.revision()
    await store.close()


async def test_a_restored_store_counts_on_far_above_everything_that_clients_have_seen(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    await back_up(tmp_path / "a", tmp_path / "backup")
    await copy(BackupSource(tmp_path / "backup"), SqliteTarget(tmp_path / "b", bump=1000))
    revision, items = await contents(tmp_path / "a")
    assert await contents(tmp_path / "b") == (revision + 1000, items)
    store = await SqliteStore.open(tmp_path / "b")
    written = await store.write(Put("/registry/pods/a/new", b""))
    assert isinstance(written, Event)
    assert written.revision == revision + 1001
    await store.close()


async def test_a_replaced_store_never_counts_backwards_and_the_old_one_is_kept(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    await fill(tmp_path / "b", keys=300)
    before = await contents(tmp_path / "b")
    await copy(SqliteSource(tmp_path / "a"), SqliteTarget(tmp_path / "b", overwrite=True))
    revision, items = await contents(tmp_path / "b")
    assert (revision, items) == (before[0], (await contents(tmp_path / "a"))[1])
    old = await SqliteSource(tmp_path / "b" / "state.db.replaced").snapshot()
    assert plain(old.items) == plain(before[1])


async def test_a_log_that_a_lost_store_left_is_not_taken_for_that_of_the_new_one(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    store = await SqliteStore.open(tmp_path / "b")
    await store.write_all([Put(f"/registry/pods/old/{i}", bytes(3000)) for i in range(50)])
    log = (tmp_path / "b" / "state.db-wal").read_bytes()
    await store.close()
    (tmp_path / "b" / "state.db").unlink()
    (tmp_path / "b" / "state.db-wal").write_bytes(log)
    await copy(SqliteSource(tmp_path / "a"), SqliteTarget(tmp_path / "b"))
    revision, items = await contents(tmp_path / "b")
    assert items == (await contents(tmp_path / "a"))[1]
    assert revision == 50, "no revision that the lost store has given comes again"


async def test_a_replaced_store_that_a_server_left_in_the_middle_keeps_its_log(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    store = await SqliteStore.open(tmp_path / "c")
    await store.write_all([Put(f"/registry/pods/old/{i}", b"1") for i in range(50)])
    (tmp_path / "b").mkdir()
    for name in ("state.db", "state.db-wal"):
        (tmp_path / "b" / name).write_bytes((tmp_path / "c" / name).read_bytes())
    await store.close()
    await copy(SqliteSource(tmp_path / "a"), SqliteTarget(tmp_path / "b", overwrite=True))
    assert plain((await contents(tmp_path / "b"))[1]) == plain((await contents(tmp_path / "a"))[1])
    assert len((await SqliteSource(tmp_path / "b" / "state.db.replaced").snapshot()).items) == 50


async def test_a_store_of_another_kind_gets_the_same_keys_and_goes_back(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    store = await MemoryStore.open()
    await transfer.copy(SqliteSource(tmp_path / "a"), StoreTarget(store, "memory"), quietly, once=True)
    assert plain((await store.range("")).items) == plain((await contents(tmp_path / "a"))[1])
    expiring = await store.get("/registry/events/a/e")
    assert expiring
    assert expiring.expires
    await copy(MemorySource(store), SqliteTarget(tmp_path / "b"))
    assert plain((await contents(tmp_path / "b"))[1]) == plain((await contents(tmp_path / "a"))[1])


async def test_what_changes_during_a_copy_arrives_too(tmp_path: Path) -> None:
    store = await MemoryStore.open()
    await store.write_all([Put(f"/registry/pods/a/{i}", b"1") for i in range(1200)])

    class Busy(MemorySource):
        left = 3

        async def snapshot(self) -> Snapshot:
            found = await super().snapshot()
            if self.left:
                self.left -= 1
                changed = Put("/registry/pods/a/7", b"%d" % self.left)
                gone, new = Delete(f"/registry/pods/a/{self.left}"), Put(f"/registry/pods/a/new-{self.left}", b"")
                await store.write_all([changed, gone, new])
            return found

    target = SqliteTarget(tmp_path)
    copied = await transfer.copy(Busy(store), target, quietly)
    await target.close()
    assert (copied.caught_up, copied.rounds, copied.revision) == (True, 5, await store.revision())
    assert await contents(tmp_path) == (await store.revision(), (await store.range("")).items)
    await store.close()


async def test_a_source_that_never_rests_is_copied_as_it_was_after_ten_rounds(tmp_path: Path) -> None:
    store = await MemoryStore.open()

    class Restless(MemorySource):
        async def snapshot(self) -> Snapshot:
            await store.write(Put("/registry/pods/a/b", b""))
            return await super().snapshot()

    target = SqliteTarget(tmp_path)
    copied = await transfer.copy(Restless(store), target, quietly)
    await target.close()
    assert (copied.caught_up, copied.rounds, copied.revision) == (False, 10, 10)
    assert await contents(tmp_path) == (10, (await store.range("")).items)
    await store.close()


async def test_following_ends_with_everything_that_was_there_when_it_was_stopped(tmp_path: Path) -> None:
    store, stop = await MemoryStore.open(), asyncio.Event()
    target = SqliteTarget(tmp_path)
    following = asyncio.create_task(transfer.copy(MemorySource(store), target, quietly, stop=stop))
    for number in range(20):
        await store.write(Put(f"/registry/pods/a/{number}", b"1"))
        await asyncio.sleep(0.005)
    stop.set()
    copied = await following
    await target.close()
    assert (copied.keys, copied.caught_up) == (20, True)
    assert (await contents(tmp_path))[1] == (await store.range("")).items
    await store.close()


async def test_following_a_data_directory_sees_that_it_has_changed(tmp_path: Path) -> None:
    await fill(tmp_path)
    source = SqliteSource(tmp_path)
    await source.snapshot()
    assert not await source.wait_for_change(0)
    os.utime(tmp_path / "state.db", ns=(1, 1))
    assert await source.wait_for_change(0)


async def test_keys_that_share_a_revision_get_one_each(tmp_path: Path) -> None:
    items = [KeyValue(f"/registry/pods/a/{i}", b"1", 3, 3) for i in range(3)]
    target = SqliteTarget(tmp_path)
    await target.begin(Snapshot("other", 4, items))
    await target.put(items)
    await target.finish(4)
    await target.close()
    revision, found = await contents(tmp_path)
    assert revision == 5
    assert sorted(kv.mod_revision for kv in found) == [3, 4, 5]


async def test_a_second_copy_into_a_store_writes_only_what_differs(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    store = await MemoryStore.open()
    target = StoreTarget(store, "memory")
    await transfer.copy(SqliteSource(tmp_path / "a"), target, quietly, once=True)
    await store.write_all([Put("/registry/pods/a/001", b"other"), Put("/registry/pods/a/stray", b"")])
    before = await store.revision()
    again = StoreTarget(store, "memory", overwrite=True)
    await transfer.copy(SqliteSource(tmp_path / "a"), again, quietly, once=True)
    assert plain((await store.range("")).items) == plain((await contents(tmp_path / "a"))[1])
    # the marker put and deleted, one value, one stray key, and the event, whose time to live starts again
    assert await store.revision() == before + 5
    await store.close()


async def test_a_target_that_another_process_writes_to_is_given_up() -> None:
    store = await MemoryStore.open()
    target = StoreTarget(store, "memory")
    first, second = KeyValue("/registry/pods/a/b", b"1", 1, 1), KeyValue("/registry/pods/a/b", b"2", 1, 2)
    await target.begin(Snapshot("other", 1, [first]))
    await target.put([first])
    await target.put([second])
    await store.write(Put("/registry/pods/a/b", b"mine"))
    with pytest.raises(StoreError, match=r"another process writes to memory \(/registry/pods/a/b\)"):
        await target.put([first])
    await store.close()


async def test_what_has_expired_is_not_brought_back_to_life() -> None:
    store = await MemoryStore.open()
    target = StoreTarget(store, "memory")
    gone = KeyValue("/registry/events/a/e", b"", 1, 1, expires=1.0)
    await target.begin(Snapshot("other", 1, [gone]))
    await target.put([gone])
    await target.finish(1)
    assert (await store.range("")).items == []
    await store.close()


# -- what is refused, and what an interruption leaves


async def test_a_store_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    await fill(tmp_path)
    with pytest.raises(NotEmpty, match="there is a store in"):
        SqliteTarget(tmp_path)
    store = await MemoryStore.open()
    await store.write(Put("/registry/pods/a/b", b""))
    with pytest.raises(NotEmpty, match="is not empty: it has 1 keys, /registry/pods/a/b first"):
        await StoreTarget(store, "memory").begin(Snapshot("other", 1, []))
    assert await store.count("") == 1
    await store.close()


async def test_a_directory_with_a_server_on_it_is_not_written(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    with pytest.raises(InUse, match=f"in use by process {os.getpid()}"):
        SqliteTarget(tmp_path, overwrite=True)
    await store.close()


async def test_no_server_starts_on_half_a_data_directory_and_a_second_copy_finishes_it(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    target = SqliteTarget(tmp_path / "b")
    snapshot = await SqliteSource(tmp_path / "a").snapshot()
    await target.begin(snapshot)
    await target.put(snapshot.items[:5])
    await target.close()
    for _ in range(2):
        with pytest.raises(Incomplete, match="was not finished; copy or restore again, or remove it"):
            await SqliteStore.open(tmp_path / "b")
    with pytest.raises(Incomplete):
        await SqliteSource(tmp_path / "b").snapshot()
    await copy(SqliteSource(tmp_path / "a"), SqliteTarget(tmp_path / "b"))
    assert await contents(tmp_path / "b") == await contents(tmp_path / "a")


async def test_an_interrupted_copy_leaves_the_store_that_it_would_have_replaced(tmp_path: Path) -> None:
    await fill(tmp_path)
    before = await contents(tmp_path)
    target = SqliteTarget(tmp_path, overwrite=True)
    await target.begin(Snapshot("other", 1, []))
    await target.close()
    assert await contents(tmp_path) == before


async def test_a_disk_that_is_full_leaves_a_data_directory_that_refuses_to_start(tmp_path: Path) -> None:
    target = SqliteTarget(tmp_path)
    items = [KeyValue(f"/registry/x/{i}", bytes(5000), i + 1, i + 1) for i in range(200)]
    await target.begin(Snapshot("other", 200, items))
    target._open.execute("PRAGMA max_page_count = 50")
    with pytest.raises(DiskFull, match="the disk is full"):
        await target.put(items)
    await target.close()
    with pytest.raises(Incomplete):
        await SqliteStore.open(tmp_path)


async def test_a_finished_file_is_whole_without_a_log_beside_it(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    target = SqliteTarget(tmp_path / "b")
    await transfer.copy(SqliteSource(tmp_path / "a"), target, quietly, once=True)
    assert names(tmp_path / "b") == ["state.db", "state.lock"]
    await target.close()


async def test_a_store_that_was_not_filled_to_the_end_is_not_served_and_a_second_copy_goes_on(tmp_path: Path) -> None:
    await fill(tmp_path)
    snapshot = await SqliteSource(tmp_path).snapshot()
    store = await MemoryStore.open()
    await require_complete(store)
    target = StoreTarget(store, "memory")
    await target.begin(snapshot)
    await target.put(snapshot.items[:5])
    with pytest.raises(Incomplete, match=f"a copy from {tmp_path} into this store was not finished"):
        await require_complete(store)
    await transfer.copy(SqliteSource(tmp_path), StoreTarget(store, "memory"), quietly, once=True)  # without --overwrite
    await require_complete(store)
    assert plain((await store.range("")).items) == plain(snapshot.items)
    assert await store.get(MARKER) is None
    await store.close()


# -- reading while a server writes


async def test_a_store_that_is_open_and_has_everything_in_its_log_is_read(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.write_all([Put(f"/registry/pods/a/{i}", bytes(1000)) for i in range(200)])
    assert (tmp_path / "state.db-wal").stat().st_size > 200_000
    snapshot = await SqliteSource(tmp_path).snapshot()
    assert (snapshot.revision, len(snapshot.items)) == (200, 200)
    assert await store.count("") == 200
    await store.close()


async def test_a_copy_during_which_the_log_was_restarted_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path)
    (tmp_path / "state.db-wal").write_bytes(b"")
    headers = iter([b"1", b"2", b"2", b"3", b"3", b"3"])
    copies = 0

    def copyfile(source: Path, to: Path) -> None:
        nonlocal copies
        copies += 1
        to.write_bytes(source.read_bytes())

    monkeypatch.setattr(sqlite_source, "_wal_header", lambda _: next(headers))
    monkeypatch.setattr(shutil, "copyfile", copyfile)
    assert len((await SqliteSource(tmp_path).snapshot()).items) > 5
    assert copies == 7  # the mark, and three times both files


async def test_a_folder_without_room_for_the_copy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(tmp_path)

    def copyfile(source: Path, to: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(to))

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    with pytest.raises(DiskFull, match=f"{tempfile.gettempdir()} has no room for a copy of the store; set TMPDIR"):
        await SqliteSource(tmp_path).snapshot()


async def test_a_file_that_changes_too_fast_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(tmp_path)
    (tmp_path / "state.db-wal").write_bytes(b"")
    monkeypatch.setattr(sqlite_source, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(sqlite_source, "_wal_header", lambda _: os.urandom(32))
    with pytest.raises(OpenError, match="is written faster than it can be read"):
        await SqliteSource(tmp_path).snapshot()


@dataclass(frozen=True)
class BadStore:
    id: str
    harm: Callable[[Path], None]
    error: type[StoreError]
    message: str


def _sql(statement: str) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()

    return harm


def _other_database(path: Path) -> None:
    path.unlink()
    _sql("CREATE TABLE songs (title TEXT)")(path)


BAD_STORES = [
    BadStore("no store", Path.unlink, OpenError, "there is no store in"),
    BadStore("some other database", _other_database, Foreign, "not a Mooring store"),
    BadStore(
        "a diary", lambda path: (path.write_bytes(b"Dear diary, " * 900), None)[1], Foreign, "not a Mooring store"
    ),
    BadStore("a newer schema", _sql("PRAGMA user_version = 9"), NewerSchema, "schema version 9"),
    BadStore("half a file", lambda path: os.truncate(path, 20_000), Damaged, "damaged"),
    BadStore("an empty file", lambda path: os.truncate(path, 0), Damaged, "empty"),
    BadStore("a wrong value", _sql("UPDATE log SET value = x'31' WHERE revision = 35"), Damaged, "revision 35"),
]


@pytest.mark.parametrize("case", BAD_STORES, ids=lambda case: case.id)
async def test_a_bad_store_is_refused_by_its_own_name(tmp_path: Path, case: BadStore) -> None:
    await fill(tmp_path)
    case.harm(tmp_path / "state.db")
    with pytest.raises(case.error, match=case.message) as refused:
        await SqliteSource(tmp_path).snapshot()
    assert str(tmp_path) in str(refused.value)
    assert tempfile.gettempdir() + "/mooring-" not in str(refused.value)


async def test_each_damaged_record_is_named_with_its_key(tmp_path: Path) -> None:
    await fill(tmp_path)
    _sql("UPDATE log SET value = x'31' WHERE revision IN (35, 37)")(tmp_path / "state.db")
    _sql("DELETE FROM log WHERE revision = 39")(tmp_path / "state.db")
    found, snapshot = SqliteSource(tmp_path).examine()
    assert found == [
        ("/registry/pods/a/020", "the record of revision 35 does not fit its checksum"),
        ("/registry/pods/a/000", "the record of revision 37 does not fit its checksum"),
        ("", "records are missing from revision 39 to 39"),
        ("", "the log had 47 records at revision 47, and has 46 now, or others"),
    ]
    assert snapshot is None


# -- backups


async def test_a_backup_is_for_its_owner_only_and_readable_with_zcat_and_jq(tmp_path: Path) -> None:
    await fill(tmp_path)
    await back_up(tmp_path, tmp_path / "b")
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    lines = [json.loads(line) for line in gzip.decompress((tmp_path / "b").read_bytes()).splitlines()]
    assert (lines[0]["format"], lines[0]["formatVersion"], lines[0]["prefix"]) == ("mooring-backup", 1, "/registry/")
    assert lines[0]["keys"] == len(lines) - 2 == lines[-1]["keys"]
    assert lines[-1]["resources"] == {"events": 1, "pods": len(lines) - 3}
    assert {
        "key": "/registry/pods/a/001",
        "created": 2,
        "revision": 2,
        "expires": 0.0,
        "value": '{"number":1}',
    } in lines
    assert names(tmp_path) == ["b", "state.db", "state.head", "state.lock", "state.reserve"]


async def test_a_backup_that_exists_is_replaced_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("precious")
    with pytest.raises(NotEmpty, match="exists already"):
        BackupTarget(tmp_path / "b", {})
    await fill(tmp_path)
    await copy(SqliteSource(tmp_path), BackupTarget(tmp_path / "b", {}, overwrite=True))
    assert read(tmp_path / "b")[0].keys > 5


async def test_an_interrupted_backup_leaves_nothing(tmp_path: Path) -> None:
    target = BackupTarget(tmp_path / "b", {})
    await target.begin(Snapshot("other", 5, [KeyValue("/a", b"1", 1, 1)]))
    await target.put([KeyValue("/a", b"1", 1, 1)])
    assert names(tmp_path) == [f"b.partial-{os.getpid()}"]
    await target.close()
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
async def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    target = BackupTarget(tmp_path / "b", {})
    (tmp_path / f"b.partial-{os.getpid()}").symlink_to("/dev/full")
    items = [KeyValue("/a", os.urandom(50_000), 1, 1)] * 20
    with pytest.raises(StoreError, match="No space left on device"):
        await copy(_Fixed(items), target)
    assert not (tmp_path / "b").exists()


class _Fixed:
    name = "fixed"

    def __init__(self, items: Sequence[KeyValue]) -> None:
        self._items = items

    async def snapshot(self) -> Snapshot:
        return Snapshot(self.name, 1, self._items)

    async def wait_for_change(self, seconds: float) -> bool:
        return seconds < 0

    async def close(self) -> None:
        pass


def _written(path: Path, lines: Sequence[object]) -> None:
    path.write_bytes(gzip.compress(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)))


@dataclass(frozen=True)
class BadBackup:
    id: str
    make: Callable[[Path], None]
    error: type[StoreError]
    message: str


HEADER = {"format": "mooring-backup", "formatVersion": 1, "revision": 1, "keys": 0}
TRAILER = {"end": True, "keys": 0, "resources": {}, "sha256": "0"}
BAD_BACKUPS = [
    BadBackup("a diary", lambda path: (path.write_text("Dear diary"), None)[1], Foreign, "is not a backup of Mooring"),
    BadBackup("an empty file", lambda path: (path.write_text(""), None)[1], Foreign, "is not a backup of Mooring"),
    BadBackup("a compressed diary", lambda path: _written(path, ["Dear diary"]), Foreign, "is not a backup of Mooring"),
    BadBackup("another format", lambda path: _written(path, [{"format": "x"}]), Foreign, "is not a backup of Mooring"),
    BadBackup(
        "a newer format",
        lambda path: _written(path, [{**HEADER, "formatVersion": 2}]),
        NewerSchema,
        "format version 2, and this Mooring knows up to 1",
    ),
    BadBackup("no end", lambda path: _written(path, [HEADER]), Damaged, "its end is missing"),
    BadBackup("a wrong checksum", lambda path: _written(path, [HEADER, TRAILER]), Damaged, "its checksum"),
    BadBackup("a record of nothing", lambda path: _written(path, [HEADER, {}]), Damaged, "missing required field"),
    BadBackup("more behind the end", lambda path: _written(path, [HEADER, TRAILER, 1]), Damaged, "after its end"),
    BadBackup("a directory", Path.mkdir, StoreError, "Is a directory"),
    BadBackup("nothing", lambda _: None, StoreError, "No such file"),
]


@pytest.mark.parametrize("case", BAD_BACKUPS, ids=lambda case: case.id)
def test_a_bad_backup_is_refused(tmp_path: Path, case: BadBackup) -> None:
    case.make(tmp_path / "b")
    with pytest.raises(case.error, match=case.message):
        read(tmp_path / "b")


@pytest.fixture(scope="module")
def backup() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder)))
        asyncio.run(back_up(Path(folder), Path(folder) / "b"))
        return (Path(folder) / "b").read_bytes()


def _read_bytes(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b"
        path.write_bytes(data)
        return read(path)


@settings(max_examples=60)
@given(st.data())
def test_every_truncation_of_a_backup_is_noticed(backup: bytes, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(backup) - 1))
    with pytest.raises(StoreError):
        _read_bytes(backup[:length])


@settings(max_examples=60)
@given(st.data())
def test_wrong_bits_in_a_backup_are_noticed_or_do_no_harm(backup: bytes, data: st.DataObject) -> None:
    damaged = bytearray(backup)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.one_of(st.integers(0, 40), st.integers(0, len(backup) - 1)))
        damaged[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = _read_bytes(bytes(damaged))
    except StoreError:
        return
    assert found == _read_bytes(backup)


@settings(max_examples=30)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_at_all_make_the_reader_fail_otherwise(plain_text: bytes, body: bytes) -> None:
    header = msgspec.json.encode(HEADER) + b"\n"
    for data in (plain_text, gzip.compress(plain_text), gzip.compress(header + body), b"\x1f\x8b" + body):
        with pytest.raises(StoreError):
            _read_bytes(data)


@settings(max_examples=15, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
        st.binary(max_size=100),
        max_size=8,
    )
)
def test_a_backup_brings_back_every_key_and_every_byte(values: dict[str, bytes]) -> None:
    async def there_and_back(folder: Path) -> None:
        items = [KeyValue(f"/registry/x/{key}", value, 1, i + 1) for i, (key, value) in enumerate(values.items())]
        await copy(_Fixed(items), BackupTarget(folder / "b", {}))
        assert read(folder / "b")[1] == items
        await copy(BackupSource(folder / "b"), SqliteTarget(folder / "data"))
        snapshot = await SqliteSource(folder / "data").snapshot()
        assert list(snapshot.items) == items

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(there_and_back(Path(folder)))


async def test_history_is_counted(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, limits=HistoryLimits())
    await store.write_all([Put("/registry/pods/a/b", bytes(n)) for n in (10, 20, 30)])
    await store.close()
    snapshot = await SqliteSource(tmp_path).snapshot()
    assert (snapshot.floor, snapshot.history_events, snapshot.history_bytes) == (0, 3, 30)
