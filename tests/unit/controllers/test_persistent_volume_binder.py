"""Which volume a claim gets, when one is made, and what happens to it afterwards."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.storage_v1 import StorageClass
from mooring.client import PatchType

pytestmark = pytest.mark.req("S.4")


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with control_plane("persistentvolume-binder", "volume-protection") as running:
        yield running


async def claim(plane: ControlPlane, name: str = "data", **spec: Any) -> PersistentVolumeClaim:
    fields = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "",
        **spec,
    }
    return await plane.create(PersistentVolumeClaim, metadata={"name": name, "namespace": "default"}, spec=fields)


async def volume(plane: ControlPlane, name: str, size: str = "10Gi", **spec: Any) -> PersistentVolume:
    fields = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "persistentVolumeReclaimPolicy": "Retain",
        **spec,
    }
    return await plane.create(PersistentVolume, metadata={"name": name, "labels": {"name": name}}, spec=fields)


async def storage_class(plane: ControlPlane, name: str, **fields: Any) -> None:
    wanted = {"provisioner": "simulation.mooring.dev/volumes", "reclaimPolicy": "Delete", **fields}
    await plane.create(StorageClass, metadata={"name": name}, **wanted)


async def state(plane: ControlPlane, name: str = "data") -> tuple[str, str]:
    await plane.run(0)
    found = await plane.find(PersistentVolumeClaim, name)
    assert found is not None
    return found.status.phase, found.spec.volume_name


@dataclass
class Case:
    sentence: str
    volumes: dict[str, dict[str, Any]]
    expected: tuple[str, str]
    claim: dict[str, Any] = field(default_factory=dict)


PENDING = ("Pending", "")
RESERVED = {"namespace": "default", "name": "data"}
CASES = [
    Case("the smallest that is large enough", {"big": {"size": "50Gi"}, "fit": {}, "small": {"size": "1Gi"}},
         ("Bound", "fit")),
    Case("none is large enough", {"small": {"size": "1Gi"}}, PENDING),
    Case("another class", {"fit": {"storageClassName": "fast"}}, PENDING),
    Case("other access modes", {"fit": {}}, PENDING, {"accessModes": ["ReadWriteMany"]}),
    Case("a block device for a file system", {"fit": {"volumeMode": "Block"}}, PENDING),
    Case("labels are asked for", {"a": {}, "b": {}}, ("Bound", "b"), {"selector": {"matchLabels": {"name": "b"}}}),
    Case("reserved for another claim", {"fit": {"claimRef": {"namespace": "default", "name": "other"}}}, PENDING),
    Case("reserved for this claim", {"small": {"size": "6Gi"}, "mine": {"claimRef": RESERVED}}, ("Bound", "mine")),
    Case("named by the claim", {"a": {"size": "6Gi"}, "b": {}}, ("Bound", "b"), {"volumeName": "b"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_which_volume_a_claim_gets(case: Case, plane: ControlPlane) -> None:
    for name, spec in case.volumes.items():
        await volume(plane, name, **spec)
    await plane.run(0)
    await claim(plane, **case.claim)
    assert await state(plane) == case.expected


async def test_both_sides_of_a_binding_say_so(plane: ControlPlane) -> None:
    made = await claim(plane)
    assert await state(plane) == PENDING
    await volume(plane, "disk")
    assert await state(plane) == ("Bound", "disk")
    found = await plane.find(PersistentVolumeClaim, "data")
    disk = await plane.client.get(PersistentVolume, "disk")
    assert found is not None
    assert found.metadata.annotations["pv.kubernetes.io/bind-completed"] == "yes"
    assert str(found.status.capacity["storage"]) == "10Gi"
    assert disk.spec.claim_ref is not None
    assert (disk.spec.claim_ref.uid, disk.status.phase) == (made.metadata.uid, "Bound")


async def test_two_claims_never_share_a_volume(plane: ControlPlane) -> None:
    await volume(plane, "disk")
    await claim(plane, "one")
    await claim(plane, "two")
    assert sorted([await state(plane, "one"), await state(plane, "two")]) == [("Bound", "disk"), PENDING]


async def test_a_volume_is_made_by_the_simulated_provisioner_and_goes_with_its_claim(plane: ControlPlane) -> None:
    await storage_class(plane, "simulated")
    made = await claim(plane, storageClassName="simulated")
    name = f"pvc-{made.metadata.uid}"
    assert await state(plane) == ("Bound", name)
    await plane.client.delete(PersistentVolumeClaim, "data", "default")
    await plane.run(1)
    assert await plane.names(PersistentVolumeClaim) == []
    assert await plane.names(PersistentVolume) == []


async def test_a_volume_that_is_to_be_kept_is_released(plane: ControlPlane) -> None:
    await volume(plane, "disk")
    await claim(plane)
    await plane.run(0)
    await plane.client.delete(PersistentVolumeClaim, "data", "default")
    await plane.run(1)
    disk = await plane.client.get(PersistentVolume, "disk")
    assert disk.status.phase == "Released"
    await claim(plane, "next")
    assert await state(plane, "next") == PENDING


async def test_a_claim_waits_for_its_first_consumer_and_gets_a_volume_where_that_is(plane: ControlPlane) -> None:
    topology = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["z1", "z2"]}]}]
    await storage_class(plane, "late", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=topology)
    await plane.node("n", zone="z2")
    await claim(plane, storageClassName="late")
    assert await state(plane) == PENDING
    assert await plane.events("WaitForFirstConsumer")
    body = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
    await plane.client.patch(PersistentVolumeClaim, "data", body, "default", type=PatchType.MERGE)
    assert (await state(plane))[0] == "Bound"
    made = (await plane.client.list(PersistentVolume)).items[0]
    assert made.spec.node_affinity is not None
    assert made.spec.node_affinity.required is not None
    terms = made.spec.node_affinity.required.node_selector_terms
    assert [(entry.key, entry.values) for entry in terms[0].match_expressions] == [
        ("topology.kubernetes.io/zone", ["z2"])
    ]


async def test_a_claim_whose_volume_is_gone_is_lost(plane: ControlPlane) -> None:
    await volume(plane, "disk")
    await claim(plane)
    await plane.run(0)
    await plane.client.patch(PersistentVolume, "disk", {"metadata": {"finalizers": None}}, type=PatchType.MERGE)
    await plane.client.delete(PersistentVolume, "disk")
    assert await state(plane) == ("Lost", "disk")


async def test_a_restart_in_the_middle_of_a_binding_finishes_it(plane: ControlPlane) -> None:
    await plane.stop()
    made = await claim(plane)
    await volume(plane, "disk", claimRef={**RESERVED, "uid": made.metadata.uid, "kind": "PersistentVolumeClaim"})
    await plane.start()
    assert await state(plane) == ("Bound", "disk")


async def test_an_ephemeral_volume_is_a_claim_of_its_pod() -> None:
    async with control_plane("ephemeral-volume", "garbage-collector", "volume-protection") as plane:
        template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        await plane.pod("web", spec={"volumes": volumes})
        await plane.run(0)
        assert await plane.names(PersistentVolumeClaim) == ["web-scratch"]
        await plane.client.delete(Pod, "web", "default")
        await plane.run(0)
        assert await plane.names(PersistentVolumeClaim) == []
