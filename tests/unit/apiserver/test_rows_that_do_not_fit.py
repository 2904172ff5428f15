"""A batch whose template and rows do not fit together has the outcomes of single requests: nothing is guessed."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from group_writes import ADMIN, Json, got, make_namespaces, nameless, written
from mooring.admission import rows
from mooring.api import codec
from mooring.api.batch_writes import Row
from mooring.api.core_v1 import Pod
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("W.1")
SHARED, APART = "shared", "apart"
NAMES = ("web-0", "web-1", "web-2")
POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
ROWS: list[Json] = [{"name": name} for name in NAMES]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    opened = await ApiServer.open(ServerConfig(data_dir=tmp_path, port=0, ephemeral=True), clock=MockClock())
    try:
        await make_namespaces(opened, SHARED, APART)
        yield opened
    finally:
        await opened.close()


def pods(namespace: str, name: str = "", subresource: str = "") -> str:
    return "/".join(filter(None, ("/api/v1/namespaces", namespace, "pods", name, subresource)))


def pod(meta: Json, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "app:1"}]
    made = {"containers": containers, "automountServiceAccountToken": False, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made}


def whole(template: Json, row: Json) -> Json:
    """Return the document that a template and a row stand for."""
    obj = codec.decode(json.dumps(template).encode(), Pod).object
    rows.insert_row(obj, msgspec.convert(row, Row))
    found: Json = json.loads(codec.encode(obj))
    return found


async def seen(server: ApiServer, namespace: str, answers: list[Json]) -> tuple[Any, Any]:
    """Return answers and pods without what no two objects have in common."""
    names = (SHARED, APART)
    kept = (await got(server, pods(namespace)))["items"]
    return nameless([{**each, "body": each["body"] or {}} for each in answers], names), nameless(kept, names)


async def add_pods(server: ApiServer) -> None:
    for namespace in (SHARED, APART):
        for name in NAMES:
            body = pod({"name": name, "labels": {"app": "web", POD_NAME: name}}, hostname=name, nodeName=f"on-{name}")
            [answer] = await written(server, {"method": "POST", "path": pods(namespace), "body": body})
            assert answer["code"] == 201


ROW = "<row>"
_SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
_ON = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
_AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _ON}}


@pytest.mark.parametrize("query", ["", "dryRun=All"])
@pytest.mark.parametrize(
    ("template", "given"),
    [
        pytest.param(pod({"name": "a"}), [{"name": "a"}, {"name": "b"}], id="a name of its own"),
        pytest.param(pod({"name": "a"}), [{}, {}], id="a name of its own, and none in rows"),
        pytest.param(pod({"name": ROW}), [{"name": "a"}, {}], id="a row without a name"),
        pytest.param(pod({"generateName": "agent-"}), [{"name": "a"}, {"name": "b"}], id="names beside generateName"),
        pytest.param(
            pod({"name": ROW, "resourceVersion": ROW}),
            [{"name": "a", "resourceVersion": "0"}, {"name": "b", "resourceVersion": "5"}],
            id="a revision",
        ),
        pytest.param(pod({"name": ROW, "labels": {POD_NAME: "x"}}), ROWS, id="a label of its own"),
        pytest.param(
            pod({"name": ROW, "labels": {POD_INDEX: ROW}}),
            [{"name": "a", "podIndexLabel": "1"}, {"name": "b"}],
            id="no label",
        ),
        pytest.param(pod({"name": ROW}, hostname="h"), ROWS, id="a hostname of its own"),
        pytest.param(
            pod({"name": ROW}, hostname="a"),
            [{"name": "a", "hostname": "a"}, {"name": "b", "hostname": "b"}],
            id="both",
        ),
        pytest.param(
            pod({"name": ROW}, hostname=ROW), [{"name": "a", "hostname": "a"}, {"name": "b"}], id="no hostname"
        ),
        pytest.param(pod({"name": ROW}, affinity=_AFFINITY), ROWS, id="a node of its own"),
        pytest.param(pod({"name": ROW}, topologySpreadConstraints=_SPREAD), [*ROWS, ROWS[0]], id="a name twice"),
    ],
)
async def test_new_pods(server: ApiServer, template: Json, given: list[Json], query: str) -> None:
    write = {"method": "POST", "query": query}
    shared = await written(server, {**write, "path": pods(SHARED), "body": template, "rows": given})
    apart = [(await written(server, {**write, "path": pods(APART), "body": whole(template, row)}))[0] for row in given]
    assert await seen(server, SHARED, shared) == await seen(server, APART, apart)


_JSON, _MERGE, _STRATEGIC = (
    f"application/{way}+json" for way in ("json-patch", "merge-patch", "strategic-merge-patch")
)
_ADDED = {"op": "add", "path": "/metadata/labels/x", "value": "y"}
_MESSAGE = {"op": "add", "path": "/status/message", "value": "y"}


@pytest.mark.parametrize(
    ("way", "patch", "subresource"),
    [
        pytest.param(_JSON, [{"op": "test", "path": "/metadata/name", "value": "web-0"}, _ADDED], "", id="a test"),
        pytest.param(_JSON, [{**_ADDED, "op": "copy", "from": "/metadata/name"}], "", id="a copied name"),
        pytest.param(_JSON, [{**_MESSAGE, "op": "copy", "from": "/spec/hostname"}], "status", id="a copied hostname"),
        pytest.param(
            _JSON, [{"op": "test", "path": "/spec/nodeName", "value": "on-web-0"}, _MESSAGE], "status", id="a node"
        ),
        pytest.param(_MERGE, {"metadata": {"name": "web-0", "labels": {"x": "y"}}}, "", id="a name"),
        pytest.param(_MERGE, {"metadata": {"uid": "0", "labels": {"x": "y"}}}, "", id="a uid"),
        pytest.param(_MERGE, {"metadata": {"labels": {POD_NAME: "web-0"}}}, "", id="a label"),
        pytest.param(_MERGE, {"metadata": {"labels": {"app": "x"}}}, "", id="another label"),
        pytest.param(_MERGE, {"metadata": {"labels": None}}, "", id="no labels"),
        pytest.param(_STRATEGIC, {"metadata": {"name": "web-0"}, "status": {"message": "y"}}, "status", id="a status"),
        pytest.param(_STRATEGIC, {"metadata": {"$patch": "replace", "name": "web-0"}}, "", id="a directive"),
        pytest.param(_STRATEGIC, {"spec": {"containers": [{"name": "c", "image": "b:2"}]}}, "", id="an image"),
        pytest.param(_MERGE, None, "", id="null"),
        pytest.param(_MERGE, [], "", id="a list"),
    ],
)
async def test_patches(server: ApiServer, way: str, patch: Any, subresource: str) -> None:
    await add_pods(server)
    write = {"method": "PATCH", "body": patch, "contentType": way}
    together = {**write, "path": pods(SHARED), "subresource": subresource, "rows": ROWS}
    shared = await written(server, together)
    apart = [(await written(server, {**write, "path": pods(APART, name, subresource)}))[0] for name in NAMES]
    assert await seen(server, SHARED, shared) == await seen(server, APART, apart)


def status(meta: Json, **fields: Any) -> Json:
    body = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}, "status": body}


_STARTED = {"name": "c", "image": "app:1", "imageID": "x", "ready": True, "restartCount": 0, "containerID": ROW}
_NOW = {"gracePeriodSeconds": 0}


@pytest.mark.parametrize(
    "then", [{}, {"thenDelete": {}}, {"thenDelete": _NOW}, {"query": "dryRun=All", "thenDelete": _NOW}]
)
@pytest.mark.parametrize(
    ("template", "given"),
    [
        pytest.param(status({"name": "web-0"}), ROWS, id="a name of its own"),
        pytest.param(status({"name": ROW, "uid": "x"}), ROWS, id="a uid of its own"),
        pytest.param(status({"name": ROW}, podIP="10.0.0.1"), ROWS, id="an address of its own"),
        pytest.param(
            status({"name": ROW}, podIP=ROW),
            [{**ROWS[0], "podIP": "10.0.0.1"}, ROWS[1], {**ROWS[2], "podIP": "x"}],
            id="a row without an address, and a wrong one",
        ),
        pytest.param(
            status({"name": ROW}, containerStatuses=[_STARTED]),
            [{**ROWS[0], "containerIDs": ["a"]}, ROWS[1], {**ROWS[2], "containerIDs": ["b", "c"]}],
            id="fewer and more containers",
        ),
        pytest.param(status({"name": ROW}), [ROWS[0], {"name": "nobody"}, ROWS[0]], id="a missing pod, and one twice"),
        pytest.param(
            status({"name": ROW}, podIP=ROW, hostIP=ROW),
            [
                {"name": "web-0", "podIP": "10.0.0.1", "hostIP": "10.0.0.1"},
                {"name": "web-1", "podIP": "10.0.0.2", "hostIP": "10.0.0.9"},
                {"name": "web-2", "podIP": "10.0.0.9", "hostIP": "10.0.0.2"},
            ],
            id="a pod in the network of its host, and others",
        ),
    ],
)
async def test_statuses(server: ApiServer, template: Json, given: list[Json], then: Json) -> None:
    await add_pods(server)
    write = {"method": "PUT", "omitBody": True, **then}
    shared = await written(
        server, {**write, "path": pods(SHARED), "subresource": "status", "body": template, "rows": given}
    )
    apart: list[Json] = []
    for row in given:
        apart += await written(
            server, {**write, "path": pods(APART, row["name"], "status"), "body": whole(template, row)}
        )
    assert await seen(server, SHARED, shared) == await seen(server, APART, apart)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"dryRun": ["All"]}, id="a dry run"),
        pytest.param({"dryRun": ["All"], **_NOW}, id="a dry run at once"),
        pytest.param({"preconditions": {"uid": "x"}}, id="another uid"),
        pytest.param({"preconditions": {"resourceVersion": "1"}}, id="another revision"),
        pytest.param({"gracePeriodSeconds": -1}, id="a negative grace period"),
        pytest.param(None, id="none"),
    ],
)
async def test_deletions(server: ApiServer, options: Json | None) -> None:
    await add_pods(server)
    write = {"method": "DELETE", "body": options, "omitBody": True}
    shared = await written(server, {**write, "path": pods(SHARED), "rows": ROWS})
    apart = [(await written(server, {**write, "path": pods(APART, name)}))[0] for name in NAMES]
    assert await seen(server, SHARED, shared) == await seen(server, APART, apart)


async def test_a_uid_of_a_precondition_holds_for_its_pod_alone(server: ApiServer) -> None:
    await add_pods(server)
    uid = (await got(server, pods(SHARED, "web-0")))["metadata"]["uid"]
    options = {"preconditions": {"uid": uid}, **_NOW}
    answers = await written(
        server, {"method": "DELETE", "path": pods(SHARED), "body": options, "omitBody": True, "rows": ROWS}
    )
    assert [each["code"] for each in answers] == [200, 409, 409]


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "PUT"])
async def test_a_row_with_a_revision_is_written_only_at_that_revision(server: ApiServer, method: str) -> None:
    await add_pods(server)
    bodies: dict[str, Json] = {
        "DELETE": _NOW,
        "PATCH": {"metadata": {"labels": {"x": "y"}}},
        "PUT": status({"name": ROW}),
    }
    write = {"method": method, "path": pods(SHARED), "body": bodies[method], "omitBody": True}
    write |= {"PATCH": {"contentType": _MERGE}, "PUT": {"subresource": "status"}}.get(method, {})
    met = [(await got(server, pods(SHARED, name)))["metadata"] for name in NAMES]
    given = [{"name": each["name"], "resourceVersion": each["resourceVersion"]} for each in met]
    answers = await written(server, {**write, "rows": [given[0], {**given[1], "resourceVersion": "1"}, given[2]]})
    assert [each["code"] for each in answers] == [200, 409, 200]


async def test_both_preconditions_of_a_deletion_hold(server: ApiServer) -> None:
    await add_pods(server)
    uid = (await got(server, pods(SHARED, "web-0")))["metadata"]["uid"]
    options = {"preconditions": {"resourceVersion": "1"}, **_NOW}
    [answer] = await written(
        server, {"method": "DELETE", "path": pods(SHARED), "body": options, "rows": [{"name": "web-0", "uid": uid}]}
    )
    assert answer["code"] == 409


async def test_a_parameter_for_all_writes_of_a_batch_is_refused(server: ApiServer) -> None:
    """`dryRun` would otherwise be ignored, and the writes done."""
    write = {"method": "POST", "path": pods(SHARED), "body": pod({"name": ROW}), "rows": ROWS}
    body = json.dumps({"items": [write]}).encode()
    query = {"dryRun": ["All"]}
    response = await server.app.respond(Request(method="POST", path="/writes", query=query, body=body, user=ADMIN))
    assert response.status == 400
    assert (await got(server, pods(SHARED)))["items"] == []


async def test_a_large_template_with_many_rows_is_refused(server: ApiServer) -> None:
    """A request of 250 KB would otherwise take 125 MB in the store, and as much in the response."""
    template = pod({"name": ROW, "annotations": {"a": "x" * 250_000}})
    write = {"method": "POST", "path": pods(SHARED), "body": template, "rows": [{"name": f"p{n}"} for n in range(300)]}
    body = json.dumps({"items": [write]}).encode()
    response = await server.app.respond(Request(method="POST", path="/writes", body=body, user=ADMIN))
    assert response.status == 413


@pytest.mark.parametrize(
    "fields",
    [
        ["IPs"],
        {"f:status": ["IPs"]},
        {"f:status": {"f:podIPs": ["IPs"]}},
        {"f:status": {"f:podIPs": None}},
        "IPs",
        None,
    ],
    ids=str,
)
@pytest.mark.parametrize("address", [ROW, "10.0.0.9"])
async def test_managed_fields_of_a_template_need_not_be_field_sets(
    server: ApiServer, fields: Any, address: str
) -> None:
    await add_pods(server)
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    addresses = {"podIP": address} if address == ROW else {"podIP": address, "podIPs": [{"ip": address}]}
    template = status({"name": ROW, "managedFields": [entry]}, **addresses)
    given = [{**row, "podIP": f"10.0.0.{number}"} if address == ROW else row for number, row in enumerate(ROWS)]
    write = {"method": "PUT", "path": pods(SHARED), "subresource": "status", "body": template, "rows": given}
    answers = await written(server, write)
    assert {each["code"] for each in answers} <= {200, 400, 422}, answers
