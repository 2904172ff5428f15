"""Watching objects."""

import asyncio
import itertools
import json
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_caller import CONFIG_MAPS, PODS, ApiCaller, api_caller, config_map, pod
from client_fakes import FakeStream, FakeTransport, json_response
from mooring.api.core_v1 import Pod
from mooring.api.errors import Invalid, NotAcceptable, Timeout
from mooring.apiserver.output.json_bytes import cut_to_identity, without_managed_fields
from mooring.client import Client, WatchEvent, key_of, wire
from mooring.client.cache import Cache
from mooring.testing.clock import settle

pytestmark = pytest.mark.req("S.1")

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def reported(events: list[dict[str, Any]]) -> list[str]:
    """Events in short: `ADDED web`."""
    return [f"{event['type']} {event['object']['metadata'].get('name', '')}".strip() for event in events]


async def collect(api: ApiCaller, url: str, into: list[dict[str, Any]]) -> None:
    async for event in api.stream(url):
        into.append(event)  # noqa: PERF401 - the test looks at the list meanwhile


async def test_a_watch_begins_with_what_is_there(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.post(CONFIG_MAPS, config_map("b"))
    assert reported(await api.watch(CONFIG_MAPS, 2)) == ["ADDED a", "ADDED b"]


async def test_a_watch_from_a_version_sends_what_came_after(api: ApiCaller) -> None:
    first = await api.post(CONFIG_MAPS, config_map("a"))
    await api.post(CONFIG_MAPS, config_map("b"))
    await api.patch(f"{CONFIG_MAPS}/b", {"data": {"x": "1"}})
    await api.delete(f"{CONFIG_MAPS}/b")
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={first.version}", 3)
    assert reported(events) == ["ADDED b", "MODIFIED b", "DELETED b"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[-1] == await api.store.revision()


async def test_a_watch_goes_on_as_things_happen(api: ApiCaller) -> None:
    events: list[dict[str, Any]] = []
    task = asyncio.create_task(collect(api, CONFIG_MAPS, events))
    await settle()
    await api.post(CONFIG_MAPS, config_map("a"))
    await settle()
    assert reported(events) == ["ADDED a"]
    await api.delete(f"{CONFIG_MAPS}/a")
    await settle()
    assert reported(events) == ["ADDED a", "DELETED a"]
    task.cancel()


async def test_other_namespaces_are_not_sent(api: ApiCaller) -> None:
    version = await api.store.revision()
    await api.post("/api/v1/namespaces/kube-system/configmaps", config_map("there"))
    await api.post(CONFIG_MAPS, config_map("here"))
    assert reported(await api.watch(f"{CONFIG_MAPS}?resourceVersion={version}", 1)) == ["ADDED here"]
    everywhere = await api.watch(f"/api/v1/configmaps?resourceVersion={version}", 2)
    assert reported(everywhere) == ["ADDED there", "ADDED here"]


async def test_what_begins_or_ceases_to_match_comes_and_goes(api: ApiCaller) -> None:
    version = (await api.post(CONFIG_MAPS, config_map("a"))).version
    for tier in ("web", "db", "web"):
        await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"tier": tier}}, "data": {"tier": tier}})
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    await api.delete(f"{CONFIG_MAPS}/a")
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={version}&labelSelector=tier%3Dweb", 5)
    assert reported(events) == ["ADDED a", "DELETED a", "ADDED a", "MODIFIED a", "DELETED a"]
    gone = events[1]["object"]
    assert gone["data"] == {"tier": "web"}, "what goes is shown as it last matched"
    assert int(gone["metadata"]["resourceVersion"]) > int(events[0]["object"]["metadata"]["resourceVersion"])


async def test_pods_of_one_node(api: ApiCaller) -> None:
    version = (await api.post(PODS, pod("a"))).version
    await api.post(PODS, pod("b", nodeName="n2"))
    await api.post(f"{PODS}/a/binding", {"target": {"name": "n1"}})
    events = await api.watch(f"/api/v1/pods?resourceVersion={version}&fieldSelector=spec.nodeName%3Dn1", 1)
    assert reported(events) == ["ADDED a"]


@pytest.mark.parametrize("form", ["/a", "?fieldSelector=metadata.name%3Da"], ids=["by its path", "by a selector"])
async def test_one_object_alone(api: ApiCaller, form: str) -> None:
    await api.post(CONFIG_MAPS, config_map("b"))
    await api.post(CONFIG_MAPS, config_map("a"))
    assert reported(await api.watch(CONFIG_MAPS + form, 1)) == ["ADDED a"]


async def test_initial_events_end_with_a_bookmark(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    added, bookmark = await api.watch(f"{CONFIG_MAPS}?{query}", 2)
    assert reported([added]) == ["ADDED a"]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(await api.store.revision())


async def test_no_initial_events_when_not_wanted(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    events: list[dict[str, Any]] = []
    url = f"{CONFIG_MAPS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    task = asyncio.create_task(collect(api, url, events))
    await settle()
    await api.post(CONFIG_MAPS, config_map("b"))
    await settle()
    assert reported(events) == ["ADDED b"]
    task.cancel()


async def test_a_watch_ends_in_time_with_a_bookmark(api: ApiCaller) -> None:
    url = f"{CONFIG_MAPS}?timeoutSeconds=30&allowWatchBookmarks=true&resourceVersion={await api.store.revision()}"
    events: list[dict[str, Any]] = []
    task = asyncio.create_task(collect(api, url, events))
    await settle()
    api.clock.advance(31)
    await api.post(CONFIG_MAPS, config_map("a"))  # wakes the watch, whose time the store does not know
    await task
    assert reported(events) == ["ADDED a", "BOOKMARK"]


async def test_a_quiet_watch_gets_bookmarks(api: ApiCaller) -> None:
    url = f"{CONFIG_MAPS}?allowWatchBookmarks=true&labelSelector=x&resourceVersion={await api.store.revision()}"
    events: list[dict[str, Any]] = []
    task = asyncio.create_task(collect(api, url, events))
    await settle()
    api.clock.advance(61)
    await api.post(CONFIG_MAPS, config_map("a"))
    await settle()
    assert reported(events) == ["BOOKMARK"]
    task.cancel()


async def test_a_compacted_version_is_answered_with_gone(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.store.compact(await api.store.revision())
    [event] = await api.watch(f"{CONFIG_MAPS}?resourceVersion=1", 1)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 1 (")


async def test_a_watcher_that_fell_behind_is_answered_with_gone(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    stream = api.stream(CONFIG_MAPS)
    assert reported([await anext(stream)]) == ["ADDED a"]
    slow = asyncio.ensure_future(anext(stream))
    await settle()
    await api.post(CONFIG_MAPS, config_map("b"))
    assert reported([await slow]) == ["ADDED b"]
    await api.post(CONFIG_MAPS, config_map("c"))
    await api.store.compact(await api.store.revision())
    event = await anext(stream)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_watchers_share_what_is_sent(api: ApiCaller) -> None:
    version = (await api.post(CONFIG_MAPS, config_map("a"))).version
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    watching = api.resources._watching
    for _ in range(3):
        await api.watch(f"{CONFIG_MAPS}?resourceVersion={version}", 1)
    assert len(watching._frames) == 1


async def test_a_stopping_server_ends_its_watches(api: ApiCaller) -> None:
    events: list[dict[str, Any]] = []
    task = asyncio.create_task(collect(api, CONFIG_MAPS, events))
    await settle()
    assert api.resources.open_watches == 1
    api.resources.end_watches()
    await asyncio.wait_for(task, 20)
    assert api.resources.open_watches == 0


async def test_metadata_alone(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map("a", x="1"))
    [event] = await api.watch(CONFIG_MAPS, 1, accept=METADATA)
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in event["object"]


async def test_a_table_sends_its_columns_once(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.post(CONFIG_MAPS, config_map("b"))
    first, second = await api.watch(CONFIG_MAPS, 2, accept=TABLE)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] == []
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_a_version_from_the_future_is_refused(api: ApiCaller) -> None:
    with pytest.raises(Timeout, match="Too large resource version: 1000"):
        await api.watch(f"{CONFIG_MAPS}?resourceVersion=1000", 1)


async def test_initial_events_need_their_match(api: ApiCaller) -> None:
    with pytest.raises(Invalid, match="sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"):
        await api.watch(f"{CONFIG_MAPS}?sendInitialEvents=true", 1)


async def test_a_watch_is_json(api: ApiCaller) -> None:
    with pytest.raises(NotAcceptable, match="application/json;stream=watch"):
        await api.watch(CONFIG_MAPS, 1, accept="application/yaml")


async def test_a_cache_is_sent_what_it_keeps_and_others_all(api: ApiCaller) -> None:
    begun = await api.post(PODS, pod("a"))
    await api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
    await api.delete(f"{PODS}/a")
    await api.post(PODS, pod("a"))
    added = await api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "2"}}})
    since = f"{PODS}?resourceVersion={int(begun.version) - 1}"
    all_events = await api.watch(since, 5)
    assert reported(all_events) == ["ADDED a", "MODIFIED a", "DELETED a", "ADDED a", "MODIFIED a"]
    events = await api.watch(f"{since}&forCache=true", 4)
    assert reported(events) == ["ADDED a", "DELETED a", "ADDED a", "MODIFIED a"], (
        "no change that its deletion came with"
    )
    last = {name: value for name, value in added.body["metadata"].items() if name != "managedFields"}
    assert last != added.body["metadata"]
    assert events[-1] == {"type": "MODIFIED", "object": {**added.body, "metadata": last}}
    assert list(events[-2]["object"]) == ["kind", "apiVersion", "metadata", "spec", "status"]
    gone = all_events[2]["object"]["metadata"]
    identity = {name: gone[name] for name in ("name", "namespace", "uid", "resourceVersion")}
    assert events[1]["object"] == {"kind": "Pod", "apiVersion": "v1", "metadata": identity}


_CHANGES: list[dict[str, Any]] = [
    {"metadata": {"labels": {"x": "1"}}},
    {"metadata": {"labels": {"x": None}}},
    {"metadata": {"annotations": {"x": '\\",\\"spec\\":{","spec":{"a":"b'}}},
    {"metadata": {"finalizers": ["example.com/x"]}},
    {"metadata": {"finalizers": []}},
    {"spec": {"activeDeadlineSeconds": 5}},
    {"spec": {"containers": [{"name": "c", "image": "img:2"}]}},
]
_STATUSES: list[dict[str, Any]] = [{"status": {"phase": "Running"}}, {"status": {"message": ',"spec":{'}}]
_DELETIONS: list[dict[str, Any]] = [{}, {"gracePeriodSeconds": 0}]


@given(
    happenings=st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from([("POST", {}), *itertools.product(["PATCH"], _CHANGES)])
            | st.sampled_from([*itertools.product(["STATUS"], _STATUSES), *itertools.product(["DELETE"], _DELETIONS)]),
        ),
        max_size=20,
    ),
    together=st.booleans(),
)
@settings(max_examples=60, deadline=None)
async def test_a_cache_rebuilds_the_objects_from_what_it_is_sent(
    happenings: list[tuple[str, tuple[str, dict[str, Any]]]], together: bool
) -> None:
    async with api_caller() as api:
        begun = await api.post(CONFIG_MAPS, config_map("begun"))
        for name, (verb, body) in happenings:
            one = f"{PODS}/{name}"
            if verb == "POST":
                await api.post(PODS, pod(name, nodeName="n"))
            elif verb == "DELETE":
                await api.delete(one, body)
            else:
                await api.patch(f"{one}/status" if verb == "STATUS" else one, body)
        await api.post(PODS, pod("last"))
        events: list[bytes] = []
        async with aclosing(api.stream(f"{PODS}?resourceVersion={begun.version}&forCache=true")) as stream:
            while not events or b'"last"' not in events[-1]:
                events.append(json.dumps(await anext(stream)).encode() + b"\n")
        cache: Cache[Pod] = Cache()
        for batch in await _taken([b"".join(events)] if together else events):
            cache.apply(batch)
        found = [msgspec.Raw(json.dumps(each).encode()) for each in (await api.get(PODS)).body["items"]]
        kind = api.scheme.kind("v1", "Pod")
        assert kind is not None
        there = [wire.decode_item(raw, kind, Pod, None, wire.PARTS) for raw in found]
        assert cache.objects == {key_of(each): each for each in there}


async def _taken(chunks: list[bytes]) -> list[list[WatchEvent[Pod]]]:
    """Return what the watch of an informer makes of bytes."""
    stream = FakeStream()
    for chunk in chunks:
        stream.send_bytes(chunk)
    stream.end()
    client = Client(FakeTransport(lambda _: json_response({}), lambda _: stream), user_agent="t")
    async with client.watch(Pod, for_cache=True) as watch:
        return [events async for events in watch]


@pytest.mark.parametrize("accept", [TABLE, METADATA])
async def test_who_asks_for_rows_or_metadata_gets_them_for_a_cache_too(accept: str, api: ApiCaller) -> None:
    made = await api.post(PODS, pod("a"))
    await api.delete(f"{PODS}/a")
    since = f"{PODS}?resourceVersion={int(made.version) - 1}"
    plain = await api.watch(since, 2, accept=accept)
    assert await api.watch(f"{since}&forCache=true", 2, accept=accept) == plain


@pytest.mark.parametrize(
    "text",
    [
        b'{"metadata":{"name":"a","uid":"1"},"spec":{"template":{"metadata":{"name":"b","managedFields":[{}]},"spec":{}}}}',
        b'{"metadata":{"name":"a"},"data":{"x":"y"}}',
        b'{"metadata":{"name":"a","ownerReferences":[{"uid":"1"}]},"data":{}}',
    ],
    ids=["those of a template", "none", "no uid"],
)
def test_of_what_a_cache_reads_nothing_is_cut_off(text: bytes) -> None:
    assert without_managed_fields(text) == (text, -1)
    assert json.loads(cut_to_identity(text))["metadata"].items() <= json.loads(text)["metadata"].items()


@pytest.mark.parametrize("manager", ["m", "x}]},"])
@pytest.mark.parametrize("behind", ["", ',"data":{"x":"}]},"}', ',"spec":{"a":[{"b":[{}]}]}'])
def test_whatever_keys_owners_have_all_of_them_are_cut_off(behind: str, manager: str) -> None:
    keys: dict[str, Any] = {'v:{"a":[{"b":[{}]}]}': {}, 'k:{"ip":"10.0.0.1"}': {}, "f:x}]},": {".": {}}}
    entry = json.dumps({"manager": manager, "fieldsV1": keys}, separators=(",", ":"))
    text = f'{{"metadata":{{"name":"a","uid":"1","managedFields":[{entry},{entry}]}}{behind}}}'.encode()
    assert without_managed_fields(text)[0] == f'{{"metadata":{{"name":"a","uid":"1"}}{behind}}}'.encode()


async def test_managed_fields_that_are_no_field_set_do_not_break_the_watch_of_a_cache(api: ApiCaller) -> None:
    odd = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    fields: dict[str, Any] = {"f:spec": {"]": {}, "}": {}, "f:a": [{}]}, "f:x": {}}
    begun = await api.post(PODS, pod("a"))
    body = pod("b")
    body["metadata"]["managedFields"] = [{**odd, "fieldsV1": fields}]
    await api.post(PODS, body)
    [event] = await api.watch(f"{PODS}?resourceVersion={begun.version}&forCache=true", 1)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
    assert event["object"]["spec"]
