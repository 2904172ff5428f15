"""Apply LimitRanges to pods and claims: default requests and limits of containers, and enforce bounds.

Kubernetes' LimitRanger with its messages. The strategies of pods and claims call `set_defaults` during mutation,
`check_pod` and `check_claim` after validation. LimitRanges themselves are validated in ``quota.py``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from mooring.admission.pod.resources import sum_container_limits, sum_container_requests
from mooring.admission.strategy import Request
from mooring.api import errors
from mooring.api.core_v1 import Container, LimitRangeItem, PersistentVolumeClaim, Pod, PodSpec
from mooring.api.quantity import Quantity

Resources = Mapping[str, Quantity]
Constraint = Callable[[LimitRangeItem, Resources, Resources], Iterable[str]]
ANNOTATION = "kubernetes.io/limit-ranger"
_POD_LEVEL_RESOURCES = ("cpu", "memory")
"""Resources that a pod may request as a whole; a LimitRange then bounds that amount, not the containers' sum."""


def set_defaults(pod: Pod, request: Request) -> None:
    """Set a pod's missing requests and limits by LimitRanges of its namespace; list these in an annotation."""
    for each in request.lookups.limit_ranges(pod.metadata.namespace):
        items = [item for item in each.spec.limits if item.type == "Container"]
        set_here = [
            text
            for what, containers in (("container", pod.spec.containers), ("init container", pod.spec.init_containers))
            for container in containers
            for text in _set_container_defaults(container, items, f"{what} {container.name}")
        ]
        if set_here:
            pod.metadata.annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(set_here)}"


def _set_container_defaults(container: Container, items: list[LimitRangeItem], name: str) -> Iterator[str]:
    resources = container.resources
    for what, given, defaults in (
        ("request", resources.requests, [item.default_request for item in items]),
        ("limit", resources.limits, [item.default for item in items]),
    ):
        missing = {key: value for each in defaults for key, value in each.items() if key not in given}
        given.update(missing)
        if missing:
            yield f"{', '.join(sorted(missing))} {what} for {name}"


def check_pod(pod: Pod, request: Request) -> None:
    """Raise Forbidden if a pod or one of its containers is outside the bounds of a LimitRange in its namespace."""
    for each in request.lookups.limit_ranges(pod.metadata.namespace):
        found = [text for item in each.spec.limits for text in _find_pod_problems(item, pod.spec)]
        _raise_forbidden(found, "pods", pod)


def check_claim(claim: PersistentVolumeClaim, request: Request) -> None:
    """Raise Forbidden if a claim's storage request is outside the bounds of a LimitRange in its namespace."""
    for each in request.lookups.limit_ranges(claim.metadata.namespace):
        found = [
            text
            for item in each.spec.limits
            if item.type == "PersistentVolumeClaim"
            for constraint in (_find_minimum_problems, _find_maximum_request_problems)
            for text in constraint(item, claim.spec.resources.requests, {})
        ]
        _raise_forbidden(found, "persistentvolumeclaims", claim)


def _raise_forbidden(found: list[str], resource: str, obj: Pod | PersistentVolumeClaim) -> None:
    texts = list(dict.fromkeys(found))
    if texts:
        raise errors.forbidden(resource, obj.metadata.name, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _find_pod_problems(item: LimitRangeItem, spec: PodSpec) -> Iterator[str]:
    asked: list[tuple[Resources, Resources]] = []
    if item.type == "Container":
        containers = (*spec.containers, *spec.init_containers)
        asked = [(container.resources.requests, container.resources.limits) for container in containers]
    elif item.type == "Pod":
        totals = sum_container_requests(spec), sum_container_limits(spec)
        if spec.resources is not None:
            for total, given in zip(totals, (spec.resources.requests, spec.resources.limits), strict=True):
                total.update({name: given[name] for name in _POD_LEVEL_RESOURCES if name in given})
        asked = [totals]
    for requests, limits in asked:
        for constraint in _CONSTRAINTS:
            yield from constraint(item, requests, limits)


def _find_minimum_problems(item: LimitRangeItem, requests: Resources, limits: Resources) -> Iterator[str]:
    for name, least in sorted(item.min.items()):
        rule = f"minimum {name} usage per {item.type} is {least}"
        request, limit = requests.get(name), limits.get(name)
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request < least:
            yield f"{rule}, but request is {request}"
        elif limit is not None and limit < least:
            yield f"{rule}, but limit is {limit}"


def _find_maximum_problems(item: LimitRangeItem, requests: Resources, limits: Resources) -> Iterator[str]:
    for name, most in sorted(item.max.items()):
        rule = f"maximum {name} usage per {item.type} is {most}"
        request, limit = requests.get(name), limits.get(name)
        if limit is None:
            yield f"{rule}.  No limit is specified"
        elif limit > most:
            yield f"{rule}, but limit is {limit}"
        elif request is not None and request > most:
            yield f"{rule}, but request is {request}"


def _find_maximum_request_problems(item: LimitRangeItem, requests: Resources, limits: Resources) -> Iterator[str]:  # noqa: ARG001 - claims have no limits that count
    for name, most in sorted(item.max.items()):
        rule = f"maximum {name} usage per {item.type} is {most}"
        request = requests.get(name)
        if request is None:
            yield f"{rule}.  No request is specified"
        elif request > most:
            yield f"{rule}, but request is {request}"


def _find_ratio_problems(item: LimitRangeItem, requests: Resources, limits: Resources) -> Iterator[str]:
    for name, most in sorted(item.max_limit_request_ratio.items()):
        rule = f"{name} max limit to request ratio per {item.type} is {most}"
        request, limit = requests.get(name), limits.get(name)
        if request is None or request.is_zero():
            yield f"{rule}, but no request is specified or request is 0"
        elif limit is None or limit.is_zero():
            yield f"{rule}, but no limit is specified or limit is 0"
        else:
            ratio = limit.as_approximate_float() / request.as_approximate_float()
            if ratio * 1000 > most.milli_value():
                yield f"{rule}, but provided ratio is {ratio:f}"


_CONSTRAINTS: tuple[Constraint, ...] = (_find_minimum_problems, _find_maximum_problems, _find_ratio_problems)
