"""Binding pods, one or many at a time, and evicting them within disruption budgets."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from api_caller import PODS, ApiCaller, api_caller, pod
from mooring.admission.options import AdmissionOptions
from mooring.api.batch_writes import ROW

pytestmark = pytest.mark.req("S.1")

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def binding(name: str = "web", node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


async def test_binding_gives_a_pod_its_node(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    answer = await api.post(f"{PODS}/web/binding", binding(annotations={"why": "because"}))
    assert (answer.code, answer.body["status"]) == (201, "Success")
    bound = (await api.get(f"{PODS}/web")).body
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"why": "because"}
    [condition] = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


async def make_node(api: ApiCaller, **labels: str) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}
    assert (await api.post("/api/v1/nodes", body)).code == 201


@pytest.mark.req("N.10")
async def test_a_pod_that_is_bound_gets_the_zone_and_region_of_its_node(api: ApiCaller) -> None:
    await make_node(api, **{ZONE: "z1", REGION: "r1", "other": "no"})
    await api.post(PODS, {**pod(), "metadata": {"name": "web", "labels": {"app": "web", ZONE: "mine"}}})
    await api.post(f"{PODS}/web/binding", binding(labels={"from": "binding"}))
    labels = (await api.get(f"{PODS}/web")).body["metadata"]["labels"]
    assert labels == {"app": "web", "from": "binding", ZONE: "z1", REGION: "r1"}
    await api.patch("/api/v1/nodes/n1", {"metadata": {"labels": {ZONE: "z2"}}})
    await api.post(PODS, pod("later"))
    await api.post(f"{PODS}/later/binding", binding("later"))
    assert (await api.get(f"{PODS}/later")).body["metadata"]["labels"][ZONE] == "z2"


@pytest.mark.req("N.10")
async def test_so_does_a_pod_that_is_created_on_a_node(api: ApiCaller) -> None:
    await make_node(api, **{ZONE: "z1"})
    assert (await api.post(PODS, pod(nodeName="n1"))).body["metadata"]["labels"][ZONE] == "z1"


@pytest.mark.req("N.10")
async def test_before_1_35_pods_keep_their_labels() -> None:
    async with api_caller(options=AdmissionOptions(pod_topology_labels=False)) as api:
        await make_node(api, **{ZONE: "z1"})
        await api.post(PODS, pod())
        await api.post(f"{PODS}/web/binding", binding(labels={"from": "binding"}))
        assert "labels" not in (await api.get(f"{PODS}/web")).body["metadata"]


async def test_binding_through_its_own_collection(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    assert (await api.post("/api/v1/namespaces/default/bindings", binding())).code == 201
    assert (await api.get(f"{PODS}/web")).body["spec"]["nodeName"] == "n1"


async def test_a_dry_run_binds_nothing(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    assert (await api.post(f"{PODS}/web/binding?dryRun=All", binding())).code == 201
    assert "nodeName" not in (await api.get(f"{PODS}/web")).body["spec"]


@dataclass(frozen=True)
class Refused:
    id: str
    code: int
    message: str
    pod: dict[str, Any] = field(default_factory=pod)
    binding: dict[str, Any] = field(default_factory=binding)


REFUSED = [
    Refused("a pod that is not there", 404, 'pods "web" not found', pod=pod("other")),
    Refused(
        "a pod that has a node",
        409,
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n0"',
        pod=pod(nodeName="n0"),
    ),
    Refused(
        "a pod with gates",
        409,
        'Operation cannot be fulfilled on pods/binding "web": pod web has non-empty .spec.schedulingGates',
        pod=pod(schedulingGates=[{"name": "g"}]),
    ),
    Refused("no target", 422, 'Binding "web" is invalid: target.name: Required value', binding=binding(node="")),
    Refused("another name", 400, "name in URL does not match name in Binding object", binding=binding("other")),
    Refused(
        "another namespace",
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
        binding=binding(namespace="other"),
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_refused_is(api: ApiCaller, case: Refused) -> None:
    await api.post(PODS, case.pod)
    answer = await api.post(f"{PODS}/web/binding", case.binding)
    assert (answer.code, answer.message) == (case.code, case.message)


def bindings_of(*rows: dict[str, str], **change: Any) -> dict[str, Any]:
    """Return a batch that binds pods to nodes."""
    body = {"metadata": {"name": ROW}, "target": {"kind": "Node", "name": ROW}}
    write = {"method": "POST", "path": PODS, "subresource": "binding", "body": body, "rows": rows}
    return {"items": [{**write, **change}]}


@pytest.mark.req("W.1")
async def test_many_pods_are_bound_in_one_batch_each_with_its_own_outcome(api: ApiCaller) -> None:
    for name in ("a", "b"):
        await api.post(PODS, pod(name))
    await api.post(PODS, pod("taken", nodeName="n0"))
    before = await api.store.revision()
    rows = [{"name": name, "nodeName": f"n-{name}"} for name in ("a", "taken", "none", "b")]
    found = (await api.post("/writes", bindings_of(*rows))).body["items"]
    assert [(each["code"], each["body"].get("reason", "Success")) for each in found] == [
        (201, "Success"),
        (409, "Conflict"),
        (404, "NotFound"),
        (201, "Success"),
    ]
    assert await api.store.revision() == before + 2
    nodes = {item["metadata"]["name"]: item["spec"].get("nodeName") for item in (await api.get(PODS)).body["items"]}
    assert nodes == {"a": "n-a", "b": "n-b", "taken": "n0"}


async def test_a_batch_of_bindings_requires_the_uids_of_its_rows(api: ApiCaller) -> None:
    uid = (await api.post(PODS, pod())).body["metadata"]["uid"]
    body = {"metadata": {"name": ROW, "uid": ROW}, "target": {"name": ROW}}
    rows = [{"name": "web", "uid": each, "nodeName": "n"} for each in ("another", uid)]
    found = (await api.post("/writes", bindings_of(*rows, body=body))).body["items"]
    assert [each["code"] for each in found] == [409, 201]


async def test_one_pod_twice_in_one_batch_is_bound_once(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    rows = [{"name": "web", "nodeName": node} for node in ("n1", "n2")]
    found = (await api.post("/writes", bindings_of(*rows, omitBody=True))).body["items"]
    assert [each["code"] for each in found] == [201, 409]
    assert found[0]["body"] is None
    assert (await api.get(f"{PODS}/web")).body["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("kind", ["Binding", "BindingList"])
async def test_bindings_are_created_in_a_namespace(api: ApiCaller, kind: str) -> None:
    assert (await api.post("/api/v1/bindings", {"kind": kind})).code == 405


# -- eviction


async def running(api: ApiCaller, *, ready: bool = True) -> None:
    """Create a pod that runs on a node, labelled app=web."""
    body = pod(nodeName="n1")
    body["metadata"]["labels"] = {"app": "web"}
    await api.post(PODS, body)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    answer = await api.patch(f"{PODS}/web/status", {"status": {"phase": "Running", "conditions": conditions}})
    assert answer.code == 200, answer.message


async def budget(api: ApiCaller, name: str = "b", policy: str = "", **status: int) -> None:
    spec: dict[str, Any] = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    created = await api.post(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    assert created.code == 201, created.message
    known = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    answer = await api.patch(f"{BUDGETS}/{name}/status", {"status": {**known, "expectedPods": 1, **status}})
    assert answer.code == 200, answer.message


def eviction(**options: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    return {**body, "deleteOptions": options} if options else body


async def test_a_pod_without_a_budget_is_deleted(api: ApiCaller) -> None:
    await running(api)
    answer = await api.post(f"{PODS}/web/eviction", eviction())
    assert (answer.code, answer.body["status"]) == (201, "Success")
    going = (await api.get(f"{PODS}/web")).body
    assert going["metadata"]["deletionTimestamp"]
    assert going["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


async def test_a_budget_is_used_up(api: ApiCaller) -> None:
    await running(api)
    await budget(api, disruptionsAllowed=1)
    assert (await api.post(f"{PODS}/web/eviction", eviction())).code == 201
    status = (await api.get(f"{BUDGETS}/b")).body["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"web": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Budgeted:
    id: str
    code: int
    cause: str = ""
    ready: bool = True
    policy: str = ""
    status: dict[str, int] = field(default_factory=dict)


BUDGETED = [
    Budgeted("none is allowed", 429, "The disruption budget b needs 1 healthy pods and has 1 currently"),
    Budgeted(
        "the budget has not been looked at",
        429,
        "The disruption budget b is still being processed by the server.",
        status={"observedGeneration": 0, "disruptionsAllowed": 1},
    ),
    Budgeted("the pod is not ready and enough others are", 201, ready=False),
    Budgeted(
        "the pod is not ready and not enough others are",
        429,
        "The disruption budget b needs 2 healthy pods and has 1 currently",
        ready=False,
        status={"desiredHealthy": 2},
    ),
    Budgeted(
        "the pod is not ready and may always go",
        201,
        ready=False,
        policy="AlwaysAllow",
        status={"desiredHealthy": 2},
    ),
]


@pytest.mark.parametrize("case", BUDGETED, ids=lambda case: case.id)
async def test_an_eviction_when(api: ApiCaller, case: Budgeted) -> None:
    await running(api, ready=case.ready)
    await budget(api, "b", case.policy, **case.status)
    answer = await api.post(f"{PODS}/web/eviction", eviction())
    assert answer.code == case.code
    if case.cause:
        assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
        assert answer.body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": case.cause}]
        assert "deletionTimestamp" not in (await api.get(f"{PODS}/web")).body["metadata"]


async def test_a_pod_that_has_not_begun_needs_no_budget(api: ApiCaller) -> None:
    body = pod()
    body["metadata"]["labels"] = {"app": "web"}
    await api.post(PODS, body)
    await budget(api)
    assert (await api.post(f"{PODS}/web/eviction", eviction())).code == 201
    assert (await api.get(f"{PODS}/web")).code == 404


async def test_two_budgets_for_one_pod_are_too_many(api: ApiCaller) -> None:
    await running(api)
    await budget(api, "a", disruptionsAllowed=1)
    await budget(api, "b", disruptionsAllowed=1)
    answer = await api.post(f"{PODS}/web/eviction", eviction())
    assert answer.code == 500
    assert "more than one PodDisruptionBudget" in answer.message


async def test_a_dry_run_evicts_nothing(api: ApiCaller) -> None:
    await running(api)
    await budget(api, disruptionsAllowed=1)
    assert (await api.post(f"{PODS}/web/eviction", eviction(dryRun=["All"]))).code == 201
    assert (await api.get(f"{BUDGETS}/b")).body["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/web")).body["metadata"]


@pytest.mark.parametrize("wanted", [{"uid": "other"}, {"resourceVersion": "1"}], ids=["uid", "version"])
async def test_an_eviction_of_another_pod_of_that_name_is_a_conflict(api: ApiCaller, wanted: dict[str, str]) -> None:
    await running(api)
    assert (await api.post(f"{PODS}/web/eviction", eviction(preconditions=wanted))).code == 409
