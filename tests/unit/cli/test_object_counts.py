"""The numbers in the status line of `mooring up`."""

import asyncio

import pytest

from mooring.api.scheme import Scheme
from mooring.cli.support import status_line
from mooring.cli.support.status_line import ObjectCounts
from mooring.store.kv import Delete, KeyValue, Put
from mooring.store.memory import MemoryStore

pytestmark = pytest.mark.req("S.4")


def _put(name: str, phase: str, node: str) -> Put:
    value = f'{{"spec":{{"nodeName":"{node}"}},"status":{{"phase":"{phase}"}}}}'
    return Put(f"/registry/pods/default/{name}", value.encode())


async def test_pods_are_counted_as_they_are_after_several_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    glimpse = status_line._phase_and_placement

    def noted(kv: KeyValue) -> tuple[str, bool]:
        looked.append(kv.key)
        return glimpse(kv)

    monkeypatch.setattr(status_line, "_phase_and_placement", noted)
    store = await MemoryStore.open()
    counts = ObjectCounts(store, Scheme())
    counting = asyncio.create_task(counts.run())
    await asyncio.sleep(0)
    changes = [_put(name, phase, node) for phase, node in (("Pending", ""), ("Running", "n")) for name in "abc"]
    await store.write_all(changes)
    async with asyncio.timeout(10):
        while counts.bound < 3:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
        assert +counts.phases == {"Running": 3}
        assert len(looked) == 3, "each once"
        await store.write_all([Delete("/registry/pods/default/a"), _put("b", "Succeeded", "n"), _put("c", "", "n")])
        while +counts.phases != {"Pending": 1, "Succeeded": 1}:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    assert counts.bound == 3
    await store.close()
    await counting
