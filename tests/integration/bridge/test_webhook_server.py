"""The bridge's webhooks on a stock server: what they do to pods before a node changes, and how they are served."""

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridged_cluster import ADMIN, StockCluster, gated, stock_cluster, tolerated, tree_of
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Node, Pod, Secret
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding
from mooring.apiserver.in_process import handler
from mooring.bridge.serving import AUTHORITY, CONFIGURATIONS, WebhookServer
from mooring.bridge.webhooks import NodeReviews
from mooring.client import Client, PatchType
from mooring.client.in_process import HandlerResponse, InProcessTransport
from mooring.client.transport import Request, Response
from mooring.testing.builders import made, taint
from mooring.testing.clock import MockClock

SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}
RIGHTS = Path(__file__).parents[3] / "deploy" / "bridge" / "rights.yaml"
DRY = {"dryRun": True}


def review(node: Node, *taints: str, **more: Any) -> dict[str, Any]:
    """Return a request about new taints of a node."""
    old = tree_of(node)
    new = {**old, "spec": {**old.get("spec", {}), "taints": [taint(each) for each in taints]}}
    return {"uid": "u", "oldObject": old, "object": new, **more}


async def running(cluster: StockCluster) -> Node:
    """Return a node with a pod that the bridge released, and one that it knows nothing of."""
    node = await cluster.node("a", {}, ["sla=960:NoExecute"])
    async with cluster.bridged():
        await cluster.create(gated("web", [SLA]))
        await cluster.until_released("web")
    plain = gated("plain")
    plain.spec.scheduling_gates = []
    plain.metadata.annotations = {}
    await cluster.create(plain)
    for name in ("web", "plain"):
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "a"}}
        await cluster.client.raw(
            "POST", f"/api/v1/namespaces/default/pods/{name}/binding", body=json.dumps(body).encode()
        )
    return node


@pytest.mark.req("B.5")
@pytest.mark.parametrize(
    ("taints", "more", "expected"),
    [
        (["sla=970:NoExecute"], {}, {"960", "970"}),
        (["sla=960:NoExecute", "sla=971:NoSchedule"], {}, {"960"}),
        (["sla=940:NoExecute"], {}, {"960"}),
        (["sla=970:NoExecute"], DRY, {"960"}),
        ([], {}, {"960"}),
    ],
    ids=[
        "a tolerated value",
        "another effect evicts nobody",
        "a value that is not tolerated",
        "a dry run",
        "none left",
    ],
)
async def test_pods_tolerate_the_new_value_before_the_node_has_it(
    taints: list[str], more: Mapping[str, Any], expected: set[str]
) -> None:
    async with stock_cluster() as cluster:
        node = await running(cluster)
        assert await NodeReviews(cluster.client).review(review(node, *taints, **more)) == {"allowed": True}
        assert tolerated(await cluster.find("web"), "sla") == expected
        assert tolerated(await cluster.find("plain"), "sla") == set()


async def shipped_account(cluster: StockCluster) -> UserInfo:
    """Return the account of the bridge, with its rights in the whole cluster."""
    trees = {tree["kind"]: tree for tree in yaml.safe_load_all(RIGHTS.read_text())}
    await cluster.client.create(made(ClusterRole, trees["ClusterRole"]))
    await cluster.client.create(made(ClusterRoleBinding, trees["ClusterRoleBinding"]))
    return UserInfo(username="system:serviceaccount:mooring-bridge:mooring-bridge", groups=["system:authenticated"])


@pytest.mark.req("B.5", "B.7", "B.9")
async def test_a_pod_that_others_change_meanwhile_is_prepared_all_the_same() -> None:
    async with stock_cluster() as cluster:
        node = await running(cluster)
        left = 3

        async def interfere(request: Request) -> None:
            nonlocal left
            if request.method == "PATCH" and left:
                left -= 1
                await cluster.annotate("web", {"beat": str(left)})

        client = cluster.client_of(await shipped_account(cluster), interfere)
        assert (await NodeReviews(client).review(review(node, "sla=970:NoExecute")))["allowed"]
        assert tolerated(await cluster.find("web"), "sla") == {"960", "970"}


@pytest.mark.req("B.5")
async def test_a_pod_that_cannot_be_prepared_refuses_the_change_and_one_that_is_gone_does_not() -> None:
    async with stock_cluster() as cluster:
        node = await running(cluster)
        gone = False

        async def in_the_way(request: Request) -> None:
            if request.method == "PATCH" and gone:
                await cluster.client.delete(Pod, "web", "default", grace_period_seconds=0)
            elif request.method == "PATCH":
                await cluster.annotate("web", {"beat": request.path + str(asyncio.get_running_loop().time())})

        reviews = NodeReviews(cluster.client_of(ADMIN, in_the_way))
        refused = await reviews.review(review(node, "sla=970:NoExecute"))
        assert refused["allowed"] is False
        assert "could not be prepared for the taint, try again" in refused["status"]["message"]
        gone = True
        assert (await reviews.review(review(node, "sla=970:NoExecute")))["allowed"]


@pytest.mark.req("B.5")
async def test_a_pod_with_too_many_tolerations_does_not_hold_up_the_node() -> None:
    async with stock_cluster() as cluster:
        node = await running(cluster)
        many = [f"sla={number}:NoExecute" for number in range(1000, 2100)]
        assert (await NodeReviews(cluster.client).review(review(node, *many)))["allowed"]


def server(cluster: StockCluster) -> WebhookServer:
    return WebhookServer(cluster.client, address="127.0.0.1", port=0, namespace="default", service="bridge")


async def post(port: int, trusted: ssl.SSLContext, path: str, body: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted, server_hostname="bridge.default.svc")
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    first, _, rest = answer.partition(b"\r\n")
    return int(first.split()[1]), rest.partition(b"\r\n\r\n")[2]


@pytest.mark.req("B.5", "B.7")
async def test_two_copies_share_an_authority_that_the_secret_keeps() -> None:
    async with stock_cluster() as cluster:
        async with server(cluster) as one, server(cluster) as other:
            authority = one.authority
            assert authority == other.authority
            trusted = ssl.create_default_context(cadata=one.authority.decode())
            pod = gated("web", [SLA])
            pod.spec.scheduling_gates = []
            body = json.dumps(
                {"apiVersion": "admission.k8s.io/v1", "request": {"uid": "7", "object": tree_of(pod)}}
            ).encode()
            for each in (one, other):
                status, found = await post(each.port, trusted, "/pods", body)
                response = json.loads(found)["response"]
                assert (status, response["uid"], response["allowed"]) == (200, "7", True)
                assert b"constraints.mooring.dev/bridge" in base64.b64decode(response["patch"])
            assert await one.publish() == []  # there are no configurations
        async with server(cluster) as later:
            assert later.authority == authority
        body_of = {"data": {"ca.crt": base64.b64encode(b"nonsense").decode()}}
        await cluster.client.patch(Secret, AUTHORITY, body_of, "default", type=PatchType.MERGE)
        with pytest.raises(OSError, match=r"is no authority for webhooks.*delete it"):
            async with server(cluster):
                pass


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/pods", b"", 400),
        ("/pods", b'{"apiVersion": "v1", "request": {"uid": "u"}}', 400),
        (
            "/pods",
            b'{"apiVersion": "v1", "request": {"uid": "u", "object": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
            400,
        ),
        (
            "/pods",
            b'{"apiVersion": "v1", "request": {"uid": "u", "object": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}}",
            200,
        ),
        ("/pods", b" " * (9 << 20), 400),
        ("/nodes", b'{"apiVersion": "v1", "request": {"uid": "u", "object": {"spec": 5}, "oldObject": {}}}', 200),
        (
            "/nodes",
            b'{"apiVersion": "v1", "request": {"uid": "u", "object": {"spec": 5}, "oldObject": {"kind": "N"}}}',
            400,
        ),
        ("/nodes", b'{"apiVersion": "v1", "request": {"uid": {"a": 1}, "object": 5, "oldObject": 6}}', 400),
        ("/other", b"{}", 404),
    ],
    ids=[
        "nothing",
        "no object",
        "too deep",
        "deep in what nobody knows",
        "too large",
        "nothing before",
        "no node",
        "numbers",
        "another path",
    ],
)
@pytest.mark.req("B.6")
async def test_a_hostile_body_is_answered(path: str, body: bytes, status: int) -> None:
    async with stock_cluster() as cluster, server(cluster) as one:
        trusted = ssl.create_default_context(cadata=one.authority.decode())
        assert (await post(one.port, trusted, path, body))[0] == status


async def test_an_address_that_is_taken_is_reported() -> None:
    async with stock_cluster() as cluster, server(cluster) as one:
        other = WebhookServer(cluster.client, address="127.0.0.1", port=one.port, namespace="default", service="bridge")
        with pytest.raises(OSError, match="choose another --webhook-port"):
            await other.__aenter__()


@dataclass
class Configurations:
    """A stock server's webhook configurations, as far as the bridge looks at them; the rest goes to the server."""

    cluster: StockCluster
    bundles: dict[str, str] = field(default_factory=dict)
    """By kind: what the API server trusts."""
    failing: int = 0
    """With this status writes are answered."""

    def replace(self) -> None:
        """As `kubectl replace` of the manifests, which have no bundle."""
        self.bundles = dict.fromkeys(CONFIGURATIONS, "")

    def client(self, clock: MockClock) -> Client:
        send = handler(self.cluster.server.app, ADMIN)

        async def asked(request: Request) -> HandlerResponse:
            plural = request.path.split("/")[-2]
            if plural not in self.bundles:
                return await send(request)
            if request.method == "PATCH" and self.failing:
                return Response(self.failing, {}, b"no", ())
            if request.method == "PATCH":
                (operation,) = json.loads(request.body)
                assert operation["path"] == "/webhooks/0/clientConfig/caBundle"
                self.bundles[plural] = operation["value"]
            tree = {"webhooks": [{"clientConfig": {"caBundle": self.bundles[plural]}}]}
            return Response(200, {"content-type": "application/json"}, json.dumps(tree).encode(), ())

        return Client(InProcessTransport(asked), user_agent="test", scheme=self.cluster.server.scheme, clock=clock)


@pytest.mark.req("B.5", "B.7")
async def test_configurations_that_are_replaced_get_the_authority_again() -> None:
    async with stock_cluster() as cluster:
        clock, configurations = MockClock(), Configurations(cluster)
        client = configurations.client(clock)
        async with WebhookServer(client, address="127.0.0.1", port=0, namespace="default", service="bridge") as one:
            authority = base64.b64encode(one.authority).decode()
            trusting = dict.fromkeys(CONFIGURATIONS, authority)
            for failing in (0, 422, 0):
                configurations.replace()
                configurations.failing = failing
                await clock.run(301)
                assert configurations.bundles == (dict.fromkeys(CONFIGURATIONS, "") if failing else trusting)


@pytest.mark.req("B.9")
async def test_a_server_that_may_not_write_configurations_serves_all_the_same() -> None:
    async with stock_cluster() as cluster:
        configurations = Configurations(cluster, failing=403)
        configurations.replace()
        client = configurations.client(MockClock())
        async with WebhookServer(client, address="127.0.0.1", port=0, namespace="default", service="bridge") as one:
            assert await one.publish() == []
