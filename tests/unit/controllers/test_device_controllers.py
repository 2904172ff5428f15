"""Devices: pods that lose them by taints, claims from templates, and claims that become free."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.core_v1 import Pod
from mooring.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.client import Informer, PatchType

pytestmark = [pytest.mark.req("5471.8"), pytest.mark.req("S.4")]

CLAIM_SPEC: dict[str, Any] = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
}


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with control_plane("device-taint-eviction", "resourceclaim", "garbage-collector") as running:
        await running.node("n")
        yield running


def gpu_slice(*taints: dict[str, str], generation: int = 1, name: str = "slice") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n",
            "pool": {"name": "pool", "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": list(taints)}],
        },
    }


async def pod_with_gpu(plane: ControlPlane, *tolerations: dict[str, Any], name: str = "train") -> Pod:
    """Return a pod that runs on a node and uses a device, as the scheduler would leave it."""
    await plane.create(ResourceClaim, metadata={"name": name, "namespace": "default"}, spec=CLAIM_SPEC)
    pod = await plane.pod(name, on="n", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]})
    result: dict[str, Any] = {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "pool",
        "device": "gpu-0",
        "tolerations": list(tolerations),
    }
    user = {"resource": "pods", "name": name, "uid": pod.metadata.uid}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    await plane.client.patch(
        ResourceClaim, name, {"status": status}, "default", type=PatchType.MERGE, subresource="status"
    )
    return pod


@dataclass
class Case:
    sentence: str
    tolerations: list[dict[str, Any]]
    taint: dict[str, str]
    goes_after: int | None


SICK = {"key": "health", "value": "40", "effect": "NoExecute"}
CASES = [
    Case("an untolerated device lets its pod go at once", [], SICK, 0),
    Case("NoSchedule on a device evicts nobody", [], {**SICK, "effect": "NoSchedule"}, None),
    Case("Exists tolerates", [{"key": "health", "operator": "Exists"}], SICK, None),
    Case("Equal tolerates its value", [{"key": "health", "operator": "Equal", "value": "40"}], SICK, None),
    Case("Gt tolerates a greater value", [{"key": "health", "operator": "Gt", "value": "30"}], SICK, None),
    Case("Gt does not tolerate a smaller one", [{"key": "health", "operator": "Gt", "value": "50"}], SICK, 0),
    Case(
        "Lt with tolerationSeconds gives time",
        [{"key": "health", "operator": "Lt", "value": "50", "effect": "NoExecute", "tolerationSeconds": 30}],
        SICK,
        30,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_when_a_pod_loses_its_device(case: Case, plane: ControlPlane) -> None:
    await plane.create(ResourceSlice, **gpu_slice())
    await pod_with_gpu(plane, *case.tolerations)
    await plane.run(0)
    assert await plane.alive("train")
    body = {"spec": {"devices": [{"name": "gpu-0", "taints": [case.taint]}]}}
    await plane.client.patch(ResourceSlice, "slice", body, type=PatchType.MERGE)
    await plane.run(0)
    if case.goes_after is None:
        await plane.run(1000)
        assert await plane.alive("train")
        return
    if case.goes_after:
        await plane.run(case.goes_after - 1)
        assert await plane.alive("train")
        await plane.run(2)  # times have whole seconds, and a pod never leaves early
    assert not await plane.alive("train")


async def test_a_rule_of_the_administrator_counts_and_can_be_taken_back(plane: ControlPlane) -> None:
    await plane.create(ResourceSlice, **gpu_slice())
    tolerations = [{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    await pod_with_gpu(plane, *tolerations)
    rule = {
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "device": "gpu-0"},
            "taint": {"key": "maintenance", "effect": "NoExecute"},
        },
    }
    await plane.create(DeviceTaintRule, **rule)
    await plane.run(30)
    await plane.client.delete(DeviceTaintRule, "rule")
    await plane.run(100)
    assert await plane.alive("train")
    assert [event.note for event in await plane.events("DeviceTaintManagerEviction")] == [
        "Cancelling deletion of Pod default/train"
    ]
    await plane.create(DeviceTaintRule, **rule)
    await plane.run(61)
    assert not await plane.alive("train")


async def test_a_rule_for_another_device_does_not_matter(plane: ControlPlane) -> None:
    await plane.create(ResourceSlice, **gpu_slice())
    await pod_with_gpu(plane)
    spec = {"deviceSelector": {"device": "gpu-1"}, "taint": {"key": "a", "effect": "NoExecute"}}
    await plane.create(DeviceTaintRule, metadata={"name": "rule"}, spec=spec)
    await plane.run(10)
    assert await plane.alive("train")


async def test_slices_of_an_older_generation_do_not_count(plane: ControlPlane) -> None:
    await plane.create(ResourceSlice, **gpu_slice(generation=2, name="new"))
    await plane.create(ResourceSlice, **gpu_slice(SICK, generation=1, name="old"))
    await pod_with_gpu(plane)
    await plane.run(10)
    assert await plane.alive("train")


async def test_a_template_becomes_a_claim_that_goes_with_its_pod(plane: ControlPlane) -> None:
    await plane.pod("train", spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]})
    await plane.run(0)
    assert await plane.names(ResourceClaim) == []
    assert await plane.events("FailedResourceClaimCreation")
    await plane.create(
        ResourceClaimTemplate, metadata={"name": "template", "namespace": "default"}, spec={"spec": CLAIM_SPEC}
    )
    await plane.run(0)
    pod = await plane.find(Pod, "train")
    assert pod is not None
    names = await plane.names(ResourceClaim)
    assert [entry.resource_claim_name for entry in pod.status.resource_claim_statuses] == names
    assert names[0].startswith("train-gpu-")
    await plane.client.delete(Pod, "train", "default")
    await plane.run(0)
    assert await plane.names(ResourceClaim) == []


async def test_a_claim_is_free_when_its_pod_has_ended(plane: ControlPlane) -> None:
    await pod_with_gpu(plane)
    await plane.client.patch(
        ResourceClaim,
        "train",
        {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}},
        "default",
        type=PatchType.MERGE,
    )
    await plane.client.patch(Pod, "train", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    await plane.run(0)
    claim = await plane.find(ResourceClaim, "train")
    assert claim is not None
    assert (claim.status.allocation, claim.status.reserved_for, claim.metadata.finalizers) == (None, [], [])


async def test_a_claim_stays_with_a_pod_that_informers_do_not_show_yet(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch of claims may be ahead of that of pods: a scheduler is fast, and a busy machine slow."""
    held: list[tuple[Informer[Any], list[Any]]] = []
    take = Informer._apply_events

    def hold_pods_back(informer: Informer[Any], events: list[Any]) -> None:
        if isinstance(events[0].object, Pod):
            held.append((informer, events))
        else:
            take(informer, events)

    monkeypatch.setattr(Informer, "_apply_events", hold_pods_back)
    await plane.create(ResourceSlice, **gpu_slice())
    pod = await pod_with_gpu(plane)
    await plane.run(0)
    claim = await plane.find(ResourceClaim, "train")
    assert claim is not None
    assert [user.uid for user in claim.status.reserved_for] == [pod.metadata.uid]
    for informer, events in held:
        take(informer, events)
    monkeypatch.undo()
    body = {"spec": {"devices": [{"name": "gpu-0", "taints": [SICK]}]}}
    await plane.client.patch(ResourceSlice, "slice", body, type=PatchType.MERGE)
    await plane.run(0)
    assert not await plane.alive("train")
