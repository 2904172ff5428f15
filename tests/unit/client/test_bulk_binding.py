"""Binding many pods: in one call where there is one, singly where not, with an outcome for each."""

import asyncio
import json

import pytest
from msgspec import structs

from client_fakes import Answer, FakeTransport, json_response, lost
from mooring.api import codec, errors, protobuf_encoding
from mooring.api.core_v1 import Binding, ObjectReference
from mooring.api.meta_v1 import ObjectMeta, Status
from mooring.client import BulkBinding, Client, TransportError
from mooring.client.transport import Request, Response

SUCCESS = {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def binding(name: str) -> Binding:
    return Binding(metadata=ObjectMeta(name=name, namespace="prod"), target=ObjectReference(kind="Node", name="n1"))


CONFLICT = {"code": 409, "body": json.loads(codec.encode(errors.conflict("pods", "b").status))}
SUCCESSFUL = {"code": 201, "body": None}


def names_in(request: Request) -> list[str]:
    """Return the names of the pods that a batch binds."""
    return [row["name"] for write in json.loads(request.body)["items"] for row in write["rows"]]


class Server:
    """A server that has the call or not."""

    def __init__(self, bulk: Answer | None = None) -> None:
        self._bulk = bulk
        self.fault: Exception | None = None
        self.transport = FakeTransport(self._answer)
        self.binder = BulkBinding(Client(self.transport, user_agent="t"))

    def _answer(self, request: Request) -> Answer:
        if self.fault is not None and "/a/" in request.path:
            raise self.fault
        if request.path != "/writes":
            return errors.conflict("pods", "b") if "/b/" in request.path else json_response(SUCCESS, 201)
        if self._bulk is not None:
            return self._bulk
        return json_response({"items": [CONFLICT if name == "b" else SUCCESSFUL for name in names_in(request)]})

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.transport.requests]


async def test_a_group_is_one_call_and_each_binding_has_its_outcome() -> None:
    server = Server()
    outcomes = await server.binder.bind([binding("a"), binding("b"), binding("c")])
    assert [type(outcome) for outcome in outcomes] == [type(None), errors.Conflict, type(None)]
    assert server.paths == ["/writes"]


async def test_bindings_of_several_namespaces_are_templates_of_one_batch() -> None:
    server = Server()
    wanted = [binding(name) for name in ("a", "b", "c", "d")]
    wanted[1].metadata.namespace = wanted[2].metadata.namespace = "test"
    wanted[3].target.name = "n4"
    outcomes = await server.binder.bind(wanted)
    assert [type(outcome) for outcome in outcomes] == [type(None), errors.Conflict, type(None), type(None)]
    writes = json.loads(server.transport.requests[0].body)["items"]
    assert [(each["path"], [(row["name"], row["nodeName"]) for row in each["rows"]]) for each in writes] == [
        ("/api/v1/namespaces/prod/pods", [("a", "n1"), ("d", "n4")]),
        ("/api/v1/namespaces/test/pods", [("b", "n1"), ("c", "n1")]),
    ]


async def test_a_large_group_is_cut() -> None:
    server = Server()
    outcomes = await server.binder.bind([binding(f"p{index}") for index in range(2500)])
    assert (len(outcomes), len(server.paths)) == (2500, 5)


async def test_a_single_binding_takes_the_standard_way() -> None:
    server = Server()
    assert await server.binder.bind([binding("a")]) == [None]
    assert server.paths == ["/api/v1/namespaces/prod/pods/a/binding"]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(errors.path_not_found(), id="not found"),
        pytest.param(errors.method_not_allowed("post", "/writes"), id="not allowed"),
        pytest.param(errors.forbidden("", "", "no"), id="forbidden"),
    ],
)
async def test_a_server_without_the_call_gets_single_ones_and_is_not_asked_again(refusal: errors.StatusError) -> None:
    server = Server(refusal)
    for _ in range(2):
        outcomes = await server.binder.bind([binding("a"), binding("b")])
        assert [type(outcome) for outcome in outcomes] == [type(None), errors.Conflict]
    assert server.paths.count("/writes") == 1


async def test_to_bind_none_finds_out_whether_there_is_the_call() -> None:
    server = Server(errors.path_not_found())
    assert await server.binder.bind([]) == []
    await server.binder.bind([binding("a"), binding("c")])
    assert [path.split("/")[-2] for path in server.paths] == ["", "a", "c"]


async def test_a_server_without_the_call_gets_protobuf() -> None:
    server = Server(errors.path_not_found())
    wanted = binding("a")
    wanted.metadata.annotations = {"why": "because"}
    await server.binder.bind([wanted, binding("c")])
    sent = server.transport.requests[1]
    assert sent.path == "/api/v1/namespaces/prod/pods/a/binding"
    assert sent.headers["content-type"] == "application/vnd.kubernetes.protobuf"
    assert sent.headers["accept"] == "application/vnd.kubernetes.protobuf, application/json"
    found = codec.decode_protobuf(sent.body, Binding).object
    assert found == structs.replace(wanted, api_version="v1", kind="Binding")


async def test_a_refusal_in_protobuf_is_understood() -> None:
    refused = errors.conflict("pods", "a", "it is on node n2").status
    body = protobuf_encoding.encode("v1", "Status", protobuf_encoding.message(codec.to_tree(refused), Status))
    transport = FakeTransport(
        lambda request: Response(409, {}, body) if "/pods/" in request.path else errors.path_not_found()
    )
    binder = BulkBinding(Client(transport, user_agent="t"))
    await binder.bind([])
    [outcome] = await binder.bind([binding("a")])
    assert isinstance(outcome, errors.Conflict)
    assert outcome.status == refused


class Slow(FakeTransport):
    """Answer on demand."""

    def __init__(self, server: Server) -> None:
        super().__init__(server._answer)
        self.under_way = 0
        self._turn = asyncio.Condition()

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        self.under_way += 1
        async with self._turn:
            await self._turn.wait()
        self.under_way -= 1
        return await super().send(request, timeout)

    async def answer(self) -> int:
        """Answer all that is under way; returns how much that was."""
        for _ in range(5):
            await asyncio.sleep(0)  # for callers that are about to ask
        number = self.under_way
        async with self._turn:
            self._turn.notify_all()
        for _ in range(5):
            await asyncio.sleep(0)
        return number


async def test_what_comes_while_two_calls_are_under_way_goes_with_the_next() -> None:
    slow = Slow(Server())
    binder = BulkBinding(Client(slow, user_agent="t"))
    asked = []
    for _ in range(2):
        asked.append(asyncio.ensure_future(binder.bind([binding("a"), binding("c")])))
        await asyncio.sleep(0.01)
    asked += [asyncio.ensure_future(binder.bind([binding("b"), binding("c")])) for _ in range(3)]
    assert [await slow.answer() for _ in range(2)] == [2, 1]
    assert [[type(each) for each in outcomes] for outcomes in await asyncio.gather(*asked)] == [
        *[[type(None), type(None)]] * 2,
        *[[errors.Conflict, type(None)]] * 3,
    ]
    assert [len(names_in(request)) for request in slow.requests] == [2, 2, 6]


async def test_single_calls_become_more_as_they_are_answered() -> None:
    slow = Slow(Server(errors.path_not_found()))
    asked = asyncio.ensure_future(
        BulkBinding(Client(slow, user_agent="t")).bind([binding(f"p{number}") for number in range(400)])
    )
    assert [await slow.answer() for _ in range(7)] == [1, 9, 18, 36, 72, 112, 112]
    while not asked.done():
        await slow.answer()
    assert await asked == [None] * 400


async def test_what_no_caller_wants_any_longer_is_not_sent() -> None:
    slow = Slow(Server(errors.path_not_found()))
    binder = BulkBinding(Client(slow, user_agent="t"))
    asked = [asyncio.ensure_future(binder.bind([binding(name)] * 20)) for name in ("a", "c")]
    await slow.answer()
    asked[0].cancel()
    while not asked[1].done():
        await slow.answer()
    sent = [request.path.split("/")[-2] for request in slow.requests[1:]]
    assert (sent.count("a") <= 9, sent.count("c")) == (True, 20)


async def test_a_defect_is_raised_to_the_callers_of_bind_and_to_no_other() -> None:
    server = Server(errors.path_not_found())
    await server.binder.bind([binding("a"), binding("c")])
    server.fault = ZeroDivisionError()
    failed = asyncio.ensure_future(server.binder.bind([binding("a")] * 20))
    others = asyncio.ensure_future(server.binder.bind([binding("c")] * 20))
    with pytest.raises(ZeroDivisionError):
        await failed
    assert await others == [None] * 20


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(lost(), TransportError, id="the connection broke"),
        pytest.param(errors.service_unavailable("no"), errors.ServiceUnavailable, id="the server cannot"),
        pytest.param(json_response({"items": [SUCCESSFUL]}), TransportError, id="too few outcomes"),
    ],
)
async def test_what_befalls_the_call_befalls_every_binding(answer: Answer, expected: type[Exception]) -> None:
    outcomes = await Server(answer).binder.bind([binding("a"), binding("c")])
    assert len(outcomes) == 2
    assert all(isinstance(outcome, expected) for outcome in outcomes)
