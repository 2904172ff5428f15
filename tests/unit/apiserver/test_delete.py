"""Deleting objects."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from api_caller import CONFIG_MAPS, DEPLOYMENTS, PODS, ApiCaller, config_map, deployment, pod

pytestmark = pytest.mark.req("S.1")


async def test_most_objects_go_at_once(api: ApiCaller) -> None:
    uid = (await api.post(CONFIG_MAPS, config_map())).body["metadata"]["uid"]
    answer = await api.delete(f"{CONFIG_MAPS}/settings")
    assert answer.code == 200
    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {"name": "settings", "kind": "configmaps", "uid": uid}
    assert (await api.delete(f"{CONFIG_MAPS}/settings")).code == 404


async def test_a_pod_without_a_node_goes_at_once(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    answer = await api.delete(f"{PODS}/web")
    assert (answer.code, answer.body["kind"]) == (200, "Pod")
    assert (await api.get(f"{PODS}/web")).code == 404


@dataclass(frozen=True)
class Grace:
    id: str
    query: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    seconds: int = 30
    until: str = "2026-01-01T00:00:30Z"


@pytest.mark.parametrize(
    "case",
    [
        Grace("as long as Kubernetes gives by default"),
        Grace(
            "as long as the pod says",
            spec={"terminationGracePeriodSeconds": 5},
            seconds=5,
            until="2026-01-01T00:00:05Z",
        ),
        Grace("as long as the client says", "?gracePeriodSeconds=60", seconds=60, until="2026-01-01T00:01:00Z"),
        Grace(
            "a second when the client says less than nothing",
            "?gracePeriodSeconds=-1",
            seconds=1,
            until="2026-01-01T00:00:01Z",
        ),
    ],
    ids=lambda case: case.id,
)
async def test_a_pod_on_a_node_has(api: ApiCaller, case: Grace) -> None:
    await api.post(PODS, pod(nodeName="n", **case.spec))
    metadata = (await api.delete(f"{PODS}/web{case.query}")).body["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == case.seconds
    assert metadata["deletionTimestamp"] == case.until
    assert metadata["generation"] == 2


async def test_a_pod_on_a_node_goes_at_once_when_the_client_says_so(api: ApiCaller) -> None:
    await api.post(PODS, pod(nodeName="n"))
    await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/web")).code == 404


async def test_grace_can_be_shortened_but_not_prolonged(api: ApiCaller) -> None:
    await api.post(PODS, pod(nodeName="n"))
    await api.delete(f"{PODS}/web")
    api.clock.advance(5)
    longer = (await api.delete(f"{PODS}/web?gracePeriodSeconds=90")).body["metadata"]
    assert (longer["deletionGracePeriodSeconds"], longer["deletionTimestamp"]) == (30, "2026-01-01T00:00:30Z")
    shorter = (await api.delete(f"{PODS}/web?gracePeriodSeconds=10")).body["metadata"]
    assert (shorter["deletionGracePeriodSeconds"], shorter["deletionTimestamp"]) == (10, "2026-01-01T00:00:10Z")
    await api.delete(f"{PODS}/web?gracePeriodSeconds=0")
    assert (await api.get(f"{PODS}/web")).code == 404


@dataclass(frozen=True)
class Policy:
    id: str
    options: dict[str, Any]
    finalizers: list[str] | None
    code: int = 200
    stored: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "case",
    [
        Policy("nothing said", {}, None),
        Policy("in the background", {"propagationPolicy": "Background"}, None),
        Policy("orphans", {"propagationPolicy": "Orphan"}, ["orphan"]),
        Policy("dependents first", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        Policy("orphans, in the old words", {"orphanDependents": True}, ["orphan"]),
        Policy("no orphans, in the old words", {"orphanDependents": False}, None),
        Policy(
            "nothing, where a finalizer asks for dependents first",
            {},
            ["foregroundDeletion", "a.example.com/b"],
            stored=("foregroundDeletion", "a.example.com/b"),
        ),
    ],
    ids=lambda case: case.id,
)
async def test_dependents(api: ApiCaller, case: Policy) -> None:
    created = deployment()
    created["metadata"]["finalizers"] = [*case.stored]
    await api.post(DEPLOYMENTS, created)
    answer = await api.delete(f"{DEPLOYMENTS}/web", {"kind": "DeleteOptions", "apiVersion": "v1", **case.options})
    assert answer.code == case.code
    left = await api.get(f"{DEPLOYMENTS}/web")
    if case.finalizers is None:
        assert left.code == 404
    else:
        assert left.body["metadata"]["finalizers"] == case.finalizers
        assert left.body["metadata"]["deletionTimestamp"]


@dataclass(frozen=True)
class Refused:
    id: str
    options: Any
    code: int
    message: str


REFUSED = [
    Refused(
        "another object of that name",
        {"preconditions": {"uid": "other"}},
        409,
        'Operation cannot be fulfilled on configmaps "settings": Precondition failed: UID in precondition: other, '
        "UID in object meta: {uid}",
    ),
    Refused(
        "another version of the object",
        {"preconditions": {"resourceVersion": "1"}},
        409,
        'Operation cannot be fulfilled on configmaps "settings": Precondition failed: ResourceVersion in precondition: '
        "1, ResourceVersion in object meta: {version}",
    ),
    Refused(
        "an unknown policy",
        {"propagationPolicy": "Sideways"},
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: '
        '"Background", "Foreground", "Orphan", "nil"',
    ),
    Refused(
        "old and new words at once",
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and '
        "deletionPropagation cannot be both set",
    ),
    Refused("another kind", {"kind": "Pod"}, 400, "decoded object cannot be converted to DeleteOptions: it is a Pod"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_refused(api: ApiCaller, case: Refused) -> None:
    metadata = (await api.post(CONFIG_MAPS, config_map())).body["metadata"]
    answer = await api.delete(f"{CONFIG_MAPS}/settings", case.options)
    expected = case.message.replace("{uid}", metadata["uid"]).replace("{version}", metadata["resourceVersion"])
    assert (answer.code, answer.message) == (case.code, expected)
    assert (await api.get(f"{CONFIG_MAPS}/settings")).code == 200


async def test_a_dry_run_deletes_nothing(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map())
    assert (await api.delete(f"{CONFIG_MAPS}/settings?dryRun=All")).body["status"] == "Success"
    assert (await api.get(f"{CONFIG_MAPS}/settings")).code == 200


async def test_a_collection_is_deleted_as_it_is_selected(api: ApiCaller) -> None:
    for name, tier in (("a", "web"), ("b", "db"), ("c", "web")):
        await api.post(CONFIG_MAPS, config_map(name, labels={"tier": tier}))
    answer = await api.delete(f"{CONFIG_MAPS}?labelSelector=tier%3Dweb")
    assert (answer.code, answer.names) == (200, ["a", "c"])
    assert (await api.get(CONFIG_MAPS)).names == ["b"]


async def test_all_namespaces_are_not_emptied_at_once(api: ApiCaller) -> None:
    assert (await api.delete("/api/v1/configmaps")).code == 405


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_stay(api: ApiCaller, name: str) -> None:
    answer = await api.delete(f"/api/v1/namespaces/{name}")
    assert (answer.code, answer.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


async def test_a_namespace_waits_for_its_finalizer(api: ApiCaller) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "old"}})
    going = (await api.delete("/api/v1/namespaces/old")).body
    assert going["status"]["phase"] == "Terminating"
    going["spec"]["finalizers"] = []
    answer = await api.put("/api/v1/namespaces/old/finalize", going)
    assert answer.code == 200, answer.message
    assert (await api.get("/api/v1/namespaces/old")).code == 404
