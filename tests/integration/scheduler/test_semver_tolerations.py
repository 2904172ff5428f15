"""Semantic versions in tolerations, from a pod's creation to its binding: the integration test that KEP-5721 names."""

from pathlib import Path

import pytest

from mooring.api.core_v1 import Node
from mooring.client import PatchType
from mooring.testing.builders import taint
from scheduler_rig import Rig, rig

pytestmark = pytest.mark.req("5721.1", "5721.8", "5721.10")


async def set_taint(cluster: Rig, name: str, text: str) -> None:
    await cluster.admin.patch(Node, name, {"spec": {"taints": [taint(text)]}}, type=PatchType.MERGE)


class TestTaintTolerationSemverIntegration:
    @pytest.mark.parametrize(
        ("operator", "version", "upgraded"),
        [("SemverGt", "1.28.0", "1.29.1"), ("SemverLt", "1.28.0", "v1.27"), ("SemverEq", "1.28.0", "1.28")],
    )
    async def test_pods_follow_the_versions_in_taints(
        self, operator: str, version: str, upgraded: str, tmp_path: Path
    ) -> None:
        async with rig(tmp_path) as cluster:
            await cluster.add_node("a", taints=[("kubelet", "unknown", "NoSchedule")])
            cluster.start()
            tolerations = [{"key": "kubelet", "operator": operator, "value": version, "effect": "NoSchedule"}]
            await cluster.add_pod("waiting", tolerations=tolerations)
            await cluster.until(lambda: "waiting" in cluster.pods and cluster.pods["waiting"].status.conditions)
            assert cluster.node_of("waiting") == ""
            await set_taint(cluster, "a", f"kubelet={upgraded}:NoSchedule")
            await cluster.until(lambda: cluster.node_of("waiting") == "a")
            await set_taint(cluster, "a", "kubelet=unknown:NoSchedule")
            await cluster.add_pod("later", tolerations=tolerations)
            await cluster.until(lambda: "later" in cluster.pods and cluster.pods["later"].status.conditions)
            assert (cluster.node_of("waiting"), cluster.node_of("later")) == ("a", "")
