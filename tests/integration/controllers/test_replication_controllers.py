"""ReplicationControllers on a real server: sizes, adoption and release, and what they say about refused pods."""

from pathlib import Path

import pytest

from mooring.api.core_v1 import Pod, ReplicationController
from workload_cluster import Cluster, cluster, template

pytestmark = pytest.mark.req("S.4")
CONTROLLERS = ["replicationcontroller"]


async def has_ready(c: Cluster, number: int) -> bool:
    status = (await c.get(ReplicationController, "web")).status
    return status.ready_replicas == status.available_replicas == status.replicas == number


async def test_pods_are_made_counted_adopted_released_and_removed(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(Pod, "stray", template()["spec"], labels={"app": "web"})
        owner = await c.create(ReplicationController, "web", {"replicas": 3, "template": template()})
        await c.until(lambda: has_ready(c, 3))
        for pod in await c.pods():
            (reference,) = pod.metadata.owner_references
            assert (reference.api_version, reference.kind) == ("v1", "ReplicationController")
            assert (reference.uid, reference.controller) == (owner.metadata.uid, True)
        await c.client.patch(Pod, "stray", {"metadata": {"labels": {"app": "gone"}}}, "default")
        await c.rest()
        assert (await c.get(Pod, "stray")).metadata.owner_references == []
        assert await has_ready(c, 3)
        await c.patch(ReplicationController, "web", {"replicas": 1})
        await c.until(lambda: has_ready(c, 1))
        status = (await c.get(ReplicationController, "web")).status
        assert (status.fully_labeled_replicas, status.observed_generation, status.conditions) == (1, 2, [])


async def test_a_refused_pod_is_reported_in_a_condition(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        refused = template()
        refused["spec"]["priorityClassName"] = "none-such"
        await c.create(ReplicationController, "web", {"replicas": 1, "template": refused})

        async def reported() -> bool:
            return bool((await c.get(ReplicationController, "web")).status.conditions)

        await c.until(reported)
        (condition,) = (await c.get(ReplicationController, "web")).status.conditions
        assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
        assert "no PriorityClass with name none-such was found" in condition.message
