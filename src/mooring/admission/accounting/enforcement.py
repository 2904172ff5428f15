"""Check a write against a ResourceQuota and compute the usage after it.

The API server calls it for every write in a namespace with quotas, and the advisor before a write. Only the limits in
a quota's status, whose usage is known, are enforced.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.admission.accounting.evaluators import ZERO, Evaluator, Usage
from mooring.api import errors
from mooring.api.core_v1 import ResourceQuota
from mooring.api.core_v1.namespace import ResourceQuotaSpec, ScopedResourceSelectorRequirement
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity


class UsageChange(msgspec.Struct):
    """One create, update or delete of an object, for which quotas are checked and their usage recomputed."""

    evaluator: Evaluator[Any]
    new: Resource | None
    """The object after the write; None for a delete."""
    old: Resource | None
    """The object before the write; None for a create."""
    subresource: str = ""

    @property
    def may_be_rejected(self) -> bool:
        """Return whether an exceeded quota rejects this write; a delete, for example, is only counted."""
        return self.new is not None and self.evaluator.may_reject(self.new, self.old, self.subresource)

    def build_forbidden_error(self, why: str) -> errors.Forbidden:
        metadata = (self.new or self.old or Resource()).metadata
        name = metadata.name or metadata.generate_name or "Unknown"
        return errors.forbidden(self.evaluator.resource, name, why, group=self.evaluator.group)


def is_kind_limited(quota: ResourceQuota, evaluator: Evaluator[Any]) -> bool:
    """Return whether a quota limits any resource that the evaluator's kind uses, such as `pods` or `requests.cpu`."""
    return any(map(evaluator.counts_resource, quota.status.hard)) or any(
        map(evaluator.counts_resource, quota.spec.hard)
    )


def is_usage_counted(quota: ResourceQuota) -> bool:
    """Return whether the usage of a quota's present limits is counted: then `status.hard` equals `spec.hard`."""
    return quota.spec.hard == quota.status.hard


def compute_usage_after(quota: ResourceQuota, used: Mapping[str, Quantity], change: UsageChange) -> Usage | None:
    """Return a quota's usage after a write; None if it stays the same. Raise Forbidden if the quota rejects it."""
    difference = compute_usage_difference(quota, used, change)
    return add_usage_difference(quota, used, difference, change) if difference else None


def compute_usage_difference(quota: ResourceQuota, used: Mapping[str, Quantity], change: UsageChange) -> Usage:
    """Return how much a write adds to the usage of each limited resource, negative if it frees some. Raise Forbidden if
    a pod lacks a request or limit that the quota requires, or if the present usage is unknown.
    """
    evaluator = change.evaluator
    limited = evaluator.select_counted_resources(quota.status.hard)
    if not limited:
        return {}
    now = _compute_usage_in_scope(quota, evaluator, change.new)
    before = _compute_usage_in_scope(quota, evaluator, change.old)
    if now is not None and change.new is not None and change.may_be_rejected:
        if missing := evaluator.find_missing_requests(limited, change.new):
            raise change.build_forbidden_error(f"failed quota: {quota.metadata.name}: {missing}")
        if not all(name in used for name in limited):
            names = ",".join(sorted(limited))
            raise change.build_forbidden_error(f"status unknown for quota: {quota.metadata.name}, resources: {names}")
    return _subtract_usage(now or {}, before or {}, limited)


def add_usage_difference(
    quota: ResourceQuota, used: Mapping[str, Quantity], difference: Usage, change: UsageChange
) -> Usage:
    """Return usage plus a difference. Raise Forbidden if usage grows beyond a limit and `change` may be rejected."""
    after, hard, exceeded = dict(used), quota.status.hard, []
    for name, quantity in difference.items():
        sum_ = after.get(name, ZERO) + quantity
        after[name] = sum_ if sum_.sign() > 0 else ZERO
        if sum_ > hard[name] and quantity.sign() > 0:
            exceeded.append(name)
    if exceeded and change.may_be_rejected:
        texts = (
            _format_amounts(difference, exceeded),
            _format_amounts(used, exceeded),
            _format_amounts(hard, exceeded),
        )
        why = "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(quota.metadata.name, *texts)
        raise change.build_forbidden_error(why)
    return after


def _compute_usage_in_scope(quota: ResourceQuota, evaluator: Evaluator[Any], obj: Resource | None) -> Usage | None:
    if obj is None or not is_in_scope(quota.spec, evaluator, obj):
        return None
    return evaluator.compute_usage(obj)


def is_in_scope(spec: ResourceQuotaSpec, evaluator: Evaluator[Any], obj: Resource) -> bool:
    """Return whether an object matches all of a quota's scopes and scope selectors; a quota without any counts it."""
    scopes = [ScopedResourceSelectorRequirement(scope_name=scope, operator="Exists") for scope in spec.scopes]
    if spec.scope_selector is not None:
        scopes += spec.scope_selector.match_expressions
    return all(evaluator.matches_scope(requirement, obj) for requirement in scopes)


def _subtract_usage(now: Usage, before: Usage, names: list[str]) -> Usage:
    found: Usage = {}
    for name in names:
        quantity = now.get(name, ZERO)
        if name in before:
            quantity -= before[name]
        if not quantity.is_zero():
            found[name] = quantity
    return found


def _format_amounts(resources: Mapping[str, Quantity], names: list[str]) -> str:
    return ",".join(f"{name}={resources[name]}" for name in sorted(names))
