"""Jobs: completion, failure and success rules, and the few mutable fields.

The server generates the selector from the Job's uid, unless `manualSelector` is set. Scheduling directives are mutable
while a Job is suspended: before its first start, and with the gate MutableSchedulingDirectivesForSuspendedJobs whenever
it has no active pods.
"""

from itertools import pairwise

from mooring.admission import checks, workload
from mooring.admission.meta import IMMUTABLE
from mooring.admission.pod.defaults import default_pod_spec
from mooring.admission.strategy import Request, set_missing
from mooring.api import batch_v1 as v1
from mooring.api import field_errors, label_selector, names
from mooring.api.base import copy_of
from mooring.api.core_v1 import Affinity, PodTemplateSpec
from mooring.api.field_errors import OMIT_VALUE, Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_OLD_LABELS = {CONTROLLER_UID: "controller-uid", JOB_NAME: "job-name"}
_MAX_INT32 = 2**31 - 1
_MAX_PARALLEL = 100_000
_MANY_COMPLETIONS = 100_000
_MAX_FAILED_INDEXES = 100_000
_MAX_PARALLEL_OF_MANY = 10_000
_MAX_MANAGED_BY_BYTES = 63
_NEEDS_INDEXED = "requires indexed completion mode"


class JobStrategy(workload.TemplateStrategy[v1.Job]):
    def default(self, obj: v1.Job) -> None:
        spec = obj.spec
        if spec.completions is None and spec.parallelism is None:
            spec.completions = 1
        obj.metadata.labels = obj.metadata.labels or spec.template.metadata.labels
        replacement = "Failed" if spec.pod_failure_policy is not None else "TerminatingOrFailed"
        retries = 6 if spec.backoff_limit_per_index is None else _MAX_INT32
        set_missing(spec, parallelism=1, backoff_limit=retries, completion_mode="NonIndexed")
        set_missing(spec, suspend=False, manual_selector=False, pod_replacement_policy=replacement)
        default_job_template(spec)

    def prepare_for_create(self, obj: v1.Job, request: Request) -> None:
        super().prepare_for_create(obj, request)
        template = obj.spec.template.metadata
        is_defaulted = obj.metadata.labels is template.labels  # as in Kubernetes, it gets the generated labels too
        if not obj.spec.manual_selector:
            for key, value in ((CONTROLLER_UID, obj.metadata.uid), (JOB_NAME, obj.metadata.name)):
                template.labels.setdefault(key, value)
                template.labels.setdefault(_OLD_LABELS[key], value)
            obj.spec.selector = obj.spec.selector or LabelSelector()
            obj.spec.selector.match_labels.setdefault(CONTROLLER_UID, obj.metadata.uid)
        if is_defaulted:
            obj.metadata.labels = dict(template.labels)

    def update_derived_names(self, obj: v1.Job, taken: str) -> None:
        if not obj.spec.manual_selector:
            for label in (JOB_NAME, _OLD_LABELS[JOB_NAME]):
                obj.spec.template.metadata.labels[label] = obj.metadata.name

    def validate(self, obj: v1.Job, old: v1.Job | None, request: Request) -> Errors:
        spec = obj.spec
        errors = _validate_generated_selector(obj) if old is None else []
        errors += validate_job_spec(spec, old.spec if old is not None else None, workload.SPEC, request)
        errors += checks.require(spec.selector is not None, workload.SPEC.child("selector"))
        errors += checks.optional(spec.selector, workload.SPEC.child("selector"), label_selector.validate)
        errors += workload.validate_selector_matches(spec.selector, spec.template, workload.TEMPLATE)
        return errors + (
            _validate_indexed_pod_name(obj) if old is None else _validate_immutable_job_fields(obj, old, request)
        )

    def validate_status(self, new: v1.Job, old: v1.Job, request: Request) -> Errors:
        return checks.non_negative_fields(
            new.status, workload.STATUS, "active", "succeeded", "failed", "ready", "terminating"
        )


def default_job_template(spec: v1.JobSpec) -> None:
    """Set the defaults that Jobs share with the Job templates of CronJobs, in place."""
    default_pod_spec(spec.template.spec)
    for rule in spec.pod_failure_policy.rules if spec.pod_failure_policy is not None else ():
        for pattern in rule.on_pod_conditions:
            pattern.status = pattern.status or "True"


def _validate_generated_selector(job: v1.Job) -> Errors:
    if job.spec.manual_selector or job.spec.selector is None:
        return []
    here, labels = workload.TEMPLATE.child("metadata", "labels"), job.spec.template.metadata.labels
    expected: dict[str, str] = {}
    errors = []
    for key, value in ((CONTROLLER_UID, job.metadata.uid), (JOB_NAME, job.metadata.name)):
        for label in (key, _OLD_LABELS[key]):
            expected[label] = value
            if label in labels and labels[label] != value:
                errors.append(field_errors.invalid(here.key(label), labels[label], f"must be '{value}'"))
    selector = job.spec.selector
    if workload.is_valid_selector(selector) and not label_selector.from_label_selector(selector).matches(expected):
        errors.append(field_errors.invalid(workload.SPEC.child("selector"), selector, "`selector` not auto-generated"))
    return errors


def validate_job_spec(spec: v1.JobSpec, old: v1.JobSpec | None, path: Path, request: Request) -> Errors:
    """Return the errors in a Job's spec, or in that of a CronJob's Job template; the selector is not checked."""
    counts = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    errors = checks.non_negative_fields(spec, path, *counts, "backoffLimitPerIndex", "maxFailedIndexes")
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        errors.append(field_errors.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    if spec.managed_by is not None:
        here = path.child("managedBy")
        errors += names.validate_domain_prefixed_path(spec.managed_by, here)
        errors += checks.limit_bytes(spec.managed_by, _MAX_MANAGED_BY_BYTES, here)
    errors += _validate_completion_mode(spec, path)
    errors += validate_failure_policy(spec, path.child("podFailurePolicy"))
    errors += validate_success_policy(spec, path.child("successPolicy"))
    supported = ("Failed",) if spec.pod_failure_policy is not None else ("Failed", "TerminatingOrFailed")
    errors += checks.optional_one_of(spec.pod_replacement_policy, supported, path.child("podReplacementPolicy"))
    template = path.child("template")
    errors += workload.validate_template(spec.template, old.template if old is not None else None, template, request)
    return errors + _validate_restart_policy(spec, template.child("spec", "restartPolicy"))


def _validate_completion_mode(spec: v1.JobSpec, path: Path) -> Errors:
    if spec.completion_mode == "Indexed":
        return _validate_indexed_job(spec, path)
    errors = checks.optional_one_of(spec.completion_mode, ("NonIndexed", "Indexed"), path.child("completionMode"))
    if errors:
        return errors
    for name, value in checks.select_fields(spec, "backoffLimitPerIndex", "maxFailedIndexes"):
        errors += checks.invalid_if(value is not None, path.child(name), value, _NEEDS_INDEXED)
    return errors


def _validate_indexed_job(spec: v1.JobSpec, path: Path) -> Errors:
    completions, parallel, failed = spec.completions, spec.parallelism, spec.max_failed_indexes
    here, at = path.child("maxFailedIndexes"), path.child("parallelism")
    errors = checks.require(completions is not None, path.child("completions"), "when completion mode is Indexed")
    detail = f"must be less than or equal to {_MAX_PARALLEL} when completion mode is Indexed"
    errors += checks.limit_number(parallel, _MAX_PARALLEL, at, detail)
    if completions is not None:
        errors += checks.limit_number(failed, completions, here, "must be less than or equal to completions")
    errors += checks.limit_number(failed, _MAX_FAILED_INDEXES, here)
    if completions is None or completions <= _MANY_COMPLETIONS or spec.backoff_limit_per_index is None:
        return errors
    when = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
    limit = f"must be less than or equal to {_MAX_PARALLEL_OF_MANY} {when}"
    detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
    errors += checks.require(failed is not None, here, detail)
    errors += checks.limit_number(failed, _MAX_PARALLEL_OF_MANY, here, limit)
    return errors + checks.limit_number(parallel, _MAX_PARALLEL_OF_MANY, at, limit)


def _validate_restart_policy(spec: v1.JobSpec, path: Path) -> Errors:
    policy = spec.template.spec.restart_policy
    errors = []
    if policy == "Always":  # most likely by default: ask the client to set it
        errors.append(field_errors.required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(field_errors.not_supported(path, policy, ["OnFailure", "Never"]))
    elif spec.pod_failure_policy is not None and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(field_errors.invalid(path, policy, detail))
    return errors


def _validate_indexed_pod_name(job: v1.Job) -> Errors:
    completions = job.spec.completions
    if job.spec.completion_mode != "Indexed" or not completions or completions < 0:
        return []
    longest = f"{job.metadata.name}-{completions - 1}"
    if not names.dns1123_label(longest):
        return []
    detail = f"will not able to create pod with invalid DNS label: {longest}"
    return [field_errors.invalid(Path("metadata.name"), job.metadata.name, detail)]


def _validate_immutable_job_fields(job: v1.Job, old: v1.Job, request: Request) -> Errors:
    new, before = job.spec, old.spec
    errors = _validate_completions_change(new, before)
    errors += checks.forbid_changes(job, old, "spec.selector")
    template = before.template
    if _may_change_scheduling(old, request):
        template = _with_new_scheduling_directives(new.template, before.template)
    errors += checks.invalid_if(new.template != template, workload.TEMPLATE, new.template, IMMUTABLE)
    others = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    return errors + checks.forbid_changes(job, old, *(f"spec.{name}" for name in others))


def _validate_completions_change(new: v1.JobSpec, old: v1.JobSpec) -> Errors:
    if new.completions == old.completions:
        return []
    here = workload.SPEC.child("completions")
    if old.completion_mode != "Indexed":
        return [field_errors.invalid(here, new.completions, IMMUTABLE)]
    if old.completions == old.parallelism and new.completions == new.parallelism:
        return []
    return [field_errors.invalid(here, new.completions, "can only be modified in tandem with spec.parallelism")]


def _may_change_scheduling(old: v1.Job, request: Request) -> bool:
    if not old.spec.suspend:
        return False
    if old.status.start_time is None:
        return True
    suspended = any(each.type == "Suspended" and each.status == "True" for each in old.status.conditions)
    return request.options.mutable_suspended_job_directives and suspended and not old.status.active


def _with_new_scheduling_directives(new: PodTemplateSpec, old: PodTemplateSpec) -> PodTemplateSpec:
    masked = copy_of(old)
    masked.metadata.labels, masked.metadata.annotations = new.metadata.labels, new.metadata.annotations
    spec, wanted = masked.spec, new.spec
    spec.node_selector, spec.tolerations = wanted.node_selector, wanted.tolerations
    spec.scheduling_gates = wanted.scheduling_gates
    if wanted.affinity is not None:
        spec.affinity = spec.affinity or Affinity()
        spec.affinity.node_affinity = wanted.affinity.node_affinity
    elif spec.affinity is not None:
        spec.affinity.node_affinity = None
        spec.affinity = None if spec.affinity == Affinity() else spec.affinity
    return masked


MAX_RULES = 20
_MAX_PATTERNS = 20
_MAX_EXIT_CODES = 255
_MAX_INDEXES_BYTES = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")


def validate_failure_policy(spec: v1.JobSpec, path: Path) -> Errors:
    if spec.pod_failure_policy is None:
        return []
    rules, here = spec.pod_failure_policy.rules, path.child("rules")
    errors, pod = checks.limit_items(rules, MAX_RULES, here), spec.template.spec
    containers = {container.name for container in (*pod.containers, *pod.init_containers)}
    for index, rule in enumerate(rules):
        errors += _validate_failure_rule(rule, spec, here.index(index), containers)
    return errors


def _validate_failure_rule(rule: v1.PodFailurePolicyRule, spec: v1.JobSpec, path: Path, containers: set[str]) -> Errors:
    errors = _validate_choice(rule.action, _ACTIONS, path.child("action"))
    if rule.action == "FailIndex" and spec.backoff_limit_per_index is None:
        detail = "requires the backoffLimitPerIndex to be set"
        errors.append(field_errors.invalid(path.child("action"), rule.action, detail))
    codes, patterns = rule.on_exit_codes, rule.on_pod_conditions
    errors += checks.optional(codes, path.child("onExitCodes"), _validate_exit_codes, containers)
    if patterns:
        errors += _validate_condition_patterns(patterns, path.child("onPodConditions"))
    detail = "specifying both OnExitCodes and OnPodConditions is not supported"
    errors += checks.invalid_if(codes is not None and patterns, path, OMIT_VALUE, detail)
    detail = "specifying one of OnExitCodes and OnPodConditions is required"
    errors += checks.invalid_if(codes is None and not patterns, path, OMIT_VALUE, detail)
    return errors


def _validate_choice(value: str, supported: tuple[str, ...], path: Path) -> Errors:
    if not value:
        shown = " ".join(f'"{each}"' for each in supported)
        return [field_errors.required(path, f"valid values: [{shown}]")]
    return checks.one_of(value, supported, path)


def _validate_condition_patterns(patterns: list[v1.PodFailurePolicyOnPodConditionsPattern], path: Path) -> Errors:
    errors = checks.limit_items(patterns, _MAX_PATTERNS, path)
    for index, pattern in enumerate(patterns):
        here = path.index(index)
        errors += names.validate(here.child("type"), pattern.type, names.label_key(pattern.type))
        errors += _validate_choice(pattern.status, checks.STATUSES, here.child("status"))
    return errors


def _validate_exit_codes(codes: v1.PodFailurePolicyOnExitCodesRequirement, path: Path, containers: set[str]) -> Errors:
    errors = _validate_choice(codes.operator, _OPERATORS, path.child("operator"))
    if codes.container_name is not None and codes.container_name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(field_errors.invalid(path.child("containerName"), codes.container_name, detail))
    values, here = codes.values, path.child("values")
    errors += checks.invalid_if(not values, here, None, "at least one value is required")
    errors += checks.limit_items(values, _MAX_EXIT_CODES, here)
    seen = checks.UniqueKeys()
    for index, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            errors.append(field_errors.invalid(here.index(index), value, "must not be 0 for the In operator"))
        errors += seen.add(value, here.index(index))
    errors += checks.invalid_if(
        any(before > after for before, after in pairwise(values)), here, values, "must be ordered"
    )
    return errors


def validate_success_policy(spec: v1.JobSpec, path: Path) -> Errors:
    policy = spec.success_policy
    if policy is None:
        return []
    if spec.completion_mode != "Indexed":
        return [field_errors.invalid(path, policy, "requires indexed completion mode")]
    here = path.child("rules")
    if not policy.rules:
        return [field_errors.required(here, "at least one rules must be specified when the successPolicy is specified")]
    errors = checks.limit_items(policy.rules, MAX_RULES, here)
    return errors + checks.validate_items(policy.rules, here, _validate_success_rule, spec.completions or 0)


def _validate_success_rule(rule: v1.SuccessPolicyRule, path: Path, completions: int) -> Errors:
    indexes, count = rule.succeeded_indexes, rule.succeeded_count
    if indexes is None and count is None:
        return [field_errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    errors, listed, limit = Errors(), 0, "must be less than or equal to"
    if indexes is not None:
        here, outcome = path.child("succeededIndexes"), count_indexes(indexes, completions)
        errors += checks.limit_bytes(indexes, _MAX_INDEXES_BYTES, here)
        if isinstance(outcome, str):
            errors.append(field_errors.invalid(here, indexes, f"error parsing succeededIndexes: {outcome}"))
        else:
            listed = outcome
    here, detail = path.child("succeededCount"), f"{limit} {completions} (the number of specified completions)"
    errors += checks.non_negative(count, here) + checks.limit_number(count, completions, here, detail)
    if indexes is not None:
        detail = f"{limit} {listed} (the number of indexes in the specified succeededIndexes field)"
        errors += checks.limit_number(count, listed, here, detail)
    return errors


def count_indexes(text: str, completions: int) -> int | str:
    """Return how many indexes a list such as `1,3-5` has; a message if one is malformed or not below `completions`."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            rule = "an index interval can have at most two parts separated by '-'"
            return f'the fragment "{part}" violates the requirement that {rule}'
        numbers: list[int] = []
        for end in ends:
            if not (end.isascii() and end.isdigit()) or len(end) > 10:
                return f'cannot convert string to integer for index: "{end}"'
            if int(end) >= completions:
                return f'too large index: "{end}"'
            numbers.append(int(end))
        low, high = numbers[0], numbers[-1]
        if low <= last:
            return f"non-increasing order, previous: {last}, current: {low}"
        if len(numbers) == 2 and low >= high:
            return f"non-increasing order, previous: {low}, current: {high}"
        total, last = total + high - low + 1, high
    return total
