"""Rows of workloads: how many pods are wanted, there and ready."""

from typing import Any

from mooring.api import times
from mooring.api.apps_v1 import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import ReplicationController
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.api.states import controller_of
from mooring.apiserver.output.tables.printer import (
    NONE,
    UNKNOWN,
    Ago,
    Printer,
    age,
    containers,
    duration,
    labels,
    number,
    selector,
    text,
    wide,
    yes_or_no,
)

_WIDE = (wide("Containers"), wide("Images"), wide("Selector"))


def _deployment(each: Deployment) -> list[Any]:
    wanted = 1 if each.spec.replicas is None else each.spec.replicas
    return [
        each.metadata.name,
        f"{each.status.ready_replicas}/{wanted}",
        each.status.updated_replicas,
        each.status.available_replicas,
        age(each.metadata.creation_timestamp),
        *containers(each.spec.template),
        selector(each.spec.selector),
    ]


DEPLOYMENTS = Printer(
    (text("Name"), text("Ready"), number("Up-to-date"), number("Available"), text("Age"), *_WIDE), _deployment
)


def _replica_set(each: ReplicaSet) -> list[Any]:
    return [
        each.metadata.name,
        1 if each.spec.replicas is None else each.spec.replicas,
        each.status.replicas,
        each.status.ready_replicas,
        age(each.metadata.creation_timestamp),
        *containers(each.spec.template),
        selector(each.spec.selector),
    ]


_REPLICAS = (text("Name"), number("Desired"), number("Current"), number("Ready"), text("Age"), *_WIDE)
REPLICA_SETS = Printer(_REPLICAS, _replica_set)


def _replication_controller(each: ReplicationController) -> list[Any]:
    return [
        each.metadata.name,
        1 if each.spec.replicas is None else each.spec.replicas,
        each.status.replicas,
        each.status.ready_replicas,
        age(each.metadata.creation_timestamp),
        *containers(each.spec.template),
        labels(each.spec.selector),
    ]


REPLICATION_CONTROLLERS = Printer(_REPLICAS, _replication_controller)


def _stateful_set(each: StatefulSet) -> list[Any]:
    wanted = 1 if each.spec.replicas is None else each.spec.replicas
    return [
        each.metadata.name,
        f"{each.status.ready_replicas}/{wanted}",
        age(each.metadata.creation_timestamp),
        *containers(each.spec.template),
    ]


STATEFUL_SETS = Printer((text("Name"), text("Ready"), text("Age"), wide("Containers"), wide("Images")), _stateful_set)


def _daemon_set(each: DaemonSet) -> list[Any]:
    status = each.status
    return [
        each.metadata.name,
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_ready,
        status.updated_number_scheduled,
        status.number_available,
        labels(each.spec.template.spec.node_selector),
        age(each.metadata.creation_timestamp),
        *containers(each.spec.template),
        selector(each.spec.selector),
    ]


DAEMON_SETS = Printer(
    (
        text("Name"),
        *map(number, ("Desired", "Current", "Ready", "Up-to-date", "Available")),
        text("Node Selector"),
        text("Age"),
        *_WIDE,
    ),
    _daemon_set,
)


def _revision(each: ControllerRevision) -> list[Any]:
    owner = controller_of(each.metadata)
    group = owner.api_version.rpartition("/")[0] if owner else ""
    kind = f"{owner.kind.lower()}.{group}" if owner and group else owner.kind.lower() if owner else ""
    controller = f"{kind}/{owner.name}" if owner else NONE
    return [each.metadata.name, controller, each.revision, age(each.metadata.creation_timestamp)]


CONTROLLER_REVISIONS = Printer((text("Name"), text("Controller"), number("Revision"), text("Age")), _revision)


def _job(each: Job) -> list[Any]:
    spec, status = each.spec, each.status
    if spec.completions is not None:
        completions = f"{status.succeeded}/{spec.completions}"
    elif (spec.parallelism or 0) > 1:
        completions = f"{status.succeeded}/1 of {spec.parallelism}"
    else:
        completions = f"{status.succeeded}/1"
    return [
        each.metadata.name,
        _job_status(each),
        completions,
        _job_duration(each),
        age(each.metadata.creation_timestamp),
        *containers(spec.template),
        selector(spec.selector),
    ]


def _job_status(job: Job) -> str:
    true = {each.type for each in job.status.conditions if each.status == "True"}
    for condition, word in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return word
    return "Terminating" if job.metadata.deletion_timestamp else "Running"


def _job_duration(job: Job) -> Ago | str:
    began, ended = job.status.start_time, job.status.completion_time
    if not began or not ended:
        return age(began) if began else ""
    try:
        return duration((times.parse(ended) - times.parse(began)).total_seconds())
    except times.TimeError:
        return UNKNOWN


JOBS = Printer((*map(text, ("Name", "Status", "Completions", "Duration", "Age")), *_WIDE), _job)


def _cron_job(each: CronJob) -> list[Any]:
    last = each.status.last_schedule_time
    return [
        each.metadata.name,
        each.spec.schedule,
        each.spec.time_zone or NONE,
        str(bool(each.spec.suspend)),
        len(each.status.active),
        age(last) if last else NONE,
        age(each.metadata.creation_timestamp),
        *containers(each.spec.job_template.spec.template),
        selector(each.spec.job_template.spec.selector),
    ]


CRON_JOBS = Printer(
    (
        *map(text, ("Name", "Schedule", "Timezone", "Suspend")),
        number("Active"),
        text("Last Schedule"),
        text("Age"),
        *_WIDE,
    ),
    _cron_job,
)


def _budget(each: PodDisruptionBudget) -> list[Any]:
    def shown(value: int | str | None) -> str:
        return "N/A" if value is None else str(value)

    return [
        each.metadata.name,
        shown(each.spec.min_available),
        shown(each.spec.max_unavailable),
        each.status.disruptions_allowed,
        age(each.metadata.creation_timestamp),
    ]


POD_DISRUPTION_BUDGETS = Printer(
    (text("Name"), text("Min Available"), text("Max Unavailable"), number("Allowed Disruptions"), text("Age")), _budget
)


def _priority_class(each: Any) -> list[Any]:
    return [
        each.metadata.name,
        each.value,
        each.global_default,
        age(each.metadata.creation_timestamp),
        each.preemption_policy or "",
    ]


PRIORITY_CLASSES = Printer(
    (text("Name"), number("Value"), yes_or_no("Global-Default"), text("Age"), text("PreemptionPolicy")), _priority_class
)
