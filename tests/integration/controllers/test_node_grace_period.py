"""A node that is silent counts as unreachable after the grace period, and no sooner."""

from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from control_plane import control_plane
from mooring.api.core_v1 import Node
from mooring.cli.main import mooring
from mooring.controllers.options import ControllerOptions

pytestmark = pytest.mark.req("S.4")


@dataclass(frozen=True)
class Case:
    id: str
    options: ControllerOptions
    silent_seconds: float
    status: str


CASES = [
    Case("the default, nearly over", ControllerOptions(), 40, "True"),
    Case("the default, over", ControllerOptions(), 60, "Unknown"),
    Case("longer, nearly over", ControllerOptions(node_grace_seconds=500), 480, "True"),
    Case("longer, over", ControllerOptions(node_grace_seconds=500), 520, "Unknown"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_silent_node(case: Case) -> None:
    async with control_plane("node-lifecycle", options=case.options) as plane:
        await plane.node("a")
        conditions = [{"type": "Ready", "status": "True"}]
        await plane.client.patch(Node, "a", {"status": {"conditions": conditions}}, subresource="status")
        await plane.run(case.silent_seconds)
        found = (await plane.client.get(Node, "a")).status.conditions
    assert [each.status for each in found if each.type == "Ready"] == [case.status]


def test_a_grace_period_of_nothing_is_refused() -> None:
    refused = CliRunner().invoke(mooring, ["controllers", "--node-monitor-grace-period", "0s"])
    assert refused.exit_code == 2
    assert "must be longer than 0" in refused.output
