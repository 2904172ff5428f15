"""Pods, their status and their deletions as items of `POST /writes`, and a server in this process to send them to."""

import json
import re
from typing import Any

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.server import ApiServer

ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])
WRITER = users.authenticated_user("somebody")
PODS = "/api/v1/namespaces/default/pods"
Json = dict[str, Any]
_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|agent-[a-z0-9]{5}|(?<=object meta: )\d+")
_OWN = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time"}


def pod(name: str, **meta: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "app:1"}], "nodeName": "n", "automountServiceAccountToken": False}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}
    return {"method": "POST", "path": PODS, "body": body}


def status(name: str, phase: str = "Running", version: str = "", **fields: Any) -> Json:
    meta = {"name": name, **({"resourceVersion": version} if version else {})}
    conditions = [{"type": "Ready", "status": "True"}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    return {
        "method": "PUT",
        "path": f"{PODS}/{name}/status",
        "body": {**body, "spec": {}, "status": {"phase": phase, "conditions": conditions, **fields}},
    }


def deletion(name: str, **options: Any) -> Json:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
    return {"method": "DELETE", "path": f"{PODS}/{name}", "body": body}


async def written(server: ApiServer, *writes: Json, user: UserInfo = ADMIN) -> list[Json]:
    body = json.dumps({"items": writes}, separators=(",", ":")).encode()  # as our client writes it
    response = await server.app.respond(Request(method="POST", path="/writes", body=body, user=user))
    assert isinstance(response.body, bytes)
    assert response.status == 200, response.body
    items: list[Json] = json.loads(response.body)["items"]
    return items


async def got(server: ApiServer, path: str) -> Json:
    response = await server.app.respond(Request(method="GET", path=path, user=ADMIN))
    assert isinstance(response.body, bytes)
    found: Json = json.loads(response.body)
    return found


def nameless(value: Any, namespaces: tuple[str, ...]) -> Any:
    """Return an answer without what no two objects have in common."""
    if isinstance(value, dict):
        return {name: nameless(each, namespaces) for name, each in value.items() if name not in _OWN}
    if isinstance(value, str):
        return next((value.replace(each, "…") for each in namespaces if each in value), _MADE_UP.sub("…", value))
    return [nameless(each, namespaces) for each in value] if isinstance(value, list) else value


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def moved(place: str, write: Json) -> Json:
    """Return a write in another namespace."""
    text = json.dumps(write).replace("namespaces/default/", f"namespaces/{place}/")
    found: Json = json.loads(text.replace('"namespace": "default"', f'"namespace": "{place}"'))
    return found


async def make_namespaces(server: ApiServer, *names: str) -> None:
    """Namespaces in which pods can be created."""
    for name in names:
        await written(server, {"method": "POST", "path": "/api/v1/namespaces", "body": namespace(name)})
        account = {"metadata": {"name": "default"}}
        await written(server, {"method": "POST", "path": f"/api/v1/namespaces/{name}/serviceaccounts", "body": account})


async def allow(server: ApiServer, *rules: Json) -> None:
    """Grant the user WRITER the right to batches, and these rights."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": "some"}, "rules": [{"verbs": ["post"], "nonResourceURLs": ["/writes"]}, *rules]}
    subject = {"kind": "User", "name": "somebody", "apiGroup": "rbac.authorization.k8s.io"}
    refers = {"kind": "ClusterRole", "name": "some", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "some"}, "roleRef": refers, "subjects": [subject]}
    made = await written(
        server,
        {"method": "POST", "path": f"{group}/clusterroles", "body": role},
        {"method": "POST", "path": f"{group}/clusterrolebindings", "body": binding},
    )
    assert [each["code"] for each in made] == [201, 201]
