"""All controllers start at every version that can be emulated, also where kinds are missing or have another shape."""

from pathlib import Path

import pytest

from control_plane import ControlPlane
from mooring.api.core_v1 import ConfigMap, Namespace
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.component import resolve
from mooring.controllers.options import for_component
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.4")


@pytest.mark.parametrize("version", ["1.31", "1.33", "1.37"])
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
            await plane.client.delete(Namespace, "team")
            await plane.run(5)
            assert "team" not in await plane.names(Namespace)
        finally:
            await plane.stop()
