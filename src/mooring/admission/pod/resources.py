"""Validate resource requests and limits of containers, pods and overhead; total them; compute the QoS class."""

from collections import defaultdict
from collections.abc import Mapping

from mooring.api import field_errors, names
from mooring.api.core_v1 import PodSpec, ResourceRequirements
from mooring.api.core_v1.container import ResourceClaim
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quantity import Quantity, QuantityError
from mooring.base.short_string_cache import cache_short
from mooring.constraints.requests import is_extended, is_native, is_pod_level, sum_containers

NEGATIVE = "must be greater than or equal to 0"
_HUGE_PAGES = "hugepages-"
_QUOTA_HUGE_PAGES = (_HUGE_PAGES, "requests.hugepages-")
_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
INTEGER_RESOURCES = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
"""Resource names whose amounts must be integers."""
COMPUTE_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_STANDARD_RESOURCES = _CONTAINER_RESOURCES | INTEGER_RESOURCES | {*COMPUTE_RESOURCES, "requests.storage", "storage"}
_POD_RESOURCES = ("cpu", "hugepages-", "memory")


def validate_resources(
    resources: ResourceRequirements,
    claims: frozenset[str],
    path: Path,
    *,
    indivisible_huge_pages: bool = False,
    pod_level: bool = False,
) -> Errors:
    """Return errors in requests and limits of a container or (`pod_level`) a pod; `claims` are its claims' names."""
    if not (resources.limits or resources.requests or resources.claims):
        return []
    errors: Errors = []
    limits, requests = path.child("limits"), path.child("requests")
    for name, quantity in resources.limits.items():
        errors += _validate_resource(name, quantity, limits, pod_level, indivisible_huge_pages)
    for name, quantity in resources.requests.items():
        errors += _validate_resource(name, quantity, requests, pod_level, indivisible_huge_pages)
        errors += _validate_request_within_limit(name, quantity, resources.limits.get(name), path)
    given = {*resources.limits, *resources.requests}
    if not given & {"cpu", "memory"} and any(name.startswith(_HUGE_PAGES) for name in given):
        errors.append(field_errors.forbidden(path, "HugePages require cpu or memory"))
    if resources.claims:
        errors += _validate_claims(resources.claims, claims, path.child("claims"))
    return errors


def validate_pod_resources(spec: PodSpec, resources: ResourceRequirements, path: Path) -> Errors:
    errors: Errors = []
    if resources.claims:
        errors.append(field_errors.forbidden(path.child("claims"), "claims may not be set for Resources at pod-level"))
    errors += validate_resources(resources, frozenset(), path, pod_level=True)
    for name, total in sum_container_requests(spec).items():
        own = resources.requests.get(name)
        if is_pod_level(name) and own is not None and own < total:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            errors.append(field_errors.invalid(path.child("requests").key(name), str(own), detail))
    for index, container in enumerate(spec.containers):
        for name, limit in container.resources.limits.items():
            own = resources.limits.get(name)
            if own is not None and own < limit:
                here = path.child("containers").index(index).key(name).child("limits")
                detail = f"must be less than or equal to pod limits of {own}"
                errors.append(field_errors.invalid(here, str(limit), detail))
    return errors


def _validate_resource(
    name: str, quantity: Quantity, path: Path, pod_level: bool, indivisible_huge_pages: bool
) -> Errors:
    errors: Errors = []
    if quantity.sign() < 0:
        errors.append(field_errors.invalid(path.key(name), str(quantity), NEGATIVE))
    if name in _CONTAINER_RESOURCES and (not pod_level or is_pod_level(name)):
        return errors  # the common case
    if pod_level:
        problems = find_resource_name_problems(name)
        if not problems and not is_pod_level(name):
            errors.insert(0, field_errors.not_supported(path.key(name), name, _POD_RESOURCES))
    else:
        problems = find_container_resource_problems(name)
    errors = [field_errors.invalid(path.key(name), name, problem) for problem in problems] + errors
    if (name in INTEGER_RESOURCES or is_extended(name)) and quantity.milli_value() % 1000:
        errors.append(field_errors.invalid(path.key(name), quantity, "must be an integer"))
    if name.startswith(_HUGE_PAGES) and not indivisible_huge_pages and not _is_multiple_of_page_size(name, quantity):
        detail = f"{quantity} is not positive integer multiple of {name}"
        errors.append(field_errors.invalid(path.key(name), str(quantity), detail))
    return errors


def _validate_request_within_limit(name: str, request: Quantity, limit: Quantity | None, path: Path) -> Errors:
    overcommit = name in _CONTAINER_RESOURCES or not (is_extended(name) or name.startswith(_HUGE_PAGES))
    if limit is None:
        detail = "Limit must be set for non overcommitable resources"
        return [] if overcommit else [field_errors.required(path.child("limits"), detail)]
    if not overcommit and request != limit:
        detail = f"must be equal to {name} limit of {limit}"
    elif request > limit:
        detail = f"must be less than or equal to {name} limit of {limit}"
    else:
        return []
    return [field_errors.invalid(path.child("requests"), str(request), detail)]


def _validate_claims(given: list[ResourceClaim], known: frozenset[str], path: Path) -> Errors:
    errors: Errors = []
    requests: dict[str, set[str]] = defaultdict(set)
    for index, claim in enumerate(given):
        here, taken = path.index(index), requests[claim.name]
        if not claim.name:
            errors.append(field_errors.required(here))
            continue
        if "" in taken or (taken and not claim.request):  # an entry without a request names them all
            errors.append(field_errors.duplicate(here, claim.name))
        elif claim.request:
            errors += names.validate(here.child("request"), claim.request, names.dns1123_label(claim.request))
            if claim.request in taken:
                errors.append(field_errors.duplicate(here, f"{claim.name}/{claim.request}"))
        taken.add(claim.request)
        if claim.name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(field_errors.FieldError(field_errors.ErrorType.NOT_FOUND, here, claim.name, detail))
    return errors


def find_resource_name_problems(name: str) -> tuple[str, ...]:
    problems = names.label_key(name)
    if not problems and "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith(_QUOTA_HUGE_PAGES):
        problems = ("must be a standard resource type or fully qualified",)
    return problems


@cache_short(1024)
def find_container_resource_problems(name: str) -> tuple[str, ...]:
    problems = find_resource_name_problems(name)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
            problems += ("must be a standard resource for containers",)
    elif not is_native(name) and not is_extended(name):
        problems += ("doesn't follow extended resource name standard",)
    return problems


def uses_indivisible_huge_pages(spec: PodSpec) -> bool:
    """Return whether a stored PodSpec has an amount of huge pages that is no multiple of the page size."""
    amounts = [spec.overhead]
    for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
        amounts += [container.resources.limits, container.resources.requests]
    return any(
        name.startswith(_HUGE_PAGES) and not _is_multiple_of_page_size(name, quantity)
        for each in amounts
        for name, quantity in each.items()
    )


def _is_multiple_of_page_size(name: str, quantity: Quantity) -> bool:
    try:
        page = Quantity.parse(name.removeprefix(_HUGE_PAGES))
    except QuantityError:
        return False
    size = page.value()
    return size > 0 and quantity.value() % size == 0


_QOS_RESOURCES = ("cpu", "memory")


def sum_container_requests(spec: PodSpec) -> dict[str, Quantity]:
    return sum_containers(spec, lambda container: container.resources.requests)


def sum_container_limits(spec: PodSpec) -> dict[str, Quantity]:
    return sum_containers(spec, lambda container: container.resources.limits)


def qos_class(spec: PodSpec) -> str:
    """Return a pod's QoS class: Guaranteed, Burstable or BestEffort.

    Guaranteed: all containers have equal requests and limits of cpu and memory. BestEffort: no container has any. If
    the pod itself has requests or limits, these are used instead of the containers'.
    """
    resources = spec.resources
    if resources is not None and (resources.requests or resources.limits):
        parts = [resources]
    else:
        parts = [container.resources for container in (*spec.containers, *spec.init_containers)]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for part in parts:
        _add_positive_amounts(requests, part.requests)
        limited = _add_positive_amounts(limits, part.limits)
        guaranteed = guaranteed and limited == len(_QOS_RESOURCES)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _add_positive_amounts(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> int:
    """Add the positive amounts of cpu and memory in `more` to `total`, in place; return how many there are."""
    count = 0
    for name in _QOS_RESOURCES:
        quantity = more.get(name)
        if quantity is not None and quantity.sign() > 0:
            total[name] = total[name] + quantity if name in total else quantity
            count += 1
    return count
