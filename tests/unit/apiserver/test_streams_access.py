"""Who may reach through to nodes and containers, and how many may at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running
from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.messages.routes import resolve
from mooring.apiserver.requests.limiter import RequestLimiter
from mooring.apiserver.server import ApiServer
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("N.7", "N.8")
PODS = "/api/v1/namespaces/default/pods"
SIMULATED = {"simulation.mooring.dev/node": "true"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path) as server:
        await populate(server)
        yield server


async def populate(server: ApiServer) -> None:
    """Create a simulated node with a pod whose container runs."""
    admin = Caller(server.app, ADMIN)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": SIMULATED}}
    assert (await admin("POST", "/api/v1/nodes", node)).status == 201
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "img", "ports": [{"containerPort": 80}]}]}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    created = await admin("POST", PODS, pod)
    assert created.status == 201, created.message
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "c", "state": state, "ready": True, "restartCount": 0, "image": "img", "imageID": ""}
    status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [container]}
    merge = "application/merge-patch+json"
    assert (await admin("PATCH", f"{PODS}/web/status", {"status": status}, content_type=merge)).status == 200


async def grant(server: ApiServer, verbs: list[str], resources: list[str]) -> Caller:
    """Jane, who may do this and nothing else."""
    admin = Caller(server.app, ADMIN)
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"verbs": verbs, "apiGroups": [""], "resources": resources}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": [rule],
    }
    assert (await admin("POST", f"{rbac}/clusterroles", role)).status == 201
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }
    assert (await admin("POST", f"{rbac}/clusterrolebindings", binding)).status == 201
    return Caller(server.app).as_user("jane")


FORBIDDEN, NO_UPGRADE = 403, 400
ASKED = {
    "log": ("GET", f"{PODS}/web/log"),
    "exec by POST": ("POST", f"{PODS}/web/exec?command=x&stdout=1"),
    "exec by GET": ("GET", f"{PODS}/web/exec?command=x&stdout=1"),
    "attach": ("POST", f"{PODS}/web/attach?stdout=1"),
    "portforward": ("POST", f"{PODS}/web/portforward"),
    "pods/proxy": ("GET", f"{PODS}/web/proxy/"),
    "nodes/proxy": ("GET", "/api/v1/nodes/n/proxy/healthz"),
}


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        ("get", "pods", {}),
        ("get", "pods/log", {"log": 200}),
        ("create", "pods/exec", {"exec by POST": NO_UPGRADE}),
        ("get", "pods/exec", {}),
        ("create", "pods/attach", {"attach": NO_UPGRADE}),
        ("create", "pods/portforward", {"portforward": NO_UPGRADE}),
        ("get", "pods/proxy", {"pods/proxy": 200}),
        ("get", "nodes/proxy", {"nodes/proxy": 200}),
        ("*", "nodes", {}),
    ],
)
async def test_rights_are_given_by_subresource(
    server: ApiServer, verb: str, resource: str, allowed: dict[str, int]
) -> None:
    jane = await grant(server, [verb], [resource])
    codes = {name: (await jane(method, path)).status for name, (method, path) in ASKED.items()}
    assert codes == {name: allowed.get(name, FORBIDDEN) for name in ASKED}


async def test_reading_rights_sufficed_for_commands_before_1_35(tmp_path: Path) -> None:
    async with running(tmp_path, emulation="1.34") as server:
        await populate(server)
        jane = await grant(server, ["get"], ["pods/exec"])
        assert (await jane(*ASKED["exec by GET"])).message == "Upgrade request required"


async def test_the_role_edit_reaches_into_pods_and_not_into_nodes(server: ApiServer) -> None:
    rules = (await Caller(server.app, ADMIN)("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit")).json[
        "rules"
    ]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert {"pods/attach", "pods/exec", "pods/log", "pods/portforward", "pods/proxy", "services/proxy"} <= resources
    assert "nodes/proxy" not in resources


async def test_an_unreachable_simulated_node_does_not_answer(server: ApiServer) -> None:
    admin = Caller(server.app, ADMIN)
    failure = {"metadata": {"annotations": {"simulation.mooring.dev/failure": "unreachable"}}}
    await admin("PATCH", "/api/v1/nodes/n", failure, content_type="application/merge-patch+json")
    answer = await admin("GET", f"{PODS}/web/log")
    assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")


async def test_proxies_on_simulated_nodes(server: ApiServer) -> None:
    admin = Caller(server.app, ADMIN)
    assert b"port 80: GET /a/b" in (await admin("GET", f"{PODS}/web:80/proxy/a/b")).body
    assert (await admin("GET", f"{PODS}/web/proxy")).headers["location"] == f"{PODS}/web/proxy/"
    assert (await admin("GET", "/api/v1/nodes/n/proxy/pods")).json["items"][0]["metadata"]["name"] == "web"
    assert (await admin("GET", "/api/v1/nodes/n/proxy/none")).status == 404
    assert (await admin("GET", f"{PODS}/ftp:web:80/proxy/")).message == 'invalid pod request "ftp:web:80"'


async def test_a_service_leads_to_one_of_its_ready_pods(server: ApiServer) -> None:
    admin = Caller(server.app, ADMIN)
    services = "/api/v1/namespaces/default/services"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    await admin("POST", services, {**service, "spec": {"ports": [{"name": "http", "port": 8080, "targetPort": 80}]}})
    none = await admin("GET", f"{services}/web:http/proxy/x")
    assert (none.status, none.message) == (503, 'no endpoints available for service "web"')
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "web"}}
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": [{"name": "http", "port": 80}],
    }
    made = await admin("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
    assert made.status == 201, made.message
    for name in ("web:http", "web:8080", "http:web:http"):
        assert b"port 80: GET /x" in (await admin("GET", f"{services}/{name}/proxy/x")).body
    assert (await admin("GET", f"{services}/web:9/proxy/x")).status == 503


async def test_an_upgrade_that_the_server_cannot_do_is_ignored(server: ApiServer) -> None:
    """Without `Connection: Upgrade`, as HTTP says."""
    admin = Caller(server.app, ADMIN)
    answer = await admin("GET", f"{PODS}/web/exec?command=x&stdout=1", upgrade="websocket")
    assert (answer.status, answer.message) == (400, "Upgrade request required")


async def test_streams_are_counted_and_shown(server: ApiServer) -> None:
    admin = Caller(server.app, ADMIN)
    async with admin.stream(f"{PODS}/web/log?follow=true") as stream:
        assert b"started on the simulated node n" in await stream.lines.get()
        assert b"\nmooring_streams 1.0\n" in (await admin("GET", "/metrics")).body
    page = (await admin("GET", "/metrics")).body
    assert b"\nmooring_streams 0.0\n" in page
    assert b'apiserver_request_total{code="200",component="apiserver"' in page
    assert b'subresource="log",verb="CONNECT"' in page


def test_there_is_room_for_so_many_streams_and_so_many_of_one_user() -> None:
    limiter = RequestLimiter(Limits(streams=3, user_streams=2), MockClock())
    jane, root = UserInfo(username="jane"), UserInfo(username="root", groups=["system:masters"])
    first, _ = limiter.take_stream_slot(jane), limiter.take_stream_slot(jane)
    with pytest.raises(errors.TooManyRequests, match="too many streams are open"):
        limiter.take_stream_slot(jane)
    limiter.take_stream_slot(root)
    with pytest.raises(errors.TooManyRequests, match="too many streams are open"):
        limiter.take_stream_slot(root)
    first.release()
    assert limiter.streams.taken == 2
    limiter.take_stream_slot(jane)


def test_what_stands_behind_a_proxy_is_left_alone(server: ApiServer) -> None:
    for path, name, behind in (
        ("/api/v1/nodes/n/proxy/a//b/../c", "n", "/a//b/../c"),
        ("/api/v1/namespaces/x/pods/p:80/proxy/", "p:80", "/"),
        ("/api/v1/namespaces/x/services/https:s:1/proxy", "https:s:1", ""),
        ("/api/v1/nodes/n/proxy/nodes/m/proxy/x", "n", "/nodes/m/proxy/x"),
    ):
        route = resolve(server.scheme, path)
        assert route is not None
        assert (route.name, route.subresource, route.path) == (name, "proxy", behind)
    assert resolve(server.scheme, "/api/v1/namespaces/x/pods/p/status/more") is None
