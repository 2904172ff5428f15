"""The scheduler as a second one on a server that knows none of the new words: it obeys constraints in annotations."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from mooring.api.core_v1 import Pod
from mooring.api.events_v1 import Event
from mooring.client import PatchType
from mooring.constraints.annotations import GATE, NODE_AFFINITY, RELEASED, TOLERATIONS
from scheduler_objects import needs_kernel, pod
from scheduler_rig import Rig, rig

pytestmark = pytest.mark.req("B.10")
TOLERATES = '[{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]'
NEW_KERNEL = str(needs_kernel("6.0")["nodeAffinity"]).replace("'", '"')


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(tmp_path, emulation="1.31") as found:
        found.start()
        yield found


async def add(cluster: Rig, name: str, annotations: dict[str, str], *gates: str) -> None:
    wanted = pod(name, schedulingGates=[{"name": gate} for gate in gates])
    wanted.metadata = structs.replace(wanted.metadata, uid="", annotations=annotations)
    await cluster.admin.create(wanted)
    await cluster.until(lambda: name in cluster.pods)


def message(cluster: Rig, name: str) -> str:
    reported = [entry.message for entry in cluster.pods[name].status.conditions if entry.type == "PodScheduled"]
    return reported[0] if reported else ""


async def test_annotations_choose_the_node_and_are_heard_when_nodes_change(cluster: Rig) -> None:
    await cluster.add_node("old", kernel="5.9.0")
    await cluster.add_node("tainted", kernel="6.1.0", taints=[("sla", "940", "NoSchedule")])
    await add(cluster, "web", {TOLERATIONS: TOLERATES, NODE_AFFINITY: NEW_KERNEL})
    await cluster.until(lambda: message(cluster, "web"))
    assert "1 node(s) didn't match Pod's node affinity/selector" in message(cluster, "web")
    assert "{sla: 940}" in message(cluster, "web")
    await cluster.add_node("good", kernel="6.2.0", taints=[("sla", "960", "NoSchedule")])
    await cluster.until(lambda: cluster.node_of("web") == "good")


async def test_annotations_that_cannot_be_read_fail_closed_until_they_are_corrected(cluster: Rig) -> None:
    await cluster.add_node("n1", kernel="6.1.0")
    await add(cluster, "web", {NODE_AFFINITY: "{"})
    await cluster.until(lambda: NODE_AFFINITY in message(cluster, "web"))
    assert message(cluster, "web").startswith(f"metadata.annotations[{NODE_AFFINITY}]: ")
    events = cluster.informers.of(Event)
    await cluster.until(lambda: any(event.reason == "FailedScheduling" for event in events.objects()))
    assert not cluster.node_of("web")
    body = {"metadata": {"annotations": {NODE_AFFINITY: NEW_KERNEL}}}
    await cluster.admin.patch(Pod, "web", body, "default", type=PatchType.MERGE)
    await cluster.until(lambda: cluster.node_of("web") == "n1")


async def test_what_the_bridge_has_released_is_taken_as_its_spec_says(cluster: Rig) -> None:
    await cluster.add_node("n1", kernel="5.9.0")
    await add(cluster, "released", {NODE_AFFINITY: NEW_KERNEL, RELEASED: "0"})
    await cluster.until(lambda: cluster.node_of("released") == "n1")


async def test_the_gate_is_waited_for(cluster: Rig) -> None:
    await cluster.add_node("n1", kernel="6.1.0")
    await add(cluster, "gated", {NODE_AFFINITY: NEW_KERNEL}, GATE)
    await add(cluster, "other", {})
    await cluster.until(lambda: cluster.node_of("other"))
    assert not cluster.node_of("gated")
