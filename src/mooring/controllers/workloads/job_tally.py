"""Count the pods of a Job so that none is lost or counted twice, whatever crashes when.

Each pod has a finalizer until it is counted, in three steps: (1) its uid is added to `status.uncountedTerminatedPods`;
(2) its finalizer is removed; (3) the uid is replaced by the counter. After a crash the status shows which step is next.
Completed indexes need no uid: adding one twice changes nothing. Pure functions; ``job.py`` writes.
"""

from collections.abc import Sequence

import msgspec

from mooring.api import states
from mooring.api.batch_v1 import Job, UncountedTerminatedPods
from mooring.api.core_v1 import Pod
from mooring.controllers.workloads import job_policies, pod_states
from mooring.controllers.workloads.job_indexes import IndexSet

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"


class Tally(msgspec.Struct):
    """The counted pods of a Job, including those counted before."""

    active: list[Pod] = msgspec.field(default_factory=list)
    terminating: list[Pod] = msgspec.field(default_factory=list)
    ended: list[Pod] = msgspec.field(default_factory=list)
    succeeded: int = 0
    """In the counter; those in `uncounted` are not."""
    failed: int = 0
    uncounted: UncountedTerminatedPods = msgspec.field(default_factory=UncountedTerminatedPods)
    completed: IndexSet = msgspec.field(default_factory=IndexSet)
    failed_indexes: IndexSet = msgspec.field(default_factory=IndexSet)
    to_release: list[Pod] = msgspec.field(default_factory=list)
    """Pods that are counted once the status is written: then their finalizers are removed."""
    failure: str = ""

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted.failed)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def replaces_only_failed(job: Job) -> bool:
    """Return whether a terminating pod is replaced only when it has ended."""
    return job.spec.pod_replacement_policy == "Failed"


def index_of(pod: Pod) -> int:
    """Return the index of a pod, -1 if it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1


def index_failures(pod: Pod) -> int:
    """Return how often the index failed before this pod."""
    text = pod.metadata.annotations.get(INDEX_FAILURES, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def is_tracked(pod: Pod) -> bool:
    return TRACKING in pod.metadata.finalizers


def is_failed(job: Job, pod: Pod) -> bool:
    """Return whether a pod counts as failed: also a terminating one, unless the Job waits for its end."""
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"
    return deleted and not replaces_only_failed(job)


def count_pods(job: Job, pods: Sequence[Pod]) -> Tally:
    """Do step 3 for pods without finalizers, and step 1 for pods that have ended since."""
    before = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = {pod.metadata.uid for pod in pods if is_tracked(pod)}
    completions = job.spec.completions or 0
    tally = Tally(
        active=[pod for pod in pods if pod_states.is_active(pod)],
        terminating=[pod for pod in pods if pod_states.is_terminating(pod)],
        ended=[pod for pod in pods if states.has_ended(pod)],
        succeeded=job.status.succeeded + sum(uid not in tracked for uid in before.succeeded),
        failed=job.status.failed + sum(uid not in tracked for uid in before.failed),
        uncounted=UncountedTerminatedPods(
            succeeded=[uid for uid in before.succeeded if uid in tracked],
            failed=[uid for uid in before.failed if uid in tracked],
        ),
        completed=IndexSet.parse(job.status.completed_indexes, completions),
        failed_indexes=IndexSet.parse(job.status.failed_indexes or "", completions),
    )
    for pod in pods:
        if is_tracked(pod):
            _count(job, pod, tally)
    if is_indexed(job):
        tally.succeeded = len(tally.completed)
    return tally


def _count(job: Job, pod: Pod, tally: Tally) -> None:
    uid = pod.metadata.uid
    if uid in tally.uncounted.succeeded:
        tally.to_release.append(pod)
    elif uid in tally.uncounted.failed:
        _release_failed(job, pod, tally)
    elif pod.status.phase == "Succeeded":
        if not is_indexed(job):
            tally.uncounted.succeeded.append(uid)
        elif 0 <= index_of(pod) < (job.spec.completions or 0):
            tally.completed.add(index_of(pod))
        tally.to_release.append(pod)
    elif is_failed(job, pod):
        _count_failed(job, pod, tally)


def _count_failed(job: Job, pod: Pod, tally: Tally) -> None:
    decision = job_policies.failure_action(job, pod)
    if decision.action == "Ignore":
        tally.to_release.append(pod)
        return
    if decision.action == "FailJob":
        tally.failure = tally.failure or decision.message
    limit = job.spec.backoff_limit_per_index
    if limit is not None and is_indexed(job):
        used_up = index_failures(pod) >= limit
        counts = 0 <= index_of(pod) < (job.spec.completions or 0) and index_of(pod) not in tally.completed
        if (decision.action == "FailIndex" or used_up) and counts:
            tally.failed_indexes.add(index_of(pod))
    tally.uncounted.failed.append(pod.metadata.uid)
    _release_failed(job, pod, tally)


def _release_failed(job: Job, pod: Pod, tally: Tally) -> None:
    """With a limit per index the last failed pod of an index is kept: its successor reads the failures."""
    if job.spec.backoff_limit_per_index is not None and is_indexed(job):
        index = index_of(pod)
        settled = index in tally.completed or index in tally.failed_indexes
        succeeded_by = any(
            index_of(other) == index and index_failures(other) > index_failures(pod)
            for other in (*tally.active, *tally.terminating, *tally.ended)
        )
        if not (settled or succeeded_by):
            return
    tally.to_release.append(pod)
