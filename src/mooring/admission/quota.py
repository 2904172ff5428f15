"""Validate ResourceQuotas and LimitRanges."""

from mooring.admission import checks
from mooring.admission.meta import IMMUTABLE
from mooring.admission.pod.defaults import round_to_milli
from mooring.admission.pod.resources import (
    COMPUTE_RESOURCES,
    INTEGER_RESOURCES,
    find_container_resource_problems,
    find_resource_name_problems,
)
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names
from mooring.api.core_v1 import LimitRange, LimitRangeItem, ResourceQuota, ResourceQuotaSpec
from mooring.api.core_v1.namespace import ScopedResourceSelectorRequirement
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quantity import Quantity
from mooring.constraints.requests import is_extended, is_native

_COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage", *COMPUTE_RESOURCES})
_OBJECTS = INTEGER_RESOURCES | {"requests.storage"}
_SCOPED_COMPUTE = frozenset({"pods", *(name for name in _COMPUTE if "ephemeral" not in name)})
"""The resources that a quota with a pod scope may limit; with `BestEffort` it may limit only `pods`."""
_POD_SCOPES = frozenset(
    {"Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"}
)
_SCOPES = _POD_SCOPES | {"BestEffort", "VolumeAttributesClass"}
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_SHOWN = {"defaultRequest": "default request"}
_SPEC = Path("spec")


class ResourceQuotaStrategy(Strategy[ResourceQuota]):
    has_generation = False

    def default(self, obj: ResourceQuota) -> None:
        round_to_milli(obj.spec.hard)
        round_to_milli(obj.status.hard)
        round_to_milli(obj.status.used)

    def validate(self, obj: ResourceQuota, old: ResourceQuota | None, request: Request) -> Errors:
        errors = _validate_quota_resources(obj.spec.hard, _SPEC.child("hard"))
        errors += _validate_scopes(obj.spec, _SPEC.child("scopes")) + _validate_scope_selector(obj.spec)
        if old is not None and set(obj.spec.scopes) != set(old.spec.scopes):
            errors.append(field_errors.invalid(_SPEC.child("scopes"), obj.spec.scopes, IMMUTABLE))
        return errors

    def validate_status(self, new: ResourceQuota, old: ResourceQuota, request: Request) -> Errors:
        errors = _validate_quota_resources(new.status.hard, Path("status.hard"))
        return errors + _validate_quota_resources(new.status.used, Path("status.used"))


def _validate_quota_resources(resources: dict[str, Quantity], path: Path) -> Errors:
    errors: Errors = []
    for name, quantity in resources.items():
        here = path.key(name)
        errors += names.validate(here, name, find_resource_name_problems(name))
        if "/" not in name and not _is_quota_resource(name):
            errors.append(field_errors.invalid(here, name, "must be a standard resource for quota"))
        errors += checks.non_negative_quantity(quantity, here)
        if (name in INTEGER_RESOURCES or is_extended(name)) and quantity.milli_value() % 1000:
            errors.append(field_errors.invalid(here, str(quantity), "must be an integer"))
    return errors


def _is_quota_resource(name: str) -> bool:
    huge_pages = name.startswith(("hugepages-", "requests.hugepages-"))
    return name in _COMPUTE or name in _OBJECTS or huge_pages


def _validate_scopes(spec: ResourceQuotaSpec, path: Path) -> Errors:
    errors: Errors = []
    unsuited = _find_unsuitable_scopes(spec)
    for scope in spec.scopes:
        errors += checks.invalid_if(scope not in _SCOPES, path, spec.scopes, "unsupported scope")
        errors += checks.invalid_if(scope in unsuited, path, spec.scopes, "unsupported scope applied to resource")
    for pair in _CONFLICTS:
        errors += checks.invalid_if(pair <= set(spec.scopes), path, spec.scopes, "conflicting scopes")
    return errors


def _find_unsuitable_scopes(spec: ResourceQuotaSpec) -> set[str]:
    """Return the scopes that cannot apply to some resource that the quota limits."""
    resources = [name for name in spec.hard if _is_quota_resource(name)]
    return {scope for scope in _SCOPES if not all(_scope_applies(scope, name) for name in resources)}


def _scope_applies(scope: str, resource: str) -> bool:
    if scope in _POD_SCOPES:
        return resource in _SCOPED_COMPUTE
    if scope == "BestEffort":
        return resource == "pods"
    return scope != "VolumeAttributesClass" or resource in ("persistentvolumeclaims", "requests.storage")


def _validate_scope_selector(spec: ResourceQuotaSpec) -> Errors:
    if spec.scope_selector is None:
        return []
    here = _SPEC.child("scopeSelector", "matchExpressions")
    errors: Errors = []
    unsuited = _find_unsuitable_scopes(spec)
    for requirement in spec.scope_selector.match_expressions:
        errors += _validate_scope_requirement(requirement, here)
        if requirement.scope_name in unsuited:
            errors.append(field_errors.invalid(here, spec.scope_selector, "unsupported scope applied to resource"))
    named = {requirement.scope_name for requirement in spec.scope_selector.match_expressions}
    for pair in _CONFLICTS:
        errors += checks.invalid_if(pair <= named, here, spec.scopes, "conflicting scopes")
    return errors


def _validate_scope_requirement(requirement: ScopedResourceSelectorRequirement, path: Path) -> Errors:
    errors: Errors = []
    scope, operator, values = requirement.scope_name, requirement.operator, requirement.values
    errors += checks.invalid_if(scope not in _SCOPES, path.child("scopeName"), scope, "unsupported scope")
    if scope in _SCOPES - {"PriorityClass", "VolumeAttributesClass"} and operator != "Exists":
        detail = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(field_errors.invalid(path.child("operator"), operator, detail))
    detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
    errors += checks.require(operator not in ("In", "NotIn") or values, path.child("values"), detail)
    detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
    errors += checks.invalid_if(operator in ("Exists", "DoesNotExist") and values, path.child("values"), values, detail)
    errors += checks.invalid_if(
        operator not in _OPERATORS, path.child("operator"), operator, "not a valid selector operator"
    )
    return errors


class LimitRangeStrategy(Strategy[LimitRange]):
    has_generation = False
    allow_create_on_update = True

    def default(self, obj: LimitRange) -> None:
        """Complete container items in place: `default` by `max`; `defaultRequest` by `default`, else by `min`."""
        for item in obj.spec.limits:
            for resources in (item.max, item.min, item.default, item.default_request, item.max_limit_request_ratio):
                round_to_milli(resources)
            if item.type == "Container":
                for name, quantity in item.max.items():
                    item.default.setdefault(name, quantity)
                for name, quantity in (*item.default.items(), *item.min.items()):
                    item.default_request.setdefault(name, quantity)

    def validate(self, obj: LimitRange, old: LimitRange | None, request: Request) -> Errors:
        errors: Errors = []
        seen = checks.UniqueKeys()
        for index, item in enumerate(obj.spec.limits):
            here = _SPEC.child("limits").index(index)
            errors += names.validate(here.child("type"), item.type, _find_limit_type_problems(item.type))
            errors += seen.add(item.type, here.child("type"))
            errors += _validate_limit_range_item(item, here)
        return errors


def _find_limit_type_problems(kind: str) -> names.Messages:
    wrong = names.label_key(kind)
    if wrong or "/" in kind or kind in ("Pod", "Container", "PersistentVolumeClaim"):
        return wrong
    return ("must be a standard limit type or fully qualified",)


def _validate_limit_range_item(item: LimitRangeItem, path: Path) -> Errors:
    errors: Errors = []
    if item.type == "Pod":
        for name, given in (("default", item.default), ("defaultRequest", item.default_request)):
            errors += checks.forbidden_if(given, path.child(name), "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and "storage" not in item.min and "storage" not in item.max:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(field_errors.required(path.child("limits"), detail))
    check = find_container_resource_problems if item.type in ("Pod", "Container") else find_resource_name_problems
    fields = ("min", "max") if item.type == "Pod" else ("min", "defaultRequest", "default", "max")
    lists = dict(checks.select_fields(item, *fields))
    for field, amounts in {**lists, "maxLimitRequestRatio": item.max_limit_request_ratio}.items():
        for name in amounts:
            errors += names.validate(path.child(field).key(name), name, check(name))
    for name in {**item.max, **item.min, **item.default, **item.default_request, **item.max_limit_request_ratio}:
        errors += _validate_limit_order(lists, name, path)
        errors += _validate_limit_ratio(item, name, path.child("maxLimitRequestRatio").key(name))
    return errors


def _validate_limit_order(lists: dict[str, dict[str, Quantity]], name: str, path: Path) -> Errors:
    steps = [(field, _SHOWN.get(field, field), amounts.get(name)) for field, amounts in lists.items()]
    errors = []
    for place, (child, shown, value) in enumerate(steps):
        for _, other_shown, other in steps[place + 1 :]:
            if value is None or other is None or value <= other:
                continue
            limit = "default limit" if (child, other_shown) == ("defaultRequest", "default") else other_shown
            detail = f"{shown} value {value} is greater than {limit} value {other}"
            at = "default" if (child, other_shown) == ("min", "default") else child
            at = "defaultRequest" if (child, other_shown) == ("min", "default request") else at
            errors.append(field_errors.invalid(path.child(at).key(name), str(value), detail))
    default, request = lists.get("default", {}).get(name), lists.get("defaultRequest", {}).get(name)
    can_overcommit = is_native(name) and not name.startswith("hugepages-")
    if not can_overcommit and default is not None and request is not None and default != request:
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(field_errors.invalid(path.child("defaultRequest").key(name), str(request), detail))
    return errors


def _validate_limit_ratio(item: LimitRangeItem, name: str, path: Path) -> Errors:
    ratio = item.max_limit_request_ratio.get(name)
    if ratio is None:
        return []
    if ratio < Quantity(1):
        return [field_errors.invalid(path, str(ratio), f"ratio {ratio} is less than 1")]
    low, high = item.min.get(name), item.max.get(name)
    if low is None or high is None or low.sign() <= 0:
        return []
    limit = high.as_approximate_float() / low.as_approximate_float()
    if ratio.as_approximate_float() <= limit:
        return []
    return [field_errors.invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {limit:f}")]
