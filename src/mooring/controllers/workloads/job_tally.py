"""How a Job stands: its pods, counted so that none is forgotten or counted twice, whatever is restarted when.

Each pod has a finalizer until it is counted. A pod that has ended is counted in three steps: (1) its uid goes into
`status.uncountedTerminatedPods`; (2) its finalizer is removed, so that it may be deleted; (3) the uid gives way to the
counter. Whoever continues after a crash sees which step comes next. Completed indexes need no uid: an index that is
in the set already changes nothing. Plain functions of a Job and its pods; ``job.py`` does the steps.
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
    """What became of a Job's pods. Counters include what was counted before."""

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
    """Pods that are counted when the status is written: then their finalizers can go."""
    failure: str = ""
    """Why the failure policy wants the Job to fail."""

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted.failed)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def replaces_only_failed(job: Job) -> bool:
    """Whether a pod that is being deleted is only replaced when it has ended."""
    return job.spec.pod_replacement_policy == "Failed"


def index_of(pod: Pod) -> int:
    """The index of a pod; -1 if it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1


def index_failures(pod: Pod) -> int:
    """How often the index had failed before this pod."""
    text = pod.metadata.annotations.get(INDEX_FAILURES, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def is_tracked(pod: Pod) -> bool:
    return TRACKING in pod.metadata.finalizers


def is_failed(job: Job, pod: Pod) -> bool:
    """Whether a pod counts as failed: also when it is being deleted, unless the Job waits for its end."""
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"
    return deleted and not replaces_only_failed(job)


def take_stock(job: Job, pods: Sequence[Pod]) -> Tally:
    """Step 3 for pods whose finalizers are gone, step 1 for pods that have ended since."""
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
    decision = job_policies.judge_failure(job, pod)
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
    """With a limit per index, the last failed pod of an index stays: its successor takes over the failures."""
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
