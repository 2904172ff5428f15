"""Writes in groups: what goes together, what goes alone, and what everybody hears when something goes wrong."""

import asyncio
import json
from typing import Any

import pytest

from client_fakes import Answer, FakeTransport, json_response
from mooring.api import errors
from mooring.api.batch_writes import ROW
from mooring.api.core_v1 import ConfigMap, Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Client, DisconnectedError, TransportError
from mooring.client.batching import BatchingTransport
from mooring.client.transport import Request

pytestmark = pytest.mark.req("S.1")


def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="prod"))


class Server:
    """Answers groups; a write about `b` is a conflict. `turned_away` is what a group gets instead."""

    def __init__(self, turned_away: Answer | None = None) -> None:
        self._turned_away = turned_away
        self.transport = FakeTransport(self._answer)
        self.grouped = BatchingTransport(self.transport)
        self.client = Client(self.grouped, user_agent="t")
        self.groups: list[list[dict[str, Any]]] = []

    def _answer(self, request: Request) -> Answer:
        if request.path != "/writes":
            return json_response(json.loads(request.body), 201)
        if self._turned_away is not None:
            return self._turned_away
        writes = json.loads(request.body)["items"]
        self.groups.append(writes)
        rows = [row for write in writes for row in write.get("rows", [write])]
        return json_response({"items": [self._outcome(row) for row in rows]})

    def _outcome(self, write: dict[str, Any]) -> dict[str, Any]:
        if "body" not in write:
            write = {"body": {"metadata": write}}
        if write["body"]["metadata"]["name"] == "b":
            return {"code": 409, "body": {"kind": "Status", "reason": "Conflict", "code": 409, "message": "too late"}}
        return {"code": 201, "body": write["body"]}

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.transport.requests]

    async def create(self, *names: str) -> list[Any]:
        return await asyncio.gather(*(self.client.create(config_map(name)) for name in names), return_exceptions=True)


async def test_writes_of_one_turn_go_together_and_each_has_its_outcome() -> None:
    server = Server()
    outcomes = await server.create("a", "b", "c")
    assert [type(outcome) for outcome in outcomes] == [ConfigMap, errors.Conflict, ConfigMap]
    assert [each.metadata.name for each in (outcomes[0], outcomes[2])] == ["a", "c"]
    assert server.paths == ["/writes"]


async def test_a_write_that_comes_alone_is_sent_alone() -> None:
    server = Server()
    await server.create("a")
    assert server.paths == ["/api/v1/namespaces/prod/configmaps"]


@pytest.mark.parametrize("content_type", ["application/vnd.kubernetes.protobuf", "application/apply-patch+yaml"])
async def test_what_is_no_json_is_not_put_into_a_group(content_type: str) -> None:
    server = Server()
    path = "/api/v1/namespaces/prod/configmaps"
    sent = (server.client.raw("POST", path, body=b"{}", content_type=content_type) for _ in range(3))
    await asyncio.gather(*sent)
    assert server.paths == [path] * 3


async def test_a_large_group_is_cut_and_nothing_is_sent_twice() -> None:
    server = Server()
    outcomes = await server.create(*(f"c{index}" for index in range(250)))
    assert [outcome.metadata.name for outcome in outcomes] == [f"c{index}" for index in range(250)]
    assert [len(group) for group in server.groups] == [100, 100, 50]


async def test_sorts_of_writes_do_not_go_together() -> None:
    server = Server()
    pod = Pod(metadata=ObjectMeta(name="p", namespace="prod"))
    await asyncio.gather(server.create("a", "c"), server.client.create(pod), server.client.update_status(pod))
    assert sorted(server.paths) == ["/api/v1/namespaces/prod/pods", "/api/v1/namespaces/prod/pods/p/status", "/writes"]


def ended(name: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="prod", uid=f"uid of {name}"))


async def test_a_last_status_and_the_deletion_behind_it_are_one_write_of_a_group() -> None:
    server = Server()
    ends = (server.client.end_unread(ended(name)) for name in ("a", "b", "c"))
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), errors.Conflict, type(None)]
    assert server.paths == ["/writes"]
    [only] = server.groups[0]
    assert (only["method"], only["path"], only["subresource"]) == ("PUT", "/api/v1/namespaces/prod/pods", "status")
    assert only["thenDelete"] == {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    assert only["rows"] == [{"name": name, "uid": f"uid of {name}"} for name in "abc"]
    assert only["body"]["metadata"] == {"name": ROW, "namespace": "prod", "uid": ROW}


async def test_pods_of_two_templates_are_rows_of_two_items_and_each_has_its_outcome() -> None:
    server = Server()
    pods = [
        Pod(metadata=ObjectMeta(name=name, namespace="prod", labels={"app": name[0]})) for name in ("a1", "c1", "a2")
    ]
    made = await asyncio.gather(*map(server.client.create_briefly, pods))
    assert [each.metadata.name for each in made] == ["a1", "c1", "a2"]
    assert [[row["name"] for row in item.get("rows", ())] for item in server.groups[0]] == [["a1", "a2"], []]
    assert server.groups[0][1]["body"]["metadata"]["name"] == "c1", "the only pod of a template is sent whole"


@pytest.mark.parametrize("names", [("a",), ("a", "c")], ids=["alone", "for a server without groups"])
async def test_a_last_status_and_the_deletion_behind_it_are_two_requests(names: tuple[str, ...]) -> None:
    server = Server(turned_away=errors.path_not_found())
    await asyncio.gather(*(server.client.end_unread(ended(name)) for name in names))
    sent = [(request.method, request.path) for request in server.transport.requests if request.path != "/writes"]
    pods = "/api/v1/namespaces/prod/pods"
    assert sorted(sent) == sorted(
        each for name in names for each in (("PUT", f"{pods}/{name}/status"), ("DELETE", f"{pods}/{name}"))
    )
    assert [method for method, _ in sent] == ["PUT"] * len(names) + ["DELETE"] * len(names)


async def test_one_patch_for_several_pods_is_sent_with_the_name_of_each() -> None:
    server, body = Server(), {"metadata": {"labels": {"app": "web"}}}
    await asyncio.gather(*(server.client.patch_unread(Pod, name, body, "prod") for name in ("a", "c", "d")))
    assert [[row["name"] for row in write["rows"]] for write in server.groups[0]] == [["a", "c", "d"]]


async def test_a_write_that_no_caller_waits_for_any_more_is_not_sent() -> None:
    server = Server()
    tasks = [asyncio.create_task(server.client.create(config_map(name))) for name in ("a", "c", "d")]
    asyncio.get_running_loop().call_soon(tasks[1].cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [[write["body"]["metadata"]["name"] for write in group] for group in server.groups] == [["a", "d"]]


@pytest.mark.parametrize(
    "refusal", [errors.path_not_found(), errors.forbidden("", "", "no"), errors.method_not_allowed("post", "/writes")]
)
async def test_a_server_without_groups_gets_the_writes_one_by_one_from_then_on(refusal: errors.StatusError) -> None:
    server = Server(turned_away=refusal)
    for _ in range(2):
        assert [outcome.metadata.name for outcome in await server.create("a", "c")] == ["a", "c"]
    assert (server.paths.count("/writes"), server.grouped.takes_templates) == (1, False)


async def test_a_group_that_is_too_large_goes_one_by_one_and_the_next_is_a_group_again() -> None:
    server = Server(turned_away=errors.request_entity_too_large("too much"))
    assert [type(outcome) for outcome in await server.create("a", "c")] == [ConfigMap, ConfigMap]
    assert server.grouped.takes_templates


@pytest.mark.parametrize(
    ("turned_away", "expected"),
    [
        (DisconnectedError("gone"), TransportError),
        (errors.internal_error("broken"), errors.InternalError),
        (json_response({"items": []}), DisconnectedError),
        (json_response(["what"]), DisconnectedError),
    ],
)
async def test_everybody_hears_what_became_of_the_group(turned_away: Answer, expected: type[Exception]) -> None:
    outcomes = await Server(turned_away=turned_away).create("a", "c")
    assert [isinstance(outcome, expected) for outcome in outcomes] == [True, True]


async def test_a_guard_that_objects_keeps_the_group_from_being_sent() -> None:
    server = Server()

    def objects() -> None:
        raise PermissionError("another one leads")

    server.client.guard = objects
    outcomes = await server.create("a", "c")
    assert [type(outcome) for outcome in outcomes] == [PermissionError, PermissionError]
    assert server.groups == []
