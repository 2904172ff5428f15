"""How objects lie in the store: their keys, their storage version, and every version out of it."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from api_caller import PODS, ApiCaller, api_caller, pod
from mooring.api.scheme import Scheme
from mooring.base.version import ComponentVersions
from mooring.store.memory import MemoryStore

CLAIMS = "/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims"


def claim(version: str, name: str = "gpu") -> dict[str, Any]:
    """Return a claim in the shape of a version: v1beta1 has no `exactly`."""
    request: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    if version != "v1beta1":
        request = {"exactly": request}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", **request}]}},
    }


def scheme(emulation: str, min_compatibility: str | None = None) -> Scheme:
    """Everything beta is switched on, so that every version can be asked for."""
    return Scheme(ComponentVersions.resolve(emulation, min_compatibility), {"api/beta": True})


async def stored(api: ApiCaller, key: str) -> dict[str, Any]:
    kv = await api.store.get(key)
    assert kv is not None, key
    value: dict[str, Any] = json.loads(kv.value)
    return value


@pytest.mark.req("S.1")
async def test_keys_are_those_of_kubernetes_and_versions_are_not_stored(api: ApiCaller) -> None:
    answer = await api.post(PODS, pod())
    value = await stored(api, "/registry/pods/default/web")
    assert "resourceVersion" not in value["metadata"]
    value["metadata"]["resourceVersion"] = answer.version
    assert value == answer.body


@dataclass(frozen=True)
class StoredAs:
    id: str
    emulation: str
    min_compatibility: str
    version: str


STORED_AS = [
    StoredAs("v1beta1 while 1.32 must read it", "1.34", "1.33", "v1beta1"),
    StoredAs("v1beta2 once 1.33 is the oldest", "1.35", "1.34", "v1beta2"),
    StoredAs("v1 once 1.34 is the oldest", "1.37", "1.35", "v1"),
]


@pytest.mark.req("4330.5")
@pytest.mark.parametrize("case", STORED_AS, ids=lambda case: case.id)
async def test_stored_bytes_have_the_shape_of(case: StoredAs) -> None:
    async with api_caller(scheme(case.emulation, case.min_compatibility)) as api:
        answer = await api.post(CLAIMS.format(version="v1"), claim("v1"))
        assert answer.code == 201, answer.message
        value = await stored(api, "/registry/resourceclaims/default/gpu")
        assert value["apiVersion"] == f"resource.k8s.io/{case.version}"
        [request] = value["spec"]["devices"]["requests"]
        assert ("exactly" in request) is (case.version != "v1beta1")
        assert answer.body["apiVersion"] == "resource.k8s.io/v1"
        assert "exactly" in answer.body["spec"]["devices"]["requests"][0]


@pytest.mark.req("4330.5")
@pytest.mark.parametrize("written", ["v1beta1", "v1beta2", "v1"])
@pytest.mark.parametrize("read", ["v1beta1", "v1beta2", "v1"])
async def test_what_is_written_in_one_version_is_read_in_another(written: str, read: str) -> None:
    async with api_caller(scheme("1.34", "1.33")) as api:
        created = await api.post(CLAIMS.format(version=written), claim(written))
        assert created.code == 201, created.message
        url = CLAIMS.format(version=read)
        one = (await api.get(f"{url}/gpu")).body
        assert one["apiVersion"] == f"resource.k8s.io/{read}"
        assert one["metadata"]["resourceVersion"] == created.version
        [request] = one["spec"]["devices"]["requests"]
        assert (request if read == "v1beta1" else request["exactly"])["deviceClassName"] == "gpu"
        listed = (await api.get(url)).body["items"][0]
        assert listed == {key: value for key, value in one.items() if key not in {"kind", "apiVersion"}}
        [event] = await api.watch(url, 1)
        assert event["object"] == one


@pytest.mark.req("4330.5")
async def test_an_upgrade_and_a_downgrade_read_what_is_stored() -> None:
    """Data of each minimum compatibility version is read at every later one, and rewritten when it is changed."""
    store = await MemoryStore.open()
    walk = [("1.34", "1.33"), ("1.35", "1.34"), ("1.37", "1.35"), ("1.35", "1.34")]
    for step, (emulation, compatible) in enumerate(walk):
        async with api_caller(scheme(emulation, compatible), store=store) as api:
            url = CLAIMS.format(version="v1")
            assert (await api.post(url, claim("v1", f"c{step}"))).code == 201
            everything = await api.get(url)
            assert everything.names == [f"c{number}" for number in range(step + 1)]
            assert all("exactly" in item["spec"]["devices"]["requests"][0] for item in everything.body["items"])
    async with api_caller(scheme("1.37", "1.36"), store=store) as api:
        before = await stored(api, "/registry/resourceclaims/default/c0")
        await api.patch(f"{CLAIMS.format(version='v1')}/c0", {"metadata": {"labels": {"a": "b"}}})
        after = await stored(api, "/registry/resourceclaims/default/c0")
    assert before["apiVersion"] == "resource.k8s.io/v1beta1"
    assert after["apiVersion"] == "resource.k8s.io/v1"
    await store.close()


@pytest.mark.req("4330.5")
async def test_a_manager_of_an_older_version_keeps_its_fields() -> None:
    async with api_caller(scheme("1.34", "1.33")) as api:
        old = f"{CLAIMS.format(version='v1beta1')}/gpu"
        new = f"{CLAIMS.format(version='v1')}/gpu"
        assert (await api.apply(old, claim("v1beta1"), "elder")).code == 201
        answer = await api.apply(new, claim("v1"), "younger")
        assert answer.code == 200, answer.message
        versions = {entry["manager"]: entry["apiVersion"] for entry in answer.body["metadata"]["managedFields"]}
        assert versions == {"elder": "resource.k8s.io/v1beta1", "younger": "resource.k8s.io/v1"}


@pytest.mark.req("4330.8")
async def test_fields_are_not_pruned_by_emulation() -> None:
    """What a newer version has stored stays, though the emulated one does not know of it."""
    store = await MemoryStore.open()
    body = pod(tolerations=[{"key": "a", "operator": "Gt", "value": "5"}], hostnameOverride="h")
    async with api_caller(scheme("1.37"), store=store) as api:
        created = await api.post(PODS, body)
        assert created.code == 201, created.message
    async with api_caller(scheme("1.31"), store=store) as api:
        read = (await api.get(f"{PODS}/web")).body
        assert read["spec"] == created.body["spec"]
        patched = await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}})
        assert patched.body["spec"] == created.body["spec"]
    await store.close()


@pytest.mark.req("S.1")
async def test_a_deprecated_version_is_warned_of() -> None:
    async with api_caller(scheme("1.37")) as api:
        answer = await api.get(CLAIMS.format(version="v1beta1"))
        assert len(answer.warnings) == 1
        assert answer.warnings[0].startswith("resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.")


async def _finalize(api: ApiCaller, name: str) -> None:
    """Finalize a namespace as its controller does when nothing is left."""
    await api.delete(f"/api/v1/namespaces/{name}")
    found = (await api.get(f"/api/v1/namespaces/{name}")).body
    found["spec"]["finalizers"] = []
    assert (await api.put(f"/api/v1/namespaces/{name}/finalize", found)).code == 200


async def _delete_without_finalizers(api: ApiCaller, name: str) -> None:
    found = (await api.get(f"/api/v1/namespaces/{name}")).body
    found["spec"]["finalizers"] = []
    assert (await api.put(f"/api/v1/namespaces/{name}/finalize", found)).code == 200
    await api.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.req("4330.4")
@pytest.mark.req("S.4")
@pytest.mark.parametrize("end", [_finalize, _delete_without_finalizers])
async def test_a_namespace_takes_with_it_what_the_emulated_version_does_not_serve(end: Any) -> None:
    store = await MemoryStore.open()
    claims = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
    async with api_caller(store=store) as now:
        for name in ("team", "teams"):
            await now.post("/api/v1/namespaces", {"metadata": {"name": name}})
            await now.post(claims.format(name), claim("v1"))
    async with api_caller(Scheme(ComponentVersions.resolve("1.31")), store=store) as before:
        await end(before, "team")
        assert (await before.get("/api/v1/namespaces/team")).code == 404
    async with api_caller(store=store) as again:
        await again.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
        found = [(await again.get(claims.format(name))).body["items"] for name in ("team", "teams")]
        assert [len(items) for items in found] == [0, 1]
    await store.close()
