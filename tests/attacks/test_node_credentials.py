"""A node's credential is good for its own node, its pods and what they name, and no more."""

import pytest

from app_calls import Caller

pytestmark = pytest.mark.req("S.6")
TOKEN = "/api/v1/namespaces/kube-system/serviceaccounts/default/token"

ATTEMPTS = [
    ("a token of any service account", "POST", TOKEN, {"spec": {"audiences": ["https://kubernetes.default.svc"]}}),
    ("all secrets", "GET", "/api/v1/secrets", None),
    ("a secret that no pod of its own names", "GET", "/api/v1/namespaces/kube-system/secrets/s", None),
    ("another node", "PATCH", "/api/v1/nodes/other", {"metadata": {"labels": {"a": "b"}}}),
    ("a role", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "r"}}),
    ("a pod on another node", "DELETE", "/api/v1/namespaces/default/pods/theirs", None),
]


@pytest.mark.parametrize(
    ("method", "path", "body"), [attempt[1:] for attempt in ATTEMPTS], ids=[attempt[0] for attempt in ATTEMPTS]
)
async def test_a_node_does_not_get(call: Caller, method: str, path: str, body: object) -> None:
    for name in ("mine", "other"):
        assert (await call("POST", "/api/v1/nodes", {"metadata": {"name": name}})).status == 201
    await call("POST", "/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": {"name": "default"}})
    await call("POST", "/api/v1/namespaces/kube-system/secrets", {"metadata": {"name": "s"}})
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "other"}
    await call("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "theirs"}, "spec": spec})
    node = call.as_user("system:node:mine", "system:nodes")
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    assert (await node(method, path, body, content_type=content_type)).status == 403


def _mirror_pod(uid: str, **spec: object) -> dict[str, object]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "mine", "uid": uid, "controller": True}
    metadata = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    own = {"containers": [{"name": "c", "image": "i"}], "nodeName": "mine", "automountServiceAccountToken": False}
    return {"metadata": metadata, "spec": own | spec}


def _projected(source: dict[str, object]) -> dict[str, object]:
    return {"volumes": [{"name": "v", "projected": {"sources": [source]}}]}


CERTIFICATE = {"signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "b"}
MIRRORED: list[tuple[str, dict[str, object], str]] = [
    ("a claim", {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]}, "resourceclaims"),
    ("a claim template", {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "b"}]}, "resourceclaims"),
    ("a trust bundle", _projected({"clusterTrustBundle": {"name": "b", "path": "p"}}), "clustertrustbundles"),
    ("a certificate", _projected({"podCertificate": CERTIFICATE}), "podcertificates"),
    ("a driver of volumes", {"volumes": [{"name": "v", "csi": {"driver": "d.example.com"}}]}, "csidrivers"),
    ("endpoints", {"volumes": [{"name": "v", "glusterfs": {"endpoints": "e", "path": "p"}}]}, "endpoints"),
]


@pytest.mark.parametrize(("spec", "named"), [case[1:] for case in MIRRORED], ids=[case[0] for case in MIRRORED])
async def test_a_mirror_pod_does_not_name(call: Caller, spec: dict[str, object], named: str) -> None:
    uid = (await call("POST", "/api/v1/nodes", {"metadata": {"name": "mine"}})).json["metadata"]["uid"]
    node = call.as_user("system:node:mine", "system:nodes")
    path = "/api/v1/namespaces/default/pods"
    refused = await node("POST", path, _mirror_pod(uid, **spec))
    assert (refused.status, f"can not create pods that reference {named}" in refused.message) == (403, True)
    assert (await node("POST", path, _mirror_pod(uid))).status == 201


async def test_a_node_does_not_name_claims_in_the_status_of_its_pods(call: Caller) -> None:
    await call("POST", "/api/v1/nodes", {"metadata": {"name": "mine"}})
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "mine"}
    pods = "/api/v1/namespaces/default/pods"
    assert (await call("POST", pods, {"metadata": {"name": "p"}, "spec": spec})).status == 201
    node = call.as_user("system:node:mine", "system:nodes")
    merge = "application/merge-patch+json"
    for field, value in (
        ("resourceClaimStatuses", [{"name": "a", "resourceClaimName": "theirs"}]),
        ("extendedResourceClaimStatus", {"resourceClaimName": "theirs", "requestMappings": []}),
    ):
        answer = await node("PATCH", f"{pods}/p/status", {"status": {field: value}}, content_type=merge)
        assert answer.status in {403, 422}, field
        claim = await node("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/theirs")
        assert claim.status == 403
