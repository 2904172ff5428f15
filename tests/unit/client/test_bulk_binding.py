"""Binding many pods: in one call where there is one, singly where not, with an outcome for each."""

import json

import pytest
from msgspec import structs

from client_fakes import Answer, FakeTransport, json_response, lost
from mooring.api import codec, errors
from mooring.api.core_v1 import Binding, ObjectReference
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import BulkBinding, Client, TransportError
from mooring.client.transport import Request

SUCCESS = {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def binding(name: str) -> Binding:
    return Binding(metadata=ObjectMeta(name=name, namespace="prod"), target=ObjectReference(kind="Node", name="n1"))


def conflict() -> dict[str, object]:
    found: dict[str, object] = json.loads(codec.encode(errors.conflict("pods", "b").status))
    return found


class Server:
    """A server that has the call or not."""

    def __init__(self, bulk: Answer | None = None) -> None:
        self._bulk = bulk
        self.transport = FakeTransport(self._answer)
        self.binder = BulkBinding(Client(self.transport, user_agent="t"))

    def _answer(self, request: Request) -> Answer:
        if request.path != "/api/v1/bindings":
            return errors.conflict("pods", "b") if "/b/" in request.path else json_response(SUCCESS, 201)
        if self._bulk is not None:
            return self._bulk
        items = [
            conflict() if item["metadata"]["name"] == "b" else SUCCESS for item in json.loads(request.body)["items"]
        ]
        return json_response({"kind": "StatusList", "apiVersion": "v1", "items": items}, 201)

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.transport.requests]


async def test_a_group_is_one_call_and_each_binding_has_its_outcome() -> None:
    server = Server()
    outcomes = await server.binder.bind([binding("a"), binding("b"), binding("c")])
    assert [type(outcome) for outcome in outcomes] == [type(None), errors.Conflict, type(None)]
    assert server.paths == ["/api/v1/bindings"]


async def test_a_large_group_is_cut() -> None:
    server = Server()
    outcomes = await server.binder.bind([binding(f"p{index}") for index in range(2500)])
    assert (len(outcomes), len(server.paths)) == (2500, 3)


async def test_a_single_binding_takes_the_standard_way() -> None:
    server = Server()
    assert await server.binder.bind([binding("a")]) == [None]
    assert server.paths == ["/api/v1/namespaces/prod/pods/a/binding"]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(errors.path_not_found(), id="not found"),
        pytest.param(errors.method_not_allowed("create", "bindings"), id="not allowed"),
        pytest.param(errors.forbidden("bindings", "", "no"), id="forbidden"),
    ],
)
async def test_a_server_without_the_call_gets_single_ones_and_is_not_asked_again(refusal: errors.StatusError) -> None:
    server = Server(refusal)
    for _ in range(2):
        outcomes = await server.binder.bind([binding("a"), binding("b")])
        assert [type(outcome) for outcome in outcomes] == [type(None), errors.Conflict]
    assert server.paths.count("/api/v1/bindings") == 1


async def test_a_server_without_the_call_is_told_in_protobuf() -> None:
    server = Server(errors.path_not_found())
    wanted = binding("a")
    wanted.metadata.annotations = {"why": "because"}
    await server.binder.bind([wanted, binding("c")])
    sent = server.transport.requests[1]
    assert sent.path == "/api/v1/namespaces/prod/pods/a/binding"
    assert sent.headers["content-type"] == "application/vnd.kubernetes.protobuf"
    found = codec.decode_protobuf(sent.body, Binding).object
    assert found == structs.replace(wanted, api_version="v1", kind="Binding")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(lost(), TransportError, id="the connection broke"),
        pytest.param(errors.service_unavailable("no"), errors.ServiceUnavailable, id="the server cannot"),
        pytest.param(json_response({"items": [SUCCESS]}), TransportError, id="too few outcomes"),
    ],
)
async def test_what_befalls_the_call_befalls_every_binding(answer: Answer, expected: type[Exception]) -> None:
    outcomes = await Server(answer).binder.bind([binding("a"), binding("c")])
    assert len(outcomes) == 2
    assert all(isinstance(outcome, expected) for outcome in outcomes)
