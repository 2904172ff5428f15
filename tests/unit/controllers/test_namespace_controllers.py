"""Namespaces: how they end, and what they have from the beginning; volumes that must not go yet."""

from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.core_v1 import (
    ConfigMap,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Secret,
    ServiceAccount,
)
from mooring.client import PatchType

pytestmark = pytest.mark.req("S.4")


async def namespace(plane: ControlPlane, name: str) -> None:
    await plane.create(Namespace, metadata={"name": name})


async def test_a_namespace_goes_with_everything_in_it() -> None:
    async with control_plane("namespace", "serviceaccount") as plane:
        await namespace(plane, "team")
        await plane.create(ConfigMap, metadata={"name": "a", "namespace": "team"})
        await plane.pod("web", namespace="team")
        await plane.client.delete(Namespace, "team")
        await plane.run(3)
        assert "team" not in await plane.names(Namespace)
        assert await plane.names(ConfigMap, "team") == []
        assert await plane.names(Pod, "team") == []


async def test_pods_go_before_everything_else_in_their_namespace() -> None:
    async with control_plane("namespace") as plane:
        await namespace(plane, "team")
        await plane.create(ConfigMap, metadata={"name": "a", "namespace": "team"})
        await plane.pod("web", metadata={"namespace": "team", "finalizers": ["example.com/wait"]})
        await plane.client.delete(Namespace, "team")
        await plane.run(5)
        assert await plane.names(ConfigMap, "team") == ["a"]
        found = await plane.client.get(Namespace, "team")
        assert "NamespaceDeletionContentFailure" in {condition.type for condition in found.status.conditions}
        await plane.client.patch(Pod, "web", {"metadata": {"finalizers": None}}, "team", type=PatchType.MERGE)
        await plane.run(30)
        assert "team" not in await plane.names(Namespace)


async def test_a_namespace_says_what_it_waits_for() -> None:
    async with control_plane("namespace") as plane:
        await namespace(plane, "team")
        await plane.create(ConfigMap, metadata={"name": "a", "namespace": "team", "finalizers": ["example.com/wait"]})
        await plane.client.delete(Namespace, "team")
        await plane.run(3)
        found = await plane.client.get(Namespace, "team")
        reported = {condition.type: (condition.status, condition.message) for condition in found.status.conditions}
        assert found.status.phase == "Terminating"
        assert reported["NamespaceContentRemaining"] == (
            "True",
            "Some resources are remaining: configmaps. has 1 resource instances",
        )
        assert reported["NamespaceFinalizersRemaining"] == (
            "True",
            "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances",
        )
        await plane.client.patch(ConfigMap, "a", {"metadata": {"finalizers": None}}, "team", type=PatchType.MERGE)
        await plane.run(30)
        assert "team" not in await plane.names(Namespace)


async def test_every_namespace_has_a_default_account_and_gets_it_back() -> None:
    async with control_plane("serviceaccount") as plane:
        await namespace(plane, "team")
        await plane.run(0)
        assert await plane.names(ServiceAccount, "team") == ["default"]
        assert await plane.names(ServiceAccount, "default") == ["default"]
        await plane.client.delete(ServiceAccount, "default", "team")
        await plane.run(0)
        assert await plane.names(ServiceAccount, "team") == ["default"]


async def test_every_namespace_has_the_authority_of_the_server_and_gets_it_back() -> None:
    async with control_plane("root-ca-certificate-publisher") as plane:
        await namespace(plane, "team")
        await plane.run(0)
        expected = plane.server.authority.decode()
        for name in ("default", "kube-system", "team"):
            assert (await plane.client.get(ConfigMap, "kube-root-ca.crt", name)).data == {"ca.crt": expected}
        await plane.client.delete(ConfigMap, "kube-root-ca.crt", "team")
        await plane.run(0)
        assert "kube-root-ca.crt" in await plane.names(ConfigMap, "team")
        changed = {"data": {"ca.crt": "mine"}, "metadata": {"annotations": None}}
        await plane.client.patch(ConfigMap, "kube-root-ca.crt", changed, "team", type=PatchType.MERGE)
        await plane.run(0)
        found = await plane.client.get(ConfigMap, "kube-root-ca.crt", "team")
        assert found.data == {"ca.crt": expected}
        assert "CA bundle" in found.metadata.annotations["kubernetes.io/description"]


async def test_a_secret_gets_the_token_of_its_account_and_goes_with_it() -> None:
    async with control_plane("serviceaccount") as plane:
        await plane.create(ServiceAccount, metadata={"name": "robot", "namespace": "default"})
        await plane.create(
            Secret,
            metadata={
                "name": "robot-token",
                "namespace": "default",
                "annotations": {"kubernetes.io/service-account.name": "robot"},
            },
            type="kubernetes.io/service-account-token",
        )
        await plane.run(0)
        secret = await plane.find(Secret, "robot-token")
        assert secret is not None
        assert secret.data["token"]
        await plane.client.delete(ServiceAccount, "robot", "default")
        await plane.run(0)
        assert await plane.find(Secret, "robot-token") is None


CLAIM: dict[str, Any] = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "",
}
VOLUME: dict[str, Any] = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/data"},
}


async def test_a_claim_stays_while_a_pod_uses_it() -> None:
    async with control_plane("volume-protection") as plane:
        await plane.node("n")
        await plane.create(PersistentVolumeClaim, metadata={"name": "data", "namespace": "default"}, spec=CLAIM)
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await plane.pod("web", on="n", spec={"volumes": volumes})
        await plane.run(0)
        await plane.client.delete(PersistentVolumeClaim, "data", "default")
        await plane.run(0)
        assert await plane.names(PersistentVolumeClaim) == ["data"]
        await plane.client.delete(Pod, "web", "default", grace_period_seconds=0)
        await plane.run(0)
        assert await plane.names(PersistentVolumeClaim) == []


async def test_a_volume_that_is_not_bound_can_go() -> None:
    async with control_plane("volume-protection") as plane:
        await plane.create(PersistentVolume, metadata={"name": "disk"}, spec=VOLUME)
        await plane.client.delete(PersistentVolume, "disk")
        await plane.run(0)
        assert await plane.names(PersistentVolume) == []
