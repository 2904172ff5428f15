"""All controllers start at every version that can be emulated, also where kinds are missing or have another shape."""

from pathlib import Path

import pytest

from control_plane import ControlPlane
from mooring.api.batch_v1 import Job
from mooring.api.core_v1 import ConfigMap, Namespace, Pod
from mooring.api.flowcontrol_v1 import PriorityLevelConfiguration
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.component import resolve
from mooring.controllers.options import for_component
from mooring.testing.builders import pod
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.4")
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}


@pytest.mark.parametrize("version", ["1.27", "1.28", "1.29", "1.31", "1.32", "1.33", "1.37"])
async def test_all_controllers_start_and_work(version: str, tmp_path: Path) -> None:
    clock = MockClock()
    component = resolve(emulation=version)
    config = ServerConfig(data_dir=tmp_path, ephemeral=True, component=component)
    async with await ApiServer.open(config, clock=clock) as server:
        plane = ControlPlane(server, clock, (), for_component(component))
        await plane.start()
        try:
            await plane.create(Namespace, metadata={"name": "team"})
            await plane.create(ConfigMap, metadata={"name": "a", "namespace": "team"})
            await plane.create(Job, metadata={"name": "work", "namespace": "team"}, spec=JOB)
            await plane.client.delete(Namespace, "team")
            await plane.run(5)
            assert "team" not in await plane.names(Namespace)
            assert {"exempt", "catch-all"} <= set(await plane.names(PriorityLevelConfiguration))
        finally:
            await plane.stop()


@pytest.mark.parametrize(("version", "spoken"), [("1.32", "v1beta1"), ("1.33", "v1beta2"), ("1.37", "v1")])
async def test_claims_are_made_from_templates_at_the_version_that_is_served(
    version: str, spoken: str, tmp_path: Path
) -> None:
    clock = MockClock()
    component = resolve(emulation=version)
    runtime = {f"resource.k8s.io/{spoken}": True}
    config = ServerConfig(data_dir=tmp_path, ephemeral=True, component=component, runtime_config=runtime)
    async with await ApiServer.open(config, clock=clock) as server:
        plane = ControlPlane(server, clock, ("resourceclaim",), for_component(component))
        await plane.start()
        try:
            requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
            spec = {"spec": {"devices": {"requests": requests}}}
            await plane.create(ResourceClaimTemplate, metadata={"name": "t", "namespace": "default"}, spec=spec)
            entries = [{"name": "c", "resourceClaimTemplateName": "t"}]
            await plane.client.create(pod("p", spec={"resourceClaims": entries}))
            await plane.run(5)
            [claim] = (await plane.client.list(ResourceClaim, "default")).items
            assert plane.client.kind(ResourceClaim).version == spoken
            assert claim.spec.devices.requests[0].exactly is not None
            made = await plane.client.get(Pod, "p", "default")
            [status] = made.status.resource_claim_statuses
            assert status.resource_claim_name == claim.metadata.name
        finally:
            await plane.stop()
