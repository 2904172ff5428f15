"""Controllers of nodes, volumes and garbage that are killed at any moment bring about what they would have anyway."""

import random
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.core_v1 import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.api.storage_v1 import StorageClass
from mooring.client import PatchType
from mooring.controllers.simulated_nodes.templates import build_numbered_nodes, create_nodes

pytestmark = [pytest.mark.req("S.4"), pytest.mark.req("5471.7")]

CONTROLLERS = (
    "taint-eviction",
    "node-lifecycle",
    "simulated-nodes",
    "simulated-pods",
    "garbage-collector",
    "namespace",
    "persistentvolume-binder",
    "volume-protection",
    "resourceclaim",
)
SECONDS = 60


def gt(value: str, seconds: int) -> dict[str, Any]:
    return {"key": "sla", "operator": "Gt", "value": value, "effect": "NoExecute", "tolerationSeconds": seconds}


async def begin(plane: ControlPlane) -> None:
    await create_nodes(plane.client, build_numbered_nodes(2))
    annotations = {"simulation.mooring.dev/run-seconds": "20"}
    await plane.pod("brief", on="node-1", metadata={"annotations": annotations}, spec={"restartPolicy": "Never"})
    for name, seconds in (("goes", 30), ("stays", 300)):
        await plane.pod(name, on="node-0", spec={"tolerations": [gt("900", seconds)]})
    owner = await plane.create(ConfigMap, metadata={"name": "owner", "namespace": "default"})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    for name in ("one", "two"):
        meta = {"name": name, "namespace": "default", "ownerReferences": [{**reference, "blockOwnerDeletion": True}]}
        await plane.create(ConfigMap, metadata=meta)
    await plane.create(StorageClass, metadata={"name": "thin"}, provisioner="simulation.mooring.dev/volumes")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "thin",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    for name in ("data", "short-lived"):
        await plane.create(PersistentVolumeClaim, metadata={"name": name, "namespace": "default"}, spec=spec)
    await plane.create(Namespace, metadata={"name": "team"})
    await plane.pod("web", namespace="team", on="node-1")
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    await plane.create(
        ResourceClaimTemplate,
        metadata={"name": "gpu", "namespace": "default"},
        spec={"spec": {"devices": {"requests": [request]}}},
    )
    await plane.pod("train", spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]})


async def change(plane: ControlPlane) -> None:
    taint = {"key": "sla", "value": "950", "effect": "NoExecute"}
    await plane.client.patch(Node, "node-0", {"spec": {"taints": [taint]}})
    await plane.client.delete(ConfigMap, "owner", "default", propagation_policy="Foreground")
    await plane.client.delete(PersistentVolumeClaim, "short-lived", "default")
    await plane.client.delete(Namespace, "team")
    failure = {"metadata": {"annotations": {"simulation.mooring.dev/failure": "not-ready"}}}
    await plane.client.patch(Node, "node-1", failure, type=PatchType.MERGE)


async def outcome(plane: ControlPlane) -> dict[str, Any]:
    """Return the state without generated names and times."""
    pods = (await plane.client.list(Pod)).items
    nodes = (await plane.client.list(Node)).items
    claims = (await plane.client.list(PersistentVolumeClaim)).items
    return {
        "pods": {pod.metadata.name: (pod.status.phase, bool(pod.status.pod_ip)) for pod in pods},
        "taints": {node.metadata.name: {(t.key, t.effect) for t in node.spec.taints} for node in nodes},
        "config": await plane.names(ConfigMap, "default"),
        "claims": {claim.metadata.name: claim.status.phase for claim in claims},
        "volumes": [volume.status.phase for volume in (await plane.client.list(PersistentVolume)).items],
        "namespaces": await plane.names(Namespace),
        "devices": len(await plane.names(ResourceClaim)),
    }


EXPECTED = {
    "pods": {"brief": ("Succeeded", True), "stays": ("Running", True), "train": ("Pending", False)},
    "taints": {
        "node-0": {("sla", "NoExecute")},
        "node-1": {("node.kubernetes.io/not-ready", "NoSchedule"), ("node.kubernetes.io/not-ready", "NoExecute")},
    },
    "config": [],
    "claims": {"data": "Bound"},
    "volumes": ["Bound"],
    "namespaces": ["default", "kube-node-lease", "kube-public", "kube-system"],
    "devices": 1,
}


async def live_through(plane: ControlPlane, chance: random.Random | None) -> None:
    """Let a minute pass, in which the controllers are killed as chance has it."""
    for second in range(SECONDS):
        if second == 5:
            await change(plane)
        if chance is not None and chance.random() < 0.4:
            await plane.clock.run(chance.choice([0, 0, 0.5]))
            await plane.stop()
            await plane.start()
        await plane.run(1)


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4], ids=lambda seed: "undisturbed" if seed is None else f"seed {seed}")
async def test_restarts_change_no_outcome(seed: int | None) -> None:
    async with control_plane(*CONTROLLERS) as plane:
        await begin(plane)
        await live_through(plane, None if seed is None else random.Random(seed))
        await plane.run(30)
        assert await outcome(plane) == EXPECTED
