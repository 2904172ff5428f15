"""A node under pressure is tainted, and pods tolerate that taint with each kind of toleration (named by KEP-5500)."""

from typing import Any

import pytest

from control_plane import control_plane
from mooring.api.core_v1 import Node
from mooring.constraints import tolerations
from mooring.constraints.options import ConstraintOptions
from mooring.testing.builders import pod

pytestmark = pytest.mark.req("5500.8", "5500.15")

PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}


class TestTaintNodeByCondition:
    @pytest.mark.parametrize("condition", PRESSURES)
    async def test(self, condition: str) -> None:
        key = PRESSURES[condition]
        async with control_plane("node-lifecycle") as plane:
            await plane.node("a")
            conditions = [{"type": "Ready", "status": "True"}, {"type": condition, "status": "True"}]
            await plane.client.patch(Node, "a", {"status": {"conditions": conditions}}, subresource="status")
            await plane.run(1)
            taints = (await plane.client.get(Node, "a")).spec.taints
        assert [(taint.key, taint.effect) for taint in taints] == [(key, "NoSchedule")]

        def is_taken_with(toleration: dict[str, Any]) -> bool:
            spec = pod("p", spec={"tolerations": [toleration]}).spec
            return tolerations.find_untolerated(taints, spec.tolerations, ConstraintOptions()) is None

        assert is_taken_with({"key": key, "operator": "Exists"})
        assert is_taken_with({"expression": f"taint.key == '{key}' && taint.effect == 'NoSchedule'"})
        assert is_taken_with({"expression": "taint.key.endsWith('pressure') || taint.key.endsWith('unavailable')"})
        assert not is_taken_with({"expression": "taint.key == 'node.kubernetes.io/not-ready'"})
        assert not is_taken_with({"key": key, "operator": "Gt", "value": "0"})
        assert not is_taken_with({"key": key, "operator": "SemverGt", "value": "0.0.0"})
