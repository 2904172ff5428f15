"""Validate the `podFailurePolicy` and the `successPolicy` of a Job."""

from itertools import pairwise

from mooring.admission.checks import Unique, limit_bytes, limit_items, non_negative, one_of
from mooring.api import field_errors, names
from mooring.api.batch_v1 import (
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from mooring.api.field_errors import OMIT_VALUE, Errors
from mooring.api.field_path import Path

MAX_RULES = 20
_MAX_PATTERNS = 20
_MAX_EXIT_CODES = 255
_MAX_INDEXES_BYTES = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")


def validate_failure_policy(spec: JobSpec, path: Path) -> Errors:
    if spec.pod_failure_policy is None:
        return []
    rules, here = spec.pod_failure_policy.rules, path.child("rules")
    errors, pod = limit_items(rules, MAX_RULES, here), spec.template.spec
    containers = {container.name for container in (*pod.containers, *pod.init_containers)}
    for index, rule in enumerate(rules):
        errors += _validate_failure_rule(rule, spec, here.index(index), containers)
    return errors


def _validate_failure_rule(rule: PodFailurePolicyRule, spec: JobSpec, path: Path, containers: set[str]) -> Errors:
    errors = _validate_one_of(rule.action, _ACTIONS, path.child("action"))
    if rule.action == "FailIndex" and spec.backoff_limit_per_index is None:
        detail = "requires the backoffLimitPerIndex to be set"
        errors.append(field_errors.invalid(path.child("action"), rule.action, detail))
    codes, patterns = rule.on_exit_codes, rule.on_pod_conditions
    if codes is not None:
        errors += _validate_exit_codes(codes, path.child("onExitCodes"), containers)
    if patterns:
        errors += _validate_conditions(patterns, path.child("onPodConditions"))
    if codes is not None and patterns:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        errors.append(field_errors.invalid(path, OMIT_VALUE, detail))
    if codes is None and not patterns:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        errors.append(field_errors.invalid(path, OMIT_VALUE, detail))
    return errors


def _validate_one_of(value: str, supported: tuple[str, ...], path: Path) -> Errors:
    if not value:
        shown = " ".join(f'"{each}"' for each in supported)
        return [field_errors.required(path, f"valid values: [{shown}]")]
    return one_of(value, supported, path)


def _validate_conditions(patterns: list[PodFailurePolicyOnPodConditionsPattern], path: Path) -> Errors:
    errors = limit_items(patterns, _MAX_PATTERNS, path)
    for index, pattern in enumerate(patterns):
        here = path.index(index)
        errors += names.validate(here.child("type"), pattern.type, names.label_key(pattern.type))
        errors += _validate_one_of(pattern.status, _STATUSES, here.child("status"))
    return errors


def _validate_exit_codes(codes: PodFailurePolicyOnExitCodesRequirement, path: Path, containers: set[str]) -> Errors:
    errors = _validate_one_of(codes.operator, _OPERATORS, path.child("operator"))
    if codes.container_name is not None and codes.container_name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(field_errors.invalid(path.child("containerName"), codes.container_name, detail))
    values, here = codes.values, path.child("values")
    if not values:
        errors.append(field_errors.invalid(here, None, "at least one value is required"))
    errors += limit_items(values, _MAX_EXIT_CODES, here)
    seen = Unique()
    for index, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            errors.append(field_errors.invalid(here.index(index), value, "must not be 0 for the In operator"))
        errors += seen.add(value, here.index(index))
    if any(before > after for before, after in pairwise(values)):
        errors.append(field_errors.invalid(here, values, "must be ordered"))
    return errors


def validate_success_policy(spec: JobSpec, path: Path) -> Errors:
    policy = spec.success_policy
    if policy is None:
        return []
    if spec.completion_mode != "Indexed":
        return [field_errors.invalid(path, policy, "requires indexed completion mode")]
    here = path.child("rules")
    if not policy.rules:
        return [field_errors.required(here, "at least one rules must be specified when the successPolicy is specified")]
    errors = limit_items(policy.rules, MAX_RULES, here)
    for index, rule in enumerate(policy.rules):
        errors += _validate_success_rule(rule, spec.completions or 0, here.index(index))
    return errors


def _validate_success_rule(rule: SuccessPolicyRule, completions: int, path: Path) -> Errors:
    indexes, count = rule.succeeded_indexes, rule.succeeded_count
    if indexes is None and count is None:
        return [field_errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    errors: Errors = []
    listed = 0
    if indexes is not None:
        here = path.child("succeededIndexes")
        errors += limit_bytes(indexes, _MAX_INDEXES_BYTES, here)
        outcome = count_indexes(indexes, completions)
        if isinstance(outcome, str):
            errors.append(field_errors.invalid(here, indexes, f"error parsing succeededIndexes: {outcome}"))
        else:
            listed = outcome
    if count is not None:
        here = path.child("succeededCount")
        errors += non_negative(count, here)
        limit = "must be less than or equal to"
        if count > completions:
            detail = f"{limit} {completions} (the number of specified completions)"
            errors.append(field_errors.invalid(here, count, detail))
        if indexes is not None and count > listed:
            detail = f"{limit} {listed} (the number of indexes in the specified succeededIndexes field)"
            errors.append(field_errors.invalid(here, count, detail))
    return errors


def count_indexes(text: str, completions: int) -> int | str:
    """Count the indexes in a string such as `1,3-5,7`, or return the error."""
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
