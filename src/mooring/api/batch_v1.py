"""batch/v1: pods that run to completion, once (Job) or by the clock (CronJob).

The parts named `WorkloadPodGroup…` belong to a Job's gang scheduling. Read next: ``apps_v1.py``.
"""

from typing import Annotated, Any

from mooring.api.base import Int32, Int64, Object, StateCondition, always, list_map, list_set, patched_by, required
from mooring.api.core_v1 import ObjectReference, PodTemplateSpec
from mooring.api.meta_v1 import LabelSelector, ObjectMeta, Resource


class PodFailurePolicyOnExitCodesRequirement(Object):
    """A condition on the exit codes of a failed pod's containers."""

    container_name: str | None = None
    """The only container that is looked at; all of them when not given."""
    operator: str = required(str)
    """In or NotIn; exit code 0 never counts."""
    values: Annotated[list[Int32], list_set(patch_merge=False)] = required(list)


class PodFailurePolicyOnPodConditionsPattern(Object):
    """A condition of a failed pod that a rule looks for."""

    type: str = required(str)
    """The type of the pod's condition."""
    status: str = always(str)
    """The status it must have; True when not given."""


class PodFailurePolicyRule(Object):
    """A rule for one category of pod failures."""

    action: str = required(str)
    """FailJob, FailIndex, Ignore or Count."""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: list[PodFailurePolicyOnPodConditionsPattern] = always(list)
    """The pod conditions that the rule is about; one of them is enough."""


class PodFailurePolicy(Object):
    """Rules that decide how failed pods count."""

    rules: list[PodFailurePolicyRule] = required(list)
    """The rules; the first that matches a failed pod decides."""


class SuccessPolicyRule(Object):
    """A condition under which a Job succeeds although not all indexes have."""

    succeeded_indexes: str | None = None
    """The indexes that must succeed, such as 1,3-5."""
    succeeded_count: Int32 | None = None
    """How many indexes must succeed, of the given ones or of all."""


class SuccessPolicy(Object):
    """Conditions under which an indexed Job succeeds early."""

    rules: list[SuccessPolicyRule] = required(list)
    """The rules; the first that is met ends the Job."""


class WorkloadPodGroupGangSchedulingPolicy(Object):
    """Schedules pods only when enough of them fit."""

    min_count: Int32 | None = None
    """How many pods must fit at the same time."""


class WorkloadPodGroupSchedulingPolicy(Object):
    """The scheduling policy of a pod group; exactly one field is set."""

    basic: dict[str, Any] | None = None
    gang: WorkloadPodGroupGangSchedulingPolicy | None = None


class TopologyConstraint(Object):
    """Keeps the pods of a group within one topology domain."""

    key: str = required(str)
    """The node label whose value names the domain."""


class WorkloadPodGroupSchedulingConstraints(Object):
    """Constraints on the placement of a pod group."""

    topology: list[TopologyConstraint] = []
    """The topology domains that the group must stay within."""


class WorkloadPodGroupDisruptionMode(Object):
    """The disruption mode of a pod group; exactly one field is set."""

    single: dict[str, Any] | None = None
    all: dict[str, Any] | None = None
    """Only together."""


class WorkloadPodGroupResourceClaim(Object):
    """A resource claim that the pods of a group share."""

    name: str = required(str)
    """The name of the claim within the group."""
    resource_claim_name: str | None = None
    """The ResourceClaim in the same namespace."""
    resource_claim_template_name: str | None = None
    """The ResourceClaimTemplate from which a claim is made for the group."""


class JobSchedulingConfiguration(Object):
    """The scheduling of a Job's pods as a group."""

    scheduling_policy: WorkloadPodGroupSchedulingPolicy | None = None
    scheduling_constraints: WorkloadPodGroupSchedulingConstraints | None = None
    disruption_mode: WorkloadPodGroupDisruptionMode | None = None
    resource_claims: Annotated[list[WorkloadPodGroupResourceClaim], list_map("name")] = []
    """Resource claims that the pods share; at most 4, and they cannot be changed."""


class JobSpec(Object):
    """The desired state of a Job."""

    parallelism: Int32 | None = None
    """How many pods may run at a time; 1 when not given."""
    completions: Int32 | None = None
    """How many pods must succeed; when not given, one success ends the Job."""
    active_deadline_seconds: Int64 | None = None
    """After how many seconds the Job is stopped, whatever it does."""
    pod_failure_policy: PodFailurePolicy | None = None
    """How failed pods count; without it all count against the backoff limit."""
    success_policy: SuccessPolicy | None = None
    """When the Job succeeds early; without it all completions are needed."""
    backoff_limit: Int32 | None = None
    """How many failed pods make the Job fail; 6 when not given."""
    backoff_limit_per_index: Int32 | None = None
    """How many failed pods make an index fail; only for indexed Jobs."""
    max_failed_indexes: Int32 | None = None
    """How many failed indexes make the Job fail; only with a limit per index."""
    selector: LabelSelector | None = None
    """Selects the pods of the Job; generated by the server unless `manualSelector` is set."""
    manual_selector: bool | None = None
    """Whether the selector and the labels of the template are the client's own."""
    template: PodTemplateSpec = required(PodTemplateSpec)
    ttl_seconds_after_finished: Int32 | None = None
    """After how many seconds a finished Job is deleted; never when not given."""
    completion_mode: str | None = None
    """NonIndexed, or Indexed for pods that each have their own number."""
    suspend: bool | None = None
    """Whether no pods run for the time being."""
    pod_replacement_policy: str | None = None
    """TerminatingOrFailed to replace pods as soon as they are ending, Failed to wait until they have ended."""
    managed_by: str | None = None
    """The controller that looks after the Job; the built-in one when not given."""
    scheduling: JobSchedulingConfiguration | None = None


class JobCondition(StateCondition):
    """One aspect of a Job's state: Complete, Failed, Suspended, FailureTarget or SuccessCriteriaMet."""

    last_probe_time: str | None = always(lambda: None)


class UncountedTerminatedPods(Object):
    """Pods that have ended and are not in the counters yet."""

    succeeded: Annotated[list[str], list_set(patch_merge=False)] = []
    """The uids of those that succeeded."""
    failed: Annotated[list[str], list_set(patch_merge=False)] = []
    """The uids of those that failed."""


class JobStatus(Object):
    """The observed state of a Job."""

    conditions: Annotated[list[JobCondition], patched_by("type")] = []
    start_time: str | None = None
    """When the controller began with the Job, or resumed it."""
    completion_time: str | None = None
    """When the Job succeeded."""
    active: Int32 = 0
    """How many pods are pending or running."""
    succeeded: Int32 = 0
    """How many pods succeeded."""
    failed: Int32 = 0
    """How many pods failed."""
    terminating: Int32 | None = None
    """How many pods are being deleted and have not ended yet."""
    completed_indexes: str = ""
    """The indexes that succeeded, such as 1,3-5."""
    failed_indexes: str | None = None
    """The indexes that failed, such as 1,3-5."""
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: Int32 | None = None
    """How many active pods are ready."""


class Job(Resource):
    """Runs pods until enough of them have succeeded."""

    spec: JobSpec = always(JobSpec)
    status: JobStatus = always(JobStatus)


class JobTemplateSpec(Object):
    """The Jobs that a CronJob makes."""

    metadata: ObjectMeta = always(ObjectMeta)
    """The labels and annotations of the Jobs."""
    spec: JobSpec = always(JobSpec)


class CronJobSpec(Object):
    """The schedule of a CronJob, and the template of its Jobs."""

    schedule: str = required(str)
    """The times in cron format."""
    time_zone: str | None = None
    """The time zone of the schedule; that of the controller when not given."""
    starting_deadline_seconds: Int64 | None = None
    """Seconds after its scheduled time within which a missed run may still start."""
    concurrency_policy: str = ""
    """Allow Jobs to overlap, Forbid it, or Replace the running one."""
    suspend: bool | None = None
    """Whether no more Jobs are made for the time being."""
    job_template: JobTemplateSpec = required(JobTemplateSpec)
    successful_jobs_history_limit: Int32 | None = None
    """How many successful Jobs are kept; 3 when not given."""
    failed_jobs_history_limit: Int32 | None = None
    """How many failed Jobs are kept; 1 when not given."""


class CronJobStatus(Object):
    """The observed state of a CronJob."""

    active: list[ObjectReference] = []
    """The Jobs that are running."""
    last_schedule_time: str | None = None
    """When a Job was last made."""
    last_successful_time: str | None = None
    """When a Job last succeeded."""


class CronJob(Resource):
    """Makes a Job at certain times."""

    spec: CronJobSpec = required(CronJobSpec)
    status: CronJobStatus = always(CronJobStatus)
