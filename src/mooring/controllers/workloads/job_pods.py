"""Choose the pods of a Job to delete and to create, and build a pod with an index. Pure functions."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from mooring.api import states
from mooring.api.batch_v1 import Job
from mooring.api.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec
from mooring.controllers.workloads import job_tally, pod_states
from mooring.controllers.workloads.job_tally import (
    INDEX,
    INDEX_FAILURES,
    Tally,
    index_failures,
    index_of,
    is_failed,
    is_indexed,
    replaces_only_failed,
)
from mooring.controllers.workloads.workload import min_wait

_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"

Made = tuple[PodTemplateSpec, dict[str, Any]]


def surplus(job: Job, active: Sequence[Pod], tally: Tally, wanted: int) -> list[Pod]:
    """Return the pods to delete: duplicates of an index, pods of finished indexes, and surplus ones."""
    if not is_indexed(job):
        ordered = sorted(active, key=lambda pod: (states.is_ready(pod), _newest_first(pod)))
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


def _newest_first(pod: Pod) -> float:
    created = pod_states.created_at(pod)
    return -created.timestamp() if created is not None else 0.0


def missing(job: Job, tally: Tally, number: int, now: datetime) -> tuple[list[Made], float | None]:
    """Return the pod templates of pods to create now, and the seconds until more may be created."""
    if not is_indexed(job):
        wait = _pause(job, tally.ended, now)
        return ([], wait) if wait else ([(job.spec.template, {})] * number, None)
    if job.spec.backoff_limit_per_index is None:
        wait = _pause(job, tally.ended, now)
        if wait:
            return [], wait
    failed = defaultdict[int, list[Pod]](list)
    for pod in (*tally.ended, *tally.terminating):
        if is_failed(job, pod):
            failed[index_of(pod)].append(pod)
    made: list[Made] = []
    later: float | None = None
    for index in _vacant(job, tally):
        if len(made) == number:
            break
        failures = 0
        if job.spec.backoff_limit_per_index is not None:
            gone = failed[index]
            wait = _pause(job, gone, now)
            if wait:
                later = min_wait(later, wait)
                continue
            failures = max((index_failures(pod) + 1 for pod in gone if not _is_failure_ignored(job, pod)), default=0)
        made.append(template_with_index(job, index, failures))
    return made, later


def _pause(job: Job, ended: Sequence[Pod], now: datetime) -> float:
    failed = [pod for pod in ended if is_failed(job, pod) and not _is_failure_ignored(job, pod)]
    return job_tally.backoff_after(failed, [pod for pod in ended if pod.status.phase == "Succeeded"], now)


def _is_failure_ignored(job: Job, pod: Pod) -> bool:
    return job_tally.failure_action(job, pod).action == "Ignore"


def _vacant(job: Job, tally: Tally) -> Iterator[int]:
    there = [*tally.active, *(tally.terminating if replaces_only_failed(job) else [])]
    taken = {index_of(pod) for pod in there}
    done = tally.completed | tally.failed_indexes
    return (index for index in done.vacant(job.spec.completions or 0) if index not in taken)


def template_with_index(job: Job, index: int, failures: int) -> Made:
    """Return the template of a pod with an index in its labels, annotations, environment and host name."""
    template = job.spec.template
    annotations = {**template.metadata.annotations, INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        annotations[INDEX_FAILURES] = str(failures)
    name = f"{job.metadata.name}-{index}"
    spec = structs.replace(
        template.spec,
        hostname=name,
        containers=[_with_index(each) for each in template.spec.containers],
        init_containers=[_with_index(each) for each in template.spec.init_containers],
    )
    names = {
        "generate_name": f"{name}-",
        "labels": {**template.metadata.labels, INDEX: str(index)},
        "annotations": annotations,
    }
    return structs.replace(template, spec=spec), names


def _with_index(container: Container) -> Container:
    if any(variable.name == _INDEX_VARIABLE for variable in container.env):
        return container
    source = EnvVarSource(field_ref=ObjectFieldSelector(api_version="v1", field_path=f"metadata.labels['{INDEX}']"))
    return structs.replace(container, env=[*container.env, EnvVar(name=_INDEX_VARIABLE, value_from=source)])
