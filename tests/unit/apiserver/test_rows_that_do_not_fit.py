"""A batch whose template and rows do not fit together has the outcomes of single requests: nothing is guessed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from group_writes import Json, got, make_namespaces, nameless, written
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("W.1")
SHARED, APART = "shared", "apart"
NAMES = ("web-0", "web-1", "web-2")
POD_NAME = "statefulset.kubernetes.io/pod-name"
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
_MERGE = "application/merge-patch+json"


def status(meta: Json, **fields: Any) -> Json:
    body = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}, "status": body}


_NOW = {"gracePeriodSeconds": 0}


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
