"""Groups of writes: each of them is judged, written, counted and audited as if it had been sent alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.security import users
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.1")
ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
CONTROLLERS = users.authenticated(users.CONTROLLERS)
SOMEBODY = users.authenticated("somebody")
POD = {"containers": [{"name": "c", "image": "app:1"}]}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    audited = ServerConfig(data_dir=tmp_path, ephemeral=True, audit_log=tmp_path / "audit.log")
    opened = await ApiServer.open(audited)
    try:
        await opened.listen()
        yield opened
    finally:
        await opened.close()


def create(name: str, **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec or POD}
    return {"method": "POST", "path": "/api/v1/namespaces/default/pods", "body": body}


def write_config_map(method: str, name: str, **fields: Any) -> dict[str, Any]:
    path = f"/api/v1/namespaces/default/configmaps/{name}"
    return {"method": method, "path": path, "body": {"metadata": {"name": name}, **fields}}


async def sent(server: ApiServer, *writes: Any, user: UserInfo = ADMIN, behalf: str = "") -> tuple[int, Any]:
    headers = {"impersonate-user": behalf} if behalf else {}
    request = Request(
        method="POST", path="/writes", headers=headers, body=json.dumps({"items": writes}).encode(), user=user
    )
    response = await server.app.respond(request)
    assert isinstance(response.body, bytes)
    return response.status, json.loads(response.body)


async def get(server: ApiServer, path: str) -> str:
    response = await server.app.respond(Request(method="GET", path=path, user=ADMIN))
    assert isinstance(response.body, bytes)
    return response.body.decode()


async def codes(server: ApiServer, *writes: Any, user: UserInfo = ADMIN) -> list[int]:
    status, answer = await sent(server, *writes, user=user)
    assert status == 200, answer
    return [item["code"] for item in answer["items"]]


async def test_each_write_has_its_own_outcome(server: ApiServer) -> None:
    gone = write_config_map("DELETE", "missing")
    assert await codes(server, create("a"), create("a"), create("b", containers=[]), gone, create("c")) == [
        201, 409, 422, 404, 201,
    ]  # fmt: skip
    _, answer = await sent(server, create("d"))
    assert answer["items"][0]["body"]["metadata"]["name"] == "d"
    assert answer["items"][0]["body"]["spec"]["dnsPolicy"] == "ClusterFirst"


async def test_each_write_is_authorised_by_itself(server: ApiServer) -> None:
    webhook = {
        "method": "POST",
        "path": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "body": {"metadata": {"name": "x"}, "webhooks": []},
    }
    assert await codes(server, create("a"), webhook, user=CONTROLLERS) == [201, 403]


async def test_who_has_no_right_to_groups_gets_none(server: ApiServer) -> None:
    status, answer = await sent(server, create("a"), user=SOMEBODY)
    assert (status, answer["reason"]) == (403, "Forbidden")


async def test_a_quota_holds_within_a_group(server: ApiServer) -> None:
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    made = {"method": "POST", "path": "/api/v1/namespaces/default/resourcequotas", "body": quota}
    assert await codes(server, made) == [201]
    async with asyncio.timeout(10):
        while "used" not in await get(server, "/api/v1/namespaces/default/resourcequotas/q"):  # noqa: ASYNC110 - as users do
            await asyncio.sleep(0.01)
    outcome = await codes(server, *(create(f"p{index}") for index in range(5)))
    assert sorted(outcome) == [201, 201, 403, 403, 403]


async def test_each_write_is_counted_and_audited(server: ApiServer, tmp_path: Path) -> None:
    await codes(server, create("a"), create("b"), create("a"))
    page = await server.app.metrics.page()
    assert isinstance(page.body, bytes)
    shown = [line for line in page.body.decode().splitlines() if line.startswith("apiserver_request_total")]
    counted = {
        code: sum(float(line.split()[-1]) for line in shown if f'code="{code}"' in line and 'resource="pods"' in line)
        for code in (201, 409)
    }
    assert counted == {201: 2, 409: 1}
    await server.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    audited = [line["responseStatus"]["code"] for line in lines if line.get("objectRef", {}).get("resource") == "pods"]
    assert sorted(audited) == [201, 201, 409]


@pytest.mark.parametrize(
    ("writes", "told"),
    [
        ([{"method": "GET", "path": "/api/v1/pods"}], "GET /api/v1/pods writes no object"),
        ([{"method": "POST", "path": "/writes", "body": {"items": []}}], "POST /writes writes no object"),
        ([{"method": "POST"}], "missing required field `path`"),
        ([{"method": "POST", "path": "/api/v1/pods", "headers": {}}], "unknown field `headers`"),
        ([create("a")] * 501, "at most 500"),
        (["x"], "Expected `object`"),
    ],
    ids=["a read", "a group within a group", "no path", "an unknown field", "too many", "no objects"],
)
async def test_what_is_no_group_of_writes_is_refused_as_a_whole(
    server: ApiServer, writes: list[Any], told: str
) -> None:
    status, answer = await sent(server, *writes)
    assert status in {400, 413}
    assert told in answer["message"]


async def test_what_reaches_into_a_node_is_refused_in_a_group(server: ApiServer) -> None:
    exec_ = {"method": "POST", "path": "/api/v1/namespaces/default/pods/a/exec", "query": "command=ls"}
    assert await codes(server, create("a"), exec_) == [201, 400]


async def test_nobody_sends_groups_on_behalf_of_others(server: ApiServer) -> None:
    status, answer = await sent(server, create("a"), behalf="kubernetes-admin")
    assert status == 400
    assert "on behalf of somebody else" in answer["message"]
