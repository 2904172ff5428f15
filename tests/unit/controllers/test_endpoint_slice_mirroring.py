"""Endpoints that people write are mirrored into EndpointSlices, and follow them."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from control_plane import ControlPlane, control_plane
from mooring.api.core_v1 import Endpoints, Service
from mooring.api.discovery_v1 import EndpointSlice
from mooring.client import PatchType

pytestmark = pytest.mark.req("N.10")
SUBSET = {"addresses": [{"ip": "10.1.2.3", "hostname": "a"}], "ports": [{"name": "http", "port": 80}]}


@dataclass
class Case:
    name: str
    mirrored: list[tuple[str, list[tuple[str, bool | None]], list[int | None]]]
    subsets: list[dict[str, Any]] = field(default_factory=lambda: [SUBSET])
    metadata: dict[str, Any] = field(default_factory=dict)
    service: dict[str, Any] | None = field(default_factory=dict)


CASES = [
    Case("of a Service without a selector", [("IPv4", [("10.1.2.3", True)], [80])]),
    Case("of a Service with a selector", [], service={"selector": {"app": "x"}}),
    Case("without a Service", [], service=None),
    Case("that say so", [], metadata={"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}),
    Case("that hold a leader", [], metadata={"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}),
    Case(
        "of two families, some not ready",
        [("IPv4", [("10.1.2.3", True), ("10.1.2.4", False)], [80, 443]), ("IPv6", [("fd00::1", True)], [80, 443])],
        subsets=[
            {
                "addresses": [{"ip": "10.1.2.3"}, {"ip": "fd00::1"}],
                "notReadyAddresses": [{"ip": "10.1.2.4"}],
                "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443}],
            }
        ],
    ),
    Case(
        "with two lists of ports",
        [("IPv4", [("10.1.2.3", True)], [80]), ("IPv4", [("10.1.2.4", True)], [81])],
        subsets=[SUBSET, {"addresses": [{"ip": "10.1.2.4"}], "ports": [{"name": "http", "port": 81}]}],
    ),
    Case("without addresses", [], subsets=[]),
]


async def slices(plane: ControlPlane) -> list[EndpointSlice]:
    await plane.run(1)
    return [found for found in (await plane.client.list(EndpointSlice)).items if found.metadata.generate_name == "own-"]


async def write(plane: ControlPlane, case: Case) -> None:
    if case.service is not None:
        spec = {"ports": [{"name": "http", "port": 80}], "clusterIP": "None", **case.service}
        await plane.create(Service, metadata={"name": "own", "namespace": "default"}, spec=spec)
    metadata = {"name": "own", "namespace": "default", **case.metadata}
    await plane.create(Endpoints, metadata=metadata, subsets=case.subsets)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_endpoints(case: Case) -> None:
    async with control_plane("endpointslicemirroring") as plane:
        await write(plane, case)
        found = [
            (
                each.address_type,
                [(entry.addresses[0], entry.conditions.ready) for entry in each.endpoints],
                [port.port for port in each.ports],
            )
            for each in await slices(plane)
        ]
        assert sorted(found) == sorted(case.mirrored)


async def test_slices_follow_their_endpoints_and_go_with_them() -> None:
    async with control_plane("endpointslicemirroring") as plane:
        await write(plane, CASES[0])
        [first] = await slices(plane)
        assert first.metadata.labels == {
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            "kubernetes.io/service-name": "own",
        }
        assert first.endpoints[0].hostname == "a"
        body = {"subsets": [{**SUBSET, "addresses": [{"ip": "10.9.9.9"}]}], "metadata": {"labels": {"new": "label"}}}
        await plane.client.patch(Endpoints, "own", body, namespace="default", type=PatchType.MERGE)
        [second] = await slices(plane)
        assert (second.metadata.uid, second.metadata.labels["new"]) == (first.metadata.uid, "label")
        assert second.endpoints[0].addresses == ["10.9.9.9"]
        await plane.client.delete(EndpointSlice, second.metadata.name, "default")
        assert len(await slices(plane)) == 1, "what somebody deletes is made again"
        await plane.client.delete(Endpoints, "own", "default")
        assert await slices(plane) == []


async def test_a_slice_that_says_the_same_as_another_goes() -> None:
    """As when Endpoints change before the controller has seen the slice that it made."""
    async with control_plane("endpointslicemirroring") as plane:
        await write(plane, CASES[0])
        [first] = await slices(plane)
        metadata = replace(first.metadata, name="", uid="", resource_version="")
        await plane.client.create(replace(first, metadata=metadata))
        assert len(await slices(plane)) == 1
