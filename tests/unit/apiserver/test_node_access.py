"""What the credential of a node is good for: its own pods and what they name, itself, and nothing else."""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from api_caller import MERGE_PATCH, STRATEGIC, Answer
from mooring.api.authentication_v1 import UserInfo
from mooring.api.rbac_v1 import ClusterRoleBinding, RoleRef, Subject
from mooring.apiserver.access import bootstrap, bootstrap_roles
from mooring.apiserver.access.nodes import references
from mooring.apiserver.access.nodes.references import Reference
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.store.memory import MemoryStore
from policy_objects import API, rules, validating

pytestmark = [pytest.mark.req("N.6"), pytest.mark.asyncio(loop_scope="module")]

ADMIN = UserInfo(username="admin", groups=["system:masters", "system:authenticated"])
N1 = UserInfo(username="system:node:n1", groups=["system:nodes", "system:authenticated"])
N2 = UserInfo(username="system:node:n2", groups=["system:nodes", "system:authenticated"])
CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CERTIFICATES = "/apis/certificates.k8s.io/v1"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


class Server:
    """A whole server without a socket."""

    def __init__(self, server: ApiServer) -> None:
        self._app = server.app

    async def call(self, user: UserInfo, method: str, url: str, body: Any = None, media_type: str = "") -> Answer:
        path, _, query = url.partition("?")
        request = Request(
            method=method,
            path=path,
            query={name: [value] for name, _, value in (part.partition("=") for part in query.split("&") if part)},
            headers={"content-type": media_type or "application/json"},
            body=b"" if body is None else json.dumps(body).encode(),
            user=user,
        )
        response = await self._app.respond(request)
        return Answer(response.status, response.body if isinstance(response.body, bytes) else b"{}")

    async def create(self, url: str, kind: str, name: str, api_version: str = "v1", **parts: Any) -> dict[str, Any]:
        answer = await self.call(ADMIN, "POST", url, made(kind, name, api_version, **parts))
        assert answer.code == 201, answer.message
        return answer.body


def made(kind: str, name: str, api_version: str = "v1", **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, **parts.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def resource_slice(name: str, node: str) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example", "nodeName": node, "pool": pool, "devices": []}
    return made("ResourceSlice", name, "resource.k8s.io/v1", spec=spec)


def lease(name: str) -> dict[str, Any]:
    return made("Lease", name, "coordination.k8s.io/v1", spec={"holderIdentity": name})


TOKENS = [{"serviceAccountToken": {"path": path, "audience": path}} for path in ("", "vault")]
TOKENS[0]["serviceAccountToken"]["path"] = "token"


def pod_certificate(pod: str, node: str = "n1") -> dict[str, Any]:
    """Return what a kubelet asks for on behalf of a pod."""
    names = {"signerName": "example.com/own", "podName": pod, "serviceAccountName": "runner", "nodeName": node}
    uids = {"podUID": "u", "serviceAccountUID": "u", "nodeUID": "u"}
    key = ed25519.Ed25519PrivateKey.generate()
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, None)
    request = base64.b64encode(asked.public_bytes(serialization.Encoding.DER)).decode()
    spec = {**names, **uids, "stubPKCS10Request": request}
    return made("PodCertificateRequest", "", "certificates.k8s.io/v1", metadata={"generateName": "r-"}, spec=spec)


SPEC: dict[str, Any] = {
    "serviceAccountName": "runner",
    "imagePullSecrets": [{"name": "pull"}],
    "containers": [
        {
            "name": "c",
            "image": "img",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "a"}}}],
            "envFrom": [{"configMapRef": {"name": "all"}}],
        }
    ],
    "volumes": [
        {"name": "s", "secret": {"secretName": "mounted"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "projected"}}, *TOKENS]}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
    ],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """Two nodes with a pod each; what the pod on `n1` names is called otherwise than what the one on `n2` names."""
    config = ServerConfig(data_dir=Path(tmp_path_factory.mktemp("server")), ephemeral=True)
    async with await ApiServer.open(config, store=await MemoryStore.open()) as opened:
        server = Server(opened)
        for secret in ("mounted", "env", "pull", "of-volume", "other", "unused"):
            await server.create(f"{CORE}/secrets", "Secret", secret)
        for config_map in ("all", "projected", "elsewhere"):
            await server.create(f"{CORE}/configmaps", "ConfigMap", config_map)
        for account in ("runner", "default", "boss"):
            await server.call(ADMIN, "POST", f"{CORE}/serviceaccounts", made("ServiceAccount", account))
        await _volumes(server)
        for node in ("n1", "n2"):
            await server.create("/api/v1/nodes", "Node", node)
            await server.call(ADMIN, "POST", LEASES, lease(node))
            await server.call(ADMIN, "POST", SLICES, resource_slice(f"slice-{node}", node))
        await server.create(PODS, "Pod", "mine", spec={**SPEC, "nodeName": "n1"})
        other = {"volumes": [{"name": "s", "secret": {"secretName": "other"}}], "containers": SPEC["containers"][:1]}
        other["containers"] = [{"name": "c", "image": "img"}]
        await server.create(PODS, "Pod", "theirs", spec={**other, "nodeName": "n2"})
        await server.create(PODS, "Pod", "waiting", spec={**other})
        yield server


async def _volumes(server: Server) -> None:
    claim = {"namespace": "default", "name": "data"}
    driver = made("CSIDriver", "d", "storage.k8s.io/v1", spec={"tokenRequests": [{"audience": "driver"}]})
    assert (await server.call(ADMIN, "POST", "/apis/storage.k8s.io/v1/csidrivers", driver)).code == 201
    csi = {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"namespace": "default", "name": "of-volume"}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi}
    await server.create("/api/v1/persistentvolumes", "PersistentVolume", "pv", spec={**spec, "claimRef": claim})
    await server.create("/api/v1/persistentvolumes", "PersistentVolume", "free", spec=spec)
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"}
    for name in ("data", "other"):
        await server.create(f"{CORE}/persistentvolumeclaims", "PersistentVolumeClaim", name, spec=wanted)


@dataclass
class Case:
    name: str
    method: str
    url: str
    body: Any = None
    refusal: str = ""
    """Return the node's error text; an empty string when it is allowed."""
    media_type: str = ""


OWN, NOT_MINE = "", "no relationship found between node 'n1' and this object"
DRY = "?dryRun=All"
MIRROR: dict[str, Any] = {
    "metadata": {"annotations": {references.MIRROR: "x"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "img"}]},
}
TOKEN = made("TokenRequest", "", "authentication.k8s.io/v1", spec={})


def status(**parts: Any) -> dict[str, Any]:
    return {"status": {"phase": "Running"}, **parts}


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}}}


CASES = [
    Case("its own node", "GET", "/api/v1/nodes/n1"),
    Case("its own node by a selector", "GET", "/api/v1/nodes?fieldSelector=metadata.name=n1"),
    Case("another node", "GET", "/api/v1/nodes/n2", refusal="cannot read 'n2', only its own Node object"),
    Case("all nodes", "GET", "/api/v1/nodes", refusal="cannot read all nodes, only its own Node object"),
    Case("a pod that is there", "GET", f"{PODS}/mine"),
    Case("a pod on another node", "GET", f"{PODS}/theirs", refusal=NOT_MINE),
    Case("a pod on no node", "GET", f"{PODS}/waiting", refusal=NOT_MINE),
    Case("its pods by a selector", "GET", "/api/v1/pods?fieldSelector=spec.nodeName=n1"),
    Case("its pods in a watch", "GET", "/api/v1/pods?watch=true&fieldSelector=spec.nodeName=n1"),
    Case(
        "pods of another node", "GET", "/api/v1/pods?fieldSelector=spec.nodeName=n2", refusal="can only list/watch pods"
    ),
    Case("all pods", "GET", "/api/v1/pods", refusal="can only list/watch pods with spec.nodeName field selector"),
    Case("a mounted secret", "GET", f"{CORE}/secrets/mounted"),
    Case("a secret for variables", "GET", f"{CORE}/secrets/env"),
    Case("a secret for images", "GET", f"{CORE}/secrets/pull"),
    Case("a secret of a volume", "GET", f"{CORE}/secrets/of-volume"),
    Case("a mounted secret in a watch", "GET", f"{CORE}/secrets?watch=true&fieldSelector=metadata.name=mounted"),
    Case("a secret of another node's pod", "GET", f"{CORE}/secrets/other", refusal=NOT_MINE),
    Case("a secret that nobody uses", "GET", f"{CORE}/secrets/unused", refusal=NOT_MINE),
    Case("a secret that does not exist", "GET", f"{CORE}/secrets/nothing", refusal=NOT_MINE),
    Case("all secrets", "GET", "/api/v1/secrets", refusal="can only read namespaced object of this type"),
    Case("all secrets of a namespace", "GET", f"{CORE}/secrets", refusal="No Object name found"),
    Case("writing a secret", "DELETE", f"{CORE}/secrets/mounted", refusal="can only read resources of this type"),
    Case("a config map for variables", "GET", f"{CORE}/configmaps/all"),
    Case("a projected config map", "GET", f"{CORE}/configmaps/projected"),
    Case("a config map that nobody uses", "GET", f"{CORE}/configmaps/elsewhere", refusal=NOT_MINE),
    Case("a claim of its pod", "GET", f"{CORE}/persistentvolumeclaims/data"),
    Case("another claim", "GET", f"{CORE}/persistentvolumeclaims/other", refusal=NOT_MINE),
    Case("the volume of that claim", "GET", "/api/v1/persistentvolumes/pv"),
    Case("another volume", "GET", "/api/v1/persistentvolumes/free", refusal=NOT_MINE),
    Case("all volumes", "GET", "/api/v1/persistentvolumes", refusal="can only get individual resources of this type"),
    Case("the account of its pod", "GET", f"{CORE}/serviceaccounts/runner"),
    Case("another account", "GET", f"{CORE}/serviceaccounts/boss", refusal=NOT_MINE),
    Case("a token of another account", "POST", f"{CORE}/serviceaccounts/boss/token", TOKEN, NOT_MINE),
    Case("a token without a pod", "POST", f"{CORE}/serviceaccounts/runner/token", TOKEN, "not bound to a pod"),
    Case("services", "GET", "/api/v1/services"),
    Case("workloads", "GET", "/apis/apps/v1/deployments", refusal="cannot list resource"),
    Case("roles", "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", refusal="cannot list resource"),
    Case("metrics", "GET", "/metrics", refusal="cannot get path"),
    Case("its own lease", "GET", f"{LEASES}/n1"),
    Case("another lease", "GET", f"{LEASES}/n2", refusal="same name as the requesting node"),
    Case("making another's lease", "POST", LEASES + DRY, lease("n3"), "same name as the requesting node"),
    Case(
        "leases elsewhere",
        "GET",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/n1",
        refusal='in the "kube-node-lease"',
    ),
    Case("its CSINode", "POST", CSI_NODES + DRY, made("CSINode", "n1", "storage.k8s.io/v1", spec={"drivers": []})),
    Case(
        "another's CSINode",
        "POST",
        CSI_NODES + DRY,
        made("CSINode", "n2", "storage.k8s.io/v1", spec={"drivers": []}),
        "can only access CSINode with the same name",
    ),
    Case("its slice", "GET", f"{SLICES}/slice-n1"),
    Case("its slices by a selector", "GET", f"{SLICES}?fieldSelector=spec.nodeName=n1"),
    Case("another's slice", "GET", f"{SLICES}/slice-n2", refusal=NOT_MINE),
    Case("making its slice", "POST", SLICES + DRY, resource_slice("new", "n1")),
    Case(
        "making another's slice",
        "POST",
        SLICES + DRY,
        resource_slice("new", "n2"),
        "can only create ResourceSlice with the same NodeName",
    ),
    Case("all slices", "GET", SLICES, refusal="with nodeName field selector"),
    Case("requests for certificates", "GET", f"{CERTIFICATES}/certificatesigningrequests"),
    Case(
        "its pods' requests for certificates",
        "GET",
        f"{CERTIFICATES}/podcertificaterequests?fieldSelector=spec.nodeName=n1",
    ),
    Case("all of them", "GET", f"{CERTIFICATES}/podcertificaterequests", refusal="with nodeName field selector"),
    Case(
        "a certificate of another's pod",
        "POST",
        f"{CERTIFICATES}/namespaces/default/podcertificaterequests{DRY}",
        pod_certificate("theirs"),
        'pod "theirs" is not running on node "n1"',
    ),
    Case(
        "a certificate of another's node",
        "POST",
        f"{CERTIFICATES}/namespaces/default/podcertificaterequests{DRY}",
        pod_certificate("mine", node="n2"),
        'which is not the requesting node "n1"',
    ),
    Case(
        "the status of its node",
        "PATCH",
        f"/api/v1/nodes/n1/status{DRY}",
        {"status": {"phase": ""}},
        media_type=STRATEGIC,
    ),
    Case(
        "the status of another node",
        "PATCH",
        f"/api/v1/nodes/n2/status{DRY}",
        {"status": {}},
        'not allowed to modify node "n2"',
        STRATEGIC,
    ),
    Case(
        "a label for kubelets",
        "PATCH",
        f"/api/v1/nodes/n1{DRY}",
        labelled(kubernetes_io__os="linux", node_kubernetes_io__x="y", team="a"),
        media_type=MERGE_PATCH,
    ),
    Case(
        "a restricted label",
        "PATCH",
        f"/api/v1/nodes/n1{DRY}",
        {"metadata": {"labels": {"x.node-restriction.kubernetes.io/y": "z"}}},
        "not allowed to modify labels: x.node-restriction",
        MERGE_PATCH,
    ),
    Case(
        "a label of Kubernetes",
        "PATCH",
        f"/api/v1/nodes/n1{DRY}",
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        "not allowed to modify labels: node-role",
        MERGE_PATCH,
    ),
    Case(
        "its own taints",
        "PATCH",
        f"/api/v1/nodes/n1{DRY}",
        {"spec": {"taints": []}},
        "not allowed to modify taints",
        MERGE_PATCH,
    ),
    Case("deleting its node", "DELETE", f"/api/v1/nodes/n1{DRY}", refusal="cannot delete resource"),
    Case(
        "registering as another", "POST", f"/api/v1/nodes{DRY}", made("Node", "n3"), 'not allowed to modify node "n3"'
    ),
    Case("the status of its pod", "PATCH", f"{PODS}/mine/status{DRY}", status(), media_type=STRATEGIC),
    Case(
        "labels by its pod's status",
        "PATCH",
        f"{PODS}/mine/status{DRY}",
        status(**labelled(a="b")),
        "cannot update labels through pod status",
        STRATEGIC,
    ),
    Case(
        "the status of another's pod",
        "PATCH",
        f"{PODS}/theirs/status{DRY}",
        status(),
        "can only update pod status for pods",
        STRATEGIC,
    ),
    Case("changing its pod", "PATCH", f"{PODS}/mine{DRY}", labelled(a="b"), "cannot patch resource", MERGE_PATCH),
    Case("deleting its pod", "DELETE", f"{PODS}/mine{DRY}"),
    Case(
        "deleting another's pod",
        "DELETE",
        f"{PODS}/theirs{DRY}",
        refusal="can only delete pods with spec.nodeName set to itself",
    ),
    Case(
        "evicting another's pod",
        "POST",
        f"{PODS}/theirs/eviction{DRY}",
        made("Eviction", "theirs", "policy/v1"),
        "can only evict pods with spec.nodeName",
    ),
    Case(
        "a pod that is no mirror",
        "POST",
        PODS + DRY,
        made("Pod", "new", spec=MIRROR["spec"]),
        "can only create mirror pods",
    ),
    Case(
        "a mirror pod without an owner",
        "POST",
        PODS + DRY,
        made("Pod", "new", **MIRROR),
        "owner reference set to itself",
    ),
    Case(
        "binding a pod",
        "POST",
        f"{PODS}/waiting/binding{DRY}",
        made("Binding", "waiting", target={"name": "n1"}),
        "cannot create resource",
    ),
    Case(
        "the status of its claim",
        "PATCH",
        f"{CORE}/persistentvolumeclaims/data/status{DRY}",
        {"status": {"capacity": {"storage": "2Gi"}}},
        media_type=STRATEGIC,
    ),
    Case(
        "a claim's phase",
        "PATCH",
        f"{CORE}/persistentvolumeclaims/data/status{DRY}",
        {"status": {"phase": "Lost"}},
        "other than status.quantity and status.conditions",
        STRATEGIC,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_node_may(server: Server, case: Case) -> None:
    answer = await server.call(N1, case.method, case.url, case.body, case.media_type)
    if case.refusal:
        assert answer.code == 403, answer.text
        assert case.refusal in answer.message
    else:
        assert answer.code in {200, 201}, answer.message


async def test_a_token_is_for_a_pod_on_the_node_and_for_an_audience_that_it_asks_for(server: Server) -> None:
    uids = {
        name: (await server.call(ADMIN, "GET", f"{PODS}/{name}")).body["metadata"]["uid"] for name in ("mine", "theirs")
    }

    async def ask(account: str, pod: str, uid: str, *audiences: str) -> str:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        spec = {"audiences": [*audiences], "boundObjectRef": bound}
        wanted = made("TokenRequest", "", "authentication.k8s.io/v1", spec=spec)
        answer = await server.call(N1, "POST", f"{CORE}/serviceaccounts/{account}/token", wanted)
        return "" if answer.code == 201 else answer.message

    assert "without a uid" in await ask("runner", "mine", "")
    assert NOT_MINE in await ask("default", "theirs", uids["theirs"])
    assert "scheduled on a different node" in await ask("runner", "theirs", uids["theirs"])
    assert 'not authorized to request tokens for audience "other"' in await ask("runner", "mine", uids["mine"], "other")
    assert "0 or 1 audiences" in await ask("runner", "mine", uids["mine"], "vault", "driver")
    assert await ask("runner", "mine", uids["mine"]) == "", "the projected token that every pod gets"
    assert await ask("runner", "mine", uids["mine"], "vault") == "", "a projected token for somebody"
    assert await ask("runner", "mine", uids["mine"], "driver") == "", "what the driver of its volume wants"


async def test_rights_come_and_go_with_the_pods(server: Server) -> None:
    async def may() -> bool:
        return (await server.call(N1, "GET", f"{CORE}/secrets/unused")).code == 200

    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "img"}]}
    volume = {"name": "s", "secret": {"secretName": "unused"}}
    assert not await may()
    await server.create(PODS, "Pod", "brief", spec={**spec, "volumes": [volume]})
    assert await may()
    await server.call(ADMIN, "DELETE", f"{PODS}/brief", {"gracePeriodSeconds": 0})
    assert not await may()


async def test_a_node_learns_that_its_pod_is_gone_and_nothing_of_one_that_takes_its_name(server: Server) -> None:
    async def code(user: UserInfo) -> int:
        return (await server.call(user, "GET", f"{PODS}/brief")).code

    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "img"}]}
    await server.create(PODS, "Pod", "brief", spec=spec)
    assert (await code(N1), await code(N2)) == (200, 403)
    await server.call(ADMIN, "DELETE", f"{PODS}/brief", {"gracePeriodSeconds": 0})
    assert (await code(N1), await code(N2)) == (404, 403)
    await server.create(PODS, "Pod", "brief", spec={**spec, "nodeName": "n2"})
    assert (await code(N1), await code(N2)) == (403, 200)


async def test_a_mirror_pod_gives_no_rights_and_may_name_nothing(server: Server) -> None:
    uid = (await server.call(ADMIN, "GET", "/api/v1/nodes/n1")).body["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    metadata = {"annotations": {references.MIRROR: "x"}, "ownerReferences": [owner]}
    assert (
        await server.call(N1, "POST", PODS + DRY, made("Pod", "m", metadata=metadata, spec=MIRROR["spec"]))
    ).code == 201
    earlier = {**metadata, "ownerReferences": [{**owner, "uid": "of-before"}]}
    answer = await server.call(N1, "POST", PODS + DRY, made("Pod", "m", metadata=earlier, spec=MIRROR["spec"]))
    assert "UID mismatch" in answer.message
    spec = {**MIRROR["spec"], "volumes": [{"name": "s", "configMap": {"name": "all"}}]}
    answer = await server.call(N1, "POST", PODS + DRY, made("Pod", "m", metadata=metadata, spec=spec))
    assert "can not create pods that reference configmaps" in answer.message
    tree = made("Pod", "m", metadata={**metadata, "namespace": "default"}, spec=spec)
    assert references.references_of_pod(tree) == frozenset()
    assert Reference("configmaps", "default", "all") in references.named_by(tree)


async def test_a_user_of_the_group_who_names_no_node_may_write_nothing(server: Server) -> None:
    without_identity = UserInfo(username="somebody", groups=["system:nodes", "system:masters"])
    answer = await server.call(without_identity, "PATCH", f"/api/v1/nodes/n1{DRY}", labelled(a="b"), MERGE_PATCH)
    assert 'could not determine node from user "somebody"' in answer.message


async def test_what_rbac_gives_to_a_node_it_may_do_besides(server: Server) -> None:
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:node:n9"}
    reference = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "view"}
    url = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = made("ClusterRoleBinding", "extra", "rbac.authorization.k8s.io/v1", subjects=[subject], roleRef=reference)
    assert (await server.call(ADMIN, "POST", url, binding)).code == 201
    n9 = UserInfo(username="system:node:n9", groups=["system:nodes", "system:authenticated"])
    assert (await server.call(n9, "GET", "/apis/apps/v1/deployments")).code == 200


async def test_a_server_that_starts_takes_the_role_of_nodes_from_their_group() -> None:
    [wanted] = [
        each for each in bootstrap_roles.load_roles().cluster_role_bindings if each.metadata.name == "system:node"
    ]
    group = Subject(kind="Group", api_group="rbac.authorization.k8s.io", name="system:nodes")
    own = Subject(kind="User", api_group="rbac.authorization.k8s.io", name="somebody")
    reference = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="system:node")
    earlier = ClusterRoleBinding(metadata=wanted.metadata, role_ref=reference, subjects=[group, own])
    assert bootstrap.add_missing(earlier, wanted)
    assert earlier.subjects == [own]


async def test_a_review_of_a_nodes_rights_knows_its_pods(server: Server) -> None:
    for secret, allowed in (("mounted", True), ("other", False)):
        wanted = {"verb": "get", "resource": "secrets", "namespace": "default", "name": secret}
        spec = {"user": N1.username, "groups": N1.groups, "resourceAttributes": wanted}
        review = made("SubjectAccessReview", "", "authorization.k8s.io/v1", spec=spec)
        answer = await server.call(ADMIN, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert answer.body["status"]["allowed"] is allowed


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        pytest.param({"rawSelector": "spec.nodeName=n1"}, True, id="its own node"),
        pytest.param({"rawSelector": "spec.nodeName=n2"}, False, id="another node"),
        pytest.param({"rawSelector": "spec.nodeName!=n1"}, False, id="all but its own"),
        pytest.param(None, False, id="none"),
        pytest.param({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}, True, id="list"),
    ],
)
async def test_a_review_looks_at_the_field_selector(server: Server, selector: Any, allowed: bool) -> None:
    wanted = {"verb": "list", "resource": "pods", "version": "v1", "fieldSelector": selector}
    spec = {"user": N1.username, "groups": N1.groups, "resourceAttributes": wanted}
    review = made("SubjectAccessReview", "", "authorization.k8s.io/v1", spec=spec)
    answer = await server.call(ADMIN, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer.body["status"]["allowed"] is allowed


@pytest.mark.req("X.7")
async def test_a_policy_that_asks_for_rights_sees_the_field_selector(server: Server) -> None:
    asked = "authorizer.group('').resource('pods').fieldSelector('spec.nodeName={}').check('list').allowed()"
    policy, binding = validating(
        "by-node",
        f"{asked.format('n1')} && !{asked.format('n2')}",
        matchConstraints=rules("leases", group="coordination.k8s.io"),
    )
    for tree in (policy, binding):
        plural = "validatingadmissionpolicies" if tree is policy else "validatingadmissionpolicybindings"
        assert (await server.call(ADMIN, "POST", f"/apis/{API}/{plural}", tree)).code == 201
    renewed = {"spec": {"leaseDurationSeconds": 40}}
    assert (await server.call(N1, "PATCH", f"{LEASES}/n1{DRY}", renewed, MERGE_PATCH)).code == 200
    assert "failed expression" in (await server.call(N2, "POST", LEASES + DRY, lease("n2"))).message
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        await server.call(ADMIN, "DELETE", f"/apis/{API}/{plural}/by-node")
