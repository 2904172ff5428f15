"""Jobs on a real server: counting, indexes, limits, deadlines, suspension, policies, finalizers, TTL; and CronJobs."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mooring.api.batch_v1 import CronJob, Job, JobCondition
from mooring.api.core_v1 import Pod
from mooring.api.events_v1 import Event
from mooring.controllers.workloads import job, workload
from mooring.controllers.workloads.job_pods import INDEX, TRACKING
from mooring.testing.clock import MockClock
from workload_cluster import Cluster, Tree, cluster, template

pytestmark = pytest.mark.req("S.4")
CONTROLLERS = ["job"]


def spec(**fields: Any) -> Tree:
    return {"template": template("job", restartPolicy="Never"), **fields}


async def finished(c: Cluster, kind: str = "Complete", name: str = "job") -> bool:
    found = await c.get(Job, name)
    return any(each.type == kind and each.status == "True" for each in found.status.conditions)


async def condition(c: Cluster, kind: str) -> JobCondition:
    return next(each for each in (await c.get(Job, "job")).status.conditions if each.type == kind)


async def living(c: Cluster) -> list[Pod]:
    return [pod for pod in await c.pods() if pod.status.phase in ("Pending", "Running")]


def ends(phase: str) -> Callable[[Pod], str]:
    return lambda _: phase


async def test_pods_run_until_enough_have_succeeded(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("Succeeded")) as c:
        await c.create(Job, "job", spec(completions=7, parallelism=3))
        await c.until(lambda: finished(c))
        status = (await c.get(Job, "job")).status
        assert (status.succeeded, status.failed, status.active) == (7, 0, 0)
        assert status.completion_time is not None
        assert [each.type for each in status.conditions] == ["SuccessCriteriaMet", "Complete"]
        await c.rest()
        assert all(pod.metadata.finalizers == [] for pod in await c.pods())
        assert "Completed" in {event.reason for event in await c.all(Event)}


async def test_no_more_run_at_a_time_than_parallelism_says(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("Running")) as c:
        await c.create(Job, "job", spec(completions=9, parallelism=4))
        await c.rest()
        assert len(await living(c)) == 4
        assert all(pod.metadata.finalizers == [TRACKING] for pod in await c.pods())
        await c.patch(Job, "job", {"parallelism": 2})
        await c.rest()
        assert len(await living(c)) == 2
        status = (await c.get(Job, "job")).status
        assert (status.active, status.ready, status.failed) == (2, 2, 0)
        for pod in await living(c):
            await c.set_phase(pod, "Succeeded")
        await c.rest()
        assert ((await c.get(Job, "job")).status.succeeded, len(await living(c))) == (2, 2)


async def test_a_job_with_many_pods_makes_them_part_by_part_without_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(workload, "_MANY_PODS", 2)
    async with cluster(tmp_path, CONTROLLERS, clock=MockClock(), runs=ends("")) as c:  # no time passes
        await c.create(Job, "job", spec(completions=12, parallelism=12))

        async def all_there() -> bool:
            return len(await c.pods()) == 12

        await c.until(all_there)


async def test_without_completions_one_success_ends_it_when_the_others_have_ended(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("Running")) as c:
        await c.create(Job, "job", spec(parallelism=2))
        await c.rest()
        first, second = await living(c)
        await c.set_phase(first, "Succeeded")
        await c.rest()
        assert (len(await living(c)), await finished(c)) == (1, False)
        await c.set_phase(second, "Succeeded")
        await c.until(lambda: finished(c))


async def test_each_index_has_a_pod_that_knows_it(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("Running")) as c:
        await c.create(Job, "job", spec(completions=4, parallelism=2, completionMode="Indexed"))
        await c.rest()
        pods = await living(c)
        assert sorted(pod.metadata.annotations[INDEX] for pod in pods) == ["0", "1"]
        assert [pod.metadata.labels[INDEX] for pod in pods] == ["0", "1"]
        assert [pod.spec.hostname for pod in pods] == ["job-0", "job-1"]
        assert all("JOB_COMPLETION_INDEX" in {each.name for each in pod.spec.containers[0].env} for pod in pods)
        await c.set_phase(pods[1], "Succeeded")
        await c.rest()
        assert (await c.get(Job, "job")).status.completed_indexes == "1"
        c.runs = ends("Succeeded")
        for pod in await living(c):
            await c.set_phase(pod, "Succeeded")
        await c.until(lambda: finished(c))
        assert (await c.get(Job, "job")).status.completed_indexes == "0-3"


async def test_failures_are_tried_again_more_slowly_until_the_limit(tmp_path: Path) -> None:
    clock = MockClock()
    async with cluster(tmp_path, CONTROLLERS, clock=clock, runs=ends("Failed")) as c:
        await c.create(Job, "job", spec(backoffLimit=2))
        await c.rest()
        assert (await c.get(Job, "job")).status.failed == 1
        await clock.run(9)
        await c.rest()
        assert len(await c.pods()) == 1
        await clock.run(2)
        await c.rest()
        assert len(await c.pods()) == 2
        await clock.run(21)
        await c.rest()
        assert await finished(c, "Failed")
        why = await condition(c, "Failed")
        assert (why.reason, why.message) == ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        assert (await c.get(Job, "job")).status.failed == 3


async def test_the_deadline_ends_what_runs(tmp_path: Path) -> None:
    clock = MockClock()
    async with cluster(tmp_path, CONTROLLERS, clock=clock, runs=ends("Running")) as c:
        await c.create(Job, "job", spec(parallelism=2, completions=2, activeDeadlineSeconds=30))
        await c.rest()
        await clock.run(29)
        await c.rest()
        assert len(await living(c)) == 2
        await clock.run(3)
        await c.rest()
        assert (await condition(c, "Failed")).reason == "DeadlineExceeded"
        assert await c.pods() == []
        assert (await c.get(Job, "job")).status.failed == 2


async def test_a_suspended_job_has_no_pods_and_goes_on_later(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("Running")) as c:
        await c.create(Job, "job", spec(suspend=True, backoffLimit=0))
        await c.rest()
        status = (await c.get(Job, "job")).status
        assert (status.start_time, await c.pods()) == (None, [])
        assert (await condition(c, "Suspended")).status == "True"
        await c.patch(Job, "job", {"suspend": False})
        await c.rest()
        assert len(await living(c)) == 1
        await c.patch(Job, "job", {"suspend": True})
        await c.rest()
        assert await c.pods() == []
        assert not await finished(c, "Failed")  # what a suspension ends has not failed
        c.runs = ends("Succeeded")
        await c.patch(Job, "job", {"suspend": False})
        await c.until(lambda: finished(c))
        assert (await condition(c, "Suspended")).status == "False"


def on_exit_codes(action: str, *codes: int) -> Tree:
    return {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}]}


async def test_a_failure_policy_may_fail_the_job_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("")) as c:
        policy = on_exit_codes("FailJob", 42)
        await c.create(Job, "job", spec(parallelism=2, completions=2, podFailurePolicy=policy))
        await c.rest()
        first, _ = await c.pods()
        await c.set_phase(first, "Failed", exit_code=42)
        await c.rest()
        why = await condition(c, "Failed")
        assert why.reason == "PodFailurePolicy"
        assert why.message == (
            f"Container c for pod default/{first.metadata.name} failed with exit code 42 "
            "matching FailJob rule at index 0"
        )


async def test_a_failure_policy_may_ignore_disruptions(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("")) as c:
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        await c.create(Job, "job", spec(backoffLimit=0, podFailurePolicy={"rules": [rule]}))
        await c.rest()
        (pod,) = await c.pods()
        conditions = [{"type": "DisruptionTarget", "status": "True"}]
        body = {"status": {"phase": "Failed", "conditions": conditions}}
        await c.client.patch(Pod, pod.metadata.name, body, "default", subresource="status")
        await c.rest()
        assert ((await c.get(Job, "job")).status.failed, len(await living(c))) == (0, 1)


async def test_a_limit_per_index_fails_the_index_and_lets_others_go_on(tmp_path: Path) -> None:
    clock = MockClock()

    def runs(pod: Pod) -> str:
        return "Failed" if pod.metadata.annotations.get(INDEX) == "1" else "Succeeded"

    async with cluster(tmp_path, CONTROLLERS, clock=clock, runs=runs) as c:
        wanted = spec(completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1)
        await c.create(Job, "job", wanted)
        await c.rest()
        assert (await c.get(Job, "job")).status.completed_indexes == "0,2"
        await clock.run(11)
        await c.rest()
        status = (await c.get(Job, "job")).status
        assert (status.failed_indexes, status.failed) == ("1", 2)
        assert (await condition(c, "Failed")).reason == "FailedIndexes"


async def test_a_success_policy_ends_the_job_early(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("Running")) as c:
        policy = {"rules": [{"succeededIndexes": "0"}]}
        wanted = spec(completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
        await c.create(Job, "job", wanted)
        await c.rest()
        leader = next(pod for pod in await c.pods() if pod.metadata.annotations[INDEX] == "0")
        await c.set_phase(leader, "Succeeded")
        await c.until(lambda: finished(c))
        assert (await condition(c, "Complete")).reason == "SuccessPolicy"
        assert await living(c) == []


async def test_pods_of_a_job_that_is_gone_are_let_go(tmp_path: Path) -> None:
    async with cluster(tmp_path, CONTROLLERS, runs=ends("Running")) as c:
        await c.create(Job, "job", spec())
        await c.rest()
        await c.client.delete(Job, "job", "default", propagation_policy="Background")
        await c.rest()
        assert [pod.metadata.finalizers for pod in await c.pods()] == [[]]


async def test_a_finished_job_is_deleted_when_its_time_is_over(tmp_path: Path) -> None:
    clock = MockClock()
    async with cluster(
        tmp_path, ["job", "ttl-after-finished", "garbage-collector"], clock=clock, runs=ends("Succeeded")
    ) as c:
        await c.create(Job, "job", spec(ttlSecondsAfterFinished=60))
        await c.rest()
        await clock.run(50)
        await c.rest()
        assert await finished(c)
        await clock.run(15)
        await c.rest()
        assert await c.all(Job) == []


MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def cron(**fields: Any) -> Tree:
    return {"schedule": "*/10 * * * *", "jobTemplate": {"spec": spec()}, **fields}


async def jobs(c: Cluster) -> list[str]:
    made = sorted(await c.all(Job), key=lambda job: job.metadata.name)
    return [job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"][11:16] for job in made]


async def pass_time(c: Cluster, clock: MockClock, minutes: int) -> None:
    for _ in range(minutes):
        await clock.run(60)
        await c.rest(0.05)


async def test_a_cron_job_makes_jobs_by_the_clock_and_keeps_some(tmp_path: Path) -> None:
    clock = MockClock(MIDNIGHT)
    names = ["job", "cronjob", "garbage-collector"]
    async with cluster(tmp_path, names, clock=clock, runs=ends("Succeeded")) as c:
        await c.create(CronJob, "cron", cron(successfulJobsHistoryLimit=2))
        await pass_time(c, clock, 9)
        assert await jobs(c) == []
        await pass_time(c, clock, 2)
        assert await jobs(c) == ["00:10"]
        assert (await c.get(CronJob, "cron")).status.last_schedule_time == "2026-03-01T00:10:00Z"
        await pass_time(c, clock, 30)
        assert await jobs(c) == ["00:30", "00:40"]
        (last,) = [
            job for job in await c.all(Job) if job.metadata.name == f"cron-{int(MIDNIGHT.timestamp()) // 60 + 40}"
        ]
        assert [owner.name for owner in last.metadata.owner_references] == ["cron"]


CONCURRENCY = {"Allow": ["00:10", "00:20"], "Forbid": ["00:10"], "Replace": ["00:20"]}


@pytest.mark.parametrize("policy", CONCURRENCY)
async def test_what_happens_while_a_job_still_runs(policy: str, tmp_path: Path) -> None:
    clock = MockClock(MIDNIGHT)
    names = ["job", "cronjob", "garbage-collector"]
    async with cluster(tmp_path, names, clock=clock, runs=ends("Running")) as c:
        await c.create(CronJob, "cron", cron(concurrencyPolicy=policy))
        await pass_time(c, clock, 21)
        assert await jobs(c) == CONCURRENCY[policy]
        assert len((await c.get(CronJob, "cron")).status.active) == len(CONCURRENCY[policy])


async def test_times_missed_without_a_leader_are_caught_up_once(tmp_path: Path) -> None:
    clock = MockClock(MIDNIGHT)
    async with cluster(tmp_path, ["job", "cronjob"], clock=clock, runs=ends("Succeeded")) as c:
        await c.create(CronJob, "cron", cron())
        await c.create(CronJob, "strict", cron(startingDeadlineSeconds=60))
        await c.rest()
        await c.stop()
        await clock.run(35 * 60)
        await c.start()
        await c.rest()
        assert await jobs(c) == ["00:30"]


async def test_a_suspended_cron_job_makes_nothing(tmp_path: Path) -> None:
    clock = MockClock(MIDNIGHT)
    async with cluster(tmp_path, ["cronjob"], clock=clock) as c:
        await c.create(CronJob, "cron", cron(suspend=True))
        await pass_time(c, clock, 25)
        assert await jobs(c) == []
