"""The `scale` subresource."""

from dataclasses import dataclass
from typing import Any

import pytest

from api_caller import DEPLOYMENTS, JSON_PATCH, MERGE_PATCH, ApiCaller, deployment

pytestmark = pytest.mark.req("S.1")

SCALE = f"{DEPLOYMENTS}/web/scale"


async def test_a_scale_is_read(api: ApiCaller) -> None:
    created = (await api.post(DEPLOYMENTS, deployment(replicas=3))).body
    scale = (await api.get(SCALE)).body
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp"):
        assert scale["metadata"][name] == created["metadata"][name]


async def test_a_scale_is_written(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    scale = (await api.get(SCALE)).body
    scale["spec"]["replicas"] = 5
    answer = await api.put(SCALE, scale)
    assert (answer.code, answer.body["spec"]["replicas"]) == (200, 5)
    main = (await api.get(f"{DEPLOYMENTS}/web")).body
    assert (main["spec"]["replicas"], main["metadata"]["generation"]) == (5, 2)
    assert answer.version == main["metadata"]["resourceVersion"]


@dataclass(frozen=True)
class Patched:
    id: str
    patch: Any
    media_type: str


@pytest.mark.parametrize(
    "case",
    [
        Patched("a merge patch", {"spec": {"replicas": 0}}, MERGE_PATCH),
        Patched("a JSON patch", [{"op": "replace", "path": "/spec/replicas", "value": 0}], JSON_PATCH),
    ],
    ids=lambda case: case.id,
)
async def test_a_scale_is_changed_by(api: ApiCaller, case: Patched) -> None:
    await api.post(DEPLOYMENTS, deployment(replicas=3))
    answer = await api.patch(SCALE, case.patch, case.media_type)
    assert (answer.code, answer.body["spec"].get("replicas", 0)) == (200, 0)
    assert (await api.get(f"{DEPLOYMENTS}/web")).body["spec"]["replicas"] == 0


async def test_less_than_nothing_is_refused(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    answer = await api.patch(SCALE, {"spec": {"replicas": -1}})
    assert (answer.code, answer.message) == (
        422,
        'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
    )


async def test_an_older_scale_is_a_conflict(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    scale = (await api.get(SCALE)).body
    await api.patch(SCALE, {"spec": {"replicas": 2}})
    assert (await api.put(SCALE, scale)).code == 409


async def test_the_scaler_owns_the_replicas(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    await api.patch(f"{SCALE}?fieldManager=scaler", {"spec": {"replicas": 2}})
    entries = (await api.get(f"{DEPLOYMENTS}/web")).body["metadata"]["managedFields"]
    [mine] = [entry for entry in entries if entry["manager"] == "scaler"]
    assert mine["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert mine["subresource"] == "scale"


def scale(replicas: int | None, **metadata: str) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", **metadata}, "spec": spec}


async def test_a_scale_is_applied(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    await api.patch(f"{DEPLOYMENTS}/web?fieldManager=setter", {"spec": {"replicas": 2}})
    refused = await api.apply(SCALE, scale(4), "scaler")
    assert (refused.code, refused.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "setter" using apps/v1: .spec.replicas',
    )
    answer = await api.apply(SCALE, scale(4), "scaler", force=True)
    assert (answer.code, answer.body["kind"], answer.body["spec"]) == (200, "Scale", {"replicas": 4})
    main = (await api.get(f"{DEPLOYMENTS}/web")).body
    assert main["spec"]["replicas"] == 4
    [mine] = [entry for entry in main["metadata"]["managedFields"] if entry["manager"] == "scaler"]
    assert (mine["operation"], mine["apiVersion"], mine["subresource"]) == ("Apply", "apps/v1", "scale")
    assert mine["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    again = await api.apply(SCALE, scale(4), "scaler")
    assert again.version == answer.version, "an apply that changes nothing writes nothing"


async def test_a_scale_that_is_no_longer_applied_is_nothing(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    await api.apply(SCALE, scale(4), "scaler", force=True)
    assert (await api.apply(SCALE, scale(None), "scaler")).code == 200
    assert (await api.get(f"{DEPLOYMENTS}/web")).body["spec"]["replicas"] == 0


@dataclass(frozen=True)
class Refused:
    id: str
    config: dict[str, Any]
    code: int
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("less than nothing", scale(-1), 422, "spec.replicas: Invalid value: -1"),
        Refused("another object's scale", scale(1) | {"metadata": {"name": "x"}}, 400, "does not match the name on"),
        Refused("the object itself", deployment(), 400, ".spec.template: field not declared in schema"),
        Refused("a stale scale", scale(1, resourceVersion="1"), 409, "the object has been modified"),
        Refused("replicas that are no number", scale(1) | {"spec": {"replicas": "x"}}, 400, "typed patch object"),
    ],
    ids=lambda case: case.id,
)
async def test_not_applied_as_a_scale_is(api: ApiCaller, case: Refused) -> None:
    await api.post(DEPLOYMENTS, deployment())
    answer = await api.apply(SCALE, case.config, force=True)
    assert answer.code == case.code
    assert case.message in answer.message


async def test_a_scale_of_nothing_is_not_applied(api: ApiCaller) -> None:
    assert (await api.apply(SCALE, scale(1))).code == 404
