"""StatefulSets on a real server: order, names, claims, partitions, updates, retention."""

from pathlib import Path
from typing import Any

import pytest

from mooring.api.apps_v1 import ControllerRevision, StatefulSet
from mooring.api.core_v1 import PersistentVolumeClaim, Pod, ResourceQuota
from mooring.base import component
from mooring.controllers.options import for_component
from mooring.controllers.workloads.revisions import POD_LABEL
from workload_cluster import Cluster, Tree, cluster, template, workload

pytestmark = pytest.mark.req("S.4")
CONTROLLERS = ["statefulset"]
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def spec(replicas: int = 3, **fields: Any) -> Tree:
    return workload("db", replicas=replicas, serviceName="db", **fields)


async def names(c: Cluster) -> list[str]:
    return [pod.metadata.name for pod in await c.pods()]


async def settled(c: Cluster, number: int) -> bool:
    found = await c.get(StatefulSet, "db")
    status = found.status
    return (
        status.observed_generation == found.metadata.generation
        and status.replicas == status.ready_replicas == status.updated_replicas == number
        and status.current_revision == status.update_revision
    )


def image(name: str) -> Tree:
    return {"template": template("db", image=name)}


async def images(c: Cluster) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.containers[0].image for pod in await c.pods()}


async def test_pods_come_one_after_the_other_with_names_and_claims_of_their_own(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=lambda _: "") as c:
        await c.create(StatefulSet, "db", spec(volumeClaimTemplates=[CLAIM]))
        for number in range(3):
            await c.rest()
            assert await names(c) == [f"db-{each}" for each in range(number + 1)]
            await c.set_phase((await c.pods())[-1], "Running")
        await c.until(lambda: settled(c, 3))
        pod = await c.get(Pod, "db-2")
        assert (pod.spec.hostname, pod.spec.subdomain) == ("db-2", "db")
        assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "2"
        assert pod.metadata.labels["statefulset.kubernetes.io/pod-name"] == "db-2"
        (revision,) = await c.all(ControllerRevision)
        assert pod.metadata.labels[POD_LABEL] == revision.metadata.name
        volumes = {
            each.name: each.persistent_volume_claim.claim_name
            for each in pod.spec.volumes
            if each.persistent_volume_claim
        }
        assert volumes == {"data": "data-db-2"}
        claims = [claim.metadata.name for claim in await c.all(PersistentVolumeClaim)]
        assert claims == ["data-db-0", "data-db-1", "data-db-2"]


async def test_scaling_down_removes_the_highest_first_and_keeps_claims(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec(volumeClaimTemplates=[CLAIM]))
        await c.until(lambda: settled(c, 3))
        await c.patch(StatefulSet, "db", {"replicas": 1})
        await c.until(lambda: settled(c, 1))
        assert await names(c) == ["db-0"]
        assert len(await c.all(PersistentVolumeClaim)) == 3


async def test_parallel_pods_come_and_go_together(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=lambda _: "") as c:
        await c.create(StatefulSet, "db", spec(podManagementPolicy="Parallel"))
        await c.rest()
        assert await names(c) == ["db-0", "db-1", "db-2"]
        await c.patch(StatefulSet, "db", {"replicas": 0})
        await c.rest()
        assert await names(c) == []


async def test_parallel_pods_are_created_though_the_claim_of_another_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=lambda _: "") as c:
        await c.create(ResourceQuota, "claims", {"hard": {"persistentvolumeclaims": "2"}})
        await c.create(StatefulSet, "db", spec(4, podManagementPolicy="Parallel", volumeClaimTemplates=[CLAIM]))
        await c.rest()
        claims = [claim.metadata.name for claim in (await c.client.list(PersistentVolumeClaim, "default")).items]
        assert len(claims) == 2
        assert [f"data-{name}" for name in await names(c)] == sorted(claims)


async def test_numbers_may_start_anywhere(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec(replicas=2, ordinals={"start": 5}))
        await c.until(lambda: settled(c, 2))
        assert await names(c) == ["db-5", "db-6"]
        await c.patch(StatefulSet, "db", {"ordinals": {"start": 6}})
        await c.rest()
        assert await names(c) == ["db-6", "db-7"]


async def test_an_update_stops_at_the_partition_and_goes_on_below_it_when_that_falls(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        pace = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await c.create(StatefulSet, "db", spec(updateStrategy=pace))
        await c.until(lambda: settled(c, 3))
        await c.patch(StatefulSet, "db", image("nginx:2"))
        await c.rest()
        assert await images(c) == {"db-0": "nginx:1", "db-1": "nginx:1", "db-2": "nginx:2"}
        status = (await c.get(StatefulSet, "db")).status
        assert (status.current_replicas, status.updated_replicas) == (2, 1)
        assert status.current_revision != status.update_revision
        await c.client.delete(Pod, "db-0", "default")  # below the partition it comes back as it was
        await c.rest()
        assert (await images(c))["db-0"] == "nginx:1"
        await c.patch(StatefulSet, "db", {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
        await c.until(lambda: settled(c, 3))
        assert set((await images(c)).values()) == {"nginx:2"}


async def test_an_update_waits_for_a_pod_that_does_not_become_ready(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec())
        await c.until(lambda: settled(c, 3))
        c.runs = lambda _: ""
        await c.patch(StatefulSet, "db", image("nginx:2"))
        await c.rest()
        assert await images(c) == {"db-0": "nginx:1", "db-1": "nginx:1", "db-2": "nginx:2"}


@pytest.mark.parametrize(
    ("emulation", "at_once", "left"),
    [("1.37", 1, 3), ("1.37", 2, 2), ("1.37", "60%", 2), ("1.37", "10%", 3), ("1.36", 2, 3)],
    ids=["one", "two", "a share, rounded down", "never none", "one where the gate is off"],
)
async def test_as_many_pods_are_replaced_at_once_as_may_be_missing(
    tmp_path: Path, emulation: str, at_once: int | str, left: int
) -> None:
    options = for_component(component.resolve(emulation=emulation))
    async with cluster(tmp_path, CONTROLLERS, options=options) as c:
        pace = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": at_once}}
        await c.create(StatefulSet, "db", spec(4, updateStrategy=pace))
        await c.until(lambda: settled(c, 4))
        c.runs = lambda _: ""
        await c.patch(StatefulSet, "db", image("nginx:2"))
        await c.rest()
        assert await images(c) == {**{f"db-{each}": "nginx:1" for each in range(left)}, f"db-{left}": "nginx:2"}
        c.runs = lambda _: "Running"
        await c.set_phase(await c.get(Pod, f"db-{left}"), "Running")
        await c.until(lambda: settled(c, 4))


async def test_pods_that_do_not_work_anyway_are_replaced_however_many_there_are(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec(4, podManagementPolicy="Parallel"))
        await c.until(lambda: settled(c, 4))
        c.runs = lambda _: ""
        for name in ("db-0", "db-1"):
            await c.set_phase(await c.get(Pod, name), "Pending")
        await c.patch(StatefulSet, "db", image("nginx:2"))
        await c.rest()
        replaced = {"db-0": "nginx:2", "db-1": "nginx:2", "db-2": "nginx:1", "db-3": "nginx:1"}
        assert await images(c) == replaced


async def test_on_delete_waits_for_a_user_to_delete_pods(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec(updateStrategy={"type": "OnDelete"}))
        await c.rest()
        await c.patch(StatefulSet, "db", image("nginx:2"))
        await c.rest()
        assert set((await images(c)).values()) == {"nginx:1"}
        await c.client.delete(Pod, "db-1", "default")
        await c.rest()
        assert await images(c) == {"db-0": "nginx:1", "db-1": "nginx:2", "db-2": "nginx:1"}


async def test_going_back_uses_the_old_revision_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec(replicas=1, revisionHistoryLimit=1))
        await c.until(lambda: settled(c, 1))
        for name in ("nginx:2", "nginx:1", "nginx:3"):
            await c.patch(StatefulSet, "db", image(name))
            await c.until(lambda: settled(c, 1))
        await c.rest()
        kept = {each.revision for each in await c.all(ControllerRevision)}
        assert kept == {3, 4}  # of 1 to 3, the return to the first made it the third


async def test_claims_go_with_their_pods_where_the_policy_says_so(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        wanted = spec(replicas=2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
        owner = await c.create(StatefulSet, "db", wanted)
        await c.until(lambda: settled(c, 2))
        await c.rest()
        for claim in await c.all(PersistentVolumeClaim):
            assert [each.uid for each in claim.metadata.owner_references] == [owner.metadata.uid]
        condemned = await c.get(Pod, "db-1")
        await c.patch(StatefulSet, "db", {"replicas": 1})
        await c.until(lambda: settled(c, 1))
        claim = await c.get(PersistentVolumeClaim, "data-db-1")
        assert [each.uid for each in claim.metadata.owner_references] == [condemned.metadata.uid]


async def test_a_failed_pod_is_created_again(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec(replicas=2))
        await c.until(lambda: settled(c, 2))
        before = await c.get(Pod, "db-0")
        await c.set_phase(before, "Failed")
        await c.rest()
        after = await c.get(Pod, "db-0")
        assert (after.status.phase, after.metadata.uid != before.metadata.uid) == ("Running", True)


async def test_labels_that_tell_which_pod_it_is_come_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(StatefulSet, "db", spec(2))
        await c.until(lambda: settled(c, 2))
        wrong = {"statefulset.kubernetes.io/pod-name": "other", "apps.kubernetes.io/pod-index": None}
        await c.client.patch(Pod, "db-1", {"metadata": {"labels": wrong}}, "default")

        async def repaired() -> bool:
            labels = (await c.get(Pod, "db-1")).metadata.labels
            reported = labels.get("statefulset.kubernetes.io/pod-name"), labels.get("apps.kubernetes.io/pod-index")
            return reported == ("db-1", "1")

        await c.until(repaired)
