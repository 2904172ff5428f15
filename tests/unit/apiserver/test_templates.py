"""Writes of one template have the outcomes that they would have alone: what is stored is equal byte for byte."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admission_kinds import EXAMPLES, SCHEME, decoded, merged, name_for
from admission_pods import Tree
from group_writes import ADMIN, got, make_namespaces, written
from mooring.admission import rows
from mooring.api import codec
from mooring.api.batch_writes import Row
from mooring.api.core_v1 import Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.testing.clock import MockClock
from policy_objects import GROUP, mutating, rules, validating
from quota_objects import quota

pytestmark = pytest.mark.req("W.1", "W.3")
SHARED, APART = "shared", "apart"
_OWN = re.compile(
    rb'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|(?<=web-)[a-z0-9]{5}(?=[\\"])|(?<=kube-api-access-)[a-z0-9]{5}'
    rb'|(?<=")10\.[0-9.]+(?=")|shared|apart'
)
"""What no two objects have in common: uids, generated names, namespaces, cluster IPs."""
_LATER = re.compile(rb',"status":\{("hard".*|\}+)$', re.DOTALL)
"""What the server counts of a quota after it was created."""
_STATUS_LABELS = ("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    opened = await ApiServer.open(ServerConfig(data_dir=tmp_path, port=0, ephemeral=True), clock=MockClock())
    try:
        await make_namespaces(opened, SHARED, APART)
        yield opened
    finally:
        await opened.close()


def pod(name: str, **change: Any) -> Tree:
    meta = {"labels": {"app": "web"}, **({"name": name} if name else {"generateName": "web-"})}
    spec = {"containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]}
    made: Tree = merged({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, change)
    return made


def stateful(number: int) -> Tree:
    labels = dict(zip(_STATUS_LABELS, (f"web-{number}", str(number)), strict=True))
    return pod(f"web-{number}", metadata={"labels": labels}, spec={"hostname": f"web-{number}"})


def daemon(node: str) -> Tree:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod("", spec={"affinity": affinity})


def ephemeral(name: str) -> Tree:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
    return pod(name, spec={"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]})


CREATES: dict[str, list[Tree]] = {
    "generated names": [pod("")] * 3,
    "names": [pod("a"), pod("b"), pod("c")],
    "a name twice": [pod("a"), pod("b"), pod("a")],
    "an invalid name": [pod("a"), pod("B"), pod("c")],
    "the first name is invalid": [pod("A"), pod("b"), pod("c")],
    "a StatefulSet's": [stateful(number) for number in range(3)],
    "a StatefulSet's with a bad label": [stateful(0), merged(stateful(1), {"spec": {"hostname": "-"}}), stateful(2)],
    "a DaemonSet's": [daemon("n1"), daemon("n2"), daemon("N3")],
    "claims named after the pod": [ephemeral("a"), ephemeral("b" * 250), ephemeral("c")],
    "on nodes": [pod(name, spec={"nodeName": f"node-{name}"}) for name in "abc"],
    "keys of labels": [
        merged(
            stateful(number),
            {
                "spec": {
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": "web"}},
                            "matchLabelKeys": [_STATUS_LABELS[1]],
                        }
                    ]
                }
            },
        )
        for number in range(3)
    ],
    "with warnings": [pod(name, spec={"nodeSelector": {"beta.kubernetes.io/os": "linux"}}) for name in "abc"],
    "all invalid": [pod(name, spec={"containers": [{"name": "c"}]}) for name in "abc"],
}
_UNREACHABLE = {
    "name": "hook.example.com",
    "clientConfig": {"url": "https://127.0.0.1:9/"},
    "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods", "pods/status"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "timeoutSeconds": 1,
}
_MARKED = "Object{metadata: Object.metadata{labels: {'n': object.metadata.name}}}"
_CONFIGURATION = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "hooks"}}


def _configured(sort: str, policy: str) -> Tree:
    hook = {**_UNREACHABLE, "failurePolicy": policy}
    return {"kind": f"{sort}WebhookConfiguration", **_CONFIGURATION, "webhooks": [hook]}


SETUPS: dict[str, list[Tree]] = {
    "nothing": [],
    "a policy about names": validating(
        "no-b",
        "object == null || object.metadata.name != 'b'",
        matchConstraints=rules("pods", "CREATE", "UPDATE", "DELETE"),
    ),
    "a policy that changes pods": mutating("mark", _MARKED, matchConstraints=rules("pods", "CREATE", "UPDATE")),
    "a webhook that refuses": [
        {
            "kind": "ValidatingWebhookConfiguration",
            **_CONFIGURATION,
            "webhooks": [{**_UNREACHABLE, "failurePolicy": "Fail"}],
        }
    ],
    "a webhook that is ignored": [
        {
            "kind": "MutatingWebhookConfiguration",
            **_CONFIGURATION,
            "webhooks": [{**_UNREACHABLE, "failurePolicy": "Ignore"}],
        }
    ],
    "a quota with room for two": [quota({"pods": "2", "requests.cpu": "2"})],
    "a limit range": [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "l"},
            "spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]},
        }
    ],
}


async def set_up(server: ApiServer, objects: Sequence[Tree]) -> None:
    for each in objects:
        if each["kind"] in {"ResourceQuota", "LimitRange"}:
            paths = [f"/api/v1/namespaces/{namespace}/{each['kind'].lower()}s" for namespace in (SHARED, APART)]
        else:
            plural = f"{each['kind'].lower()}s".replace("policys", "policies")
            paths = [f"{GROUP}/{plural}"]
        for path in paths:
            request = Request(method="POST", path=path, body=json.dumps(each).encode(), user=ADMIN)
            response = await server.app.respond(request)
            assert response.status == 201, response.body
            if each["kind"] == "ResourceQuota":
                await until_counted(server, f"{path}/q")


async def until_counted(server: ApiServer, path: str) -> None:
    async with asyncio.timeout(20):
        while "used" not in (await got(server, path)).get("status", {}):  # noqa: ASYNC110 - the recount has no event
            await asyncio.sleep(0)


def items(kind: Kind, objects: Sequence[Resource], namespace: str) -> list[Tree]:
    """Create as rows of templates, as the client sends them."""
    group = f"apis/{kind.group}" if kind.group else "api"
    path = f"/{group}/{kind.version}/namespaces/{namespace}/{kind.plural}"
    by_template: dict[bytes, list[Row]] = {}
    for each in objects:
        template, row = rows.split_template(each)
        by_template.setdefault(codec.encode(template), []).append(row)
    return [
        {"method": "POST", "path": path, "body": json.loads(body), "rows": msgspec.to_builtins(found)}
        for body, found in by_template.items()
    ]


def comparable(answers: Any) -> Any:
    """Answers without what no two objects have in common."""
    text = _OWN.sub(b"#", json.dumps(answers).encode())
    return json.loads(re.sub(rb'"resourceVersion": "\d+"', b'"resourceVersion": "#"', text))


async def stored(server: ApiServer, prefix: str, namespace: str) -> list[bytes]:
    page = await server.store.range(f"{prefix}{namespace}/")
    return sorted(_LATER.sub(b"", _OWN.sub(b"#", kv.value)) for kv in page.items)


async def compare_creates(server: ApiServer, kind: Kind, objects: Sequence[Resource]) -> list[Tree]:
    """Create objects as rows of a batch, and one by one in another namespace; return the answers."""
    prefix = server.app.resources.context.kinds.find(kind).prefix
    shared = items(kind, objects, SHARED)
    order = [each for item in shared for each in item["rows"]]
    answers = await written(server, *shared)
    apart: list[Any] = []
    for item in items(kind, objects, APART):
        for row in item["rows"]:
            template = decoded_of(kind, item["body"])
            rows.insert_row(template, msgspec.convert(row, Row))
            whole = {"method": "POST", "path": item["path"], "body": json.loads(codec.encode(template))}
            apart += await written(server, whole)
    assert len(order) == len(answers)
    assert comparable(answers) == comparable(apart)
    assert await stored(server, prefix, SHARED) == await stored(server, prefix, APART)
    return answers


def decoded_of(kind: Kind, body: Tree) -> Resource:
    found: Resource = codec.decode_own(json.dumps(body).encode(), kind.type)
    return found


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
@pytest.mark.parametrize("pods", CREATES.values(), ids=CREATES)
async def test_pods_of_a_template_are_created_as_if_each_were_alone(
    server: ApiServer, setup: list[Tree], pods: list[Tree]
) -> None:
    await set_up(server, setup)
    kind = SCHEME.kind("v1", "Pod")
    assert kind is not None
    await compare_creates(server, kind, [decoded(each) for each in pods])


def examples(server: ApiServer) -> dict[Kind, list[Resource]]:
    """Return three objects of each kind that has collections in namespaces, which is what rows are for."""
    found: dict[Kind, list[Resource]] = {}
    for name, (version, tree) in sorted(EXAMPLES.items(), key=lambda item: item[0] in {"LimitRange", "ResourceQuota"}):
        kind = server.scheme.kind(version, name)
        if kind is not None and kind.namespaced and kind.stored and server.scheme.is_served(kind):
            trees = [
                {"apiVersion": version, "kind": name, "metadata": {"name": f"{name_for(name)}{number}"}, **tree}
                for number in range(3)
            ]
            found[kind] = [codec.decode(json.dumps(each).encode(), kind.type).object for each in trees]
    return found


def _of_all_kinds(setup: Tree) -> Tree:
    """Return a policy or a webhook for pods as one for all kinds."""
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    if "webhooks" in setup:
        return {**setup, "webhooks": [{**each, "rules": [everything]} for each in setup["webhooks"]]}
    matched = {"matchConstraints": {"resourceRules": [everything]}} if "matchConstraints" in setup["spec"] else {}
    return {**setup, "spec": {**setup["spec"], **matched}}


def _room_for_two(kinds: Iterable[Kind]) -> list[Tree]:
    return [
        quota({f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}": "2" for kind in kinds})
    ]


@pytest.mark.parametrize(
    ("setup", "codes"),
    [
        ("nothing", {201}),
        ("a policy about names", {201, 422}),
        ("a policy that changes pods", {201}),
        ("a webhook that refuses", {500}),
        ("a webhook that is ignored", {201}),
        ("a quota with room for two", {201, 403}),
    ],
)
async def test_objects_of_every_kind_are_created_as_if_each_were_alone(
    server: ApiServer, setup: str, codes: set[int]
) -> None:
    by_kind = examples(server)
    of_all = [_of_all_kinds(each) for each in SETUPS[setup] if each["kind"] != "ResourceQuota"]
    if setup == "a policy about names":
        of_all[0]["spec"]["validations"] = [{"expression": "object == null || !object.metadata.name.endsWith('1')"}]
    await set_up(server, of_all or (_room_for_two(by_kind) if 403 in codes else []))
    for kind, objects in by_kind.items():
        answers = await compare_creates(server, kind, objects)
        is_elsewhere = kind.kind == "Event"  # its object is in the namespace `default`, so that it is invalid
        assert is_elsewhere or {each["code"] for each in answers} == codes, kind.kind


# -- pods that are there already


def running(found: Tree, number: int, phase: str = "Running") -> Tree:
    """Return a pod with the status that a kubelet writes."""
    address = f"192.168.0.{number + 1}"
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    container = {
        "name": "c",
        "image": "app:1",
        "imageID": "x",
        "ready": True,
        "restartCount": 0,
        "state": state,
        "containerID": f"containerd://{number}",
    }
    status = {
        "phase": phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "192.168.1.1",
        "hostIPs": [{"ip": "192.168.1.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [container],
    }
    kept = ("name", "namespace", "uid", "labels", "resourceVersion")
    meta = {name: found["metadata"][name] for name in kept if name in found["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}, "status": status}


_GRACE = {"kind": "DeleteOptions", "apiVersion": "v1"}
_NOW = {**_GRACE, "gracePeriodSeconds": 0}
_RELEASE = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}}
_STRATEGIC = "application/strategic-merge-patch+json"


def writes(pods: Sequence[Tree], namespace: str, verb: str) -> list[Tree]:
    """Return the writes of one step, each alone."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    made: list[Tree] = []
    for number, each in enumerate(pods):
        name, uid = each["metadata"]["name"], each["metadata"]["uid"]
        if verb in {"run", "fail", "end"}:
            phase = {"run": "Running", "fail": "Failed", "end": "Succeeded"}[verb]
            write = {"method": "PUT", "path": f"{path}/{name}/status", "body": running(each, number, phase)}
            made.append({**write, "thenDelete": _NOW} if verb == "end" else write)
        elif verb == "release":
            body = {"metadata": {"uid": uid, **_RELEASE["metadata"]}}
            made.append({"method": "PATCH", "path": f"{path}/{name}", "body": body, "contentType": _STRATEGIC})
        else:
            options = {**(_NOW if verb == "remove" else _GRACE), "preconditions": {"uid": uid}}
            made.append({"method": "DELETE", "path": f"{path}/{name}", "body": options})
    return [{**each, "omitBody": True} for each in made]


def as_rows(made: Sequence[Tree], namespace: str) -> list[Tree]:
    """Return the same as rows of templates."""
    found: dict[str, Tree] = {}
    for each in made:
        name = each["path"].split("/")[6]
        subresource = "status" if each["path"].endswith("/status") else ""
        body, row = each["body"], Row(name)
        if each["method"] == "PUT":
            template, row = rows.split_template(codec.decode_own(json.dumps(body).encode(), Pod))
            body = json.loads(codec.encode(template))
        elif each["method"] == "PATCH":
            row.uid, body = body["metadata"]["uid"], _RELEASE
        else:
            row.uid, body = body["preconditions"]["uid"], {k: v for k, v in body.items() if k != "preconditions"}
        path = f"/api/v1/namespaces/{namespace}/pods"
        item = {**each, "path": path, "subresource": subresource, "body": body}
        kept = found.setdefault(json.dumps(item), {**item, "rows": []})
        kept["rows"].append(msgspec.to_builtins(row))
    return list(found.values())


async def listed(server: ApiServer, namespace: str) -> list[Tree]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    response = await server.app.respond(Request(method="GET", path=path, user=ADMIN))
    assert isinstance(response.body, bytes)
    found: list[Tree] = json.loads(response.body)["items"]
    return found


STORIES = {
    "run": ["run"],
    "run and be deleted": ["run", "delete", "end"],
    "be deleted while pending": ["delete"],
    "be deleted at once": ["run", "remove"],
    "fail, be released and go": ["fail", "delete", "release"],
    "be released": ["release", "delete"],
    "end": ["run", "end"],
}


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_pods_of_a_template_are_changed_as_if_each_were_alone(
    server: ApiServer, setup: list[Tree], story: list[str]
) -> None:
    meta = {"finalizers": ["x/y"]} if "release" in story else {}
    for namespace in (SHARED, APART):
        bodies = [merged(stateful(number), {"metadata": meta, "spec": {"nodeName": "n"}}) for number in range(4)]
        bodies[3] = merged(bodies[3], {"spec": {"terminationGracePeriodSeconds": 5}})
        path = f"/api/v1/namespaces/{namespace}/pods"
        await written(server, *({"method": "POST", "path": path, "body": body} for body in bodies))
    await set_up(server, setup)
    for verb in story:
        shared = await written(server, *as_rows(writes(await listed(server, SHARED), SHARED, verb), SHARED))
        apart = [(await written(server, each))[0] for each in writes(await listed(server, APART), APART, verb)]
        assert comparable(shared) == comparable(apart), verb
        assert await stored(server, "/registry/pods/", SHARED) == await stored(server, "/registry/pods/", APART), verb


@pytest.mark.parametrize(
    ("item", "message"),
    [
        pytest.param({"path": "/api/v1/pods"}, "items[0].path: rows need the path of a collection", id="no collection"),
        pytest.param({"rows": [{"name": ""}]}, "items[0].rows[0].name", id="no name"),
        pytest.param({"rows": [{"name": "a/b"}]}, "items[0].rows[0].name", id="a name with a slash"),
        pytest.param({"rows": [{"nam": "a"}]}, "unknown field `nam`", id="an unknown field"),
        pytest.param({"rows": [], "subresource": "status"}, "items[0].subresource", id="a subresource without rows"),
        pytest.param({"rows": [{"name": "a"}] * 501}, "501 writes", id="too many rows"),
    ],
)
async def test_a_malformed_template_is_refused_with_the_field(server: ApiServer, item: Tree, message: str) -> None:
    write = {"method": "DELETE", "path": "/api/v1/namespaces/shared/pods", "rows": [{"name": "a"}], **item}
    body = json.dumps({"items": [write]}).encode()
    response = await server.app.respond(Request(method="POST", path="/writes", body=body, user=ADMIN))
    assert isinstance(response.body, bytes)
    assert response.status in {400, 413}
    assert message in json.loads(response.body)["message"]
