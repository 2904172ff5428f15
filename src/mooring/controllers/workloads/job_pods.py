"""Count the pods of a Job so that none is lost or counted twice, evaluate its policies, and choose pods to create.

Each pod has a finalizer until it is counted, in three steps: (1) its uid is added to `status.uncountedTerminatedPods`;
(2) its finalizer is removed; (3) the uid is replaced by the counter. After a crash the status shows which step is next.
Completed indexes need no uid: adding one twice changes nothing. Pure functions; ``job.py`` writes.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec
from msgspec import structs

from mooring.api import states, times
from mooring.api.batch_v1 import (
    Job,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
    UncountedTerminatedPods,
)
from mooring.api.core_v1 import (
    Container,
    ContainerStatus,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    Pod,
    PodTemplateSpec,
)
from mooring.client import Backoff
from mooring.controllers.conditions import find_condition
from mooring.controllers.workloads import pod_states
from mooring.controllers.workloads.workload import find_shortest_wait

_MAX_DIGITS = 10
"""The maximum number of digits of an index, which is an int32."""


class IndexSet:
    """A set of completion indexes, stored as disjoint intervals in ascending order.

    >>> found = IndexSet([5, 1, 3, 4, 7, 8])
    >>> str(found), len(found), 4 in found, list(found.missing_below(11))
    ('1,3-5,7,8', 6, True, [0, 2, 6, 9, 10])
    """

    def __init__(self, indexes: Iterable[int] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for index in indexes:
            self.add(index)

    @classmethod
    def parse(cls, text: str, completions: int) -> "IndexSet":
        """Read the indexes below `completions`; skip what is not an index or a range.

        >>> str(IndexSet.parse("1,3-2147483647,x", 5))
        '1,3,4'
        """
        found = cls()
        for part in text.split(","):
            first, _, last = part.partition("-")
            begin, end = _parse_index(first), _parse_index(last or first)
            if begin is not None and end is not None:
                found._add_interval(begin, min(end + 1, completions))
        return found

    def add(self, index: int) -> None:
        self._add_interval(index, index + 1)

    def _add_interval(self, start: int, stop: int) -> None:
        """Add the indexes from `start` up to, not including, `stop`; merge intervals that overlap or touch."""
        if start >= stop:
            return
        first, end = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if first < end:
            start, stop = min(start, self._starts[first]), max(stop, self._stops[end - 1])
        self._starts[first:end] = [start]
        self._stops[first:end] = [stop]

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._starts, index) - 1
        return at >= 0 and index < self._stops[at]

    def __len__(self) -> int:
        return sum(self._stops) - sum(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexSet):
            return NotImplemented
        return (self._starts, self._stops) == (other._starts, other._stops)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: "IndexSet") -> "IndexSet":
        found = IndexSet()
        for start, stop in zip(self._starts, self._stops, strict=True):
            at = bisect_right(other._stops, start)
            while at < len(other._starts) and other._starts[at] < stop:
                found._add_interval(max(start, other._starts[at]), min(stop, other._stops[at]))
                at += 1
        return found

    def __or__(self, other: "IndexSet") -> "IndexSet":
        found = IndexSet()
        for each in (self, other):
            for start, stop in zip(each._starts, each._stops, strict=True):
                found._add_interval(start, stop)
        return found

    def missing_below(self, completions: int) -> Iterator[int]:
        """Yield the indexes below `completions` that are not in the set, lowest first."""
        for before, start in zip((0, *self._stops), (*self._starts, completions), strict=True):
            yield from range(before, min(start, completions))

    def __str__(self) -> str:
        """Format the indexes as the shortest string: runs of three and more are ranges."""
        return ",".join(map(_format_interval, self._starts, self._stops))


def _parse_index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def _format_interval(start: int, stop: int) -> str:
    return f"{start}-{stop - 1}" if stop - start > 2 else ",".join(map(str, range(start, stop)))


POD_BACKOFF = Backoff(initial=10.0, maximum=600.0)


class FailurePolicyAction(msgspec.Struct, frozen=True):
    """The action of a Job's pod failure policy for a failed pod, and the message of the rule."""

    action: str = "Count"
    message: str = ""


COUNTS = FailurePolicyAction()


def find_failure_action(job: Job, pod: Pod) -> FailurePolicyAction:
    """Return the action of the first rule of a Job's pod failure policy that matches a pod; `Count` without one."""
    policy = job.spec.pod_failure_policy
    if policy is None or pod.status.phase != "Failed":
        return COUNTS
    for index, rule in enumerate(policy.rules):
        why = _describe_rule_match(rule, pod)
        if why is not None:
            return FailurePolicyAction(rule.action, f"{why} matching {rule.action} rule at index {index}")
    return COUNTS


def _describe_rule_match(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        for status in _container_statuses(pod):
            code = _find_matching_exit_code(rule.on_exit_codes, status)
            if code is not None:
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return None
    for pattern in rule.on_pod_conditions:
        condition = find_condition(pod.status.conditions, pattern.type)
        if condition is not None and condition.status == (pattern.status or "True"):
            return f"Pod {where} has condition {condition.type}"
    return None


def _container_statuses(pod: Pod) -> Iterator[ContainerStatus]:
    return chain(pod.status.container_statuses, pod.status.init_container_statuses)


def _find_matching_exit_code(wanted: PodFailurePolicyOnExitCodesRequirement, status: ContainerStatus) -> int | None:
    ended = status.state.terminated
    if ended is None or ended.exit_code == 0:
        return None
    if wanted.container_name is not None and wanted.container_name != status.name:
        return None
    return ended.exit_code if (ended.exit_code in wanted.values) is (wanted.operator == "In") else None


def find_met_success_rule(job: Job, completed: IndexSet) -> str | None:
    """Return the message of the first success rule that the completed indexes meet; None if they meet none."""
    policy = job.spec.success_policy
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        chosen = completed
        if rule.succeeded_indexes is not None:
            wanted = IndexSet.parse(rule.succeeded_indexes, job.spec.completions or 0)
            chosen = completed & wanted
            if rule.succeeded_count is None and chosen == wanted:
                return f"Matched rules at index {index}"
        if rule.succeeded_count is not None and len(chosen) >= rule.succeeded_count:
            return f"Matched rules at index {index}"
    return None


def end_time(pod: Pod) -> datetime | None:
    """Return when a pod ended: its last container, else when it became unready, else its deletion."""
    ended = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at
    ]
    if ended:
        return max(map(times.parse, ended))
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return times.parse(ready.last_transition_time)
    stamp = pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp
    return times.parse(stamp) if stamp else None


def seconds_to_retry(failed: Iterable[Pod], succeeded: Iterable[Pod], now: datetime) -> float:
    """Return the seconds until a Job may create a pod, which grow with the failures since the last success."""
    last_success = max(filter(None, map(end_time, succeeded)), default=None)
    failures = [
        time for time in map(end_time, failed) if time is not None and (last_success is None or time > last_success)
    ]
    if not failures:
        return 0.0
    until = times.add_seconds(max(failures), POD_BACKOFF.delay(len(failures)))
    return max(0.0, (until - now).total_seconds())


def exceeds_restart_limit(job: Job, active: Iterable[Pod]) -> bool:
    """Return whether restarts of a Job's containers (with restartPolicy OnFailure) have reached its backoff limit."""
    if job.spec.template.spec.restart_policy != "OnFailure" or job.spec.backoff_limit is None:
        return False
    restarts = sum(
        status.restart_count
        for pod in active
        if pod.status.phase in ("Pending", "Running")
        for status in _container_statuses(pod)
    )
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit


TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"


class JobPodCounts(msgspec.Struct):
    """A Job's pods by state, and the numbers of its succeeded and failed pods, including those counted before."""

    active: list[Pod] = msgspec.field(default_factory=list)
    terminating: list[Pod] = msgspec.field(default_factory=list)
    ended: list[Pod] = msgspec.field(default_factory=list)
    succeeded: int = 0
    """The number of counted successes, without those in `uncounted`."""
    failed: int = 0
    uncounted: UncountedTerminatedPods = msgspec.field(default_factory=UncountedTerminatedPods)
    completed: IndexSet = msgspec.field(default_factory=IndexSet)
    failed_indexes: IndexSet = msgspec.field(default_factory=IndexSet)
    to_release: list[Pod] = msgspec.field(default_factory=list)
    """Pods that are counted once the status is written; their finalizers are removed then."""
    failure: str = ""

    @property
    def total_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def total_failed(self) -> int:
        return self.failed + len(self.uncounted.failed)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def replaces_only_failed(job: Job) -> bool:
    """Return whether a terminating pod is replaced only when it has ended."""
    return job.spec.pod_replacement_policy == "Failed"


def index_of(pod: Pod) -> int:
    """Return the index of a pod, -1 if it has none."""
    index = _parse_index(pod.metadata.annotations.get(INDEX, ""))
    return -1 if index is None else index


def failures_before(pod: Pod) -> int:
    """Return how often the pod's index had failed before the pod was created."""
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


def count_pods(job: Job, pods: Sequence[Pod]) -> JobPodCounts:
    """Return a Job's pods by state, and the counts of its status plus the pods that have ended since."""
    before = job.status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = {pod.metadata.uid for pod in pods if is_tracked(pod)}
    completions = job.spec.completions or 0
    tally = JobPodCounts(
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
            _count_pod(job, pod, tally)
    if is_indexed(job):
        tally.succeeded = len(tally.completed)
    return tally


def _count_pod(job: Job, pod: Pod, tally: JobPodCounts) -> None:
    uid = pod.metadata.uid
    if uid in tally.uncounted.succeeded:
        tally.to_release.append(pod)
    elif uid in tally.uncounted.failed:
        _release_failed_pod(job, pod, tally)
    elif pod.status.phase == "Succeeded":
        if not is_indexed(job):
            tally.uncounted.succeeded.append(uid)
        elif 0 <= index_of(pod) < (job.spec.completions or 0):
            tally.completed.add(index_of(pod))
        tally.to_release.append(pod)
    elif is_failed(job, pod):
        _count_failed_pod(job, pod, tally)


def _count_failed_pod(job: Job, pod: Pod, tally: JobPodCounts) -> None:
    decision = find_failure_action(job, pod)
    if decision.action == "Ignore":
        tally.to_release.append(pod)
        return
    if decision.action == "FailJob":
        tally.failure = tally.failure or decision.message
    limit = job.spec.backoff_limit_per_index
    if limit is not None and is_indexed(job):
        used_up = failures_before(pod) >= limit
        counts = 0 <= index_of(pod) < (job.spec.completions or 0) and index_of(pod) not in tally.completed
        if (decision.action == "FailIndex" or used_up) and counts:
            tally.failed_indexes.add(index_of(pod))
    tally.uncounted.failed.append(pod.metadata.uid)
    _release_failed_pod(job, pod, tally)


def _release_failed_pod(job: Job, pod: Pod, tally: JobPodCounts) -> None:
    """Mark a failed pod for the removal of its finalizer, unless its index has no pod yet that copies its failures."""
    if job.spec.backoff_limit_per_index is not None and is_indexed(job):
        index = index_of(pod)
        settled = index in tally.completed or index in tally.failed_indexes
        succeeded_by = any(
            index_of(other) == index and failures_before(other) > failures_before(pod)
            for other in (*tally.active, *tally.terminating, *tally.ended)
        )
        if not (settled or succeeded_by):
            return
    tally.to_release.append(pod)


_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

TemplateWithNames = tuple[PodTemplateSpec, dict[str, Any]]


def find_surplus_pods(job: Job, active: Sequence[Pod], tally: JobPodCounts, wanted: int) -> list[Pod]:
    """Return the pods to delete: duplicates of an index, pods of finished indexes, and surplus ones."""
    if not is_indexed(job):
        ordered = sorted(active, key=lambda pod: (states.is_ready(pod), _newest_first_sort_key(pod)))
        return ordered[: max(0, len(active) - wanted)]
    kept: dict[int, Pod] = {}
    dropped = []
    for pod in sorted(active, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.uid)):
        index = index_of(pod)
        done = index in tally.completed or index in tally.failed_indexes
        if done or not 0 <= index < (job.spec.completions or 0) or index in kept:
            dropped.append(pod)
        else:
            kept[index] = pod
    beyond = sorted(kept, reverse=True)[: max(0, len(kept) - wanted)]
    return [*dropped, *(kept[index] for index in beyond)]


def _newest_first_sort_key(pod: Pod) -> float:
    created = pod_states.creation_time(pod)
    return -created.timestamp() if created is not None else 0.0


def build_pod_templates(
    job: Job, tally: JobPodCounts, number: int, now: datetime
) -> tuple[list[TemplateWithNames], float | None]:
    """Return the templates and metadata of up to `number` pods to create, and the seconds until more may be."""
    per_index = is_indexed(job) and job.spec.backoff_limit_per_index is not None
    wait = 0.0 if per_index else _backoff_seconds(job, tally.ended, now)
    if wait:
        return [], wait
    if not is_indexed(job):
        return [(job.spec.template, {})] * number, None
    failed = defaultdict[int, list[Pod]](list)
    for pod in (*tally.ended, *tally.terminating):
        if is_failed(job, pod):
            failed[index_of(pod)].append(pod)
    made: list[TemplateWithNames] = []
    later: float | None = None
    for index in _find_vacant_indexes(job, tally):
        if len(made) == number:
            break
        failures = 0
        if per_index:
            gone = failed[index]
            wait = _backoff_seconds(job, gone, now)
            if wait:
                later = find_shortest_wait(later, wait)
                continue
            failures = max((failures_before(pod) + 1 for pod in gone if not _is_failure_ignored(job, pod)), default=0)
        made.append(template_with_index(job, index, failures))
    return made, later


def _backoff_seconds(job: Job, ended: Sequence[Pod], now: datetime) -> float:
    failed = [pod for pod in ended if is_failed(job, pod) and not _is_failure_ignored(job, pod)]
    return seconds_to_retry(failed, [pod for pod in ended if pod.status.phase == "Succeeded"], now)


def _is_failure_ignored(job: Job, pod: Pod) -> bool:
    return find_failure_action(job, pod).action == "Ignore"


def _find_vacant_indexes(job: Job, tally: JobPodCounts) -> Iterator[int]:
    there = [*tally.active, *(tally.terminating if replaces_only_failed(job) else [])]
    taken = {index_of(pod) for pod in there}
    done = tally.completed | tally.failed_indexes
    return (index for index in done.missing_below(job.spec.completions or 0) if index not in taken)


def template_with_index(job: Job, index: int, failures: int) -> TemplateWithNames:
    """Return the template of a pod with an index in its labels, annotations, environment and host name."""
    template = job.spec.template
    annotations = {**template.metadata.annotations, INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        annotations[INDEX_FAILURES] = str(failures)
    name = f"{job.metadata.name}-{index}"
    spec = structs.replace(
        template.spec,
        hostname=name,
        containers=[_with_index_variable(each) for each in template.spec.containers],
        init_containers=[_with_index_variable(each) for each in template.spec.init_containers],
    )
    names = {
        "generate_name": f"{name}-",
        "labels": {**template.metadata.labels, INDEX: str(index)},
        "annotations": annotations,
    }
    return structs.replace(template, spec=spec), names


def _with_index_variable(container: Container) -> Container:
    if any(variable.name == _INDEX_VARIABLE for variable in container.env):
        return container
    source = EnvVarSource(field_ref=ObjectFieldSelector(api_version="v1", field_path=f"metadata.labels['{INDEX}']"))
    return structs.replace(container, env=[*container.env, EnvVar(name=_INDEX_VARIABLE, value_from=source)])
