"""What admission looks up in the cluster: it is true the moment it was acknowledged."""

import asyncio
from typing import Any

import pytest

from api_caller import PODS, ApiCaller, config_map, pod

pytestmark = pytest.mark.req("S.1")

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def test_a_namespace_can_be_used_at_once_and_not_when_it_is_gone(api: ApiCaller) -> None:
    url = "/api/v1/namespaces/fresh/configmaps"
    assert (await api.post(url, config_map("a"))).code == 404
    await api.post("/api/v1/namespaces", {"metadata": {"name": "fresh"}})
    assert (await api.post(url, config_map("a"))).code == 201
    going = (await api.delete("/api/v1/namespaces/fresh")).body
    assert (await api.post(url, config_map("b"))).code == 403
    going["spec"] = {}
    await api.put("/api/v1/namespaces/fresh/finalize", going)
    assert (await api.post(url, config_map("b"))).code == 404


async def test_a_pod_gets_the_priority_of_its_class(api: ApiCaller) -> None:
    assert (await api.post(PODS, pod("early", priorityClassName="high"))).code == 403
    await api.post(PRIORITIES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = (await api.post(PODS, pod("later", priorityClassName="high"))).body["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    system = (await api.post(PODS, pod("system", priorityClassName="system-node-critical"))).body["spec"]
    assert system["priority"] == 2_000_001_000


async def test_a_pod_without_a_class_gets_the_default_one(api: ApiCaller) -> None:
    assert (await api.post(PODS, pod("before"))).body["spec"]["priority"] == 0
    await api.post(PRIORITIES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    spec = (await api.post(PODS, pod("after"))).body["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")
    await api.delete(f"{PRIORITIES}/usual")
    assert (await api.post(PODS, pod("again"))).body["spec"]["priority"] == 0


@pytest.mark.req("X.10")
async def test_an_ingress_gets_the_youngest_default_class_unless_it_names_one(api: ApiCaller) -> None:
    root = "/apis/networking.k8s.io/v1"
    url, classes = f"{root}/namespaces/default/ingresses", f"{root}/ingressclasses"

    def ingress(name: str, **annotations: str) -> dict[str, Any]:
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        return {"metadata": {"name": name, "annotations": annotations}, "spec": {"defaultBackend": backend}}

    assert "ingressClassName" not in (await api.post(url, ingress("none"))).body["spec"]
    marks = {"ingressclass.kubernetes.io/is-default-class": "true"}
    for name in ("first", "second"):
        body = {"metadata": {"name": name, "annotations": marks}, "spec": {"controller": "example.com/c"}}
        assert (await api.post(classes, body)).code == 201
        made = (await api.post(url, ingress(f"with-{name}"))).body
        assert made["spec"]["ingressClassName"] == name
        api.clock.advance(10)
    old_way = ingress("old-way", **{"kubernetes.io/ingress.class": "mine"})
    assert "ingressClassName" not in (await api.post(url, old_way)).body["spec"]
    without = (await api.get(f"{url}/none")).body
    assert "ingressClassName" not in (await api.put(f"{url}/none", without)).body["spec"]


def claim(name: str) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}


async def test_a_claim_gets_the_youngest_default_storage_class(api: ApiCaller) -> None:
    assert "storageClassName" not in (await api.post(CLAIMS, claim("none"))).body["spec"]
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name in ("first", "second"):
        body = {"metadata": {"name": name, "annotations": marks}, "provisioner": "example.com/p"}
        assert (await api.post(STORAGE_CLASSES, body)).code == 201
        assert (await api.post(CLAIMS, claim(f"with-{name}"))).body["spec"]["storageClassName"] == name
        api.clock.advance(10)


async def test_a_name_that_no_key_can_hold_is_refused(api: ApiCaller) -> None:
    answer = await api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/a\x00b")
    assert (answer.code, answer.message) == (400, "a name must not contain the character NUL")


async def test_a_bound_claim_grows_if_its_storage_class_allows_it(api: ApiCaller) -> None:
    answers = {}
    for name, allowed in (("rigid", False), ("elastic", True)):
        storage_class = {"metadata": {"name": name}, "provisioner": "example.com/p", "allowVolumeExpansion": allowed}
        await api.post(STORAGE_CLASSES, storage_class)
        body = claim(name)
        body["spec"]["storageClassName"] = name
        made = (await api.post(CLAIMS, body)).body
        made["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        bound = (await api.put(f"{CLAIMS}/{name}/status", made)).body
        bound["spec"]["resources"]["requests"]["storage"] = "2Gi"
        answers[name] = (await api.put(f"{CLAIMS}/{name}", bound)).code
    assert answers == {"rigid": 403, "elastic": 200}


ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def test_a_pod_has_the_account_of_its_namespace_from_when_there_is_one(api: ApiCaller) -> None:
    assert "serviceAccountName" not in (await api.post(PODS, pod("early"))).body["spec"]
    await api.post(ACCOUNTS, {"metadata": {"name": "default"}})
    spec = (await api.post(PODS, pod("later"))).body["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert (await api.post(PODS, pod("stranger", serviceAccountName="robot"))).code == 403
    await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})
    assert (await api.post(PODS, pod("friend", serviceAccountName="robot"))).code == 201


async def test_a_pod_waits_a_moment_for_the_account_of_a_new_namespace(api: ApiCaller) -> None:
    await api.post(ACCOUNTS, {"metadata": {"name": "default"}})
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    waiting = asyncio.create_task(api.post("/api/v1/namespaces/team/pods", pod("first")))
    await asyncio.sleep(0)
    await api.post("/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "default"}})
    assert (await waiting).body["spec"]["serviceAccountName"] == "default"


@pytest.mark.req("X.10")
async def test_a_limit_range_counts_as_long_as_it_is_there_and_in_its_namespace(api: ApiCaller) -> None:
    async def limit_of(name: str) -> Any:
        answer = await api.post(PODS, pod(name))
        return answer.body["spec"]["containers"][0]["resources"].get("limits", {}).get("cpu")

    await api.post("/api/v1/namespaces", {"metadata": {"name": "default-2"}})
    ranges = "/api/v1/namespaces/{}/limitranges"
    body: dict[str, Any] = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container"}]}}
    body["spec"]["limits"][0]["default"] = {"cpu": "1"}
    await api.post(ranges.format("default-2"), body)
    assert await limit_of("before") is None
    await api.post(ranges.format("default"), body)
    assert await limit_of("with") == "1"
    body["spec"]["limits"][0]["default"]["cpu"] = "2"
    await api.put(f"{ranges.format('default')}/l", body)
    assert await limit_of("changed") == "2"
    await api.delete(f"{ranges.format('default')}/l")
    assert await limit_of("after") is None


@pytest.mark.req("X.10")
async def test_the_security_labels_of_a_namespace_count_at_once(api: ApiCaller) -> None:
    async def code_of(name: str) -> int:
        return int((await api.post(PODS, pod(name, hostPID=True))).code)

    assert await code_of("before") == 201
    space = (await api.get("/api/v1/namespaces/default")).body
    space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"
    answer = await api.put("/api/v1/namespaces/default", space)
    assert answer.code == 200
    assert await code_of("with") == 403
    space = answer.body
    del space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    await api.put("/api/v1/namespaces/default", space)
    assert await code_of("after") == 201
