"""Causes for missing pods of a workload: its controller does not create them, or the API server refuses them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import structs

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import Request
from mooring.advisor.explain.causes.refusals import classify
from mooring.advisor.explain.causes.running import failure_text
from mooring.advisor.explain.results import Cause
from mooring.advisor.policies import policies_of
from mooring.advisor.policies.evaluation import Verdict
from mooring.advisor.policies.references import References
from mooring.advisor.simulate.pod_creation import count_wanted
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.admitting import ClusterLookups
from mooring.advisor.snapshot.events import failed_creations, time_of_event
from mooring.advisor.snapshot.objects import time_of_snapshot, to_newest
from mooring.advisor.snapshot.owners import owners_of
from mooring.api import errors
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.autoscaling_v2 import HorizontalPodAutoscaler
from mooring.api.base import copy_of
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import LimitRange, PersistentVolumeClaim, Pod, ReplicationController
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.api.states import has_ended
from mooring.controllers.conditions import find_condition
from mooring.controllers.workloads.cron_job import Schedule, ScheduleError, load_time_zone
from mooring.controllers.workloads.stateful_pods import build_claims, ordinals, parse_ordinal

_ERROR = re.compile(r"^(?:create (?:Pod|Claim) .+? failed error|Error creating(?: job)?): ")
_MOST_CLAIMS = 20
_REPLICATED = Deployment | ReplicaSet | StatefulSet | ReplicationController


_EVALUATED = ("QuotaExceeded", "QuotaNeedsRequests", "LimitRange", "PodSecurity", "MissingPriorityClass")
"""Causes that are recomputed from the snapshot, because the condition that reports them may be outdated."""


@dataclass(frozen=True, slots=True)
class PodCreation:
    """The number of pods that a workload should have, and the number and cause of those that are not created."""

    wanted: int
    missing: int
    cause: Cause | None = None
    words: str = ""
    """The message about the missing pods in the controller's condition or event; empty if there is none."""


def check_creation(snapshot: Snapshot, owner: Resource, next_pod: Pod, options: AdmissionOptions) -> PodCreation:
    """Return how many pods of a workload are missing and why; `next_pod` is the pod that would be created next."""
    pods = [pod for pod in owners_of(snapshot).pods_of(owner) if pod.metadata.deletion_timestamp is None]
    wanted, missing = count_wanted_pods(owner), count_missing_pods(snapshot, owner)
    held = _controller_cause(snapshot, owner, missing, pods)
    words = _reported_failure(snapshot, owner, is_missing=bool(missing))
    if held is not None or (not missing and not words):
        return PodCreation(wanted, missing, held, words)
    refusal = refusal_cause(snapshot, next_pod, options) or _claim_refusal_cause(snapshot, owner, next_pod, options)
    if refusal is None and words and missing:
        reported = classify(words, owner.metadata.namespace)
        is_outdated = reported.code in _EVALUATED and not snapshot.forbidden
        refusal = None if is_outdated else reported  # its controller has not tried again yet
    return PodCreation(wanted, missing, refusal if missing else None, words)


def count_missing_pods(snapshot: Snapshot, owner: Resource) -> int:
    """Return how many pods a workload's controller should have created and has not, including pods of a rollout."""
    missing = count_wanted_pods(owner) - _count_live_pods(snapshot, owner)
    current = owners_of(snapshot).current_replica_set(owner)
    if current is not None:
        missing = max(missing, (current.spec.replicas or 0) - _count_live_pods(snapshot, current))
    return max(missing, 0)


def _count_live_pods(snapshot: Snapshot, owner: Resource) -> int:
    pods = owners_of(snapshot).pods_of(owner)
    return sum(not has_ended(pod) and pod.metadata.deletion_timestamp is None for pod in pods)


def count_wanted_pods(owner: Resource) -> int:
    """Return how many pods a workload should have at the same time; 0 for a CronJob, which creates Jobs."""
    if isinstance(owner, DaemonSet):
        return owner.status.desired_number_scheduled
    if isinstance(owner, Job) and owner.spec.suspend:  # what is missing while it is suspended
        return count_wanted(structs.replace(owner, spec=structs.replace(owner.spec, suspend=False)))
    return count_wanted(owner)


def _controller_cause(snapshot: Snapshot, owner: Resource, missing: int, pods: Sequence[Pod]) -> Cause | None:
    name = f"{owner.kind} {owner.metadata.name}"
    if isinstance(owner, CronJob):
        if owner.spec.suspend:
            return Cause("Suspended", f"{name} is suspended: it creates no Jobs")
        failed = snapshot.derive(failed_creations).get((owner.kind, owner.metadata.namespace, owner.metadata.name))
        if failed is not None and time_of_event(failed) > (owner.status.last_schedule_time or ""):
            cause = classify(_ERROR.sub("", failed.message), owner.metadata.namespace)
            return Cause(cause.code, cause.text.replace("one more pod", "one more Job").replace("the pod", "the Job"))
        return None if owner.status.last_schedule_time else _never_due_cause(owner, snapshot.derive(time_of_snapshot))
    if isinstance(owner, Job):
        ended = find_condition(owner.status.conditions, "Failed")
        if ended is not None and ended.status == "True":
            why = ended.message or ended.reason
            last = next((text for pod in reversed(pods) if (text := failure_text(pod))), "")
            text = f"{name} has failed and creates no more pods: {why}{f'; {last}' if last else ''}"
            return Cause(ended.reason or "JobFailed", text)
        if owner.spec.suspend:
            return Cause("Suspended", f"{name} is suspended: it creates no pods")
        if owner.spec.parallelism == 0 and not owner.status.completion_time:
            return Cause("NoParallelism", f"{name} has parallelism 0: it creates no pods")
        return None
    if isinstance(owner, Deployment) and owner.spec.paused:
        current = owners_of(snapshot).current_replica_set(owner)
        live = _count_live_pods(snapshot, owner)
        if old := live - (_count_live_pods(snapshot, current) if current is not None else 0):
            return Cause("Paused", f"{name} is paused: {old} of its pods have an older template than its spec")
        if missing or not pods:
            return Cause("Paused", f"{name} is paused: its controller rolls nothing out")
    if isinstance(owner, _REPLICATED) and owner.spec.replicas == 0:
        scaled = any(
            (each.spec.scale_target_ref.kind, each.spec.scale_target_ref.name) == (owner.kind, owner.metadata.name)
            for each in snapshot.all(HorizontalPodAutoscaler)
            if each.metadata.namespace == owner.metadata.namespace
        )
        also = "; its HorizontalPodAutoscaler does nothing until it is scaled to 1 or more" if scaled else ""
        return Cause("NoReplicas", f"{name} is scaled to 0: it should have no pods{also}")
    return None


def next_run_of(owner: CronJob, now: datetime) -> datetime | None:
    """Return when a CronJob is due next; None if its schedule matches no date. Raise `ScheduleError`."""
    return Schedule(owner.spec.schedule, load_time_zone(owner.spec.time_zone)).find_time_after(now)


def _never_due_cause(owner: CronJob, now: datetime) -> Cause | None:
    try:
        if next_run_of(owner, now) is not None:
            return None
        why = "matches no date"
    except ScheduleError as error:
        why = f"cannot be read: {error}"
    name, schedule = owner.metadata.name, owner.spec.schedule
    return Cause("NeverDue", f"CronJob {name} never creates a Job: its schedule `{schedule}` {why}")


def _reported_failure(snapshot: Snapshot, owner: Resource, *, is_missing: bool) -> str:
    """Return the message of a controller's condition (or event) that pods could not be created; empty if none."""
    holders: list[Resource] = [owner]
    if isinstance(owner, Deployment):
        holders += [each for each in owners_of(snapshot).replica_sets_of(owner) if each.spec.replicas]
    for holder in holders:
        if isinstance(holder, Deployment | ReplicaSet | ReplicationController):
            for each in holder.status.conditions:
                if each.type == "ReplicaFailure" and each.status == "True":
                    return each.message
    events = snapshot.derive(failed_creations) if is_missing else {}
    names = ((each.kind, each.metadata.namespace, each.metadata.name) for each in holders)
    return next((_ERROR.sub("", events[name].message) for name in names if name in events), "")


# -- what the API server would refuse


def _claim_refusal_cause(snapshot: Snapshot, owner: Resource, pod: Pod, options: AdmissionOptions) -> Cause | None:
    """Return the cause if the API server would refuse a claim that a StatefulSet needs for its next pods, else None."""
    for claim in claims_to_create(snapshot, owner, pod):
        refusal = _admission_refusal(snapshot, claim, options)
        if refusal:
            cause = classify(refusal, claim.metadata.namespace)
            text = cause.text.replace("one more pod", "it").replace("refuses the pod", "refuses it")
            return Cause(cause.code, f"claim {claim.metadata.name} cannot be created: {text}")
    return None


def claims_to_create(snapshot: Snapshot, owner: Resource, pod: Pod) -> list[PersistentVolumeClaim]:
    """Return the claims that a StatefulSet still has to create for `pod` and later pods; none for other kinds."""
    if not isinstance(owner, StatefulSet) or not owner.spec.volume_claim_templates:
        return []
    left = [each for each in ordinals(owner) if each >= parse_ordinal(pod)][:_MOST_CLAIMS]
    made = (to_newest(copy_of(each)) for ordinal in left for each in build_claims(owner, ordinal, OwnerReference()))
    return [
        each
        for each in made
        if isinstance(each, PersistentVolumeClaim)
        and snapshot.find(PersistentVolumeClaim, each.metadata.namespace, each.metadata.name) is None
    ]


def refusal_cause(snapshot: Snapshot, pod: Pod, options: AdmissionOptions) -> Cause | None:
    """Return the cause for which the API server would refuse a new pod; None if it would accept it."""
    verdict = policy_verdict_of(snapshot, pod)
    admission = _admission_refusal(snapshot, verdict.changed if isinstance(verdict.changed, Pod) else pod, options)
    default = _default_limit_cause(snapshot, pod)
    if default is not None and "must be less than or equal to" in admission:
        return default
    refusals = (verdict.refused, admission, snapshot.derive(References).refusal(pod, verdict))
    return next((classify(refusal, pod.metadata.namespace) for refusal in refusals if refusal), None)


def _default_limit_cause(snapshot: Snapshot, pod: Pod) -> Cause | None:
    """Return the cause if a LimitRange's default limit is below what a container of the pod requests, else None."""
    for each in snapshot.all(LimitRange):
        if each.metadata.namespace != pod.metadata.namespace:
            continue
        for item in each.spec.limits:
            for container in pod.spec.containers:
                for name, limit in item.default.items():
                    asked = container.resources.requests.get(name)
                    if asked is not None and asked > limit:
                        where = f"LimitRange {each.metadata.name} of namespace {pod.metadata.namespace}"
                        text = (
                            f"{where} gives container {container.name} a {name} limit of {limit}, below"
                            f" its request of {asked}"
                        )
                        return Cause("LimitRange", text)
    return None


def _admission_refusal(snapshot: Snapshot, obj: Pod | PersistentVolumeClaim, options: AdmissionOptions) -> str:
    fresh, facts = copy_of(obj), snapshot.derive(ClusterLookups.from_snapshot)
    fresh.metadata.uid, fresh.metadata.resource_version = "", ""
    fresh.metadata.owner_references = []  # a workload of a file has no uid yet
    if isinstance(fresh, Pod):
        fresh.spec.priority = None
    request = Request(options=options, lookups=facts, now=datetime.now(UTC), namespace=obj.metadata.namespace)
    try:
        admit_create(fresh, request)
    except errors.StatusError as refusal:
        return str(refusal)
    return facts.quota_refusal(fresh)


def policy_verdict_of(snapshot: Snapshot, pod: Pod) -> Verdict:
    """Return the verdict of a snapshot's policies and webhooks on a new pod."""
    return snapshot.derive(policies_of).verdict(pod)
