"""`PUT resourceclaims/-/status`: devices for many claims in one request."""

from typing import Any

import pytest

from api_caller import ApiCaller
from mooring.apiserver.messages.routes import resolve

pytestmark = pytest.mark.req("S.3")

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
MANY = f"{GROUP}/resourceclaims/-/status"
PROTECTION = "resource.kubernetes.io/delete-protection"


async def made(api: ApiCaller, name: str) -> dict[str, Any]:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
    answer = await api.post(CLAIMS, body)
    assert answer.code == 201, answer.message
    return answer.body


def allocated(claim: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the claim as the scheduler sends it, without a spec."""
    kept = ("name", "namespace", "uid", "resourceVersion")
    metadata = {name: claim["metadata"][name] for name in kept} | changes
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "g0"}
    return {"metadata": metadata, "spec": {}, "status": {"allocation": {"devices": {"results": [result]}}}}


async def put(api: ApiCaller, *items: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await api.put(MANY, {"kind": "ResourceClaimList", "apiVersion": "resource.k8s.io/v1", "items": items})
    assert answer.code == 200, answer.message
    found: list[dict[str, Any]] = answer.body["items"]
    return found


async def test_each_claim_has_its_outcome_and_what_can_be_written_is(api: ApiCaller) -> None:
    first, second, stale = [await made(api, name) for name in ("first", "second", "stale")]
    gone = {**first, "metadata": {**first["metadata"], "name": "gone"}}
    wrong = allocated(second)
    wrong["status"]["allocation"]["devices"]["results"][0]["request"] = "unknown"
    outcomes = await put(
        api, allocated(first), wrong, allocated(gone), allocated(stale, resourceVersion="1"), allocated(second)
    )
    reasons = [status.get("reason", "Success") for status in outcomes]
    assert reasons == ["Success", "Invalid", "NotFound", "Conflict", "Success"]
    written = (await api.get(f"{CLAIMS}/first")).body
    assert written["metadata"]["resourceVersion"] == outcomes[0]["metadata"]["resourceVersion"]
    assert written["status"]["allocation"]["devices"]["results"][0]["device"] == "g0"
    assert written["metadata"]["finalizers"] == [PROTECTION], "an allocated claim cannot vanish"
    assert written["spec"] == first["spec"]
    assert [entry.get("subresource", "") for entry in written["metadata"]["managedFields"]] == ["", "status"]


async def test_one_claim_twice_in_one_list_is_written_once(api: ApiCaller) -> None:
    claim = await made(api, "c")
    outcomes = await put(api, allocated(claim), allocated(claim))
    assert [status["code"] for status in outcomes] == [200, 409]


async def test_a_claim_that_is_being_deleted_gets_no_devices(api: ApiCaller) -> None:
    claim = await made(api, "c")
    held = await api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": ["example.com/hold"]}})
    assert held.code == 200, held.message
    going = (await api.delete(f"{CLAIMS}/c")).body
    [outcome] = await put(api, allocated(claim, resourceVersion=going["metadata"]["resourceVersion"]))
    assert (outcome["code"], outcome["reason"]) == (409, "Conflict")


@pytest.mark.parametrize(
    "path",
    [
        f"{GROUP}/resourceclaims/-",
        f"{GROUP}/resourceclaims/c/status",
        f"{GROUP}/deviceclasses/-/status",
        "/api/v1/pods/-/status",
    ],
)
def test_nothing_else_takes_lists(api: ApiCaller, path: str) -> None:
    assert resolve(api.scheme, path) is None


async def test_a_list_cannot_be_tried_without_writing_it(api: ApiCaller) -> None:
    assert (await api.put(f"{MANY}?dryRun=All", {"kind": "ResourceClaimList", "items": []})).code == 400


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_it_can_only_be_put(api: ApiCaller, method: str) -> None:
    answer = await api.call(method, MANY, {"status": {}}, media_type="application/merge-patch+json")
    assert answer.code in {404, 405}
