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
