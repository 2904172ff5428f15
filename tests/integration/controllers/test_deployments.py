"""Deployments on a real server: rollouts of both sorts, pause, revisions, deadlines, collisions, scaling on the way."""

from pathlib import Path

import pytest

from mooring.api.apps_v1 import Deployment, DeploymentCondition, ReplicaSet
from mooring.api.core_v1 import Pod
from mooring.api.events_v1 import Event
from mooring.controllers.workloads.deployment_pace import DESIRED, MAXIMUM
from mooring.controllers.workloads.deployment_replica_sets import HASH_LABEL, REVISION, REVISION_HISTORY
from mooring.testing.clock import MockClock
from workload_cluster import Cluster, Tree, cluster, template, workload

pytestmark = pytest.mark.req("S.4")
CONTROLLERS = ["deployment", "replicaset"]


async def complete(c: Cluster, number: int) -> bool:
    """Return whether the rollout is complete, as `kubectl rollout status` decides."""
    found = await c.get(Deployment, "web")
    status = found.status
    return (
        status.observed_generation >= found.metadata.generation
        and status.replicas == status.updated_replicas == status.available_replicas == number
    )


async def condition(c: Cluster, kind: str) -> DeploymentCondition:
    return next(each for each in (await c.get(Deployment, "web")).status.conditions if each.type == kind)


async def by_image(c: Cluster) -> dict[str, ReplicaSet]:
    return {each.spec.template.spec.containers[0].image: each for each in await c.all(ReplicaSet)}


async def sizes(c: Cluster) -> dict[str, int | None]:
    return {image: each.spec.replicas for image, each in (await by_image(c)).items()}


def image(name: str) -> Tree:
    return {"template": template(image=name)}


async def test_a_rollout_and_the_way_back(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(Deployment, "web", workload(), annotations={"team": "a", REVISION: "17"})
        await c.until(lambda: complete(c, 3))
        (first,) = await c.all(ReplicaSet)
        hashed = first.metadata.labels[HASH_LABEL]
        assert first.metadata.name == f"web-{hashed}"
        assert first.spec.selector is not None
        assert first.spec.selector.match_labels == {"app": "web", HASH_LABEL: hashed}
        assert first.metadata.annotations == {"team": "a", REVISION: "1", DESIRED: "3", MAXIMUM: "4"}
        assert all(pod.metadata.labels == {"app": "web", HASH_LABEL: hashed} for pod in await c.pods())
        await c.patch(Deployment, "web", image("nginx:2"))
        await c.until(lambda: complete(c, 3))
        assert await sizes(c) == {"nginx:1": 0, "nginx:2": 3}
        assert (await c.get(Deployment, "web")).metadata.annotations[REVISION] == "2"
        await c.patch(Deployment, "web", image("nginx:1"))
        await c.until(lambda: complete(c, 3))
        assert await sizes(c) == {"nginx:1": 3, "nginx:2": 0}
        back = (await by_image(c))["nginx:1"]
        assert back.metadata.name == first.metadata.name
        assert (back.metadata.annotations[REVISION], back.metadata.annotations[REVISION_HISTORY]) == ("3", "1")
        assert (await condition(c, "Progressing")).reason == "NewReplicaSetAvailable"
        assert (await condition(c, "Available")).reason == "MinimumReplicasAvailable"
        await c.rest()
        reported = {event.note for event in await c.all(Event) if event.reason == "ScalingReplicaSet"}
        assert f"Scaled up replica set {first.metadata.name} from 0 to 3" in reported


async def test_a_rolling_update_stays_within_its_bounds(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        pace = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        await c.create(Deployment, "web", workload(replicas=10, strategy=pace))
        await c.until(lambda: complete(c, 10))
        most, least = 0, 10
        await c.patch(Deployment, "web", image("nginx:2"))
        while not await complete(c, 10):
            pods = await c.pods()
            ready = [pod for pod in pods if pod.status.phase == "Running"]
            most, least = max(most, len(pods)), min(least, len(ready))
            await c.settle(1)
        assert most <= 12
        assert least >= 9


async def test_recreate_waits_until_the_last_old_pod_has_ended(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        spec = workload(strategy={"type": "Recreate"})
        spec["template"]["metadata"]["finalizers"] = []
        await c.create(Deployment, "web", spec)
        await c.until(lambda: complete(c, 3))
        held = (await c.pods())[0]
        await c.client.patch(Pod, held.metadata.name, {"metadata": {"finalizers": ["example.com/wait"]}}, "default")
        await c.patch(Deployment, "web", image("nginx:2"))
        await c.rest()
        assert await sizes(c) == {"nginx:1": 0}
        assert [pod.metadata.name for pod in await c.pods()] == [held.metadata.name]
        await c.client.patch(Pod, held.metadata.name, {"metadata": {"finalizers": None}}, "default")
        await c.until(lambda: complete(c, 3))
        assert await sizes(c) == {"nginx:1": 0, "nginx:2": 3}


async def test_a_paused_deployment_is_scaled_but_not_rolled_out(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(Deployment, "web", workload())
        await c.until(lambda: complete(c, 3))
        await c.patch(Deployment, "web", {"paused": True})
        await c.rest()
        paused = await condition(c, "Progressing")
        assert (paused.status, paused.reason) == ("Unknown", "DeploymentPaused")
        await c.patch(Deployment, "web", {"replicas": 5, **image("nginx:2")})
        await c.rest()
        assert await sizes(c) == {"nginx:1": 5}
        await c.patch(Deployment, "web", {"paused": False})
        await c.until(lambda: complete(c, 5))
        assert await sizes(c) == {"nginx:1": 0, "nginx:2": 5}


async def test_scaling_in_the_midst_of_a_rollout_is_shared_in_proportion(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        pace = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        await c.create(Deployment, "web", workload(replicas=10, strategy=pace))
        await c.until(lambda: complete(c, 10))
        c.runs = lambda pod: "" if pod.spec.containers[0].image == "nginx:2" else "Running"
        await c.patch(Deployment, "web", image("nginx:2"))
        await c.rest()
        assert await sizes(c) == {"nginx:1": 8, "nginx:2": 5}
        await c.patch(Deployment, "web", {"replicas": 15})
        await c.rest()
        assert await sizes(c) == {"nginx:1": 11, "nginx:2": 7}  # the example of Kubernetes' own documentation


async def test_without_progress_the_deadline_passes_and_progress_ends_it(tmp_path: Path) -> None:
    clock = MockClock()
    async with cluster(tmp_path, CONTROLLERS, clock=clock) as c:
        await c.create(Deployment, "web", workload(progressDeadlineSeconds=60))
        await c.until(lambda: complete(c, 3))
        c.runs = lambda _: ""
        await c.patch(Deployment, "web", image("nginx:2"))
        await c.rest()
        assert (await condition(c, "Progressing")).status == "True"
        await clock.run(50)
        await c.rest()
        assert (await condition(c, "Progressing")).status == "True"
        await clock.run(20)
        await c.rest()
        late = await condition(c, "Progressing")
        assert (late.status, late.reason) == ("False", "ProgressDeadlineExceeded")
        c.runs = lambda _: "Running"
        for pod in await c.pods():
            if pod.status.phase == "Pending":
                await c.set_phase(pod, "Running")
        await c.until(lambda: complete(c, 3))
        assert (await condition(c, "Progressing")).reason == "NewReplicaSetAvailable"


async def test_old_revisions_beyond_the_limit_are_deleted(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(Deployment, "web", workload(replicas=1, revisionHistoryLimit=2))
        for number in range(2, 7):
            await c.until(lambda: complete(c, 1))
            await c.patch(Deployment, "web", image(f"nginx:{number}"))
        await c.until(lambda: complete(c, 1))
        await c.rest()
        assert set(await sizes(c)) == {"nginx:4", "nginx:5", "nginx:6"}


async def test_a_name_that_is_taken_leads_to_another_hash(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(Deployment, "web", workload(replicas=1))
        await c.until(lambda: complete(c, 1))
        (made,) = await c.all(ReplicaSet)
        await c.stop()
        await c.client.delete(Deployment, "web", "default", propagation_policy="Background")
        await c.client.delete(ReplicaSet, made.metadata.name, "default")
        await c.create(ReplicaSet, made.metadata.name, workload("other", replicas=0))
        await c.create(Deployment, "web", workload(replicas=1))
        await c.start()
        await c.until(lambda: complete(c, 1))
        assert (await c.get(Deployment, "web")).status.collision_count == 1
        assert len(await c.all(ReplicaSet)) == 2


async def test_a_replica_set_without_an_owner_is_adopted(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS) as c:
        await c.create(ReplicaSet, "old", workload(replicas=2), labels={"app": "web"})
        await c.rest()
        await c.create(Deployment, "web", workload(replicas=2))
        await c.until(lambda: complete(c, 2))
        (only,) = await c.all(ReplicaSet)
        assert (only.metadata.name, [owner.name for owner in only.metadata.owner_references]) == ("old", ["web"])
