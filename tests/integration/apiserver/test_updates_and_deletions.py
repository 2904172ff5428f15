"""Updates with the deletion that follows at once (`thenDelete`) come to what both come to one after the other."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from group_writes import (
    ADMIN,
    PODS,
    WRITER,
    Json,
    allow,
    deletion,
    got,
    make_namespaces,
    moved,
    nameless,
    pod,
    status,
    written,
)
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.1")
AT_ONCE = {"gracePeriodSeconds": 0}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    opened = await ApiServer.open(ServerConfig(data_dir=tmp_path, ephemeral=True, port=0))
    try:
        await opened.listen()
        yield opened
    finally:
        await opened.close()


def end(name: str, then: Json | None = None, **fields: Any) -> Json:
    return {**status(name, "Succeeded", **fields), "thenDelete": AT_ONCE if then is None else then}


SETUPS: dict[str, Callable[[], Iterator[list[Json]]]] = {
    "pods": lambda: iter([[pod("a"), pod("b")]]),
    "pods that were given time": lambda: iter([[pod("a"), pod("b")], [deletion("a"), deletion("b")]]),
    "pods that a finalizer holds": lambda: iter(
        [[pod("a", finalizers=["x/y"]), pod("b", finalizers=["x/y"])], [deletion("a"), deletion("b")]]
    ),
    "pods that have ended": lambda: iter([[pod("a"), pod("b")], [status("a", "Succeeded"), status("b", "Succeeded")]]),
}
ENDS: dict[str, Callable[[], list[Json]]] = {
    "all go": lambda: [end("a"), end("b")],
    "one alone": lambda: [end("a")],
    "one is not there": lambda: [end("a"), end("c")],
    "one is another": lambda: [end("a", {**AT_ONCE, "preconditions": {"uid": "1"}}), end("b")],
    "one has a stale version": lambda: [end("a", version="1"), end("b")],
    "one has another version than expected": lambda: [
        end("a", {**AT_ONCE, "preconditions": {"resourceVersion": "1"}}),
        end("b"),
    ],
    "one has a wrong condition": lambda: [end("a", conditions=[{"type": "!", "status": "True"}]), end("b")],
    "one is only tried": lambda: [end("a", {**AT_ONCE, "dryRun": ["All"]}), end("b")],
    "one has wrong options": lambda: [end("a", {"propagationPolicy": "Never"}), end("b")],
    "they are given time": lambda: [end("a", {}), end("b", {"gracePeriodSeconds": 5})],
    "nobody reads the answers": lambda: [{**end("a"), "omitBody": True}, {**end("b"), "omitBody": True}],
    "the same one twice": lambda: [end("a"), end("a")],
}


async def apart(server: ApiServer, write: Json) -> Json:
    """Return an update, and then the deletion if it was done: the answer to the last."""
    update = {name: value for name, value in write.items() if name != "thenDelete"}
    [answer] = await written(server, update)
    if answer["code"] >= 300:
        return answer
    path = write["path"].removesuffix("/status")
    then = {"method": "DELETE", "path": path, "body": write["thenDelete"], "omitBody": write.get("omitBody", False)}
    [answer] = await written(server, then)
    return answer


async def reported(server: ApiServer, path: str, after: str) -> list[Json]:
    """Return what a watch on pods sends since a version."""
    query = {"watch": ["true"], "resourceVersion": [after], "timeoutSeconds": ["5"]}
    response = await server.app.respond(Request(method="GET", path=path, query=query, user=ADMIN))
    assert not isinstance(response.body, bytes)
    async for chunk in response.body:
        return [json.loads(line) for line in chunk.splitlines()]
    return []


async def compare(server: ApiServer, number: int, setup: Iterator[list[Json]], ends: list[Json]) -> None:
    both = (f"together-{number}", f"apart-{number}")
    await make_namespaces(server, *both)
    for writes in setup:
        for namespace in both:
            await written(server, *(moved(namespace, write) for write in writes))
    paths = [PODS.replace("default", namespace) for namespace in both]
    before = (await got(server, paths[0]))["metadata"]["resourceVersion"]
    answers = await written(server, *(moved(both[0], each) for each in ends))
    singly = [await apart(server, moved(both[1], each)) for each in ends]
    assert nameless(answers, both) == nameless(singly, both)
    seen = [await reported(server, path, before) for path in paths if any(each["code"] < 300 for each in answers)]
    assert nameless([_by_pod(events) for events in seen[:1]], both) == nameless(list(map(_by_pod, seen[1:])), both)
    listed = [(await got(server, path))["items"] for path in paths]
    assert nameless(listed[0], both) == nameless(listed[1], both)


def _by_pod(events: list[Json]) -> dict[str, list[Json]]:
    """Events of each pod in their order; that of different pods is anybody's."""
    names = sorted({event["object"]["metadata"]["name"] for event in events})
    return {name: [event for event in events if event["object"]["metadata"]["name"] == name] for name in names}


async def test_updates_with_deletions_come_to_what_both_come_to_one_after_the_other(server: ApiServer) -> None:
    number = 0
    for setup in SETUPS.values():
        for ends in ENDS.values():
            number += 1
            await compare(server, number, setup(), ends())


async def test_who_watches_sees_how_a_pod_ended_before_it_goes(server: ApiServer) -> None:
    await written(server, pod("a"), pod("b"))
    await written(server, deletion("a"), deletion("b"))
    before = (await got(server, PODS))["metadata"]["resourceVersion"]
    assert [answer["code"] for answer in await written(server, end("a"), end("b"))] == [200, 200]
    events = _by_pod(await reported(server, PODS, before))
    for name in "ab":
        assert [(each["type"], each["object"]["status"]["phase"]) for each in events[name]] == [
            ("MODIFIED", "Succeeded"),
            ("DELETED", "Succeeded"),
        ]
        assert int(events[name][0]["object"]["metadata"]["resourceVersion"]) > int(before)


async def test_who_may_not_delete_has_written_the_status_nevertheless(server: ApiServer) -> None:
    await allow(server, {"verbs": ["update"], "apiGroups": [""], "resources": ["pods/status"]})
    await written(server, pod("a"))
    answers = await written(server, end("a"), end("b"), user=WRITER)
    assert [answer["code"] for answer in answers] == [403, 404]
    assert (await got(server, f"{PODS}/a"))["status"]["phase"] == "Succeeded"


_NAMES = st.sampled_from(["a", "b", "c"])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(
        st.one_of(
            st.builds(end, _NAMES),
            st.builds(status, _NAMES, st.sampled_from(["Running", "Failed"])),
            st.builds(deletion, _NAMES, gracePeriodSeconds=st.sampled_from([0, 30])),
        ),
        min_size=2,
        max_size=10,
    )
)
async def test_what_was_acknowledged_as_gone_is_gone(server: ApiServer, writes: list[Json]) -> None:
    await written(server, *(pod(name) for name in "abc"))
    answers = await written(server, *writes)
    done = [write for write, answer in zip(writes, answers, strict=True) if answer["code"] == 200]
    gone = {write["path"].removesuffix("/status") for write in done if write.get("thenDelete") == AT_ONCE}
    gone |= {write["path"] for write in done if write["body"].get("gracePeriodSeconds") == 0}
    for path in gone:
        assert (await got(server, path))["kind"] == "Status"
    await written(server, *(deletion(name, **AT_ONCE) for name in "abc"))
