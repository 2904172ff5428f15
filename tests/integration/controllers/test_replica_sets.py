"""ReplicaSets on a real server: sizes, adoption and release, which pods go first, availability."""

from pathlib import Path

import pytest

from mooring.api.apps_v1 import ReplicaSet
from mooring.api.core_v1 import Pod
from mooring.api.events_v1 import Event
from mooring.api.meta_v1 import OwnerReference
from mooring.controllers.workloads.pod_states import DELETION_COST
from mooring.testing.clock import MockClock
from workload_cluster import Cluster, cluster, template, workload

pytestmark = pytest.mark.req("S.4")
CONTROLLERS = ["replicaset"]


async def names(c: Cluster) -> set[str]:
    return {pod.metadata.name for pod in await c.pods()}


async def has_ready(c: Cluster, number: int) -> bool:
    status = (await c.get(ReplicaSet, "web")).status
    return status.ready_replicas == status.replicas == number


async def test_pods_are_made_counted_and_removed(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        owner = await c.create(ReplicaSet, "web", workload(replicas=5))
        await c.until(lambda: has_ready(c, 5))
        pods = await c.pods()
        assert all(pod.metadata.name.startswith("web-") for pod in pods)
        reference = OwnerReference(
            api_version="apps/v1",
            kind="ReplicaSet",
            name="web",
            uid=owner.metadata.uid,
            controller=True,
            block_owner_deletion=True,
        )
        assert all(pod.metadata.owner_references == [reference] for pod in pods)
        await c.patch(ReplicaSet, "web", {"replicas": 2})
        await c.until(lambda: has_ready(c, 2))
        status = (await c.get(ReplicaSet, "web")).status
        assert (status.available_replicas, status.fully_labeled_replicas, status.observed_generation) == (2, 2, 2)
        assert status.terminating_replicas == 0
        await c.rest()
        reasons = sorted(event.reason for event in await c.all(Event))
        assert reasons == ["SuccessfulCreate"] * 5 + ["SuccessfulDelete"] * 3


async def test_the_status_shows_the_progress_of_a_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.controllers.workloads.replicas._MOST_AT_A_TIME", 3)
    async with cluster(tmp_path, CONTROLLERS) as c:
        reported: list[int] = []
        c.informers.of(ReplicaSet).add_handler(updated=lambda _, new: reported.append(new.status.replicas))
        async with c.informers:
            await c.create(ReplicaSet, "web", workload(replicas=10))
            await c.until(lambda: has_ready(c, 10))
        assert len(await c.pods()) == 10
        assert {3, 6} <= set(reported)


async def test_while_many_change_progress_waits_and_completion_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.controllers.workloads.workload._MANY_CHANGING", -1)
    async with cluster(tmp_path, CONTROLLERS, runs=lambda _: "") as c:
        reported: list[tuple[int, int]] = []
        c.informers.of(ReplicaSet).add_handler(
            updated=lambda _, new: reported.append((new.status.replicas, new.status.ready_replicas))
        )
        await c.create(ReplicaSet, "web", workload(replicas=3))
        await c.until(lambda: _has_status(c, 3, 0))
        for pod in await c.pods():
            await c.set_phase(pod, "Running")
            await c.settle()
        await c.until(lambda: has_ready(c, 3), seconds=1)
        assert reported == [(3, 0), (3, 3)]


async def _has_status(c: Cluster, replicas: int, ready: int) -> bool:
    status = (await c.get(ReplicaSet, "web")).status
    return (status.replicas, status.ready_replicas) == (replicas, ready)


async def test_a_pod_that_is_deleted_or_fails_is_replaced(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(ReplicaSet, "web", workload(replicas=2))
        await c.until(lambda: has_ready(c, 2))
        first, second = await c.pods()
        await c.client.delete(Pod, first.metadata.name, "default")
        await c.set_phase(second, "Failed")
        await c.rest()
        left = {pod.metadata.name: pod.status.phase for pod in await c.pods()}
        assert left.pop(second.metadata.name) == "Failed"
        assert list(left.values()) == ["Running", "Running"]
        assert first.metadata.name not in left


async def test_orphans_are_adopted_and_relabelled_pods_are_let_go(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(Pod, "stray", template()["spec"], labels={"app": "web"})
        await c.create(Pod, "other", template()["spec"], labels={"app": "other"})
        await c.create(ReplicaSet, "web", workload(replicas=2))
        await c.until(lambda: has_ready(c, 2))
        stray = await c.get(Pod, "stray")
        assert [owner.name for owner in stray.metadata.owner_references] == ["web"]
        assert (await c.get(Pod, "other")).metadata.owner_references == []
        await c.client.patch(Pod, "stray", {"metadata": {"labels": {"app": "gone"}}}, "default")
        await c.rest()
        assert (await c.get(Pod, "stray")).metadata.owner_references == []
        assert await has_ready(c, 2)


async def test_a_pod_that_comes_later_is_adopted_and_makes_another_too_many(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(ReplicaSet, "web", workload(replicas=1))
        await c.until(lambda: has_ready(c, 1))
        (before,) = await c.pods()
        # A pod of its own accord: the cheaper one goes.
        costs = {DELETION_COST: "-5"}
        await c.create(Pod, "late", template()["spec"], labels={"app": "web"}, annotations=costs)
        await c.rest()
        assert await names(c) == {before.metadata.name}


async def test_a_replica_set_that_is_being_deleted_adopts_and_makes_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(ReplicaSet, "web", workload(replicas=2), finalizers=["example.com/wait"])
        await c.until(lambda: has_ready(c, 2))
        await c.client.delete(ReplicaSet, "web", "default")
        first, second = await c.pods()
        await c.client.delete(Pod, first.metadata.name, "default")
        await c.create(Pod, "stray", template()["spec"], labels={"app": "web"})
        await c.rest()
        assert await names(c) == {second.metadata.name, "stray"}
        assert (await c.get(Pod, "stray")).metadata.owner_references == []


async def test_pods_are_available_when_they_have_been_ready_for_long_enough(tmp_path: Path) -> None:
    clock = MockClock()
    async with cluster(tmp_path, CONTROLLERS, clock=clock) as c:
        await c.create(ReplicaSet, "web", workload(replicas=2, minReadySeconds=30))
        await c.until(lambda: has_ready(c, 2))
        await clock.run(20)
        await c.rest()
        assert (await c.get(ReplicaSet, "web")).status.available_replicas == 0
        await clock.run(11)
        await c.rest()
        assert (await c.get(ReplicaSet, "web")).status.available_replicas == 2


async def test_nothing_is_sent_when_nothing_happens(tmp_path: Path) -> None:
    clock = MockClock()
    async with cluster(tmp_path, CONTROLLERS, clock=clock) as c:
        for number in range(20):
            await c.create(ReplicaSet, f"web-{number}", workload(f"web-{number}", replicas=3))
        await c.rest()
        await clock.run(60)  # events are counted in series for a while
        await c.rest()
        before = c.transport.requests.total()
        await clock.run(120)
        assert c.transport.requests.total() == before
