"""Replacing objects, and their status."""

from dataclasses import dataclass
from typing import Any

import pytest

from api_caller import CONFIG_MAPS, DEPLOYMENTS, PODS, ApiCaller, config_map, deployment, pod

pytestmark = pytest.mark.req("S.1")


async def created(api: ApiCaller, url: str = CONFIG_MAPS, body: Any = None) -> dict[str, Any]:
    answer = await api.post(url, body or config_map())
    assert answer.code == 201, answer.message
    return answer.body


async def test_an_update_replaces_the_object(api: ApiCaller) -> None:
    obj = await created(api)
    obj["data"] = {"b": "2"}
    answer = await api.put(f"{CONFIG_MAPS}/settings", obj)
    assert (answer.code, answer.body["data"]) == (200, {"b": "2"})
    assert int(answer.version) > int(obj["metadata"]["resourceVersion"])
    assert answer.body["metadata"]["uid"] == obj["metadata"]["uid"]


async def test_an_update_of_an_older_version_is_a_conflict(api: ApiCaller) -> None:
    obj = await created(api)
    await api.patch(f"{CONFIG_MAPS}/settings", {"data": {"x": "1"}})
    answer = await api.put(f"{CONFIG_MAPS}/settings", obj)
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; please apply your '
        "changes to the latest version and try again"
    )


@pytest.mark.parametrize("version", ["", "0"], ids=["without a version", "of version 0"])
async def test_an_update_wins_when_it_is(api: ApiCaller, version: str) -> None:
    await created(api)
    body = config_map(a="9")
    body["metadata"]["resourceVersion"] = version
    assert (await api.put(f"{CONFIG_MAPS}/settings", body)).body["data"] == {"a": "9"}


async def test_an_update_that_changes_nothing_writes_nothing(api: ApiCaller) -> None:
    obj = await created(api)
    before = await api.store.revision()
    answer = await api.put(f"{CONFIG_MAPS}/settings", obj)
    assert answer.body == obj
    assert await api.store.revision() == before


async def test_an_update_of_another_object_of_the_same_name_is_a_conflict(api: ApiCaller) -> None:
    await created(api)
    body = config_map()
    body["metadata"]["uid"] = "someone-else"
    answer = await api.put(f"{CONFIG_MAPS}/settings", body)
    assert answer.code == 409
    assert "Precondition failed: UID in precondition: someone-else" in answer.message


async def test_an_update_under_another_name_is_refused(api: ApiCaller) -> None:
    await created(api)
    answer = await api.put(f"{CONFIG_MAPS}/settings", config_map("other"))
    assert (answer.code, answer.message) == (
        400,
        "the name of the object (other) does not match the name on the URL (settings)",
    )


async def test_an_update_of_nothing_is_not_found(api: ApiCaller) -> None:
    assert (await api.put(f"{CONFIG_MAPS}/settings", config_map())).code == 404


async def test_kinds_that_allow_it_are_created_by_an_update(api: ApiCaller) -> None:
    url = "/apis/coordination.k8s.io/v1/namespaces/default/leases/me"
    answer = await api.put(url, {"metadata": {"name": "me"}, "spec": {"holderIdentity": "a"}})
    assert answer.code == 201
    assert (await api.get(url)).body["spec"]["holderIdentity"] == "a"


async def test_what_an_update_creates_has_the_name_of_its_path(api: ApiCaller) -> None:
    url = "/apis/coordination.k8s.io/v1/namespaces/default/leases/me"
    assert (await api.put(url, {"spec": {}})).body["metadata"]["name"] == "me"
    other = await api.put(url.replace("/me", "/you"), {"metadata": {"name": "me"}, "spec": {}})
    assert (other.code, other.message) == (400, "the name of the object (me) does not match the name on the URL (you)")


async def test_a_dry_run_changes_nothing(api: ApiCaller) -> None:
    obj = await created(api)
    answer = await api.put(f"{CONFIG_MAPS}/settings?dryRun=All", config_map(a="2"))
    assert (answer.code, answer.body["data"]) == (200, {"a": "2"})
    assert (await api.get(f"{CONFIG_MAPS}/settings")).body == obj


async def test_generation_counts_changes_of_the_spec(api: ApiCaller) -> None:
    obj = await created(api, DEPLOYMENTS, deployment())
    obj["metadata"]["labels"] = {"a": "b"}
    labelled = await api.put(f"{DEPLOYMENTS}/web", obj)
    assert labelled.body["metadata"]["generation"] == 1
    obj = labelled.body
    obj["spec"]["replicas"] = 3
    assert (await api.put(f"{DEPLOYMENTS}/web", obj)).body["metadata"]["generation"] == 2


async def test_status_and_spec_are_written_apart(api: ApiCaller) -> None:
    obj = await created(api, DEPLOYMENTS, deployment())
    obj["status"] = {"replicas": 7}
    obj["spec"]["replicas"] = 2
    main = (await api.put(f"{DEPLOYMENTS}/web", obj)).body
    assert (main["spec"]["replicas"], main["status"].get("replicas", 0)) == (2, 0)
    main["status"] = {"replicas": 7}
    main["spec"]["replicas"] = 5
    status = (await api.put(f"{DEPLOYMENTS}/web/status", main)).body
    assert (status["spec"]["replicas"], status["status"]["replicas"]) == (2, 7)
    assert (await api.get(f"{DEPLOYMENTS}/web/status")).body == status


async def test_a_pod_can_be_given_an_ephemeral_container(api: ApiCaller) -> None:
    obj = await created(api, PODS, pod())
    obj["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "sh"}]
    answer = await api.put(f"{PODS}/web/ephemeralcontainers", obj)
    assert answer.code == 200, answer.message
    assert answer.body["spec"]["ephemeralContainers"][0]["name"] == "debug"
    assert (await api.put(f"{PODS}/web", pod())).code == 422


async def test_removing_the_last_finalizer_deletes_what_is_to_be_deleted(api: ApiCaller) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await created(api, body=body)
    held = await api.delete(f"{CONFIG_MAPS}/settings")
    assert held.body["metadata"]["deletionTimestamp"]
    assert (await api.get(f"{CONFIG_MAPS}/settings")).code == 200
    freed = await api.patch(f"{CONFIG_MAPS}/settings", {"metadata": {"finalizers": None}})
    assert freed.code == 200
    assert (await api.get(f"{CONFIG_MAPS}/settings")).code == 404


async def test_a_verb_that_a_resource_lacks(api: ApiCaller) -> None:
    answer = await api.call("PUT", PODS, pod())
    assert (answer.code, answer.reason) == (405, "MethodNotAllowed")


async def test_who_was_faster_does_not_stop_a_patch(api: ApiCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write between reading and writing makes the server read again."""
    await created(api)
    store = api.store
    write = store.write_all
    meddled = False

    async def meddling(each: Any) -> Any:
        nonlocal meddled
        if not meddled:
            meddled = True
            await api.patch(f"{CONFIG_MAPS}/settings", {"metadata": {"labels": {"first": "yes"}}})
        return await write(each)

    monkeypatch.setattr(store, "write_all", meddling)
    answer = await api.patch(f"{CONFIG_MAPS}/settings", {"data": {"x": "1"}})
    assert answer.body["metadata"]["labels"] == {"first": "yes"}
    assert answer.body["data"] == {"x": "1"}


@pytest.mark.parametrize(
    "written",
    ["2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00.5+01:00", None],
    ids=["with an offset", "with an offset and a fraction", "not at all"],
)
async def test_a_time_may_be_sent_back(api: ApiCaller, written: str | None) -> None:
    obj = await created(api)
    obj["metadata"]["creationTimestamp"] = written
    answer = await api.put(f"{CONFIG_MAPS}/settings", obj)
    assert (answer.code, answer.body["metadata"]["creationTimestamp"]) == (200, "2026-01-01T00:00:00Z")


@dataclass(frozen=True)
class WrongTime:
    """The codes are those of kube-apiserver 1.37, except the last, where it says 500."""

    id: str
    method: str
    code: int
    media_type: str = "application/json"


@pytest.mark.parametrize(
    "case",
    [
        WrongTime("a replacement", "PUT", 400),
        WrongTime("a merge patch", "PATCH", 422, "application/merge-patch+json"),
        WrongTime("a strategic merge patch", "PATCH", 422, "application/strategic-merge-patch+json"),
        WrongTime("an applied configuration", "PATCH", 400, "application/apply-patch+yaml"),
    ],
    ids=lambda case: case.id,
)
async def test_a_status_with_a_time_that_is_none_is_refused(api: ApiCaller, case: WrongTime) -> None:
    obj = await created(api, PODS, pod())
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "x" * 100_000}
    name = obj["metadata"]["name"]
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": {"conditions": [condition]}}
    query = "?fieldManager=m" if "apply" in case.media_type else ""
    answer = await api.call(case.method, f"{PODS}/{name}/status{query}", new, media_type=case.media_type)
    assert answer.code == case.code
    assert "status.conditions[0].lastTransitionTime: " in answer.message
    assert len(answer.message) < 20_000


async def test_a_time_that_is_none_is_refused(api: ApiCaller) -> None:
    obj = await created(api)
    obj["metadata"]["creationTimestamp"] = "yesterday"
    answer = await api.put(f"{CONFIG_MAPS}/settings", obj)
    assert answer.code == 400
    words = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: metadata.creationTimestamp: "yesterday" is not'
    assert answer.message.startswith(words)
