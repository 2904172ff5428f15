"""Disruption budgets, EndpointSlices, pods without a kubelet to finish them, and old events."""

from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.apps_v1 import ReplicaSet
from mooring.api.core_v1 import Endpoints, Event, Node, Pod, Service
from mooring.api.discovery_v1 import EndpointSlice
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.client import PatchType

pytestmark = pytest.mark.req("S.4")
WEB = {"app": "web"}


async def ready(plane: ControlPlane, name: str, status: str = "True", address: str = "") -> None:
    body: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}
    if address:
        body |= {"podIP": address, "podIPs": [{"ip": address}]}
    await plane.client.patch(Pod, name, {"status": body}, "default", subresource="status")


async def pods(plane: ControlPlane, count: int, **fields: Any) -> None:
    for number in range(count):
        await plane.pod(f"web-{number}", on="n", labels=WEB, **fields)
        await ready(plane, f"web-{number}", address=f"10.0.0.{number + 1}")


async def budget(plane: ControlPlane) -> tuple[int, int, int, int]:
    await plane.run(0)
    found = await plane.find(PodDisruptionBudget, "web")
    assert found is not None
    status = found.status
    return status.expected_pods, status.current_healthy, status.desired_healthy, status.disruptions_allowed


async def make_budget(plane: ControlPlane, **spec: Any) -> None:
    await plane.create(
        PodDisruptionBudget,
        metadata={"name": "web", "namespace": "default"},
        spec={"selector": {"matchLabels": WEB}, **spec},
    )


async def test_a_budget_counts_healthy_pods() -> None:
    async with control_plane("disruption") as plane:
        await plane.node("n")
        await pods(plane, 3)
        await make_budget(plane, minAvailable=2)
        assert await budget(plane) == (3, 3, 2, 1)
        await ready(plane, "web-0", "False")
        assert await budget(plane) == (3, 2, 2, 0)
        found = await plane.find(PodDisruptionBudget, "web")
        assert found is not None
        reported = [(entry.type, entry.status, entry.reason) for entry in found.status.conditions]
        assert reported == [("DisruptionAllowed", "False", "InsufficientPods")]


async def test_a_percentage_is_one_of_what_the_owner_wants() -> None:
    async with control_plane("disruption") as plane:
        await plane.node("n")
        template = {"metadata": {"labels": WEB}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        owner = await plane.create(
            ReplicaSet,
            metadata={"name": "web", "namespace": "default"},
            spec={"replicas": 4, "selector": {"matchLabels": WEB}, "template": template},
        )
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": owner.metadata.uid,
            "controller": True,
        }
        await pods(plane, 3, metadata={"ownerReferences": [reference]})
        await make_budget(plane, maxUnavailable="50%")
        assert await budget(plane) == (4, 3, 2, 1)


async def test_a_budget_for_pods_without_an_owner_cannot_take_percentages() -> None:
    async with control_plane("disruption") as plane:
        await plane.node("n")
        await pods(plane, 1)
        await make_budget(plane, maxUnavailable=1)
        assert (await budget(plane))[3] == 0
        assert [event.note for event in await plane.events("CalculateExpectedPodCountFailed")] == [
            'found no controllers for pod "web-0"'
        ]


async def test_evictions_are_allowed_again_when_a_replacement_is_ready() -> None:
    async with control_plane("disruption") as plane:
        await plane.node("n")
        await pods(plane, 3)
        await make_budget(plane, minAvailable=2)
        await budget(plane)
        await plane.client.evict("web-0", "default")
        assert (await budget(plane))[3] == 0
        await plane.pod("web-9", on="n", labels=WEB)
        await ready(plane, "web-9")
        assert (await budget(plane))[3] == 1


async def endpoints(plane: ControlPlane) -> dict[str, tuple[bool | None, bool | None]]:
    await plane.run(0)
    slices = (await plane.client.list(EndpointSlice, "default")).items
    return {
        entry.addresses[0]: (entry.conditions.ready, entry.conditions.terminating)
        for found in slices
        for entry in found.endpoints
    }


SERVICE: dict[str, Any] = {"selector": WEB, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}


async def test_a_service_has_its_pods_as_endpoints() -> None:
    async with control_plane("endpointslice") as plane:
        await plane.node("n", zone="z1")
        await pods(plane, 2)
        await plane.create(Service, metadata={"name": "web", "namespace": "default"}, spec=SERVICE)
        assert await endpoints(plane) == {"10.0.0.1": (True, False), "10.0.0.2": (True, False)}
        await ready(plane, "web-0", "False")
        await plane.client.delete(Pod, "web-1", "default")
        assert await endpoints(plane) == {"10.0.0.1": (False, False), "10.0.0.2": (False, True)}
        found = (await plane.client.list(EndpointSlice, "default")).items[0]
        assert [(port.name, port.port, port.protocol) for port in found.ports] == [("http", 8080, "TCP")]
        assert found.metadata.labels["kubernetes.io/service-name"] == "web"
        assert found.endpoints[0].zone == "z1"


async def subsets(plane: ControlPlane) -> list[tuple[list[str], list[str], list[int]]]:
    """Addresses that are ready, those that are not, and the ports."""
    await plane.run(0)
    found = await plane.find(Endpoints, "web")
    return [
        (
            [address.ip for address in subset.addresses],
            [address.ip for address in subset.not_ready_addresses],
            [port.port for port in subset.ports],
        )
        for subset in (found.subsets if found is not None else [])
    ]


async def test_a_service_has_its_pods_in_the_older_form_too() -> None:
    async with control_plane("endpoints") as plane:
        await plane.node("n")
        await plane.create(Service, metadata={"name": "web", "namespace": "default", "labels": WEB}, spec=SERVICE)
        assert await subsets(plane) == []
        found = await plane.find(Endpoints, "web")
        assert found is not None
        assert found.metadata.labels == WEB | {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        await pods(plane, 3)
        assert await subsets(plane) == [(["10.0.0.1", "10.0.0.2", "10.0.0.3"], [], [8080])]
        await ready(plane, "web-0", "False")
        await plane.client.delete(Pod, "web-1", "default")
        assert await subsets(plane) == [(["10.0.0.3"], ["10.0.0.1"], [8080])]
        await plane.client.delete(Service, "web", "default")
        await plane.run(0)
        assert await plane.find(Endpoints, "web") is None


async def test_endpoints_that_another_client_wrote_stay() -> None:
    async with control_plane("endpoints") as plane:
        own = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 1}]}]
        await plane.create(Endpoints, metadata={"name": "web", "namespace": "default"}, subsets=own)
        spec = {key: value for key, value in SERVICE.items() if key != "selector"}
        await plane.create(Service, metadata={"name": "web", "namespace": "default"}, spec=spec)
        assert await subsets(plane) == [(["192.0.2.1"], [], [1])]
        await plane.client.delete(Service, "web", "default")
        await plane.run(0)
        assert await plane.find(Endpoints, "web") is not None


async def test_many_endpoints_are_split_and_stay_where_they_are() -> None:
    async with control_plane("endpointslice") as plane:
        await plane.node("n")
        await pods(plane, 120)
        await plane.create(Service, metadata={"name": "web", "namespace": "default"}, spec=SERVICE)
        await plane.run(0)
        slices = (await plane.client.list(EndpointSlice, "default")).items
        assert sorted(len(found.endpoints) for found in slices) == [20, 100]
        await plane.client.delete(Pod, "web-0", "default", grace_period_seconds=0)
        assert len(await endpoints(plane)) == 119


async def test_a_service_without_pods_has_an_empty_slice() -> None:
    async with control_plane("endpointslice") as plane:
        await plane.create(Service, metadata={"name": "web", "namespace": "default"}, spec=SERVICE)
        assert await endpoints(plane) == {}
        assert len(await plane.names(EndpointSlice)) == 1
        await plane.run(60)
        assert len(await plane.names(EndpointSlice)) == 1


async def test_named_ports_are_looked_up_in_each_pod() -> None:
    async with control_plane("endpointslice") as plane:
        await plane.node("n")
        for number, port in enumerate((8080, 9090)):
            ports = [{"name": "http", "containerPort": port}]
            spec = {"containers": [{"name": "c", "image": "i", "ports": ports}]}
            await plane.pod(f"web-{number}", on="n", labels=WEB, spec=spec)
            await ready(plane, f"web-{number}", address=f"10.0.0.{number + 1}")
        wanted = {**SERVICE, "ports": [{"port": 80, "targetPort": "http"}]}
        await plane.create(Service, metadata={"name": "web", "namespace": "default"}, spec=wanted)
        await plane.run(0)
        slices = (await plane.client.list(EndpointSlice, "default")).items
        assert sorted(found.ports[0].port or 0 for found in slices) == [8080, 9090]


async def test_pods_of_a_node_that_is_gone_go_after_a_while() -> None:
    async with control_plane("pod-garbage-collector") as plane:
        await plane.node("n")
        await plane.pod("web", on="n")
        await plane.client.delete(Node, "n")
        await plane.run(30)
        assert await plane.alive("web")
        await plane.run(60)
        assert await plane.find(Pod, "web") is None


async def test_a_pod_on_a_node_that_is_out_of_service_is_finished() -> None:
    async with control_plane("pod-garbage-collector") as plane:
        await plane.node("n")
        await plane.pod("web", on="n")
        await plane.client.delete(Pod, "web", "default")
        await plane.run(60)
        assert await plane.find(Pod, "web") is not None
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await plane.client.patch(Node, "n", {"spec": {"taints": [taint]}}, type=PatchType.MERGE)
        await plane.run(30)
        assert await plane.find(Pod, "web") is None


async def test_the_server_expires_events_after_an_hour() -> None:
    async with control_plane("token-cleaner") as plane:
        about = {"kind": "Pod", "namespace": "default", "name": "web"}
        for name in ("old", "new"):
            await plane.create(
                Event,
                metadata={"name": name, "namespace": "default"},
                involvedObject=about,
                reason="Tested",
                type="Normal",
            )
            await plane.run(1500)
        assert await plane.names(Event) == ["new", "old"]
        await plane.run(2000)
        assert await plane.names(Event) == ["new"]
