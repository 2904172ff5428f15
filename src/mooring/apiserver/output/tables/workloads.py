"""Table printers of workloads: desired, current and ready pods."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from mooring.api import times
from mooring.api.apps_v1 import ControllerRevision
from mooring.api.batch_v1 import Job
from mooring.api.states import controller_of
from mooring.apiserver.output.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    age,
    boolean,
    containers,
    labels,
    number,
    printer,
    selector,
    text,
    wide,
)
from mooring.apiserver.output.tables.row import Ago, duration

_CONTAINERS = containers("spec.template")
_SELECTOR = wide("Selector", lambda each: selector(each.spec.selector))
_WIDE = (*_CONTAINERS, _SELECTOR)


def _desired_replicas(each: Any) -> int:
    return 1 if each.spec.replicas is None else int(each.spec.replicas)


_READY = text("Ready", lambda each: f"{each.status.ready_replicas}/{_desired_replicas(each)}")


def _replica_columns(selected: Column) -> tuple[Column, ...]:
    """Return the columns of ReplicaSets or ReplicationControllers; `selected` is the selector column's cell."""
    counts = (number("Current", "status.replicas"), number("Ready", "status.ready_replicas"))
    return NAME, number("Desired", _desired_replicas), *counts, AGE, *_CONTAINERS, selected


def _owner_of(revision: ControllerRevision) -> str:
    owner = controller_of(revision.metadata)
    if owner is None:
        return NONE
    group = owner.api_version.rpartition("/")[0]
    return f"{owner.kind.lower()}.{group}/{owner.name}" if group else f"{owner.kind.lower()}/{owner.name}"


def _format_completions(job: Job) -> str:
    spec, succeeded = job.spec, job.status.succeeded
    if spec.completions is not None:
        return f"{succeeded}/{spec.completions}"
    return f"{succeeded}/1 of {spec.parallelism}" if (spec.parallelism or 0) > 1 else f"{succeeded}/1"


def _job_status(job: Job) -> str:
    true = {each.type for each in job.status.conditions if each.status == "True"}
    for condition in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Terminating" if job.metadata.deletion_timestamp else "Running"


def _job_duration(job: Job) -> Ago | str:
    began, ended = job.status.start_time, job.status.completion_time
    if not began or not ended:
        return age(began) if began else ""
    try:
        return duration((times.parse(ended) - times.parse(began)).total_seconds())
    except times.TimeError:
        return UNKNOWN


def _last_schedule(each: Any) -> Ago | str:
    return age(each.status.last_schedule_time) if each.status.last_schedule_time else NONE


def _budget_limit(path: str) -> Callable[[Any], str]:
    get = attrgetter(path)
    return lambda each: "N/A" if get(each) is None else str(get(each))


PRINTERS = {
    "ReplicationController": printer(*_replica_columns(wide("Selector", lambda each: labels(each.spec.selector)))),
    "ControllerRevision.apps": printer(NAME, text("Controller", _owner_of), number("Revision", "revision"), AGE),
    "DaemonSet.apps": printer(
        NAME,
        number("Desired", "status.desired_number_scheduled"),
        number("Current", "status.current_number_scheduled"),
        number("Ready", "status.number_ready"),
        number("Up-to-date", "status.updated_number_scheduled"),
        number("Available", "status.number_available"),
        text("Node Selector", lambda each: labels(each.spec.template.spec.node_selector)),
        AGE,
        *_WIDE,
    ),
    "Deployment.apps": printer(
        NAME,
        _READY,
        number("Up-to-date", "status.updated_replicas"),
        number("Available", "status.available_replicas"),
        AGE,
        *_WIDE,
    ),
    "ReplicaSet.apps": printer(*_replica_columns(_SELECTOR)),
    "StatefulSet.apps": printer(NAME, _READY, AGE, *_CONTAINERS),
    "CronJob.batch": printer(
        NAME,
        text("Schedule", "spec.schedule"),
        text("Timezone", "spec.time_zone", NONE),
        text("Suspend", lambda each: str(bool(each.spec.suspend))),
        number("Active", lambda each: len(each.status.active)),
        text("Last Schedule", _last_schedule),
        AGE,
        *containers("spec.job_template.spec.template"),
        wide("Selector", lambda each: selector(each.spec.job_template.spec.selector)),
    ),
    "Job.batch": printer(
        NAME,
        text("Status", _job_status),
        text("Completions", _format_completions),
        text("Duration", _job_duration),
        AGE,
        *_WIDE,
    ),
    "PodDisruptionBudget.policy": printer(
        NAME,
        text("Min Available", _budget_limit("spec.min_available")),
        text("Max Unavailable", _budget_limit("spec.max_unavailable")),
        number("Allowed Disruptions", "status.disruptions_allowed"),
        AGE,
    ),
    "PriorityClass.scheduling.k8s.io": printer(
        NAME,
        number("Value", "value"),
        boolean("Global-Default", "global_default"),
        AGE,
        text("PreemptionPolicy", "preemption_policy", ""),
    ),
}
