"""Jobs: pods that run until enough have succeeded.

    sync: count the pods (``job_pods.py``)
          decided    → FailureTarget or SuccessCriteriaMet, delete the pods, then Failed or Complete
          suspended  → delete the pods
          otherwise  → as many pods as parallelism and missing completions require

The status is written first, then finalizers are removed and pods created and deleted: see ``job_pods.py``.
``expiry.py`` deletes finished Jobs.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import structs

from mooring.api import errors, label_selector, states, times
from mooring.api.batch_v1 import Job, JobCondition, JobStatus
from mooring.api.core_v1 import Pod
from mooring.api.states import controller_of
from mooring.controllers.conditions import build_condition, find_condition, is_condition_true
from mooring.controllers.controller import Context, for_each_concurrently
from mooring.controllers.workloads import job_pods
from mooring.controllers.workloads.job_pods import TRACKING, JobPodCounts, is_indexed
from mooring.controllers.workloads.workload import LOOK_AGAIN_SECONDS, WorkloadController, find_shortest_wait

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
FAILURE_TARGET, SUCCESS_MET = "FailureTarget", "SuccessCriteriaMet"
MANAGED_HERE = "kubernetes.io/job-controller"
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
MOST_AT_ONCE = 500
RELEASED_AT_ONCE = 512
"""The maximum number of pods whose finalizers are removed at once; fills all batches of ``client/batching.py``."""


class JobDecision(NamedTuple):
    """The end of a Job: success or failure, with reason and message."""

    success: bool
    reason: str
    message: str


class JobController(WorkloadController[Job]):
    """The controller of Jobs: creates pods until enough have succeeded, and counts each pod once."""

    name = "job"
    component = "job-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, Job)
        self._tracked = self.pods.informer.index("job tracking", _job_keys_of)
        self.follow_children(self.pods)

    async def reconcile(self, key: str) -> float | None:
        await self._release_pods_of_deleted_jobs(key)
        return await super().reconcile(key)

    async def sync(self, key: str, owner: Job) -> float | None:
        if owner.spec.managed_by not in (None, MANAGED_HERE):
            return None
        if is_finished(owner):
            await self._remove_finalizers(key, self.pods.owned_by(owner))
            return None
        selector = label_selector.from_label_selector(owner.spec.selector)
        pods = await self.pods.claim(owner, selector, finalizer=TRACKING)
        tally = job_pods.count_pods(owner, pods)
        now = self.clock.now()
        decision = read_decision(owner) or decide_outcome(owner, tally, now)
        if decision is not None:
            return await self._finish_job(key, owner, tally, decision)
        status = self._build_status(owner, tally)
        self._record_suspension(owner, status, now)
        await self.write_status(key, owner, status)
        await self._remove_finalizers(key, tally.to_release)
        if owner.metadata.deletion_timestamp is not None:
            return None
        wait = await self._create_or_delete_pods(key, owner, tally, now)
        return find_shortest_wait(wait, _seconds_to_deadline(owner, status, now))

    # -- ending

    async def _finish_job(self, key: str, job: Job, tally: JobPodCounts, decision: JobDecision) -> float | None:
        now = self.clock.now()
        going = [pod for pod in (*tally.active, *tally.terminating) if job_pods.is_tracked(pod)]
        if not decision.success:  # running pods of a failed Job count as failed
            known = {*tally.uncounted.failed, *tally.uncounted.succeeded}
            tally.uncounted.failed += [pod.metadata.uid for pod in going if pod.metadata.uid not in known]
        status = self._build_status(job, tally)
        target = SUCCESS_MET if decision.success else FAILURE_TARGET
        content = ("True", decision.reason, decision.message)
        _set_condition(status, target, content, now)
        left = tally.active or tally.terminating or tally.uncounted.failed or tally.uncounted.succeeded
        if not left and not tally.to_release:
            final = COMPLETE if decision.success else FAILED
            _set_condition(status, final, content, now)
            status.completion_time = times.to_seconds(now) if decision.success else None
            status.uncounted_terminated_pods = None
            if decision.success:
                self.recorder.event(job, "Normal", "Completed", "Job completed")
            else:
                self.recorder.event(job, "Warning", decision.reason, decision.message)
        await self.write_status(key, job, status)
        await self._remove_finalizers(key, [*going, *tally.ended])
        await self.pod_control.delete_pods(key, job, tally.active)
        return LOOK_AGAIN_SECONDS if left else None

    # -- pods

    async def _create_or_delete_pods(self, key: str, job: Job, tally: JobPodCounts, now: datetime) -> float | None:
        active = tally.active
        if job.spec.suspend:
            await self._release_and_delete(key, job, active)
            return None
        wanted = count_wanted_pods(job, tally)
        surplus = job_pods.find_surplus_pods(job, active, tally, wanted)
        if surplus:
            await self._release_and_delete(key, job, surplus)
            return LOOK_AGAIN_SECONDS
        there = len(active) + (len(tally.terminating) if job_pods.replaces_only_failed(job) else 0)
        missing = min(wanted - there, MOST_AT_ONCE)
        if missing <= 0:
            return None
        made, wait = job_pods.build_pod_templates(job, tally, missing, now)
        if not made:
            return wait
        pods = [
            self.pod_control.build_pod(job, template, finalizers=[*template.metadata.finalizers, TRACKING], **names)
            for template, names in made
        ]
        outcome = await self.pod_control.create_pods(key, job, job.spec.template, pods)
        if outcome.error is not None and outcome.wait is None:
            raise outcome.error
        if missing < MOST_AT_ONCE:
            return find_shortest_wait(outcome.wait, wait)
        self.unfinished.add(key)
        return find_shortest_wait(outcome.wait, wait, LOOK_AGAIN_SECONDS)

    async def _release_and_delete(self, key: str, job: Job, pods: Sequence[Pod]) -> None:
        await self._remove_finalizers(key, pods)
        await self.pod_control.delete_pods(key, job, pods)

    # -- finalizers

    async def _remove_finalizers(self, key: str, pods: Iterable[Pod]) -> None:
        async def remove_finalizer(pod: Pod) -> None:
            written = await self.client.patch(
                Pod, pod.metadata.name, _finalizer_removal_patch(pod), pod.metadata.namespace
            )
            self.expectations.record_write(key, self.pods.informer, written)

        tracked = {pod.metadata.uid: pod for pod in pods if job_pods.is_tracked(pod)}
        await _remove_all_finalizers(tracked.values(), remove_finalizer)

    async def _release_pods_of_deleted_jobs(self, key: str) -> None:
        """Remove the tracking finalizers of pods whose Job does not exist any more."""

        async def remove_finalizer(pod: Pod) -> None:
            await self.client.patch_unread(
                Pod, pod.metadata.name, _finalizer_removal_patch(pod), pod.metadata.namespace
            )

        job = self.owners.by_key(key)
        uid = job.metadata.uid if job is not None else None
        owned = [(pod, controller_of(pod.metadata)) for pod in self._tracked.get(key)]
        await _remove_all_finalizers(
            [pod for pod, owner in owned if job is None or (owner and owner.uid != uid)], remove_finalizer
        )

    # -- status

    def _build_status(self, job: Job, tally: JobPodCounts) -> JobStatus:
        before = job.status
        indexed = is_indexed(job)
        per_index = indexed and job.spec.backoff_limit_per_index is not None
        return structs.replace(
            before,
            conditions=list(before.conditions),
            active=len(tally.active),
            ready=sum(map(states.is_ready, tally.active)),
            terminating=len(tally.terminating),
            succeeded=tally.succeeded,
            failed=tally.failed,
            uncounted_terminated_pods=tally.uncounted,
            completed_indexes=str(tally.completed) if indexed else "",
            failed_indexes=str(tally.failed_indexes) if per_index else before.failed_indexes,
        )

    def _record_suspension(self, job: Job, status: JobStatus, now: datetime) -> None:
        suspended = find_condition(status.conditions, SUSPENDED)
        if job.spec.suspend:
            if suspended is None or suspended.status != "True":
                _set_condition(status, SUSPENDED, ("True", "JobSuspended", "Job suspended"), now)
                self.recorder.event(job, "Normal", "Suspended", "Job suspended")
            status.start_time = None
            return
        if suspended is not None and suspended.status == "True":
            _set_condition(status, SUSPENDED, ("False", "JobResumed", "Job resumed"), now)
            self.recorder.event(job, "Normal", "Resumed", "Job resumed")
        if status.start_time is None:
            status.start_time = times.to_seconds(now)


async def _remove_all_finalizers(pods: Collection[Pod], remove_finalizer: Callable[[Pod], Awaitable[None]]) -> None:
    """Remove the tracking finalizers of pods, skipping gone or changed ones. Try all; raise the first error."""
    failures = list[Exception]()

    async def remove_or_record_error(pod: Pod) -> None:
        try:
            await remove_finalizer(pod)
        except (errors.NotFound, errors.Conflict):
            return
        except Exception as error:
            failures.append(error)

    await for_each_concurrently(pods, remove_or_record_error, min(len(pods), RELEASED_AT_ONCE))
    if failures:
        raise failures[0]


def _finalizer_removal_patch(pod: Pod) -> dict[str, Any]:
    return {"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]}}


def _job_keys_of(pod: Pod) -> list[str]:
    if not job_pods.is_tracked(pod):
        return []
    owner = controller_of(pod.metadata)
    if owner is not None:
        return [f"{pod.metadata.namespace}/{owner.name}"] if owner.kind == "Job" else []
    name = pod.metadata.labels.get(JOB_NAME_LABEL, "")
    return [f"{pod.metadata.namespace}/{name}"] if name else []


# -- decisions


def is_finished(job: Job) -> bool:
    return is_condition_true(job.status.conditions, COMPLETE) or is_condition_true(job.status.conditions, FAILED)


def read_decision(job: Job) -> JobDecision | None:
    """Return the decision that the Job's conditions record; None if it has not been decided."""
    for kind, success in ((SUCCESS_MET, True), (FAILURE_TARGET, False)):
        found = find_condition(job.status.conditions, kind)
        if found is not None and found.status == "True":
            return JobDecision(success, found.reason, found.message)
    return None


def decide_outcome(job: Job, tally: JobPodCounts, now: datetime) -> JobDecision | None:
    """Return whether and why the Job succeeds or fails now; None if it continues."""
    spec = job.spec
    if tally.failure:
        return JobDecision(False, "PodFailurePolicy", tally.failure)
    too_many = spec.backoff_limit is not None and tally.total_failed > spec.backoff_limit
    if too_many or job_pods.exceeds_restart_limit(job, tally.active):
        return JobDecision(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = _seconds_to_deadline(job, job.status, now)
    if left is not None and left <= 0:
        return JobDecision(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    by_index = _decide_by_indexes(job, tally) if is_indexed(job) else None
    if by_index is not None:
        return by_index
    if spec.suspend and spec.completions != 0:
        return None
    enough = (
        tally.total_succeeded >= spec.completions
        if spec.completions is not None
        else tally.total_succeeded > 0 and not tally.active
    )
    if enough:
        return JobDecision(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _decide_by_indexes(job: Job, tally: JobPodCounts) -> JobDecision | None:
    if job.spec.backoff_limit_per_index is not None:
        most = job.spec.max_failed_indexes
        if most is not None and len(tally.failed_indexes) > most:
            return JobDecision(
                False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
            )
        ended = len(tally.failed_indexes) + len(tally.completed)
        if tally.failed_indexes and ended >= (job.spec.completions or 0):
            return JobDecision(False, "FailedIndexes", "Job has failed indexes")
    met = job_pods.find_met_success_rule(job, tally.completed)
    return JobDecision(True, "SuccessPolicy", met) if met is not None else None


def count_wanted_pods(job: Job, tally: JobPodCounts) -> int:
    """Return how many pods of the Job should be active now."""
    parallel = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return min(parallel, len(tally.active)) if tally.total_succeeded else parallel
    return max(0, min(parallel, job.spec.completions - tally.total_succeeded - len(tally.failed_indexes)))


def _seconds_to_deadline(job: Job, status: JobStatus, now: datetime) -> float | None:
    if job.spec.active_deadline_seconds is None or status.start_time is None or job.spec.suspend:
        return None
    until = times.add_seconds(times.parse(status.start_time), job.spec.active_deadline_seconds)
    return (until - now).total_seconds()


def _set_condition(status: JobStatus, kind: str, content: tuple[str, str, str], now: datetime) -> None:
    before = find_condition(status.conditions, kind)
    if before is not None and (before.status, before.reason) == content[:2]:
        return
    stamp = times.to_seconds(now)
    others = [each for each in status.conditions if each.type != kind]
    status.conditions = [*others, build_condition(JobCondition, (), (kind, *content), stamp, last_probe_time=stamp)]
