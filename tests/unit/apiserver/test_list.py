"""Getting and listing objects."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from api_caller import CONFIG_MAPS, PODS, ApiCaller, api_caller, config_map, pod
from mooring.apiserver.registry.verbs.views import make_body
from mooring.store.kv import Put

pytestmark = pytest.mark.req("S.1")

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture
async def some() -> AsyncIterator[ApiCaller]:
    """Yield a server with five ConfigMaps in two namespaces and three pods."""
    async with api_caller() as api:
        for number, tier in enumerate(["web", "web", "db", "db"]):
            await api.post(CONFIG_MAPS, config_map(f"c{number}", labels={"tier": tier}))
        await api.post("/api/v1/namespaces/kube-system/configmaps", config_map("c4", labels={"tier": "web"}))
        for name, node in (("p0", ""), ("p1", "n1"), ("p2", "n2")):
            await api.post(PODS, pod(name, **({"nodeName": node} if node else {})))
        yield api


@dataclass(frozen=True)
class Listed:
    id: str
    url: str
    names: list[str]


LISTED = [
    Listed("all of a namespace", CONFIG_MAPS, ["c0", "c1", "c2", "c3"]),
    Listed("all namespaces", "/api/v1/configmaps", ["c0", "c1", "c2", "c3", "c4"]),
    Listed("by a label", f"{CONFIG_MAPS}?labelSelector=tier%3Dweb", ["c0", "c1"]),
    Listed("by a label in all namespaces", "/api/v1/configmaps?labelSelector=tier%3Dweb", ["c0", "c1", "c4"]),
    Listed("by several labels", f"{CONFIG_MAPS}?labelSelector=tier+in+(db),!x", ["c2", "c3"]),
    Listed("by name", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc2", ["c2"]),
    Listed("by a name that is not there", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc9", []),
    Listed(
        "by name and label that do not go together",
        f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc2&labelSelector=tier%3Dweb",
        [],
    ),
    Listed("by namespace", "/api/v1/configmaps?fieldSelector=metadata.namespace%3Dkube-system", ["c4"]),
    Listed("all but one", f"{CONFIG_MAPS}?fieldSelector=metadata.name!%3Dc2", ["c0", "c1", "c3"]),
    Listed("pods of a node", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", ["p1"]),
    Listed("pods of no node", "/api/v1/pods?fieldSelector=spec.nodeName%3D", ["p0"]),
    Listed("pods by phase", "/api/v1/pods?fieldSelector=status.phase%3DPending,spec.nodeName!%3D", ["p1", "p2"]),
    Listed("pods on the host's network", "/api/v1/pods?fieldSelector=spec.hostNetwork%3Dfalse", ["p0", "p1", "p2"]),
]


@pytest.mark.parametrize("case", LISTED, ids=lambda case: case.id)
async def test_listed(some: ApiCaller, case: Listed) -> None:
    assert (await some.get(case.url)).names == case.names


SOURCES = [
    pytest.param("/api/v1/events?fieldSelector=source%3Dkubelet", ["old"], id="by its source"),
    pytest.param("/api/v1/events?fieldSelector=source%3Dscheduler", ["new"], id="else by who reports it"),
    pytest.param(
        "/apis/events.k8s.io/v1/events?fieldSelector=reportingController%3Dscheduler", ["new"], id="by its new name"
    ),
]


@pytest.mark.parametrize(("url", "names"), SOURCES)
async def test_events_are_found_by_who_wrote_them(api: ApiCaller, url: str, names: list[str]) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    old = {"metadata": {"name": "old"}, "involvedObject": about, "source": {"component": "kubelet"}}
    new = {"metadata": {"name": "new"}, "regarding": about, "reason": "Scheduled", "type": "Normal", "action": "Bind"}
    new |= {"reportingController": "scheduler", "reportingInstance": "a", "eventTime": "2026-01-02T03:04:05.000006Z"}
    assert (await api.post("/api/v1/namespaces/default/events", old)).code == 201
    assert (await api.post("/apis/events.k8s.io/v1/namespaces/default/events", new)).code == 201
    assert (await api.get(url)).names == names


async def test_a_list_names_its_kind_once(some: ApiCaller) -> None:
    body = (await some.get(CONFIG_MAPS)).body
    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in body["items"][0]
    assert body["metadata"]["resourceVersion"] == str(await some.store.revision())


async def test_pages_together_are_the_list(some: ApiCaller) -> None:
    names, token, remaining = [], "", []
    while True:
        page = await some.get(f"{CONFIG_MAPS}?limit=3" + (f"&continue={token}" if token else ""))
        names += page.names
        metadata = page.body["metadata"]
        remaining.append(metadata.get("remainingItemCount"))
        token = metadata.get("continue", "")
        if not token:
            break
    assert names == ["c0", "c1", "c2", "c3"]
    assert remaining == [1, None]


async def test_pages_show_the_state_of_the_first(some: ApiCaller) -> None:
    first = await some.get(f"{CONFIG_MAPS}?limit=2")
    await some.delete(f"{CONFIG_MAPS}/c2")
    await some.post(CONFIG_MAPS, config_map("c22"))
    second = await some.get(f"{CONFIG_MAPS}?limit=5&continue={first.body['metadata']['continue']}")
    assert second.names == ["c2", "c3"]
    assert second.version == first.version


async def test_a_page_is_filled_with_what_is_selected(some: ApiCaller) -> None:
    page = await some.get(f"{CONFIG_MAPS}?limit=1&labelSelector=tier%3Ddb")
    assert page.names == ["c2"]
    assert "remainingItemCount" not in page.body["metadata"]
    rest = await some.get(f"{CONFIG_MAPS}?labelSelector=tier%3Ddb&continue={page.body['metadata']['continue']}")
    assert rest.names == ["c3"]


async def test_a_page_that_came_too_late_can_be_continued_at_the_present(some: ApiCaller) -> None:
    first = await some.get(f"{CONFIG_MAPS}?limit=2")
    await some.post(CONFIG_MAPS, config_map("c9"))
    await some.store.compact(await some.store.revision())
    late = await some.get(f"{CONFIG_MAPS}?limit=2&continue={first.body['metadata']['continue']}")
    assert (late.code, late.reason) == (410, "Expired")
    again = await some.get(f"{CONFIG_MAPS}?limit=5&continue={late.body['metadata']['continue']}")
    assert again.names == ["c2", "c3", "c9"]


async def test_a_list_at_a_version_shows_that_version(some: ApiCaller) -> None:
    before = (await some.get(CONFIG_MAPS)).version
    await some.delete(f"{CONFIG_MAPS}/c0")
    exact = await some.get(f"{CONFIG_MAPS}?resourceVersion={before}&resourceVersionMatch=Exact")
    assert exact.names == ["c0", "c1", "c2", "c3"]
    newer = await some.get(f"{CONFIG_MAPS}?resourceVersion={before}&resourceVersionMatch=NotOlderThan")
    assert newer.names == ["c1", "c2", "c3"]
    assert (await some.get(f"{CONFIG_MAPS}?resourceVersion=0")).names == ["c1", "c2", "c3"]


@dataclass(frozen=True)
class Refused:
    id: str
    url: str
    code: int
    message: str
    options: dict[str, Any] = field(default_factory=dict)


REFUSED = [
    Refused("an object that is not there", f"{PODS}/none", 404, 'pods "none" not found'),
    Refused(
        "a selector that is none",
        f"{PODS}?labelSelector=a%3D%3D%3Db",
        400,
        "unable to parse labelSelector: unable to parse requirement: found '=', expected: identifier",
    ),
    Refused(
        "a field that cannot be selected",
        f"{PODS}?fieldSelector=spec.colour%3Dred",
        400,
        "field label not supported: spec.colour",
    ),
    Refused(
        "a version that is none",
        f"{PODS}?resourceVersion=new",
        400,
        'invalid resource version: resourceVersion: Invalid value: "new": strconv.ParseUint: parsing "new": '
        "invalid syntax",
    ),
    Refused(
        "a version from the future",
        f"{PODS}?resourceVersion=1000",
        504,
        "Timeout: Too large resource version: 1000, current: {revision}",
    ),
    Refused(
        "exactly a version from the future",
        f"{PODS}?resourceVersion=1000&resourceVersionMatch=Exact",
        504,
        "Timeout: Too large resource version: 1000, current: {revision}",
    ),
    Refused(
        "an object of a version from the future",
        f"{PODS}/p0?resourceVersion=1000",
        504,
        "Timeout: Too large resource version: 1000, current: {revision}",
    ),
    Refused(
        "a match without a version",
        f"{PODS}?resourceVersionMatch=Exact",
        422,
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden '
        "unless resourceVersion is provided",
    ),
    Refused(
        "a continue token that nobody made",
        f"{PODS}?continue=bogus",
        400,
        "continue key is not valid: it was not made by this server",
    ),
    Refused("a limit that is no number", f"{PODS}?limit=many", 400, 'limit: "many" is not a number'),
    Refused(
        "what nobody writes",
        PODS,
        406,
        "only the following media types are accepted: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        {"accept": "application/xml"},
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_refused(some: ApiCaller, case: Refused) -> None:
    answer = await some.get(case.url, **case.options)
    message = case.message.replace("{revision}", str(await some.store.revision()))
    assert (answer.code, answer.message) == (case.code, message)


async def test_a_list_at_a_forgotten_version_is_gone(some: ApiCaller) -> None:
    await some.store.compact(await some.store.revision())
    answer = await some.get(f"{PODS}?resourceVersion=2&resourceVersionMatch=Exact")
    assert (answer.code, answer.reason) == (410, "Expired")


async def test_metadata_alone(some: ApiCaller) -> None:
    one = (await some.get(f"{CONFIG_MAPS}/c0", accept=METADATA)).body
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"] == (await some.get(f"{CONFIG_MAPS}/c0")).body["metadata"]
    assert set(one) == {"kind", "apiVersion", "metadata"}
    many = (await some.get(CONFIG_MAPS, accept=METADATA_LIST)).body
    assert many["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in many["items"]] == ["c0", "c1", "c2", "c3"]


async def test_a_table_has_columns_and_a_row_for_each_object(some: ApiCaller) -> None:
    table = (await some.get(PODS, accept=TABLE)).body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert set(table) == {"kind", "apiVersion", "metadata", "columnDefinitions", "rows"}, "kubectl lists any `items`"
    assert [column["name"] for column in table["columnDefinitions"]][:5] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert [row["cells"][0] for row in table["rows"]] == ["p0", "p1", "p2"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = (await some.get(f"{PODS}/p1?includeObject=Object", accept=TABLE)).body
    assert whole["rows"][0]["object"]["spec"]["nodeName"] == "n1"


@pytest.mark.req("S.4")
@pytest.mark.parametrize("include", ["", "?includeObject=Metadata", "?includeObject=Object", "?includeObject=None"])
async def test_rows_of_a_list_say_what_rows_of_single_objects_say_whether_they_are_known_or_not(
    some: ApiCaller, include: str
) -> None:
    single = [(await some.get(f"{PODS}/p{number}{include}", accept=TABLE)).body["rows"][0] for number in range(3)]
    for _ in range(2):
        assert (await some.get(f"{PODS}{include}", accept=TABLE)).body["rows"] == single
    if "None" not in include:
        metadata = [(await some.get(f"{PODS}/p{number}")).body["metadata"] for number in range(3)]
        assert [row["object"]["metadata"] for row in single] == metadata


async def test_yaml_is_written_as_well(some: ApiCaller) -> None:
    answer = await some.get(f"{CONFIG_MAPS}/c0", accept="application/yaml")
    assert b"kind: ConfigMap\n" in answer.text


async def test_people_get_indented_json(some: ApiCaller) -> None:
    answer = await some.get(f"{CONFIG_MAPS}/c0", agent="curl/8.0")
    assert answer.text.startswith(b'{\n  "kind": "ConfigMap",\n')
    plain = await some.get(f"{CONFIG_MAPS}/c0?pretty=false", agent="curl/8.0")
    assert json.loads(plain.text) == json.loads(answer.text)
    assert plain.text.count(b"\n") == 1, "at its end"


@pytest.mark.req("S.4")
@pytest.mark.parametrize("accept", ["", TABLE, METADATA_LIST], ids=["whole", "as a table", "metadata"])
async def test_a_long_list_comes_in_pieces_and_says_what_its_pages_say(some: ApiCaller, accept: str) -> None:
    kv = await some.store.get("/registry/pods/default/p1")
    assert kv is not None
    await some.store.write_all([Put(f"{kv.key}-{number}", kv.value) for number in range(2000)])
    whole = (await some.get(PODS, accept=accept)).body
    field = "rows" if accept == TABLE else "items"
    page = (await some.get(f"{PODS}?limit=700", accept=accept)).body
    shown = page[field]
    while token := page["metadata"].get("continue"):
        page = (await some.get(f"{PODS}?limit=700&continue={token}", accept=accept)).body
        shown += page[field]
    assert len(shown) == 2003
    assert whole == {**page, field: shown}


@pytest.mark.req("S.4")
async def test_a_row_changes_when_its_object_does(some: ApiCaller) -> None:
    before = (await some.get(PODS, accept=TABLE)).body["rows"]
    await some.put(f"{PODS}/p1/status", {**pod("p1", nodeName="n1"), "status": {"phase": "Running"}})
    some.clock.advance(100)
    after = (await some.get(PODS, accept=TABLE)).body["rows"]
    assert [row["cells"][2:5] for row in before] == [["Pending", "0", "0s"]] * 3
    assert [row["cells"][2:5] for row in after] == [
        ["Pending", "0", "100s"],
        ["Running", "0", "100s"],
        ["Pending", "0", "100s"],
    ]


@pytest.mark.parametrize(
    ("sizes", "sent"),
    [
        ([100, 200], [301]),
        ([30_000] * 5, [60_000, 60_000, 30_001]),
        ([65_528, 1], [65_528, 2]),
        ([1, 200_000, 1], [1, 200_000, 2]),
    ],
    ids=["a short list is whole", "pieces fill records of TLS", "not a byte more", "a large object goes by itself"],
)
async def test_a_list_is_sent_in_pieces_of_four_records(sizes: list[int], sent: list[int]) -> None:
    body = make_body(iter([b"x" * size for size in sizes]))
    pieces = [body] if isinstance(body, bytes) else [piece async for piece in body]
    assert [len(piece) for piece in pieces] == sent
    assert b"".join(pieces) == b"x" * sum(sizes) + b"\n"
