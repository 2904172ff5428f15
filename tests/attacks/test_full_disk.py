"""A disk that is full: the server says that it is not ready, and things can still be deleted."""

import asyncio
import errno
import os
from collections.abc import Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running
from mooring.store.errors import DiskFull
from mooring.store.kv import Delete, Event, Put
from mooring.store.sqlite import SqliteStore
from mooring.store.sqlite_file import RESERVE, SqliteFile

pytestmark = pytest.mark.req("S.2")


class Disk:
    """A disk that has no room left but what is set aside."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._reserve = directory / RESERVE
        self._commit = SqliteFile.commit
        monkeypatch.setattr(SqliteFile, "commit", partialmethod(_commit_on, self))
        monkeypatch.setattr(os, "posix_fallocate", self.allocate)

    def commit(self, file: SqliteFile, events: Sequence[Event], discarded: Sequence[int], floor: int) -> None:
        if self.is_full and self._reserve.exists():
            raise DiskFull("the disk is full; nothing was written")
        self._commit(file, events, discarded, floor)

    def allocate(self, _file: int, _begin: int, _size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


def _commit_on(file: SqliteFile, disk: Disk, *given: Any) -> None:
    disk.commit(file, *given)


def _is_full(store: SqliteStore) -> bool:
    return store.is_full


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


async def test_what_is_there_can_be_deleted_and_nothing_is_added(tmp_path: Path, disk: Disk) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.write_all([Put("/registry/x/a", b"v"), Put("/registry/x/b", b"v" * 100)])
    disk.is_full = True
    with pytest.raises(DiskFull):
        await store.write(Put("/registry/x/c", b"v"))
    assert _is_full(store)
    with pytest.raises(DiskFull):
        await store.write(Put("/registry/x/a", b"v" * 5000))
    assert isinstance(await store.write(Delete("/registry/x/a")), Event)
    assert isinstance(await store.write(Put("/registry/x/b", b"v" * 200)), Event), "as a deletion begins"
    assert _is_full(store)
    disk.is_full = False
    await store.maintain()
    assert not _is_full(store)
    assert isinstance(await store.write(Put("/registry/x/c", b"v")), Event)
    assert (tmp_path / RESERVE).stat().st_size > 0
    await store.close()
    store = await SqliteStore.open(tmp_path)
    assert [kv.key for kv in (await store.range("/registry/x/")).items] == ["/registry/x/b", "/registry/x/c"]
    await store.close()


async def test_a_delete_in_the_same_transaction_is_done(tmp_path: Path, disk: Disk) -> None:
    store = await SqliteStore.open(tmp_path)
    await store.write(Put("/registry/x/a", b"v"))
    disk.is_full = True
    together: Any = await asyncio.gather(
        store.write(Put("/registry/x/c", b"v")), store.write(Delete("/registry/x/a")), return_exceptions=True
    )
    assert [type(outcome) for outcome in together] == [DiskFull, Event]
    await store.close()


async def test_a_server_whose_store_is_full_is_not_ready(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        call = Caller(server.app, ADMIN)
        assert (await call("GET", "/readyz")).status == 200
        server.store.is_full = True  # type: ignore[attr-defined]
        assert (await call("GET", "/readyz")).status == 500
        assert (await call("GET", "/readyz/room")).status == 500
        assert (await call("GET", "/livez")).status == 200
