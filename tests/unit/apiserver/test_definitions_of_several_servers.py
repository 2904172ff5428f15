"""Definitions where several write at once, through one server or through two on one etcd."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from custom_api import CRON_TABS, DEFINITIONS, CustomApi, cron_tab, cron_tabs, custom_api, definition
from mooring.api.apiextensions_v1 import CustomResourceDefinitionNames
from mooring.apiserver.registry import definition_status as names
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Store
from mooring.store.memory import MemoryStore

CRD = f"{DEFINITIONS}/crontabs.stable.example.com"
WRITERS = 12


@pytest.fixture(params=["one server", "two servers on etcd"])
async def servers(request: pytest.FixtureRequest) -> AsyncIterator[list[CustomApi]]:
    stores: list[Store] = []
    if request.param == "one server":
        stores.append(await MemoryStore.open())
    else:
        config = request.getfixturevalue("etcd").fresh()
        stores += [await EtcdStore.open(config), await EtcdStore.open(config)]
    async with AsyncExitStack() as stack:
        for store in stores:
            stack.push_async_callback(store.close)
        yield [await stack.enter_async_context(custom_api(store)) for store in stores]


async def settled(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come to pass")


def serves(server: CustomApi) -> bool:
    return server.scheme.resource("stable.example.com", "v1", "crontabs") is not None


@pytest.mark.req("X.6")
async def test_a_name_that_many_ask_for_at_once_goes_to_one_of_them(servers: list[CustomApi]) -> None:
    asking = [definition(f"tabs{number}", "Tab") for number in range(WRITERS)]
    await asyncio.gather(
        *(servers[number % len(servers)].post(DEFINITIONS, body) for number, body in enumerate(asking))
    )

    async def accepted() -> list[str]:
        found = (await servers[0].get(DEFINITIONS)).body["items"]
        return [each["metadata"]["name"] for each in found if _holds(each, "NamesAccepted")]

    for _ in range(2000):
        if len(await accepted()) == 1:
            break
        await asyncio.sleep(0.01)
    [winner] = await accepted()
    await asyncio.sleep(0.05)  # no server changes its mind
    assert await accepted() == [winner]
    for server in servers:
        await server.definitions.catch_up()
        served = [kind.plural for kind in server.scheme.served if kind.kind == "Tab"]
        assert served == [winner.partition(".")[0]]


def _holds(body: dict[str, Any], condition: str) -> bool:
    conditions = body["status"].get("conditions", ())
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


@pytest.mark.req("X.11")
async def test_one_more_definition_is_compared_with_each_other_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    claimed_names = names._claimed_names

    def counted(taken: CustomResourceDefinitionNames) -> set[tuple[str, str]]:
        nonlocal compared
        compared += 1
        return claimed_names(taken)

    monkeypatch.setattr(names, "_claimed_names", counted)
    async with custom_api() as api:
        for number in range(30):
            compared = 0
            await api.define(definition(f"tabs{number}", f"Tab{number}"))
        assert 0 < compared <= 3 * 30


@pytest.mark.req("X.5", "X.6")
async def test_all_servers_serve_what_one_was_sent(servers: list[CustomApi]) -> None:
    first, last = servers[0], servers[-1]
    await first.define(cron_tabs())
    await last.definitions.catch_up()
    assert (await last.post(CRON_TABS, cron_tab("a"))).code == 201
    assert (await first.get(f"{CRON_TABS}/a")).body["spec"]["replicas"] == 1
    stricter = (await first.get(CRD)).body
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["image"]
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("image")
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["image"] = {
        "type": "string"
    }
    stricter["spec"]["versions"][0].pop("selectableFields")
    assert (await first.put(CRD, stricter)).code == 200
    await last.definitions.catch_up()
    for server in servers:
        assert "spec.image: Required" in (await server.post(CRON_TABS, cron_tab("b"))).message


@pytest.mark.req("X.6")
async def test_the_end_of_a_definition_reaches_all_servers(servers: list[CustomApi]) -> None:
    first, last = servers[0], servers[-1]
    for scope in ("Namespaced", "Cluster"):
        body = cron_tabs()
        body["spec"]["scope"] = scope
        await first.define(body)
        await last.definitions.catch_up()
        path = CRON_TABS if scope == "Namespaced" else "/apis/stable.example.com/v1/crontabs"
        answers = [await servers[number % len(servers)].post(path, cron_tab(f"a{number}")) for number in range(6)]
        assert [answer.code for answer in answers] == [201] * 6
        await last.delete(CRD)
        await settled(lambda: not any(map(serves, servers)))
        assert (await first.get(CRD)).code == 404
        assert not (await first.store.range("/registry/stable.example.com/")).items


@pytest.mark.req("X.6")
async def test_a_server_that_still_cleans_up_leaves_the_next_definition_of_the_name_alone(
    servers: list[CustomApi],
) -> None:
    last = servers[-1]
    await last.define(cron_tabs())
    gone = last.definitions.find_definition("crontabs.stable.example.com")
    assert gone is not None
    await last.delete(CRD)
    await settled(lambda: not any(map(serves, servers)))
    await last.define(cron_tabs())
    await settled(lambda: serves(last))
    before = (await last.get(CRD)).body
    await last.definitions._delete_objects_and_finish(gone)  # as where another server was faster
    assert (await last.get(CRD)).body == before


@pytest.mark.req("X.6", "X.11")
async def test_changes_of_a_definition_under_load_are_all_kept(servers: list[CustomApi]) -> None:
    await servers[0].define(cron_tabs())
    for server in servers:
        await server.definitions.catch_up()

    async def add_field(number: int) -> None:
        server = servers[number % len(servers)]
        while True:
            body = (await server.get(CRD)).body
            spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["properties"][f"f{number}"] = {"type": "string", "default": "x"}
            answer = await server.put(CRD, body)
            if answer.code == 200:
                return
            assert answer.code == 409, answer.message

    async def write(number: int) -> None:
        answer = await servers[number % len(servers)].post(CRON_TABS, cron_tab(f"a{number}"))
        assert answer.code == 201, answer.message

    await asyncio.gather(*map(add_field, range(WRITERS)), *map(write, range(WRITERS)))
    found = (await servers[0].get(CRD)).body
    assert found["metadata"]["generation"] == WRITERS + 1
    for server in servers:
        await server.definitions.catch_up()
        listed = (await server.get(CRON_TABS)).body["items"]
        assert len(listed) == WRITERS
        assert all(item["spec"][f"f{number}"] == "x" for item in listed for number in range(WRITERS))


@pytest.mark.req("X.5")
async def test_a_while_after_a_change_objects_are_shown_as_they_were_written() -> None:
    async with custom_api() as api:
        await api.define(cron_tabs())
        kind = api.scheme.resource("stable.example.com", "v1", "crontabs")
        assert kind is not None
        first = api.resources.context.kinds.find(kind).current_after
        body = (await api.get(CRD)).body
        properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["more"] = {"type": "string", "default": "x"}
        await api.put(CRD, body)
        kind = api.scheme.resource("stable.example.com", "v1", "crontabs")
        assert kind is not None
        stored = api.resources.context.kinds.find(kind)
        assert stored.current_after > await api.store.revision() > first
        api.clock.advance(61)
        await settled(lambda: stored.current_after < 2**62)
        assert stored.current_after == await api.store.revision()
