"""The scheduler against a real API server: devices for claims, and volumes that are bound together with their pod."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding
from mooring.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.framework import (
    SUCCESS,
    Code,
    CycleState,
    EventWithHint,
    Handle,
    PluginArguments,
    Status,
)
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.queue import Backoffs
from mooring.scheduler.running.options import SchedulerConfig
from mooring.testing.builders import made
from scheduler_rig import Rig, rig

pytestmark = pytest.mark.req("S.3")
QUICK = SchedulerConfig(backoffs=Backoffs(initial=0.05, maximum=0.2))
DRIVER = "gpu.example.com"
HOSTNAME = "kubernetes.io/hostname"


class FirstWaitsInVain:
    """Lets the first pod wait for a moment, and then refuses it for good."""

    name = "FirstWaitsInVain"

    def __init__(self, _arguments: PluginArguments, _handle: Handle) -> None:
        self._first = ""

    def events_to_register(self) -> Sequence[EventWithHint]:
        return ()

    def permit(self, _cycle: CycleState, pod: Pod, _node: str) -> tuple[Status, float]:
        self._first = self._first or pod.metadata.name
        return (Status(Code.WAIT), 0.3) if pod.metadata.name == self._first else (SUCCESS, 0.0)


WITH_WAITING = replace(
    QUICK,
    profiles=(ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse(FirstWaitsInVain.name))),),
    plugins={FirstWaitsInVain.name: FirstWaitsInVain},
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(tmp_path) as found:
        for name in ("n1", "n2"):
            await found.add_node(name)
        yield found


async def create(cluster: Rig, kind: Any, name: str, spec: Any = None, namespace: str = "", **fields: Any) -> Any:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    tree = {"metadata": metadata, **({"spec": spec} if spec is not None else {}), **fields}
    return await cluster.admin.create(made(kind, tree))


async def add_devices(cluster: Rig, where: str, *devices: dict[str, Any]) -> None:
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": where, "devices": list(devices)}
    await create(cluster, ResourceSlice, f"slice-{where}", spec)


async def add_claim(cluster: Rig, name: str, **request: Any) -> None:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **request}
    await create(
        cluster, ResourceClaim, name, {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}, "default"
    )


def claims(*names: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]}


async def add_class(cluster: Rig) -> None:
    await create(cluster, DeviceClass, "gpu", {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]})


async def devices_of(cluster: Rig, name: str) -> list[str]:
    found = await cluster.admin.get(ResourceClaim, name, "default")
    return (
        [] if found.status.allocation is None else [entry.device for entry in found.status.allocation.devices.results]
    )


async def test_a_pod_gets_its_device_and_the_next_one_waits_for_another(cluster: Rig) -> None:
    await add_class(cluster)
    await add_devices(cluster, "n1", {"name": "g0"})
    for name in ("one", "two"):
        await add_claim(cluster, name)
    cluster.start(QUICK)
    await cluster.add_pod("a", **claims("one"))
    await cluster.until(lambda: cluster.node_of("a") == "n1")
    claim = await cluster.admin.get(ResourceClaim, "one", "default")
    assert await devices_of(cluster, "one") == ["g0"]
    assert [entry.name for entry in claim.status.reserved_for] == ["a"]
    await cluster.add_pod("b", **claims("two"))
    await cluster.until(lambda: "b" in cluster.pods and bool(cluster.pods["b"].status.conditions))
    assert "cannot allocate all claims" in cluster.pods["b"].status.conditions[0].message
    await add_devices(cluster, "n2", {"name": "g1"})
    await cluster.until(lambda: cluster.node_of("b") == "n2")
    assert await devices_of(cluster, "two") == ["g1"]


@pytest.mark.parametrize(("server", "spoken"), [("1.32", "v1beta1"), ("1.33", "v1beta2"), ("1.34", "v1")])
async def test_devices_of_a_server_that_is_older_than_the_scheduler(server: str, spoken: str, tmp_path: Path) -> None:
    kinds: set[type[Resource]] = {DeviceClass, ResourceClaim, ResourceSlice}
    async with rig(tmp_path, server, {f"resource.k8s.io/{spoken}": True}) as cluster:
        assert await cluster.admin.served(kinds) == kinds
        assert {cluster.admin.kind(kind).version for kind in kinds} == {spoken}
        await cluster.add_node("n1")
        await add_class(cluster)
        await add_devices(cluster, "n1", {"name": "g0"})
        cluster.start(QUICK)
        await add_claim(cluster, "before")
        await cluster.add_pod("a", **claims("before"))
        await cluster.until(lambda: cluster.node_of("a") == "n1")
        assert await devices_of(cluster, "before") == ["g0"]
        claim = await cluster.admin.get(ResourceClaim, "before", "default")
        assert claim.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
        await add_claim(cluster, "after")
        await cluster.add_pod("b", **claims("after"))
        await cluster.until(lambda: "b" in cluster.pods and bool(cluster.pods["b"].status.conditions))
        await create_more(cluster)
        await cluster.until(lambda: cluster.node_of("b") == "n2")


@pytest.mark.parametrize("claim", ["one", "two"], ids=["the same claim", "another claim for the same device"])
async def test_devices_that_were_held_for_a_pod_in_vain_go_to_the_next(cluster: Rig, claim: str) -> None:
    await add_class(cluster)
    await add_devices(cluster, "n1", {"name": "g0"})
    for name in ("one", "two"):
        await add_claim(cluster, name)
    scheduler = cluster.start(WITH_WAITING)
    await cluster.add_pod("a", **claims("one"))
    await cluster.until(lambda: len(scheduler.waiting))
    await cluster.add_pod("b", **claims(claim))
    await cluster.until(lambda: cluster.node_of("b") == "n1")
    assert await devices_of(cluster, claim) == ["g0"]


async def create_more(cluster: Rig) -> None:
    """Another node with a device."""
    await cluster.add_node("n2")
    await add_devices(cluster, "n2", {"name": "g1"})


async def test_a_pod_whose_claim_comes_later_waits_for_it(cluster: Rig) -> None:
    await add_class(cluster)
    await add_devices(cluster, "n2", {"name": "g0"})
    cluster.start(QUICK)
    await cluster.add_pod("a", **claims("late"))
    await cluster.until(lambda: "a" in cluster.pods)
    await add_claim(cluster, "late")
    await cluster.until(lambda: cluster.node_of("a") == "n2")


@pytest.mark.req("5471.8")
async def test_devices_with_a_number_for_a_taint_are_chosen_by_it(cluster: Rig) -> None:
    await add_class(cluster)
    worn = [{"key": "health", "value": "40", "effect": "NoSchedule"}]
    good = [{"key": "health", "value": "95", "effect": "NoSchedule"}]
    await add_devices(cluster, "n1", {"name": "worn", "taints": worn})
    await add_devices(cluster, "n2", {"name": "good", "taints": good})
    enough = {"key": "health", "operator": "Gt", "value": "90", "effect": "NoSchedule"}
    await add_claim(cluster, "c", tolerations=[enough])
    cluster.start(QUICK)
    await cluster.add_pod("a", **claims("c"))
    await cluster.until(lambda: cluster.node_of("a") == "n2")
    assert await devices_of(cluster, "c") == ["good"]


@pytest.mark.req("5471.8")
async def test_a_taint_rule_keeps_devices_from_being_allocated_until_it_is_gone(cluster: Rig) -> None:
    await add_class(cluster)
    await add_devices(cluster, "n1", {"name": "g0"})
    await add_claim(cluster, "c")
    taint = {"key": "broken", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"driver": DRIVER, "pool": "n1", "device": "g0"}, "taint": taint}
    await create(cluster, DeviceTaintRule, "rule", spec)
    cluster.start(QUICK)
    await cluster.add_pod("a", **claims("c"))
    await cluster.until(lambda: "a" in cluster.pods and bool(cluster.pods["a"].status.conditions))
    assert not cluster.node_of("a")
    await cluster.admin.delete(DeviceTaintRule, "rule")
    await cluster.until(lambda: cluster.node_of("a") == "n1")


async def add_volume(cluster: Rig, name: str, where: str) -> None:
    here = {"key": HOSTNAME, "operator": "In", "values": [where]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    volume = await create(cluster, PersistentVolume, name, spec)
    volume.status.phase = "Available"
    await cluster.admin.update_status(volume)


async def add_volume_claims(cluster: Rig, *names: str) -> None:
    """Claims that wait for their pods, and one volume for them."""
    fields = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    await create(cluster, StorageClass, "local", **fields)
    await add_volume(cluster, "disk", "n2")
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    for name in names:
        await create(cluster, PersistentVolumeClaim, name, wanted, "default")


async def bind_claim(cluster: Rig, volume_name: str) -> None:
    """Bind a claim as the PersistentVolume controller does once the scheduler has reserved a volume."""
    volume = await cluster.admin.get(PersistentVolume, volume_name)
    reference = volume.spec.claim_ref
    assert reference is not None
    claim = await cluster.admin.get(PersistentVolumeClaim, reference.name, reference.namespace)
    annotations = {**claim.metadata.annotations, "pv.kubernetes.io/bind-completed": "yes"}
    metadata = structs.replace(claim.metadata, annotations=annotations)
    spec = structs.replace(claim.spec, volume_name=volume_name)
    await cluster.admin.update(structs.replace(claim, metadata=metadata, spec=spec))


async def test_a_volume_is_reserved_and_bound_together_with_its_pod(cluster: Rig) -> None:
    await add_volume_claims(cluster, "data")
    volumes = cluster.informers.of(PersistentVolume)
    cluster.start(QUICK)
    await cluster.add_pod("db", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    await cluster.until(lambda: any(volume.spec.claim_ref is not None for volume in volumes.objects()))
    assert not cluster.node_of("db"), "it waits until its volume is bound"
    await bind_claim(cluster, "disk")
    await cluster.until(lambda: cluster.node_of("db") == "n2")


async def test_a_volume_that_was_held_for_a_pod_in_vain_goes_to_the_next(cluster: Rig) -> None:
    await add_volume_claims(cluster, "one", "data")
    scheduler = cluster.start(WITH_WAITING)
    await cluster.add_pod("first", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}])
    await cluster.until(lambda: len(scheduler.waiting))
    await cluster.add_pod("second", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    volumes = cluster.informers.of(PersistentVolume)
    await cluster.until(lambda: any(volume.spec.claim_ref is not None for volume in volumes.objects()))
    await bind_claim(cluster, "disk")
    await cluster.until(lambda: cluster.node_of("second") == "n2")


async def give_rights(cluster: Rig, name: str, groups: list[str], resources: list[str]) -> None:
    rule = {"verbs": ["*"], "apiGroups": groups, "resources": resources}
    await create(cluster, ClusterRole, name, rules=[rule])
    subject = {"kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    await create(cluster, ClusterRoleBinding, name, subjects=[subject], roleRef=role)


async def test_a_scheduler_that_may_not_read_devices_schedules_pods_without_claims(cluster: Rig) -> None:
    """The role of a scheduler in a cluster without device claims does not mention them."""
    groups = ["", "apps", "policy", "storage.k8s.io", "events.k8s.io", "coordination.k8s.io"]
    await give_rights(cluster, "most", groups, ["*"])
    await give_rights(cluster, "rules", ["resource.k8s.io"], ["devicetaintrules", "resourceclaims"])
    await add_class(cluster)
    await add_devices(cluster, "n2", {"name": "g0"})
    await add_claim(cluster, "one")
    cluster.start(QUICK, client=cluster.client("limited"))
    await cluster.add_pod("with", **claims("one"))
    await cluster.add_pod("without")
    await cluster.until(lambda: cluster.node_of("without"))
    await cluster.until(lambda: bool(cluster.pods["with"].status.conditions))
    assert "device class gpu does not exist" in cluster.pods["with"].status.conditions[0].message
    await give_rights(cluster, "devices", ["resource.k8s.io"], ["*"])
    await cluster.until(lambda: cluster.node_of("with") == "n2")
