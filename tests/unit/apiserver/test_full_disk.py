"""A disk that is full, as clients see it: writes are refused with the reason, all else goes on."""

from pathlib import Path
from typing import Any

import pytest

from api_caller import api_caller
from mooring.store.sqlite import SqliteStore

pytestmark = pytest.mark.req("S.2")
MAPS = "/api/v1/namespaces/default/configmaps"


def large(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"a": "x" * 200_000}}


async def limit(store: SqliteStore, pages: str) -> None:
    await store._writer.run(store._file._number, f"PRAGMA max_page_count = {pages}")


async def test_a_full_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    async with api_caller(store=store) as api:
        kept = await api.post(MAPS, large("kept"))
        assert kept.code == 201
        await limit(store, "1")  # as many as there are: a file does not shrink
        refused = await api.post(MAPS, large("refused"))
        assert refused.code == 503
        assert refused.message.endswith("state.db: the disk is full; nothing was written")
        assert (await api.get(f"{MAPS}/refused")).code == 404
        assert (await api.get(f"{MAPS}/kept")).body == kept.body
        await limit(store, "1000000")
        assert (await api.post(MAPS, large("refused"))).code == 201, "there is space again"
    await store.close()
