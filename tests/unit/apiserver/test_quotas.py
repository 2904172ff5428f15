"""Quotas: concurrent writers never exceed them, and their usage is exact.

The words are recorded in ``tests/conformance/test_quotas.py``.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from api_caller import CONFIG_MAPS, PODS, ApiCaller, api_caller, config_map, pod
from etcd_servers import EtcdServers
from mooring.api.meta_v1 import Resource
from mooring.apiserver.registry.storage.stored import Stored
from mooring.store.errors import DiskFull
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Conflict, Event, Put, Store, Write
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore
from quota_objects import QUOTAS, asking, counted, counted_as, counting, quota, used_and_there

pytestmark = pytest.mark.req("X.10")
WRITERS = 64


@pytest.fixture(params=["memory", "sqlite", "two servers on etcd"])
async def servers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[ApiCaller]]:
    """One server, or several on one store."""
    stores: list[Store] = []
    if request.param == "memory":
        stores.append(await MemoryStore.open())
    elif request.param == "sqlite":
        stores.append(await SqliteStore.open(tmp_path))
    else:
        etcd: EtcdServers = request.getfixturevalue("etcd")
        config = etcd.fresh()
        stores += [await EtcdStore.open(config), await EtcdStore.open(config)]
    async with AsyncExitStack() as stack:
        for store in stores:
            stack.push_async_callback(store.close)
        callers = [await stack.enter_async_context(api_caller(store=store)) for store in stores]
        await stack.enter_async_context(counting(*callers))
        yield callers


async def test_many_writers_at_once_use_a_quota_up_and_never_more(servers: list[ApiCaller]) -> None:
    await servers[0].post(QUOTAS, quota({"count/pods": "20", "requests.cpu": "10"}))
    await counted(servers[0])
    for server in servers:
        await server.get(f"{QUOTAS}/q")
    answers = await asyncio.gather(
        *(servers[number % len(servers)].post(PODS, asking(f"p{number}", "100m")) for number in range(WRITERS))
    )
    assert [answer.code for answer in answers].count(201) == 20
    assert {answer.code for answer in answers} == {201, 403}
    assert await used_and_there(servers[-1]) == (20, 20)
    assert (await counted(servers[-1]))["requests.cpu"] == "2"


async def test_usage_stays_exact_while_pods_come_end_and_go(servers: list[ApiCaller]) -> None:
    await servers[0].post(QUOTAS, quota({"count/pods": "12", "pods": "8"}))
    await counted(servers[0])

    async def live(number: int) -> None:
        server, random_ = servers[number % len(servers)], random.Random(number)
        for turn in range(3):
            name = f"p{number}-{turn}"
            if (await server.post(PODS, pod(name))).code == 201 and random_.random() < 0.7:
                if random_.random() < 0.5:
                    await server.patch(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
                await servers[(number + turn) % len(servers)].delete(f"{PODS}/{name}")

    await asyncio.gather(*map(live, range(16)))
    used, there = await used_and_there(servers[0])
    assert used == there
    phases = [item["status"].get("phase") for item in (await servers[0].get(PODS)).body["items"]]
    assert (await counted(servers[0]))["pods"] == str(sum(phase != "Succeeded" for phase in phases))


async def test_as_many_writes_as_come_at_once_fit_beside_as_many_quotas_as_may_be(servers: list[ApiCaller]) -> None:
    """Etcd has a limit of its own for what one transaction looks at, and deletions look twice."""
    api = servers[0]
    names = [f"q{number}" for number in range(40)]
    for name in names:
        await api.post(QUOTAS, quota({"count/configmaps": "1000"}, name))
    for name in names:
        await counted(api, name)
    many = range(100)
    created = await asyncio.gather(*(api.post(CONFIG_MAPS, config_map(f"m{number}")) for number in many))
    assert {answer.code for answer in created} == {201}
    assert {(await counted(api, name))["count/configmaps"] for name in names} == {"100"}
    deleted = await asyncio.gather(*(api.delete(f"{CONFIG_MAPS}/m{number}") for number in many))
    assert {answer.code for answer in deleted} == {200}
    assert {(await counted(api, name))["count/configmaps"] for name in names} == {"0"}


async def test_a_quota_that_comes_while_pods_are_written_counts_all_of_them(servers: list[ApiCaller]) -> None:
    async def write(number: int) -> int:
        await asyncio.sleep(number * 0.002)
        return (await servers[0].post(PODS, pod(f"p{number}"))).code

    writing = asyncio.gather(*map(write, range(40)))
    await asyncio.sleep(0.02)
    await servers[0].post(QUOTAS, quota({"count/pods": "60"}))
    assert await writing == [201] * 40
    await counted(servers[0])
    for server in servers:
        server.clock.advance(10)  # what was on its way to etcd is counted a little later
    await counted_as(servers[0], {"count/pods": "40"})


@pytest.fixture
async def counted_api() -> AsyncIterator[ApiCaller]:
    async with api_caller() as api, counting(api):
        yield api


async def test_a_refusal_leaves_nothing_behind(counted_api: ApiCaller) -> None:
    api = counted_api
    await api.post(QUOTAS, quota({"pods": "5"}, "a"))
    await api.post(QUOTAS, quota({"pods": "0"}, "b"))
    await counted(api, "a")
    await counted(api, "b")
    assert (await api.post(PODS, pod())).code == 403
    assert await counted(api, "a") == {"pods": "0"}


async def test_an_object_that_is_there_already_is_not_counted_twice(counted_api: ApiCaller) -> None:
    api = counted_api
    await api.post(QUOTAS, quota({"configmaps": "5"}))
    await counted(api)
    assert [(await api.post(CONFIG_MAPS, config_map())).code for _ in range(2)] == [201, 409]
    assert await counted(api) == {"configmaps": "1"}


async def test_writers_that_stop_waiting_do_not_hold_up_the_others(counted_api: ApiCaller) -> None:
    api = counted_api
    await api.post(QUOTAS, quota({"configmaps": "50"}))
    await counted(api)
    tasks = [asyncio.create_task(api.post(CONFIG_MAPS, config_map(f"m{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::3]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    there = len((await api.get(CONFIG_MAPS)).names)
    assert await counted(api) == {"configmaps": str(there)}
    assert (await api.post(CONFIG_MAPS, config_map("another"))).code == 201


async def test_usage_that_a_user_has_overwritten_is_counted_again(counted_api: ApiCaller) -> None:
    api = counted_api
    await api.post(QUOTAS, quota({"configmaps": "5"}))
    await counted(api)
    await api.post(CONFIG_MAPS, config_map())
    await api.patch(f"{QUOTAS}/q/status", {"status": {"used": {"configmaps": "4"}}})
    assert await counted(api) == {"configmaps": "4"}
    await asyncio.sleep(0.01)
    api.clock.advance(400)
    await counted_as(api, {"configmaps": "1"})


async def test_objects_of_which_a_quota_knows_only_the_number_are_not_decoded(
    api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        assert (await api.post(CONFIG_MAPS, config_map(f"c{number}"))).code == 201
    await api.post(QUOTAS, quota({"count/configmaps": "9"}))
    decoded: list[str] = []
    decode = Stored.decode

    def noted(stored: Stored, value: bytes, revision: int) -> Resource:
        decoded.append(stored.hub.kind)
        return decode(stored, value, revision)

    monkeypatch.setattr(Stored, "decode", noted)
    async with counting(api):
        assert await counted(api) == {"count/configmaps": "3"}
    assert "ConfigMap" not in decoded


async def test_what_was_never_counted_is_refused_with_the_error_text_of_kubernetes(api: ApiCaller) -> None:
    await api.post(QUOTAS, quota({"configmaps": "5"}))
    assert (await api.post(CONFIG_MAPS, config_map("before"))).code == 201  # the status limits nothing yet
    await api.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"configmaps": "5"}}})
    answer = await api.post(CONFIG_MAPS, config_map())
    why = "status unknown for quota: q, resources: configmaps"
    assert answer.message == f'configmaps "settings" is forbidden: {why}'


async def test_more_quotas_than_a_transaction_takes_are_refused_with_the_remedy(counted_api: ApiCaller) -> None:
    api = counted_api
    for number in range(41):
        await api.post(QUOTAS, quota({"configmaps": "5"}, f"q{number}"))
    await counted(api, "q40")
    answer = await api.post(CONFIG_MAPS, config_map())
    assert answer.code == 403
    assert "more than 40 quotas of its namespace count it; delete some" in answer.message


class FullStore(MemoryStore):
    """A store that is full for everything but single deletes, as etcd is."""

    is_full = False

    async def write_together(self, writes: Sequence[Write]) -> list[Event] | list[Conflict]:
        if self.is_full and any(isinstance(write, Put) for write in writes):
            raise DiskFull("etcd is full")
        return await super().write_together(writes)


async def test_a_full_store_still_deletes_what_quotas_count() -> None:
    store = await FullStore.open()
    async with api_caller(store=store) as api, counting(api):
        await api.post(QUOTAS, quota({"configmaps": "5"}))
        await counted(api)
        await api.post(CONFIG_MAPS, config_map())
        store.is_full = True
        assert (await api.delete(f"{CONFIG_MAPS}/settings")).code == 200
        store.is_full = False
        await asyncio.sleep(0.01)
        api.clock.advance(10)
        await counted_as(api, {"configmaps": "0"})


async def test_a_namespace_without_quotas_writes_one_key_at_a_time(api: ApiCaller) -> None:
    before = await api.store.revision()
    await api.post(PODS, pod())
    assert await api.store.revision() == before + 1
