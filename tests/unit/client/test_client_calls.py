"""What calls of the client look like on the wire, and what becomes of the answers."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from client_fakes import Answer, FakeTransport, error_response, json_response
from mooring.api import errors
from mooring.api.apps_v1 import Deployment
from mooring.api.authentication_v1 import TokenRequestSpec
from mooring.api.core_v1 import Container, Namespace, Node, Pod, PodSpec
from mooring.api.meta_v1 import ObjectMeta, Resource, Status
from mooring.api.resource_v1 import ResourceClaim
from mooring.api.scheme import Scheme
from mooring.base.version import ComponentVersions
from mooring.client import Client, DisconnectedError, PatchType, user_agent
from mooring.client.transport import Request, Response
from mooring.testing.clock import MockClock, settle

POD = {"metadata": {"name": "web", "namespace": "prod", "resourceVersion": "7"}, "spec": {"containers": []}}


def client_of(transport: FakeTransport, **options: Any) -> Client:
    return Client(transport, user_agent="test/v1.37.0", **options)


def answering(answer: Answer) -> tuple[Client, FakeTransport]:
    transport = FakeTransport(lambda _: answer)
    return client_of(transport), transport


def pod(**meta: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web", namespace="prod", **meta), spec=PodSpec(containers=[Container(name="c")])
    )


@dataclass
class Case:
    id: str
    call: Callable[[Client], Awaitable[Any]]
    method: str
    target: str
    body: dict[str, Any] | list[Any] | None = None
    content_type: str = "application/json"
    answer: dict[str, Any] = field(default_factory=lambda: POD)


SCALE = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 3}}
DEPLOYMENTS = "/apis/apps/v1/namespaces/prod/deployments"
CASES = [
    Case("get names the object", lambda c: c.get(Pod, "web", "prod"), "GET", "/api/v1/namespaces/prod/pods/web"),
    Case("get of a cluster-scoped kind has no namespace", lambda c: c.get(Node, "n1"), "GET", "/api/v1/nodes/n1"),
    Case(
        "a kind of another group is below apis",
        lambda c: c.get(Deployment, "web", "prod"),
        "GET",
        f"{DEPLOYMENTS}/web",
    ),
    Case(
        "a page passes selectors, limit and token",
        lambda c: c.page(Pod, label_selector="app=web", field_selector="spec.nodeName=n1", limit=5, continue_="t"),
        "GET",
        "/api/v1/pods?labelSelector=app%3Dweb&fieldSelector=spec.nodeName%3Dn1&limit=5&continue=t",
        answer={"metadata": {}, "items": None},
    ),
    Case(
        "create says kind and options",
        lambda c: c.create(pod(), dry_run=True, field_manager="me"),
        "POST",
        "/api/v1/namespaces/prod/pods?dryRun=All&fieldManager=me",
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": "web", "namespace": "prod"},
            "spec": {"containers": [{"name": "c", "resources": {}}]},
            "status": {},
        },
    ),
    Case(
        "update_status goes to the subresource",
        lambda c: c.update_status(Namespace(metadata=ObjectMeta(name="prod"))),
        "PUT",
        "/api/v1/namespaces/prod/status",
    ),
    Case(
        "patch is strategic merge unless told",
        lambda c: c.patch(Node, "n1", {"spec": {"unschedulable": True}}),
        "PATCH",
        "/api/v1/nodes/n1",
        {"spec": {"unschedulable": True}},
        "application/strategic-merge-patch+json",
    ),
    Case(
        "a JSON patch is a list of operations",
        lambda c: c.patch(Pod, "web", [{"op": "remove", "path": "/a"}], "prod", type=PatchType.JSON),
        "PATCH",
        "/api/v1/namespaces/prod/pods/web",
        [{"op": "remove", "path": "/a"}],
        "application/json-patch+json",
    ),
    Case(
        "apply names its manager and may force",
        lambda c: c.apply(Namespace(metadata=ObjectMeta(name="prod")), field_manager="me", force=True),
        "PATCH",
        "/api/v1/namespaces/prod?fieldManager=me&force=true",
        content_type="application/apply-patch+yaml",
    ),
    Case(
        "an apply patch may be forced, without being kept",
        lambda c: c.patch(
            Pod, "web", {"kind": "Pod"}, "prod", type=PatchType.APPLY, dry_run=True, field_manager="me", force=True
        ),
        "PATCH",
        "/api/v1/namespaces/prod/pods/web?dryRun=All&fieldManager=me&force=true",
        {"kind": "Pod"},
        "application/apply-patch+yaml",
    ),
    Case(
        "update may be a dry run",
        lambda c: c.update(pod(), dry_run=True, field_manager="me"),
        "PUT",
        "/api/v1/namespaces/prod/pods/web?dryRun=All&fieldManager=me",
    ),
    Case(
        "delete may be a dry run",
        lambda c: c.delete(Pod, "web", "prod", dry_run=True),
        "DELETE",
        "/api/v1/namespaces/prod/pods/web?dryRun=All",
    ),
    Case(
        "delete sends its options in the body",
        lambda c: c.delete(Pod, "web", "prod", grace_period_seconds=0, uid="u1", propagation_policy="Orphan"),
        "DELETE",
        "/api/v1/namespaces/prod/pods/web",
        {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u1"},
            "propagationPolicy": "Orphan",
        },
    ),
    Case(
        "delete_collection selects",
        lambda c: c.delete_collection(Pod, "prod", label_selector="app=web"),
        "DELETE",
        "/api/v1/namespaces/prod/pods?labelSelector=app%3Dweb",
    ),
    Case(
        "bind posts a Binding",
        lambda c: c.bind("web", "prod", "n1"),
        "POST",
        "/api/v1/namespaces/prod/pods/web/binding",
        {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": "web", "namespace": "prod"},
            "target": {"kind": "Node", "name": "n1"},
        },
    ),
    Case(
        "evict posts an Eviction",
        lambda c: c.evict("web", "prod"),
        "POST",
        "/api/v1/namespaces/prod/pods/web/eviction",
        {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "web", "namespace": "prod"}},
    ),
    Case(
        "scale puts a Scale",
        lambda c: c.scale(Deployment, "web", "prod", 3),
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        answer=SCALE,
    ),
    Case(
        "get_scale", lambda c: c.get_scale(Deployment, "web", "prod"), "GET", f"{DEPLOYMENTS}/web/scale", answer=SCALE
    ),
    Case(
        "create_token posts to the service account",
        lambda c: c.create_token("bot", "prod", TokenRequestSpec(expiration_seconds=600)),
        "POST",
        "/api/v1/namespaces/prod/serviceaccounts/bot/token",
        answer={"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": {"token": "t"}},
    ),
    Case(
        "raw goes anywhere",
        lambda c: c.raw("GET", "/version", query=[("a", "b c")]),
        "GET",
        "/version?a=b+c",
        answer={"major": "1"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_calls_on_the_wire(case: Case) -> None:
    client, transport = answering(json_response(case.answer))
    await case.call(client)
    [request] = transport.requests
    assert (request.method, request.target) == (case.method, case.target)
    assert request.headers["user-agent"] == "test/v1.37.0"
    if request.body:
        assert request.headers["content-type"] == case.content_type
    if case.body is not None:
        assert json.loads(request.body) == case.body


async def test_an_object_goes_out_as_the_version_that_it_says() -> None:
    client, transport = answering(json_response({"metadata": {"name": "c", "namespace": "prod"}}))
    meta = ObjectMeta(name="c", namespace="prod")
    await client.create(ResourceClaim(api_version="resource.k8s.io/v1beta2", kind="ResourceClaim", metadata=meta))
    await client.create(ResourceClaim(metadata=meta))
    assert [request.path.split("/")[3] for request in transport.requests] == ["v1beta2", "v1"]


async def test_a_type_means_the_newest_version_that_the_scheme_serves() -> None:
    scheme = Scheme(ComponentVersions.resolve("1.33"), {"resource.k8s.io/v1beta2": True})
    transport = FakeTransport(lambda _: json_response({"metadata": {}}))
    await client_of(transport, scheme=scheme).get(ResourceClaim, "c", "prod")
    assert transport.requests[0].path == "/apis/resource.k8s.io/v1beta2/namespaces/prod/resourceclaims/c"


async def test_list_gathers_all_pages_and_sets_the_kind_of_items() -> None:
    def answer(request: Request) -> Answer:
        token = dict(request.query).get("continue", "")
        items = [{"metadata": {"name": f"web{token}"}}]
        return json_response(
            {"metadata": {"resourceVersion": "9", "continue": {"": "a", "a": "b"}.get(token, "")}, "items": items}
        )

    transport = FakeTransport(answer)
    listing = await client_of(transport).list(Pod, resource_version="0")
    assert [(item.kind, item.api_version, item.metadata.name) for item in listing.items] == [
        ("Pod", "v1", "web"),
        ("Pod", "v1", "weba"),
        ("Pod", "v1", "webb"),
    ]
    assert (listing.resource_version, listing.continue_) == ("9", "")
    asked = [dict(request.query) for request in transport.requests]
    assert [(each.get("resourceVersion"), each.get("continue")) for each in asked] == [
        ("0", None),
        (None, "a"),
        (None, "b"),
    ]


DEEP = b'{"metadata":{"name":"web"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        pytest.param(lambda c: c.list(Node), b'{"metadata":{},"items":[' + DEEP + b"]}", id="a list"),
        pytest.param(
            lambda c: c.list(Pod, managed_fields=False),
            b'{"metadata":{},"items":[' + DEEP + b"]}",
            id="a list of pods for a cache",
        ),
        pytest.param(lambda c: c.get(Node, "web"), DEEP, id="an object"),
        pytest.param(lambda c: c.create_briefly(Node()), DEEP, id="an object of which little is read"),
        pytest.param(lambda c: c.delete(Node, "web"), DEEP, id="a deletion"),
        pytest.param(lambda c: c.serves(Node), DEEP, id="discovery"),
    ],
)
async def test_what_is_nested_too_deeply_is_no_answer(call: Callable[[Client], Any], answer: bytes) -> None:
    with pytest.raises(DisconnectedError, match="the server sent what is no"):
        await call(client_of(FakeTransport(lambda _: Response(200, {}, answer))))


async def test_fields_that_we_do_not_know_are_left_out() -> None:
    client, _ = answering(json_response({**POD, "spec": {"containers": [], "fromTheFuture": {"a": 1}}}))
    assert (await client.get(Pod, "web", "prod")).metadata.name == "web"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(errors.not_found("pods", "web"), errors.NotFound, id="a Status is raised by its reason"),
        pytest.param(errors.conflict("pods", "web"), errors.Conflict, id="a conflict is a Conflict"),
        pytest.param(
            json_response({"error": "x"}, 403), errors.Forbidden, id="JSON that is no Status counts by its code"
        ),
    ],
)
async def test_errors_of_the_server_are_raised(answer: Answer, expected: type[Exception]) -> None:
    client, _ = answering(answer)
    with pytest.raises(expected):
        await client.get(Pod, "web", "prod")


async def test_an_error_that_is_no_json_keeps_its_text() -> None:
    response = error_response(errors.bad_request(""))
    response.status, response.body = 502, b"<html>bad gateway</html>"
    client, _ = answering(response)
    with pytest.raises(errors.StatusError, match="bad gateway") as caught:
        await client.get(Pod, "web", "prod")
    assert caught.value.status.code == 502


async def test_delete_gives_the_status_or_the_object_that_is_not_gone_yet() -> None:
    client, _ = answering(json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
    assert isinstance(await client.delete(Pod, "web", "prod"), Status)
    client, _ = answering(json_response({"kind": "Pod", "apiVersion": "v1", **POD}))
    assert isinstance(await client.delete(Pod, "web", "prod"), Pod)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda c: c.get(Pod, "web"), id="no namespace for a kind that needs one"),
        pytest.param(lambda c: c.get(Pod, "", "prod"), id="no name"),
        pytest.param(lambda c: c.get(Pod, "a/b", "prod"), id="a name with a slash"),
        pytest.param(lambda c: c.get(Pod, "..", "prod"), id="a name that walks up"),
        pytest.param(lambda c: c.create(Pod()), id="an object without namespace"),
        pytest.param(lambda c: c.get(Resource, "web"), id="a type that is no kind"),
    ],
)
async def test_calls_that_name_nothing_are_refused_before_they_are_sent(
    call: Callable[[Client], Awaitable[Any]],
) -> None:
    client, transport = answering(json_response(POD))
    with pytest.raises(ValueError, match=r"namespace|cannot be|not served"):
        await call(client)
    assert transport.requests == []


async def test_requests_that_were_turned_away_are_repeated_after_the_time_that_the_server_says() -> None:
    clock = MockClock()
    answers = [error_response(errors.too_many_requests("wait", 5), retry_after="5"), json_response(POD)]
    transport = FakeTransport(lambda _: answers.pop(0))

    getting = asyncio.ensure_future(client_of(transport, clock=clock).get(Pod, "web", "prod"))
    await clock.run(4.9)
    assert len(transport.requests) == 1
    await clock.run(0.2)
    assert (await getting).metadata.name == "web"


async def test_an_eviction_that_a_budget_forbids_is_not_repeated() -> None:
    client, transport = answering(error_response(errors.too_many_requests("budget", 10), retry_after="10"))
    with pytest.raises(errors.TooManyRequests):
        await client.evict("web", "prod")
    assert len(transport.requests) == 1


async def test_server_warnings_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    response = json_response(POD)
    response.warnings = ["v1 Thing is deprecated, test of the client"]
    client, _ = answering(response)
    for _ in range(3):
        await client.get(Pod, "web", "prod")
    assert caplog.text.count("is deprecated, test of the client") == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(json_response({"resources": [{"name": "pods"}]}), True, id="listed in discovery"),
        pytest.param(json_response({"resources": [{"name": "nodes"}]}), False, id="not listed"),
        pytest.param(errors.path_not_found(), False, id="no such group version"),
    ],
)
async def test_serves_asks_discovery(answer: Answer, expected: bool) -> None:
    client, _ = answering(answer)
    assert await client.serves(Pod) is expected


@pytest.mark.req("4330.10")
def test_the_user_agent_announces_component_and_version() -> None:
    assert user_agent("mooring-scheduler", "1.36").startswith("mooring-scheduler/v1.36.0 (linux/")


async def test_closing_the_client_closes_its_transport() -> None:
    client, transport = answering(json_response(POD))
    async with client:
        await settle()
    assert transport.closed
