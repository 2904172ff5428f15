"""Controllers that are killed and restarted at any moment reach the same state as without it."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import PatchType
from mooring.controllers.workloads.deployment_replica_sets import REVISION
from mooring.controllers.workloads.job_pods import INDEX, INDEX_FAILURES
from mooring.testing.clock import MockClock
from workload_cluster import Cluster, cluster, template, workload

pytestmark = pytest.mark.req("S.4")
CONTROLLERS = ["deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob"]


def runs(pod: Pod) -> str:
    """Index 1 fails the first time, index 2 always; pods of Jobs end, others run."""
    index, failures = pod.metadata.annotations.get(INDEX), pod.metadata.annotations.get(INDEX_FAILURES, "0")
    if index == "2" or (index == "1" and failures == "0"):
        return "Failed"
    return "Succeeded" if pod.spec.restart_policy == "Never" else "Running"


async def begin(c: Cluster) -> None:
    for name in ("a", "b", "c"):
        await c.client.create(Node(metadata=ObjectMeta(name=name)))
        await c.client.patch(Node, name, {"spec": {"taints": None}}, type=PatchType.MERGE)
    await c.create(Deployment, "web", workload(replicas=4))
    await c.create(Deployment, "again", workload("again", replicas=2, strategy={"type": "Recreate"}))
    await c.create(StatefulSet, "db", workload("db", serviceName="db"))
    daemons = workload("ds")
    del daemons["replicas"]
    await c.create(DaemonSet, "ds", daemons)
    once = {"template": template("job", restartPolicy="Never")}
    await c.create(Job, "count", {"completions": 6, "parallelism": 3, **once})
    indexed = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    await c.create(Job, "indexed", {**indexed, **once})
    await c.create(CronJob, "cron", {"schedule": "* * * * *", "jobTemplate": {"spec": once}})


async def change(c: Cluster) -> None:
    await c.patch(Deployment, "web", {"replicas": 6, "template": template(image="nginx:2")})
    await c.patch(Deployment, "again", {"template": template("again", image="nginx:2")})
    await c.patch(StatefulSet, "db", {"template": template("db", image="nginx:2")})
    await c.patch(DaemonSet, "ds", {"template": template("ds", image="nginx:2")})


async def outcome(c: Cluster) -> dict[str, Any]:
    """Return the state without generated names and times."""
    pods = sorted(
        (pod.metadata.labels["app"], pod.spec.containers[0].image, pod.status.phase, tuple(pod.metadata.finalizers))
        for pod in await c.pods()
    )
    sets = sorted(
        (each.spec.template.metadata.labels["app"], each.metadata.annotations[REVISION], each.spec.replicas or 0)
        for each in await c.all(ReplicaSet)
    )
    jobs = {
        job.metadata.name: (
            job.status.succeeded,
            job.status.failed,
            job.status.completed_indexes,
            job.status.failed_indexes,
            [each.type for each in job.status.conditions],
        )
        for job in await c.all(Job)
    }
    statuses = [
        (each.metadata.name, each.status.available_replicas, each.status.updated_replicas, each.status.replicas)
        for each in await c.all(Deployment)
    ]
    stateful = (await c.get(StatefulSet, "db")).status
    daemons = (await c.get(DaemonSet, "ds")).status
    return {
        "pods": pods,
        "sets": sets,
        "jobs": jobs,
        "deployments": statuses,
        "stateful": (stateful.ready_replicas, stateful.updated_replicas, stateful.current_replicas),
        "daemons": (daemons.number_available, daemons.updated_number_scheduled),
        "cron": (await c.get(CronJob, "cron")).status.last_schedule_time,
    }


async def story(folder: Path, chance: random.Random | None) -> dict[str, Any]:
    """Play the same changes; at random, kill the controllers now and then."""
    clock = MockClock()

    async def meanwhile() -> None:
        for _ in range(chance.randint(1, 4) if chance else 0):
            for _ in range(chance.randint(0, 60) if chance else 0):
                await asyncio.sleep(0)
            await c.restart()

    async with cluster(folder, CONTROLLERS, clock=clock, runs=runs) as c:
        await begin(c)
        await meanwhile()
        await c.rest()
        await clock.run(15)
        await meanwhile()
        await change(c)
        await meanwhile()
        await c.rest()
        await clock.run(60)
        await meanwhile()
        await c.rest()
        await clock.run(5)
        await c.rest()
        return await outcome(c)


@pytest.mark.parametrize("seed", range(6))
async def test_restarts_at_random_moments_change_no_outcome(seed: int, tmp_path: Path) -> None:
    expected = await story(tmp_path / "undisturbed", None)
    assert expected["jobs"]["indexed"][:4] == (3, 3, "0,1,3", "2")
    assert await story(tmp_path / "disturbed", random.Random(seed)) == expected
