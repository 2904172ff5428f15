"""Indexes as texts, finalizers, failure and success policies, pauses after failures, and the times of schedules."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import errors, times
from mooring.api.batch_v1 import (
    CronJob,
    Job,
    JobSpec,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from mooring.api.core_v1 import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus
from mooring.api.meta_v1 import ObjectMeta
from mooring.controllers.workloads import cron_job, job, job_pods
from mooring.controllers.workloads.cron_job import Schedule, ScheduleError, load_time_zone
from mooring.controllers.workloads.job_pods import IndexSet

pytestmark = pytest.mark.req("S.4")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 40)))
def test_indexes_survive_being_written(indexes: set[int]) -> None:
    written = IndexSet(indexes)
    assert IndexSet.parse(str(written), 41) == written
    assert len(written) == len(indexes)
    assert [index for index in range(41) if index not in indexes] == list(written.missing_below(41))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_a_set_of_indexes_behaves_as_one_of_integers(added: list[int], others: set[int]) -> None:
    found = IndexSet(others)
    for index in added:
        found.add(index)
    expected = others | set(added)
    assert found == IndexSet(expected)
    assert [index for index in range(22) if index in found] == sorted(expected)
    assert (IndexSet(added) | IndexSet(others)) == found
    assert (found & IndexSet(others)) == IndexSet(expected & others)


def failed(code: int = 1, *, container: str = "c", seconds: float = 0, condition: str = "") -> Pod:
    stamp = times.to_seconds(NOW - timedelta(seconds=seconds))
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=code, finished_at=stamp))
    conditions = [PodCondition(type=condition, status="True")] if condition else []
    status = PodStatus(
        phase="Failed", conditions=conditions, container_statuses=[ContainerStatus(name=container, state=ended)]
    )
    return Pod(metadata=ObjectMeta(name="p", namespace="ns"), status=status)


def codes(action: str, operator: str, *values: int, container: str | None = None) -> PodFailurePolicyRule:
    wanted = PodFailurePolicyOnExitCodesRequirement(operator=operator, values=list(values), container_name=container)
    return PodFailurePolicyRule(action=action, on_exit_codes=wanted)


def on_condition(action: str, kind: str) -> PodFailurePolicyRule:
    pattern = PodFailurePolicyOnPodConditionsPattern(type=kind, status="True")
    return PodFailurePolicyRule(action=action, on_pod_conditions=[pattern])


@dataclass(frozen=True)
class Failure:
    name: str
    pod: Pod
    action: str
    rules: list[PodFailurePolicyRule] = field(default_factory=list)


FAILURES = [
    Failure("without rules a failure counts", failed(), "Count"),
    Failure("an exit code in the list", failed(42), "FailJob", [codes("FailJob", "In", 42)]),
    Failure("an exit code that is not in the list", failed(41), "Count", [codes("FailJob", "In", 42)]),
    Failure("NotIn means all others", failed(41), "Ignore", [codes("Ignore", "NotIn", 42)]),
    Failure("success is never a failure", failed(0), "Count", [codes("FailJob", "NotIn", 42)]),
    Failure("another container's code", failed(42), "Count", [codes("FailJob", "In", 42, container="x")]),
    Failure(
        "a condition", failed(condition="DisruptionTarget"), "Ignore", [on_condition("Ignore", "DisruptionTarget")]
    ),
    Failure(
        "the first rule that matches decides",
        failed(42, condition="DisruptionTarget"),
        "Ignore",
        [on_condition("Ignore", "DisruptionTarget"), codes("FailJob", "In", 42)],
    ),
]


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_what_a_failure_policy_says(case: Failure) -> None:
    job = Job(spec=JobSpec(pod_failure_policy=PodFailurePolicy(rules=case.rules)))
    assert job_pods.find_failure_action(job, case.pod).action == case.action


@dataclass(frozen=True)
class Success:
    name: str
    completed: set[int]
    rule: SuccessPolicyRule
    met: bool


SUCCESSES = [
    Success("all of some indexes", {0, 2}, SuccessPolicyRule(succeeded_indexes="0,2"), True),
    Success("not yet all of them", {0}, SuccessPolicyRule(succeeded_indexes="0,2"), False),
    Success("some number of some", {1}, SuccessPolicyRule(succeeded_indexes="0-3", succeeded_count=1), True),
    Success("others do not count", {4, 5}, SuccessPolicyRule(succeeded_indexes="0-3", succeeded_count=1), False),
    Success("some number of all", {4, 5}, SuccessPolicyRule(succeeded_count=2), True),
]


@pytest.mark.parametrize("case", SUCCESSES, ids=lambda case: case.name)
def test_when_a_success_policy_is_met(case: Success) -> None:
    job = Job(spec=JobSpec(completions=10, success_policy=SuccessPolicy(rules=[case.rule])))
    assert (job_pods.find_met_success_rule(job, IndexSet(case.completed)) is not None) is case.met


@dataclass(frozen=True)
class Pause:
    name: str
    failed: list[Pod]
    succeeded: list[Pod]
    expected: float


async def test_pods_are_released_some_at_a_time_and_all_though_some_cannot_be() -> None:
    pods = [Pod(metadata=ObjectMeta(name=f"p-{number}")) for number in range(3 * job.RELEASED_AT_ONCE)]
    refused = errors.internal_error("no")
    outcomes = {"p-1": errors.not_found("pods", "p-1"), "p-2": errors.conflict("pods", "p-2"), "p-3": refused}
    most, under_way, released = 0, 0, list[str]()

    async def release(pod: Pod) -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        if pod.metadata.name in outcomes:
            raise outcomes[pod.metadata.name]
        released.append(pod.metadata.name)

    with pytest.raises(errors.InternalError) as raised:
        await job._remove_all_finalizers(pods, release)
    assert raised.value is refused
    assert most == job.RELEASED_AT_ONCE
    assert sorted([*released, *outcomes]) == sorted(pod.metadata.name for pod in pods)


def succeeded(seconds: float) -> Pod:
    pod = failed(0, seconds=seconds)
    pod.status.phase = "Succeeded"
    return pod


PAUSES = [
    Pause("none without a failure", [], [succeeded(1)], 0),
    Pause("ten seconds after the first", [failed(seconds=4)], [], 6),
    Pause("twice as long after the second", [failed(seconds=4), failed(seconds=30)], [], 16),
    Pause("at most ten minutes", [failed(seconds=0)] * 20, [], 600),
    Pause("a success starts the count anew", [failed(seconds=4), failed(seconds=30)], [succeeded(20)], 6),
    Pause("over when the time has passed", [failed(seconds=11)], [], 0),
]


@pytest.mark.parametrize("case", PAUSES, ids=lambda case: case.name)
def test_the_pause_after_failures(case: Pause) -> None:
    assert job_pods.seconds_to_retry(case.failed, case.succeeded, NOW) == case.expected


@dataclass(frozen=True)
class Time:
    schedule: str
    after: str
    expected: str | None
    zone: str | None = None


TIMES = [
    Time("*/15 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z"),
    Time("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
    Time("0 0 30 2 *", "2026-01-01T00:00:00Z", None),
    Time("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    Time("0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
    Time("5/20 8-10 * * *", "2026-01-01T08:26:00Z", "2026-01-01T08:45:00Z"),
    Time("@hourly", "2026-01-01T00:00:01Z", "2026-01-01T01:00:00Z"),
    Time("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
    Time("@every 1h30m", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z"),
    Time("0 9 * * *", "2026-07-01T00:00:00Z", "2026-07-01T07:00:00Z", "Europe/Berlin"),
    Time("30 2 29 3 *", "2026-03-01T00:00:00Z", "2027-03-29T00:30:00Z", "Europe/Berlin"),  # skipped in 2026
    Time("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
]


@pytest.mark.parametrize("case", TIMES, ids=lambda case: f"{case.schedule} after {case.after}")
def test_the_next_time_of_a_schedule(case: Time) -> None:
    found = Schedule(case.schedule, load_time_zone(case.zone)).find_time_after(times.parse(case.after))
    assert (found and times.to_seconds(found)) == case.expected


def test_an_hour_that_comes_twice_counts_once() -> None:
    schedule = Schedule("30 2 * * *", ZoneInfo("Europe/Berlin"))
    first = schedule.find_time_after(datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert schedule.find_time_after(first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(("text", "zone"), [("61 * * * *", None), ("* * * * *", "Mars/Olympus")])
def test_what_is_no_schedule(text: str, zone: str | None) -> None:
    with pytest.raises(ScheduleError):
        Schedule(text, load_time_zone(zone))


def test_the_latest_of_very_many_missed_times_is_found() -> None:
    owner = CronJob(metadata=ObjectMeta(name="c", creation_timestamp="2026-01-01T00:00:00Z"))
    now = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)
    found = cron_job.find_missed_times(owner, Schedule("*/5 * * * *", UTC), now)
    assert (found.latest, found.many) == (datetime(2026, 6, 1, 12, 0, tzinfo=UTC), True)
