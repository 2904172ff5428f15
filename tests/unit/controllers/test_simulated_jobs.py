"""Jobs and CronJobs whose pods do what their commands say: policies are tried with pods that fail, end and go on."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.batch_v1 import CronJob, Job
from mooring.controllers.simulated_nodes.templates import build_numbered_nodes, create_nodes

pytestmark = pytest.mark.req("S.4")
ODD_ONES_FAIL = "if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then exit 1; else exit 0; fi"
ONCE = "if [[ -r /data/mark ]]; then exit 0; fi; touch /data/mark; exit 1"


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with control_plane("job", "cronjob", "simulated-nodes", "simulated-pods", "garbage-collector") as running:
        await create_nodes(running.client, build_numbered_nodes(1))
        yield running


def template(script: str, words: str = "command") -> dict[str, Any]:
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "c", "image": "busybox", words: ["sh", "-c", script], "volumeMounts": mounts}
    volumes = [{"name": "data", "hostPath": {"path": "/srv/data"}}]
    spec = {"restartPolicy": "Never", "nodeName": "node-0", "containers": [container], "volumes": volumes}
    return {"spec": spec}


async def ended(plane: ControlPlane, script: str, **spec: Any) -> tuple[str, Job]:
    """How a Job has ended, and the Job."""
    wanted = {"template": template(script), **spec}
    await plane.create(Job, metadata={"name": "work", "namespace": "default"}, spec=wanted)
    await plane.run(60)
    job = await plane.client.get(Job, "work", "default")
    return next((each.reason for each in job.status.conditions if each.type in ("Complete", "Failed")), ""), job


async def test_a_script_may_stand_in_the_arguments(plane: ControlPlane) -> None:
    reason, job = await ended(plane, "", template=template("exit 1", "args"), backoffLimit=0)
    assert (reason, job.status.failed) == ("BackoffLimitExceeded", 1)


async def test_all_indexes_are_tried_though_some_fail(plane: ControlPlane) -> None:
    spec = {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimitPerIndex": 1}
    reason, job = await ended(plane, ODD_ONES_FAIL, **spec)
    status = job.status
    assert (reason, status.completed_indexes, status.failed_indexes) == ("FailedIndexes", "0,2", "1,3")
    assert (status.succeeded, status.failed) == (2, 4)


async def test_a_job_ends_when_too_many_indexes_have_failed(plane: ControlPlane) -> None:
    spec = {"completionMode": "Indexed", "completions": 10, "parallelism": 1}
    reason, job = await ended(plane, "exit 1", **spec, backoffLimitPerIndex=0, maxFailedIndexes=0)
    assert (reason, job.status.failed) == ("MaxFailedIndexesExceeded", 1)


async def test_a_job_succeeds_by_its_success_policy_though_an_index_fails(plane: ControlPlane) -> None:
    policy = {"rules": [{"succeededCount": 1}]}
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 6}
    reason, job = await ended(plane, ODD_ONES_FAIL, **spec, successPolicy=policy)
    assert (reason, job.status.completed_indexes, job.status.active) == ("SuccessPolicy", "0", 0)


async def test_an_exit_code_can_end_the_job_at_once(plane: ControlPlane) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    reason, _ = await ended(plane, ONCE, completions=4, parallelism=2, podFailurePolicy={"rules": [rule]})
    assert reason == "PodFailurePolicy"


async def test_a_cron_job_that_replaces_has_one_job_at_a_time(plane: ControlPlane) -> None:
    await plane.create(
        CronJob,
        metadata={"name": "tick", "namespace": "default"},
        spec={
            "schedule": "* * * * *",
            "concurrencyPolicy": "Replace",
            "jobTemplate": {"spec": {"template": template("sleep 300")}},
        },
    )
    seen: set[str] = set()
    for _ in range(20):
        await plane.run(10)
        names = await plane.names(Job)
        assert len(names) <= 1
        seen |= set(names)
    assert len(seen) >= 3
