"""A watch: lines in any pieces become events, and what is no event is an error."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_fakes import FakeStream, FakeTransport, json_response
from mooring.api import codec, errors
from mooring.api.core_v1 import Pod
from mooring.client import Client, DisconnectedError, WatchEvent


def event(kind: str, name: str, version: int = 1) -> dict[str, Any]:
    managed = [{"manager": "m", "fieldsV1": {"f:spec": {}}}]
    metadata = {"name": name, "namespace": "prod", "resourceVersion": str(version), "managedFields": managed}
    return {"type": kind, "object": {"metadata": metadata, "spec": {"containers": []}}}


async def watched(chunks: list[bytes], end: Exception | None = None, **options: Any) -> list[list[WatchEvent[Pod]]]:
    stream = FakeStream()
    for chunk in chunks:
        stream.send_bytes(chunk)
    stream.end(end)
    client = Client(FakeTransport(lambda _: json_response({}), lambda _: stream), user_agent="t")
    batches = []
    try:
        async with client.watch(Pod, **options) as watch:
            async for events in watch:
                batches.append(events)  # noqa: PERF401 - so that the batches before an error are kept
    finally:
        assert stream.closed
    return batches


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


async def test_events_that_arrive_together_are_one_batch() -> None:
    [first, second] = await watched([lines(event("ADDED", "a"), event("MODIFIED", "b")), lines(event("DELETED", "a"))])
    assert [(each.type, each.object.metadata.name) for each in first] == [("ADDED", "a"), ("MODIFIED", "b")]
    assert [(each.type, each.object.kind, each.object.api_version) for each in second] == [("DELETED", "Pod", "v1")]


@given(data=st.data())
@settings(max_examples=50, deadline=None)
async def test_how_the_bytes_are_cut_makes_no_difference(data: st.DataObject) -> None:
    text = lines(*(event("ADDED", f"pod-{index}", index) for index in range(4))) + b"\n" + lines(event("BOOKMARK", ""))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    bounds = [0, *cuts, len(text)]
    chunks = [text[begin:end] for begin, end in pairwise(bounds)]
    events = [each for batch in await watched(chunks) for each in batch]
    assert [each.type for each in events] == ["ADDED"] * 4 + ["BOOKMARK"]
    assert [each.object.metadata.resource_version for each in events] == ["0", "1", "2", "3", "1"]


@pytest.mark.parametrize("managed_fields", [True, False], ids=["kept unless told", "left out for caches"])
async def test_managed_fields_are(managed_fields: bool) -> None:
    [[found]] = await watched([lines(event("ADDED", "a"))], for_cache=not managed_fields)
    assert bool(found.object.metadata.managed_fields) is managed_fields


async def test_a_watch_without_last_states_leaves_out_changes_before_a_deletion() -> None:
    events = [
        event("MODIFIED", "a", 2),
        event("ADDED", "b", 3),
        event("MODIFIED", "c", 4),
        event("DELETED", "a", 5),
        event("MODIFIED", "b", 6),
        event("DELETED", "b", 7),
        event("ADDED", "a", 8),
        event("MODIFIED", "a", 9),
        event("BOOKMARK", "", 10),
    ]
    [found] = await watched([lines(*events)], for_cache=True)
    assert [(each.type, each.object.metadata.name, each.object.metadata.resource_version) for each in found] == [
        ("ADDED", "b", "3"),
        ("MODIFIED", "c", "4"),
        ("DELETED", "a", "5"),
        ("DELETED", "b", "7"),
        ("ADDED", "a", "8"),
        ("MODIFIED", "a", "9"),
        ("BOOKMARK", "", "10"),
    ]
    assert {bool(each.object.metadata.managed_fields) for each in found if each.type == "DELETED"} == {False}


def pod_event(kind: str, version: int, **fields: Any) -> dict[str, Any]:
    metadata = {"name": f"pod-{version}", "namespace": "prod", "uid": str(version), "resourceVersion": str(version)}
    spec = {"containers": [{"name": "c", "image": "app:1"}], "nodeName": f"n{version}", "hostname": "x"}
    return {"type": kind, "object": {"kind": "Pod", "metadata": metadata, "spec": spec, **fields}}


_EVENTS = st.lists(
    st.one_of(
        st.builds(pod_event, st.sampled_from(["ADDED", "MODIFIED"]), st.integers(1, 9)),
        st.builds(
            pod_event,
            st.just("MODIFIED"),
            st.integers(1, 9),
            status=st.sampled_from([None, {}, {"phase": "Running", "podIP": "10.0.0.1"}, {"resize": "Proposed"}]),
        ),
        st.builds(
            pod_event,
            st.just("ADDED"),
            st.integers(1, 9),
            spec=st.sampled_from([{}, None, {"colour": "red"}, {"nodeName": "ä", "hostname": "x"}, {"nodeName": "n"}]),
        ),
        st.just({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "7"}}}),
        st.just({"object": {"metadata": {"name": "b"}, "colour": "red"}, "type": "ADDED", "more": True}),
    ),
    max_size=5,
)


@given(sent=_EVENTS, spaced=st.booleans())
@settings(max_examples=100, deadline=None)
async def test_a_cache_is_sent_the_same_as_others(sent: list[dict[str, Any]], spaced: bool) -> None:
    text = b"".join(
        json.dumps(each, separators=None if spaced else (",", ":"), ensure_ascii=False).encode() + b"\n"
        for each in sent
    )
    assert await watched([text], for_cache=True) == await watched([text])


async def test_an_error_behind_changes_of_pods_is_raised() -> None:
    status = json.loads(codec.encode(errors.expired("too old resource version").status))
    with pytest.raises(errors.Expired, match="too old"):
        await watched([lines(pod_event("ADDED", 1), {"type": "ERROR", "object": status})], for_cache=True)


async def test_an_error_in_the_stream_is_raised_as_what_it_says() -> None:
    status = json.loads(codec.encode(errors.expired("too old resource version").status))
    with pytest.raises(errors.Expired, match="too old"):
        await watched([lines({"type": "ERROR", "object": status})])


async def test_a_watch_that_the_server_refuses_raises_its_error() -> None:
    client = Client(
        FakeTransport(lambda _: json_response({}), lambda _: errors.forbidden("pods", "", "no")), user_agent="t"
    )
    with pytest.raises(errors.Forbidden):
        async with client.watch(Pod):
            pass


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"<html>\n", id="no JSON"),
        pytest.param(b"[]\n", id="no object"),
        pytest.param(b'{"type":"ADDED"}\n', id="no object in the event"),
        pytest.param(b'{"type":"ADDED","object":[]}\n', id="a list as object"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":7}}\n', id="a mistyped object"),
        pytest.param(b'\xff{"type":"ADDED","object":{}}\n', id="no UTF-8"),
    ],
)
async def test_what_is_no_event_breaks_the_watch(garbage: bytes) -> None:
    with pytest.raises(DisconnectedError, match="sent what is no event"):
        await watched([garbage])


async def test_an_unknown_type_of_event_is_an_error() -> None:
    with pytest.raises(errors.InternalError, match="SURPRISE"):
        await watched([lines(event("SURPRISE", "a"))])


async def test_half_a_line_at_the_end_is_no_event() -> None:
    assert await watched([lines(event("ADDED", "a"))[:-9]]) == []


async def test_the_parameters_of_a_watch() -> None:
    transport = FakeTransport(lambda _: json_response({}))
    client = Client(transport, user_agent="t")
    async with client.watch(Pod, "prod", resource_version="9", timeout_seconds=60, label_selector="a=b"):
        pass
    assert transport.watches[0].target == (
        "/api/v1/namespaces/prod/pods?watch=true&allowWatchBookmarks=true&resourceVersion=9"
        "&labelSelector=a%3Db&timeoutSeconds=60"
    )


@pytest.mark.parametrize("managed_fields", [False, True], ids=["for a cache", "for others"])
async def test_an_event_that_is_nested_too_deeply_breaks_the_watch_as_any_other_nonsense(managed_fields: bool) -> None:
    deep = b'{"type":"ADDED","object":{"metadata":{},"spec":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}}\n"
    with pytest.raises(DisconnectedError, match="no event"):
        await watched([deep], for_cache=not managed_fields)
