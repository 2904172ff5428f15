"""The way of a request through the edge."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app_calls import ADMIN, Caller, running
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.6")
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path) as found:
        yield found


@pytest.fixture
def call(server: ApiServer) -> Caller:
    return Caller(server.app, ADMIN)


@dataclass(frozen=True)
class Case:
    about: str
    method: str
    path: str
    code: int
    reason: str = ""
    user: str = "admin"


CASES = [
    Case("anybody may ask for health", "GET", "/healthz", 200, user=""),
    Case("a single check is not for everybody", "GET", "/livez/ping", 401, "Unauthorized", user=""),
    Case("the administrator may ask for a single check", "GET", "/livez/ping", 200),
    Case("anybody may ask for the version", "GET", "/version", 200, user=""),
    Case("nobody else gets in without a name", "GET", "/api", 401, "Unauthorized", user=""),
    Case("metrics are not for everybody", "GET", "/metrics", 401, "Unauthorized", user=""),
    Case("a path that begins like health is not health", "GET", "/healthzz", 401, "Unauthorized", user=""),
    Case("whoever is known may discover", "GET", "/apis", 200, user="jane"),
    Case("whoever is known may read OpenAPI's index", "GET", "/openapi/v3", 200, user="jane"),
    Case("nobody may read without a role", "GET", "/api/v1/pods", 403, "Forbidden", user="jane"),
    Case("nobody may read metrics without a role", "GET", "/metrics", 403, "Forbidden", user="jane"),
    Case("the administrator may read", "GET", "/api/v1/pods", 200),
    Case("a path that does not exist", "GET", "/nothing", 404, "NotFound"),
    Case("a group that does not exist", "GET", "/apis/nothing.example/v1/things", 404, "NotFound"),
    Case("a resource that does not exist", "GET", "/api/v1/things", 404, "NotFound"),
    Case("a method that nobody knows", "BREW", "/api/v1/pods", 405, "MethodNotAllowed"),
    Case("a write to a page", "POST", "/version", 404, "NotFound"),
    Case(
        "reading a question", "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405, "MethodNotAllowed"
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
async def test_a_request_is_answered_with(case: Case, call: Caller) -> None:
    caller = call if case.user == "admin" else call.as_user(case.user) if case.user else call.as_anonymous()
    answer = await caller(case.method, case.path)
    assert answer.status == case.code
    if case.reason:
        assert answer.json["kind"] == "Status"
        assert answer.json["reason"] == case.reason


async def test_a_refused_user_gets_the_error_text_of_kubernetes(call: Caller) -> None:
    jane = call.as_user("jane")
    answer = await jane("GET", "/apis/apps/v1/namespaces/default/deployments/web/scale")
    assert answer.message == (
        'deployments.apps "web" is forbidden: User "jane" cannot get resource "deployments/scale" '
        'in API group "apps" in the namespace "default"'
    )
    answer = await jane("GET", "/metrics")
    assert answer.message == 'forbidden: User "jane" cannot get path "/metrics"'


async def test_every_answer_has_a_request_id_which_a_client_may_choose(call: Caller) -> None:
    first, second = await call("GET", "/version"), await call("GET", "/version")
    assert first.headers["audit-id"] != second.headers["audit-id"]
    assert (await call("GET", "/version", audit_id="mine-1")).headers["audit-id"] == "mine-1"
    assert (await call("GET", "/version", audit_id="two words")).headers["audit-id"] != "two words"


async def test_a_body_that_is_too_large_is_refused_while_it_is_read(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(body_bytes=1000)) as server:
        answer = await Caller(server.app, ADMIN)("POST", "/api/v1/namespaces/default/pods", b"x" * 1001)
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.message == "Request entity too large: limit is 1000"


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(body_seconds=0.01)) as server:
        caller = Caller(server.app, ADMIN)
        call = caller.call("POST", "/api/v1/namespaces/default/pods", b"", "application/json", has_arrived=False)
        assert (await server.app.serve(call)).status == 504


async def test_a_query_that_is_too_long_is_refused(call: Caller) -> None:
    answer = await call("GET", "/api/v1/pods?" + "&".join(f"a{number}=1" for number in range(200)))
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


async def test_what_fails_unexpectedly_is_logged_and_not_explained(
    server: ApiServer, call: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: Request) -> Response:
        raise RuntimeError("the secret is 42")

    server.app.paths["/broken"] = broken
    logging.getLogger("mooring").propagate = True
    with caplog.at_level(logging.ERROR, "mooring"):
        answer = await call("GET", "/broken", audit_id="find-me")
    assert answer.status == 500
    assert "42" not in answer.message
    assert "find-me" in answer.message
    assert any(record.exc_info and "the secret is 42" in str(record.exc_info[1]) for record in caplog.records)


async def test_more_paths_can_be_added(server: ApiServer, call: Caller) -> None:
    async def hello(request: Request) -> Response:
        return Response(200, f"hello from {request.path}".encode(), "text/plain")

    server.app.paths["/hello"] = hello
    assert (await call("GET", "/hello/you")).body == b"hello from /hello/you"
    assert "/hello" in (await call("GET", "/")).json["paths"]
    assert (await call.as_user("jane")("GET", "/hello")).status == 403


async def test_warnings_are_headers(call: Caller) -> None:
    body = {**POD, "strange": 1}
    answer = await call("POST", "/api/v1/namespaces/default/pods?fieldValidation=Warn", body)
    assert answer.status == 201
    assert answer.warnings == ['299 - "unknown field \\"strange\\""']


async def test_a_watch_streams_until_the_client_hangs_up(server: ApiServer, call: Caller) -> None:
    async with call.stream("/api/v1/namespaces/default/pods?watch=1") as stream:
        await call("POST", "/api/v1/namespaces/default/pods", POD)
        assert (await stream.next())["object"]["metadata"]["name"] == "p"
        assert server.app.limiter.watches.taken == 1
    assert server.app.limiter.watches.taken == 0
    assert server.app.resources.open_watches == 0


async def test_a_watch_ends_cleanly_when_the_server_stops(server: ApiServer, call: Caller) -> None:
    async with call.stream("/api/v1/pods?watch=1") as stream:
        await asyncio.sleep(0)
        server.app.resources.end_watches()
        await asyncio.wait_for(stream.task, 20)
        assert stream.ended_cleanly


async def test_a_server_that_stops_is_not_ready(server: ApiServer, call: Caller) -> None:
    assert (await call("GET", "/readyz")).body == b"ok"
    await server.stop()
    answer = await call("GET", "/readyz")
    assert answer.status == 500
    assert b"[-]shutdown failed: reason withheld" in answer.body
    assert (await call("GET", "/livez")).body == b"ok"


async def test_a_client_in_the_process_needs_no_connection(server: ApiServer) -> None:
    user = UserInfo(username="jane", groups=["system:authenticated"])
    response = await server.app.respond(Request(method="GET", path="/version", user=user))
    assert response.status == 200
    response = await server.app.respond(Request(method="GET", path="/api/v1/pods", user=user))
    assert response.status == 403


async def test_a_stream_without_a_reader_gives_its_slot_back(server: ApiServer) -> None:
    admin = UserInfo(username="admin", groups=["system:masters"])
    watch = Request(method="GET", path="/api/v1/pods", query={"watch": ["1"]}, user=admin)
    response = await server.app.respond(watch)
    assert server.app.limiter.watches.taken == 1
    assert not isinstance(response.body, bytes)
    await response.body.aclose()  # type: ignore[attr-defined] # streams can be closed
    assert server.app.limiter.watches.taken == 0


async def test_head_is_like_get(call: Caller) -> None:
    assert (await call("HEAD", "/api/v1/namespaces/default")).status == 200
    assert (await call("HEAD", "/api/v1/namespaces/none")).status == 404
