"""Answers in protobuf say what answers in JSON say: objects, lists, watches, metadata alone, errors."""

from typing import Any

import pytest

from admission_kinds import EXAMPLES, name_for
from api_caller import PODS, ApiCaller, api_caller, config_map, pod
from mooring.api import codec
from mooring.api.core_v1 import ConfigMap, Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import PartialObjectMetadata, PartialObjectMetadataList, list_of
from mooring.api.protobuf import _fields, envelope
from mooring.api.scheme import Scheme

pytestmark = pytest.mark.req("N.11")
PROTOBUF = "application/vnd.kubernetes.protobuf"
MAPS = "/api/v1/namespaces/default/configmaps"
KINDS = [kind for kind in Scheme().served if kind.stored and kind.kind in EXAMPLES]


def read(body: bytes, cls: type[Any]) -> Any:
    """Return what a client understands, as JSON has it."""
    return codec.to_tree(codec.decode_protobuf(body, cls).object)


def url_of(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
async def test_every_kind_is_the_same_in_protobuf_and_in_json(kind: Kind) -> None:
    async with api_caller() as api:
        version, tree = EXAMPLES[kind.kind]
        newest = api.scheme.kind(version, kind.kind)
        assert newest is not None
        made = await api.post(url_of(newest), {"metadata": {"name": name_for(kind.kind)}, **tree})
        assert made.code == 201, made.message
        one = f"{url_of(kind)}/{made.body['metadata']['name']}"
        body = (await api.get(one, accept=PROTOBUF)).text
        assert envelope(body)[:2] == (kind.api_version, kind.kind)
        assert read(body, kind.type) == (await api.get(one)).body


async def test_lists_and_their_metadata(api: ApiCaller) -> None:
    for number in range(3):
        await api.post(MAPS, config_map(f"m{number}", key=str(number)))
    answer = await api.get(f"{MAPS}?limit=2", accept=f"{PROTOBUF},application/json")
    as_json = (await api.get(f"{MAPS}?limit=2")).body
    as_json["items"] = [{"metadata": item.pop("metadata"), **item} for item in as_json["items"]]
    assert envelope(answer.text)[:2] == ("v1", "ConfigMapList")
    assert read(answer.text, list_of(ConfigMap)) == as_json


async def test_metadata_alone(api: ApiCaller) -> None:
    await api.post(MAPS, config_map("m"))
    accept = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = read((await api.get(MAPS, accept=accept)).text, PartialObjectMetadataList)
    assert [item["metadata"]["name"] for item in found["items"]] == ["m"]
    accept = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    one = read((await api.get(f"{MAPS}/m", accept=accept)).text, PartialObjectMetadata)
    assert (one["kind"], one["metadata"]["name"]) == ("PartialObjectMetadata", "m")


async def test_a_table_stays_json(api: ApiCaller) -> None:
    accept = f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    assert (await api.get(MAPS, accept=accept)).body["kind"] == "Table"


async def test_a_watch_is_made_of_frames_with_their_length(api: ApiCaller) -> None:
    version = (await api.get(MAPS)).body["metadata"]["resourceVersion"]
    await api.post(MAPS, config_map("m", key="1"))
    await api.patch(f"{MAPS}/m", {"data": {"key": "2"}})
    await api.delete(f"{MAPS}/m")
    data = await watched(api, f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1", 3)
    events = []
    while data:
        size = int.from_bytes(data[:4], "big")
        event = dict(_fields(data[4 : 4 + size]))
        inner = dict(_fields(event[2]))  # type: ignore[arg-type] # the object is a message
        events.append((event[1], read(inner[1], ConfigMap)["data"]))  # type: ignore[arg-type] # raw bytes
        data = data[4 + size :]
    assert events == [(b"ADDED", {"key": "1"}), (b"MODIFIED", {"key": "2"}), (b"DELETED", {"key": "2"})]


async def watched(api: ApiCaller, url: str, events: int) -> bytes:
    from urllib.parse import parse_qs, urlsplit

    from mooring.apiserver.messages.http import Request
    from mooring.apiserver.messages.routes import resolve

    parts = urlsplit(url)
    request = Request(method="GET", path=parts.path, query=parse_qs(parts.query), headers={"accept": PROTOBUF})
    route = resolve(api.scheme, parts.path)
    assert route is not None
    response = await api.resources.handle(request, route)
    assert response.content_type == f"{PROTOBUF};stream=watch"
    assert not isinstance(response.body, bytes)
    data = b""
    async for chunk in response.body:
        data += chunk
        if data.count(b"k8s\0") >= events:
            break
    return data


async def test_what_is_written_is_answered_in_protobuf_too(api: ApiCaller) -> None:
    made = await api.post(PODS, pod(), accept=PROTOBUF)
    assert read(made.text, Pod)["spec"]["containers"][0]["name"] == "c"
    gone = await api.call("DELETE", f"{PODS}/web", accept=PROTOBUF)
    assert read(gone.text, Pod)["metadata"]["name"] == "web"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PROTOBUF, "protobuf"),
        (f"{PROTOBUF}, application/json", "protobuf"),
        (f"application/json, {PROTOBUF}", "json"),
        (f"{PROTOBUF};q=0.5, application/json", "json"),
        ("*/*", "json"),
    ],
)
async def test_the_client_chooses(api: ApiCaller, accept: str, form: str) -> None:
    body = (await api.get(MAPS, accept=accept)).text
    assert body.startswith(b"k8s\0" if form == "protobuf" else b"{")
