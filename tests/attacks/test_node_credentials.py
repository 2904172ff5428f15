"""A node's credential is good for its own node, its pods and what they name, and no more."""

import pytest

from asgi_calls import Caller

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
