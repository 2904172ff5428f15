"""A store knows up to where it was written: a log that is damaged, cut off or gone is never served in silence."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.store.errors import Damaged
from mooring.store.kv import Delete, Put
from mooring.store.mvcc import HistoryLimits
from mooring.store.sqlite import SqliteStore
from mooring.store.sqlite_head import HEAD, Head, describe_loss, read_head
from mooring.store.tools.sqlite_source import SqliteSource

pytestmark = pytest.mark.req("S.2")
WRITES = 60
_WRITER = f"""
import asyncio, os, signal, sys
from pathlib import Path
from mooring.store.kv import Delete, Put
from mooring.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    for number in range({WRITES}):
        await store.write(Put(f"/registry/x/k{{number % 7}}", b"v" * 2000))
    await store.write(Delete("/registry/x/k3"))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory whose server was killed after its last acknowledged write."""
    directory = tmp_path_factory.mktemp("killed")
    done = subprocess.run([sys.executable, "-c", _WRITER, str(directory)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (directory / "state.db-wal").stat().st_size > 100_000
    return directory


@pytest.fixture
def directory(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "data"))


def _flip(at: float) -> Callable[[Path], None]:
    def damage(wal: Path) -> None:
        data = bytearray(wal.read_bytes())
        data[int(at * (len(data) - 1))] ^= 0x10
        wal.write_bytes(bytes(data))

    return damage


def _cut(at: float) -> Callable[[Path], None]:
    return lambda wal: os.truncate(wal, int(at * wal.stat().st_size))


DAMAGE: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "empty": _cut(0),
    **{f"cut off at {at:.0%}": _cut(at) for at in (0.1, 0.5, 0.9, 0.999)},
    **{f"one bit flipped at {at:.0%}": _flip(at) for at in (0, 0.0003, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
async def test_a_log_that_was_damaged_is_refused_and_reported(directory: Path, damage: Callable[[Path], None]) -> None:
    damage(directory / "state.db-wal")
    found, _ = SqliteSource(directory).examine()
    assert any("were acknowledged" in text for _, text in found), found
    with pytest.raises(Damaged, match=f"up to revision {WRITES + 1} were acknowledged.*--accept-lost-writes"):
        await SqliteStore.open(directory)
    with pytest.raises(Damaged):  # and again: asking once more does not help
        await SqliteStore.open(directory)


async def test_who_accepts_the_loss_goes_on_and_is_not_asked_again(directory: Path) -> None:
    (directory / "state.db-wal").unlink()
    store = await SqliteStore.open(directory, accept_loss=True)
    assert await store.revision() == WRITES + 1, "no revision comes twice"
    await store.write(Put("/registry/x/new", b"v"))
    await store.close()
    store = await SqliteStore.open(directory)
    assert await store.get("/registry/x/new") is not None
    await store.close()
    assert SqliteSource(directory).examine()[0] == []


async def test_a_log_that_is_whole_is_found_whole(directory: Path) -> None:
    assert SqliteSource(directory).examine()[0] == []
    store = await SqliteStore.open(directory)
    assert await store.revision() == WRITES + 1
    assert await store.get("/registry/x/k3") is None
    await store.close()


async def test_stores_from_before_there_was_a_mark_are_opened(directory: Path) -> None:
    (directory / HEAD).unlink()
    store = await SqliteStore.open(directory)
    await store.close()
    assert read_head(directory) == Head(WRITES + 1, 0, WRITES + 1, sum(range(WRITES + 2)))


async def test_a_mark_that_is_damaged_is_reported(directory: Path) -> None:
    (directory / HEAD).write_bytes(b"x" * 128)
    with pytest.raises(Damaged, match=HEAD):
        await SqliteStore.open(directory)
    await (await SqliteStore.open(directory, accept_loss=True)).close()
    await (await SqliteStore.open(directory)).close()


async def test_a_mark_half_of_which_is_damaged_still_counts(directory: Path) -> None:
    data = (directory / HEAD).read_bytes()
    newest = max((0, 64), key=lambda place: Head.decode(data[place : place + 64]).revision)  # type: ignore[union-attr]
    (directory / HEAD).write_bytes(data[:newest] + bytes(64) + data[newest + 64 :])
    mark = read_head(directory)
    assert mark is not None
    assert mark.revision == WRITES
    store = await SqliteStore.open(directory)
    assert await store.revision() == WRITES + 1
    await store.close()


async def test_the_mark_follows_compaction(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, limits=HistoryLimits(events=10))
    for number in range(100):
        await store.write(Put(f"/registry/x/k{number % 5}", b"v"))
    await store.write(Delete("/registry/x/k1"))
    await store.maintain()
    floor = (await store.stats()).floor
    await store.close()
    mark = read_head(tmp_path)
    assert mark is not None
    assert (mark.revision, mark.floor) == (101, floor)
    assert floor > 50
    await (await SqliteStore.open(tmp_path)).close()


HEADS = [
    ("nothing was ever marked", None, Head(3, 0, 3, 6), ""),
    ("all is there", Head(3, 0, 3, 6), Head(3, 0, 3, 6), ""),
    ("a write was not told any more", Head(3, 0, 3, 6), Head(4, 0, 4, 10), ""),
    ("the end is missing", Head(3, 0, 3, 6), Head(2, 0, 2, 3), "acknowledged"),
    ("a record is missing in the middle", Head(9, 5, 6, 33), Head(9, 5, 5, 31), "records"),
    ("a record has come back", Head(9, 5, 6, 33), Head(9, 5, 7, 35), "records"),
    ("another record is there", Head(9, 5, 6, 33), Head(9, 5, 6, 34), "records"),
]


@pytest.mark.parametrize(("mark", "log", "text"), [case[1:] for case in HEADS], ids=[case[0] for case in HEADS])
def test_a_log_is_held_against_its_mark(mark: Head | None, log: Head, text: str) -> None:
    found = describe_loss(mark, log)
    assert text in found
    assert bool(text) == bool(found)


async def test_the_command_says_what_to_do(directory: Path) -> None:
    (directory / "state.db-wal").unlink()
    command = [sys.executable, "-m", "mooring", "apiserver", "--data-dir", str(directory), "--port", "0"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "--accept-lost-writes" in done.stderr
    assert "Traceback" not in done.stderr
