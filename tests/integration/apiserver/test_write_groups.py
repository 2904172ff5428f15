"""Batches of writes: each is admitted, written, counted and audited as if it had been sent alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.1")
ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
CONTROLLERS = users.authenticated_user(users.CONTROLLERS)
WRITER = users.authenticated_user("somebody")
POD = {"containers": [{"name": "c", "image": "app:1"}]}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    audited = ServerConfig(data_dir=tmp_path, port=0, ephemeral=True, audit_log=tmp_path / "audit.log")
    opened = await ApiServer.open(audited)
    try:
        await opened.listen()
        yield opened
    finally:
        await opened.close()


def create(name: str, **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec or POD}
    return {"method": "POST", "path": "/api/v1/namespaces/default/pods", "body": body}


def like(image: str = "app:1", app: str = "web") -> dict[str, Any]:
    """Return a pod whose name the server makes up."""
    spec = {"containers": [{"name": "c", "image": image}]}
    metadata = {"generateName": "web-", "labels": {"app": app}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return {"method": "POST", "path": "/api/v1/namespaces/default/pods", "body": body}


def _without_identity(pod: dict[str, Any]) -> dict[str, Any]:
    own = {"name", "uid", "resourceVersion", "creationTimestamp", "managedFields"}
    return {**pod, "metadata": {name: value for name, value in pod["metadata"].items() if name not in own}}


async def limit(server: ApiServer, pods: int) -> None:
    """Let there be no more than so many pods."""
    spec = {"hard": {"pods": str(pods)}}
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}, "spec": spec}
    made = {"method": "POST", "path": "/api/v1/namespaces/default/resourcequotas", "body": quota}
    assert await codes(server, made) == [201]
    async with asyncio.timeout(10):
        while "used" not in await get(server, "/api/v1/namespaces/default/resourcequotas/q"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def make_policy(server: ApiServer, expression: str) -> None:
    """Let pods be created that an expression is true of."""
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    for plural, kind, content in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", binding),
    ):
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "p"}}
        write = {"method": "POST", "path": f"{group}/{plural}", "body": {**body, "spec": content}}
        assert await codes(server, write) == [201]


def write_config_map(method: str, name: str, **fields: Any) -> dict[str, Any]:
    path = f"/api/v1/namespaces/default/configmaps/{name}"
    return {"method": method, "path": path, "body": {"metadata": {"name": name}, **fields}}


def write_status(name: str, then_delete: dict[str, Any]) -> dict[str, Any]:
    body = {"metadata": {"name": name}, "status": {"phase": "Succeeded"}}
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    return {"method": "PUT", "path": path, "body": body, "thenDelete": then_delete}


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
    status, answer = await sent(server, create("a"), user=WRITER)
    assert (status, answer["reason"]) == (403, "Forbidden")


async def test_a_quota_holds_within_a_group(server: ApiServer) -> None:
    await limit(server, pods=2)
    outcome = await codes(server, *(create(f"p{index}") for index in range(5)))
    assert sorted(outcome) == [201, 201, 403, 403, 403]


async def test_equal_pods_are_different_objects(server: ApiServer) -> None:
    _, answer = await sent(server, *[like()] * 7, create("a"), like(app="other"))
    assert [item["code"] for item in answer["items"]] == [201] * 9
    pods = [item["body"] for item in answer["items"]]
    for field in ("name", "uid", "resourceVersion"):
        assert len({pod["metadata"][field] for pod in pods}) == 9
    assert [pod["metadata"].get("labels") for pod in pods] == [{"app": "web"}] * 7 + [None, {"app": "other"}]
    assert all(pod["metadata"]["name"].startswith("web-") for pod in pods[:7])
    alone = (await sent(server, like()))[1]["items"][0]["body"]
    assert [_without_identity(pod) for pod in pods[:7]] == [_without_identity(alone)] * 7
    stored = json.loads(await get(server, f"/api/v1/namespaces/default/pods/{pods[3]['metadata']['name']}"))
    assert stored == pods[3]


async def test_equal_pods_are_refused_with_the_same_words(server: ApiServer) -> None:
    _, answer = await sent(server, *[like(image="")] * 3)
    assert [item["code"] for item in answer["items"]] == [422] * 3
    assert "spec.containers[0].image: Required value" in answer["items"][2]["body"]["message"]


async def test_a_quota_holds_for_equal_pods(server: ApiServer) -> None:
    await limit(server, pods=2)
    assert sorted(await codes(server, *[like()] * 5)) == [201, 201, 403, 403, 403]


async def test_a_policy_hears_of_each_of_equal_pods(server: ApiServer) -> None:
    """A generated name ends with a letter or a digit, so that one verdict cannot hold for all."""
    await make_policy(server, "object.metadata.name.matches('[bcdfghjklm]$')")
    outcome = await codes(server, *[like()] * 60)
    assert set(outcome) == {201, 422}


async def test_each_write_is_counted_and_audited(server: ApiServer, tmp_path: Path) -> None:
    await codes(server, create("a"), create("b"), create("a"), like(), like())
    page = await server.app.metrics.page()
    assert isinstance(page.body, bytes)
    shown = [line for line in page.body.decode().splitlines() if line.startswith("apiserver_request_total")]
    counted = {
        code: sum(float(line.split()[-1]) for line in shown if f'code="{code}"' in line and 'resource="pods"' in line)
        for code in (201, 409)
    }
    assert counted == {201: 4, 409: 1}
    await server.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    audited = [line["responseStatus"]["code"] for line in lines if line.get("objectRef", {}).get("resource") == "pods"]
    assert sorted(audited) == [201, 201, 201, 201, 409]
    assert len({line["auditID"] for line in lines}) == len(lines)


@pytest.mark.parametrize(
    ("writes", "reported"),
    [
        ([{"method": "GET", "path": "/api/v1/pods"}], "GET /api/v1/pods writes no object"),
        ([{"method": "POST", "path": "/writes", "body": {"items": []}}], "POST /writes writes no object"),
        ([{"method": "POST"}], "missing required field `path`"),
        ([{"method": "POST", "path": "/api/v1/pods", "headers": {}}], "unknown field `headers`"),
        ([create("a")] * 501, "at most 500"),
        (["x"], "Expected `object`"),
        ([{**create("a"), "accept": "application/vnd.kubernetes.protobuf"}], "items[0].accept: responses in a batch"),
        ([{**create("a"), "accept": "application/yaml, application/json"}], "items[0].accept: responses in a batch"),
        ([{**create("a"), "thenDelete": {}}], "items[0].thenDelete: only an update (PUT) of an object in a namespace"),
        ([{"method": "PUT", "path": "/api/v1/nodes/n/status", "thenDelete": {}}], "items[0].thenDelete: only an upd"),
    ],
    ids=[
        "a read",
        "a group within a group",
        "no path",
        "an unknown field",
        "too many",
        "no objects",
        "protobuf",
        "YAML",
        "a deletion behind a creation",
        "a deletion of an object without a namespace",
    ],
)
async def test_what_is_no_group_of_writes_is_refused_as_a_whole(
    server: ApiServer, writes: list[Any], reported: str
) -> None:
    status, answer = await sent(server, *writes)
    assert status in {400, 413}
    assert reported in answer["message"]


async def test_an_update_and_the_deletion_that_follows_are_both_counted_and_audited(
    server: ApiServer, tmp_path: Path
) -> None:
    assert await codes(server, create("a"), create("b")) == [201, 201]
    ends = [write_status(name, {"gracePeriodSeconds": 0}) for name in ("a", "b", "c")]
    assert await codes(server, *ends, write_status("d", {})) == [200, 200, 404, 404]
    page = await server.app.metrics.page()
    assert isinstance(page.body, bytes)
    shown = [line for line in page.body.decode().splitlines() if line.startswith("apiserver_request_total")]
    counted = {
        (verb, code): sum(
            float(line.split()[-1]) for line in shown if f'code="{code}"' in line and f'verb="{verb}"' in line
        )
        for verb, code in (("PUT", 200), ("PUT", 404), ("DELETE", 200), ("DELETE", 404))
    }
    assert counted == {("PUT", 200): 2, ("PUT", 404): 2, ("DELETE", 200): 2, ("DELETE", 404): 0}
    await server.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    audited = [(line["verb"], line["objectRef"]["name"]) for line in lines if line["verb"] in {"update", "delete"}]
    assert sorted(audited) == [("delete", "a"), ("delete", "b"), *(("update", name) for name in "abcd")]


async def test_what_reaches_into_a_node_is_refused_in_a_group(server: ApiServer) -> None:
    exec_ = {"method": "POST", "path": "/api/v1/namespaces/default/pods/a/exec", "query": "command=ls"}
    assert await codes(server, create("a"), exec_) == [201, 400]


async def test_no_user_sends_groups_on_behalf_of_others(server: ApiServer) -> None:
    status, answer = await sent(server, create("a"), behalf="kubernetes-admin")
    assert status == 400
    assert "impersonation" in answer["message"]
